//! Random sequences of offload, prefetch and discard against plain buffers.

use std::collections::HashMap;

use mgcomp_codecs::Element;
use mgcomp_transport::copy::offload::{OffloadConfig, OffloadError, OffloadQueue, Ticket};
use mgcomp_transport::copy::{CopyConfig, CopyHandle, CopyReport, Order};
use mgcomp_transport::memory::HostBuffer;

use super::{Random, buffer, policy};

const LIMIT: u64 = 400_000;

/// A queue, what it should hold, and what is on its way back.
struct World {
    queue: OffloadQueue,
    random: Random,
    out: HashMap<Ticket, Vec<u8>>,
    returning: Vec<(CopyHandle<CopyReport>, HostBuffer, Vec<u8>)>,
    refused: u64,
    /// Whether the policy compresses what shrinks, whatever the link.
    compresses: bool,
}

impl World {
    fn new(order: Order, name: &str, seed: u64) -> Self {
        let copy =
            CopyConfig { segment_bytes: 16 << 10, window: 3, order, ..CopyConfig::simulated(16.0).unwrap() };
        let queue = OffloadQueue::start(OffloadConfig::new(copy, policy(name), LIMIT)).unwrap();
        let (out, returning, compresses) = (HashMap::new(), Vec::new(), name.starts_with("fixed"));
        Self { queue, random: Random(seed), out, returning, refused: 0, compresses }
    }

    fn step(&mut self) {
        match self.random.below(10) {
            0..=4 => self.offload(),
            5..=7 => self.prefetch(),
            8 => self.check_one(),
            _ => self.discard(),
        }
        let stats = self.queue.stats();
        assert!(stats.used_bytes <= LIMIT && stats.peak_bytes <= LIMIT, "{stats:?}");
    }

    fn offload(&mut self) {
        let len = self.random.below(80_000) as usize / 4 * 4;
        let percent = self.random.below(101);
        let bytes = self.random.words(len, percent);
        let source = buffer(&bytes);
        match self.queue.offload(source.all(), Element::F32) {
            Ok(ticket) => {
                if self.random.below(2) == 0 {
                    // Then its memory may be used for something else.
                    let report = self.queue.wait(ticket).unwrap();
                    assert!(report.coded_bytes <= len as u64);
                    source.all().write(|bytes| bytes.fill(0xdd));
                }
                assert!(self.out.insert(ticket, bytes).is_none(), "a number was given out twice");
            }
            Err(OffloadError::Full { needed, used, limit: LIMIT }) => {
                assert!(used + needed > LIMIT && needed >= len as u64);
                self.refused += 1;
                self.discard();
            }
            Err(other) => panic!("{other}"),
        }
    }

    fn prefetch(&mut self) {
        let Some(ticket) = self.any_ticket() else { return };
        let bytes = self.out.remove(&ticket).unwrap();
        let into = HostBuffer::zeroed(bytes.len());
        let copy = self.queue.prefetch(ticket, into.all()).unwrap();
        assert!(matches!(self.queue.prefetch(ticket, into.all()), Err(OffloadError::Used { .. })));
        self.returning.push((copy, into, bytes));
    }

    fn discard(&mut self) {
        let Some(ticket) = self.any_ticket() else { return };
        self.out.remove(&ticket);
        self.queue.discard(ticket).unwrap();
    }

    fn check_one(&mut self) {
        if self.returning.is_empty() {
            return;
        }
        let at = self.random.below(self.returning.len() as u64) as usize;
        let (copy, into, bytes) = self.returning.swap_remove(at);
        copy.wait().unwrap();
        assert!(into.all().to_vec() == bytes, "{} bytes came back otherwise", bytes.len());
    }

    fn any_ticket(&mut self) -> Option<Ticket> {
        let mut tickets: Vec<Ticket> = self.out.keys().copied().collect();
        // The order of a hash map is another one in each run.
        tickets.sort_by_key(|ticket| format!("{ticket:?}"));
        (!tickets.is_empty()).then(|| tickets[self.random.below(tickets.len() as u64) as usize])
    }

    fn end(mut self) {
        while !self.out.is_empty() {
            self.prefetch();
        }
        while !self.returning.is_empty() {
            self.check_one();
        }
        let stats = self.queue.stats();
        assert_eq!((stats.used_bytes, stats.failed), (0, 0), "{stats:?}");
        assert_eq!(stats.offloaded, stats.prefetched + stats.discarded);
        assert!(stats.coded_bytes <= stats.raw_bytes && stats.offloaded > 50, "{stats:?}");
        assert!(!self.compresses || stats.coded_bytes < stats.raw_bytes / 4 * 3, "{stats:?}");
        assert!(self.refused < 200, "{} refused", self.refused);
    }
}

#[test]
fn whatever_goes_out_comes_back_equal() {
    let orders = [Order::Free, Order::Asked];
    for (seed, name) in ["fixed:zvc", "fixed:xp", "adaptive", "paper"].into_iter().enumerate() {
        for order in orders {
            let mut world = World::new(order, name, seed as u64);
            (0..300).for_each(|_| world.step());
            world.end();
        }
    }
}
