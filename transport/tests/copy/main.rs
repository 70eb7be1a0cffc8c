//! Compressed copies and the offload queue, over simulated links.

mod copies;
mod known;
mod pressure;
mod queue;
mod refused;

use mgcomp_selector::PolicySpec;
use mgcomp_transport::memory::HostBuffer;

/// Numbers by chance, the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// `len` bytes of words of which `percent` % are zero.
    fn words(&mut self, len: usize, percent: u64) -> Vec<u8> {
        let mut word = || if self.below(100) < percent { 0 } else { self.next() as u32 };
        let mut bytes: Vec<u8> = (0..len.div_ceil(4)).flat_map(|_| word().to_le_bytes()).collect();
        bytes.truncate(len);
        bytes
    }
}

fn policy(name: &str) -> PolicySpec {
    name.parse().unwrap()
}

fn buffer(bytes: &[u8]) -> HostBuffer {
    HostBuffer::from(bytes.to_vec())
}
