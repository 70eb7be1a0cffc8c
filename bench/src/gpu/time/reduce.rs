//! Numbers of several ranks in device memory, combined by the kernel, beside a copy of as many bytes as one rank has.

use mgcomp_codecs::device::{Buffer, Device, Reducer, Reduction};
use mgcomp_codecs::reduction::{Datatype, Operation, combine};

use super::TimeError;
use super::clock::{Clock, median};
use crate::data::Random;
use crate::gpu::report::{Reduced, rounded};

/// What is combined, and of how many ranks.
pub(super) const SUBJECTS: [(Datatype, u32); 4] =
    [(Datatype::F32, 2), (Datatype::F32, 8), (Datatype::Bf16, 2), (Datatype::Bf16, 8)];

/// Times sums of `bytes` bytes of each rank, whole numbers.
pub(super) fn time(
    device: &Device,
    (datatype, ranks): (Datatype, u32),
    bytes: usize,
    rounds: usize,
) -> Result<Reduced, TimeError> {
    let bytes = bytes / 8 * 8;
    let mut contest = Contest::new(device, datatype, ranks, bytes)?;
    contest.check()?;
    let (mut copies, mut sums) = (Vec::new(), Vec::new());
    // The first round warms up.
    for round in 0..=rounds {
        let times = [contest.copy()?, contest.reduce()?];
        if round > 0 {
            copies.push(times[0]);
            sums.push(times[1]);
        }
    }
    contest.check()?;
    let [copy, reduce] = [copies, sums].map(|mut times| median(&mut times).max(1e-12));
    // What goes to and from memory: a copy reads and writes each byte, a sum reads those of all ranks and writes one.
    let [copied, reduced] = [2, u64::from(ranks) + 1].map(|times| times as f64 * bytes as f64 / 1e9);
    Ok(Reduced {
        operation: Operation::Sum.name(),
        datatype: datatype.name(),
        ranks,
        bytes,
        rounds,
        copy_us: rounded(1e6 * copy),
        reduce_us: rounded(1e6 * reduce),
        copy_memory_gbps: rounded(copied / copy),
        reduce_memory_gbps: rounded(reduced / reduce),
        fraction: rounded(reduced / reduce / (copied / copy)),
    })
}

/// Numbers that are combined again and again.
struct Contest {
    clock: Clock,
    reducer: Reducer,
    datatype: Datatype,
    ranks: u32,
    numbers: Buffer,
    result: Buffer,
    /// What the host makes of them.
    expected: Vec<u8>,
}

impl Contest {
    fn new(device: &Device, datatype: Datatype, ranks: u32, bytes: usize) -> Result<Self, TimeError> {
        let (clock, reducer) = (Clock::new(device)?, device.reducer()?);
        let numbers = device.alloc(u64::from(ranks) * bytes as u64)?;
        let result = device.alloc(bytes as u64)?;
        // Between one and two, whatever the datatype: no sum of them is special.
        let mut random = Random::new(11);
        let mut number = || match datatype {
            Datatype::Bf16 => (0x3f80 | random.bits() as u16 & 0x7f).to_le_bytes().to_vec(),
            _ => (0x3f80_0000 | random.bits() as u32 & 0x7f_ffff).to_le_bytes().to_vec(),
        };
        // A period that is prime to those of caches and blocks.
        let period: Vec<u8> = (0..4_099).flat_map(|_| number()).collect();
        let (mut expected, mut of_rank) = (Vec::new(), vec![0; bytes]);
        for rank in 0..ranks as usize {
            let start = rank * datatype.width_bytes();
            of_rank.iter_mut().zip(period.iter().cycle().skip(start)).for_each(|(to, from)| *to = *from);
            let at = (rank * bytes) as u64;
            clock.stream.upload(&of_rank, numbers.slice(at..at + bytes as u64))?;
            match rank {
                0 => expected.clone_from(&of_rank),
                _ => combine(Operation::Sum, datatype, &mut expected, &of_rank),
            }
        }
        Ok(Self { clock, reducer, datatype, ranks, numbers, result, expected })
    }

    /// Seconds of a copy of what one rank has.
    fn copy(&self) -> Result<f64, TimeError> {
        let from = self.numbers.slice(0..self.result.region().len());
        let time = self.clock.time(|stream| stream.copy(from, self.result.region()))?;
        Ok(time.as_secs_f64())
    }

    /// Seconds of a sum.
    fn reduce(&self) -> Result<f64, TimeError> {
        let reduction = Reduction {
            datatype: self.datatype,
            operation: Operation::Sum,
            ranks: self.ranks,
            numbers: self.numbers.region(),
            stride: self.result.region().len(),
            own: None,
            result: self.result.region(),
        };
        let time = self.clock.time(|stream| self.reducer.reduce(stream, &reduction))?;
        Ok(time.as_secs_f64())
    }

    /// Fails unless the sums are those of the host, bit for bit.
    fn check(&mut self) -> Result<(), TimeError> {
        self.clock.stream.zero(self.result.region())?;
        self.reduce()?;
        let mut got = vec![0; self.expected.len()];
        self.clock.stream.download(self.result.region(), &mut got)?;
        match got.iter().zip(&self.expected).position(|(got, wanted)| got != wanted) {
            Some(offset) => Err(TimeError::Reduction { offset }),
            None => Ok(()),
        }
    }
}
