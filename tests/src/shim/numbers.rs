//! Numbers of ranks to combine: the struct of `codecs/kernels/reduce/task.cuh`, memory for it, and what must come of it.

use mgcomp_codecs::reduction::{Datatype, Operation, combine, finish};

use super::{Launch, Shim};
use crate::guarded::Guarded;

/// What the result holds before a launch, and numbers that nobody is to read.
const UNTOUCHED: u8 = 0x5a;

/// Bytes of `MgcReduction`.
pub(crate) const TASK_LEN: usize = 64;

/// Numbers of several ranks, and where they lie.
#[derive(Clone, Debug)]
pub struct Numbers {
    /// What they are.
    pub datatype: Datatype,
    /// What is computed.
    pub operation: Operation,
    /// Those of each rank, of one length.
    pub of_ranks: Vec<Vec<u8>>,
    /// A rank whose numbers lie apart from the others'.
    pub own: Option<usize>,
    /// Whether the result goes where these are.
    pub in_place: bool,
    /// How far behind a multiple of 16 the numbers, the own ones and the result start. Of own ones in place the last counts.
    pub offsets: [usize; 3],
    /// Bytes between the numbers of one rank and those of the next.
    pub gap: usize,
}

/// Where the memory of a launch lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addresses {
    pub(crate) numbers: u64,
    pub(crate) own: u64,
    pub(crate) result: u64,
}

impl Numbers {
    /// Numbers one behind the other on multiples of 16.
    #[must_use]
    pub fn new(datatype: Datatype, operation: Operation, of_ranks: Vec<Vec<u8>>) -> Self {
        Self { datatype, operation, of_ranks, own: None, in_place: false, offsets: [0; 3], gap: 0 }
    }

    /// Bytes of the numbers of a rank.
    #[must_use]
    pub fn len(&self) -> usize {
        self.of_ranks.first().map_or(0, Vec::len)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What portable code makes of them.
    #[must_use]
    pub fn expected(&self) -> Vec<u8> {
        let mut left = self.of_ranks[0].clone();
        for right in &self.of_ranks[1..] {
            combine(self.operation, self.datatype, &mut left, right);
        }
        finish(self.operation, self.datatype, &mut left, self.of_ranks.len() as u32);
        left
    }

    /// Those that lie together, up to the last that is read.
    pub(crate) fn together(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (rank, numbers) in self.of_ranks.iter().enumerate() {
            if self.own != Some(rank) {
                bytes.resize(rank * (self.len() + self.gap), UNTOUCHED);
                bytes.extend(numbers);
            }
        }
        bytes
    }

    /// What the result holds before.
    pub(crate) fn before(&self) -> Vec<u8> {
        if self.in_place { self.apart().to_vec() } else { vec![UNTOUCHED; self.len()] }
    }

    /// Those of the rank whose numbers lie apart.
    pub(crate) fn apart(&self) -> &[u8] {
        self.own.map_or(&[], |rank| &self.of_ranks[rank])
    }

    /// `MgcReduction`.
    pub(crate) fn task(&self, at: Addresses) -> [u8; TASK_LEN] {
        let ranks = self.of_ranks.len();
        let operation: u32 = match self.operation {
            Operation::Sum => 0,
            Operation::Min => 1,
            Operation::Max => 2,
            Operation::Avg => 3,
        };
        let (form, is_signed): (u32, u32) = match self.datatype {
            Datatype::I8 => (0, 1),
            Datatype::I16 => (1, 1),
            Datatype::I32 => (2, 1),
            Datatype::I64 => (3, 1),
            Datatype::U8 => (0, 0),
            Datatype::U16 => (1, 0),
            Datatype::U32 => (2, 0),
            Datatype::U64 => (3, 0),
            Datatype::F16 => (4, 0),
            Datatype::Bf16 => (5, 0),
            Datatype::F32 => (6, 0),
            Datatype::F64 => (7, 0),
        };
        let (own, width) = (self.own.unwrap_or(ranks), self.datatype.width_bytes());
        let words = [at.numbers, (self.len() + self.gap) as u64, at.own, at.result, self.len() as u64];
        let halves = [ranks as u32, own as u32, operation, form, is_signed, width as u32];
        let bytes = words.into_iter().flat_map(u64::to_le_bytes);
        let bytes: Vec<u8> = bytes.chain(halves.into_iter().flat_map(u32::to_le_bytes)).collect();
        bytes.try_into().expect("the struct")
    }
}

impl Shim {
    /// Combines numbers by the kernel.
    ///
    /// # Panics
    /// If it wrote anywhere but to the result.
    #[must_use]
    pub fn reduce(self, numbers: &Numbers, launch: Launch) -> Vec<u8> {
        let [offset, own_offset, result_offset] = numbers.offsets;
        let together = Guarded::new(&numbers.together(), offset);
        let own = Guarded::new(numbers.apart(), own_offset);
        let mut result = Guarded::new(&numbers.before(), result_offset);
        let address = |bytes: &[u8]| bytes.as_ptr().addr() as u64;
        let own_at = if numbers.in_place { result.content() } else { own.content() };
        let (numbers_at, own_at) = (address(together.content()), address(own_at));
        // Last, because what is written through this pointer is read through the others.
        let result_at = result.content_mut().as_mut_ptr().expose_provenance() as u64;
        run(&numbers.task(Addresses { numbers: numbers_at, own: own_at, result: result_at }), launch);
        for buffer in [&together, &own, &result] {
            buffer.check();
        }
        assert!(together.content() == numbers.together() && own.content() == numbers.apart(), "{launch:?}");
        result.content().to_vec()
    }
}

/// Appends the record of a reduction to `file`, for `replay_numbers.cpp`.
pub fn push(file: &mut Vec<u8>, numbers: &Numbers, launch: Launch) {
    let halves = [launch.blocks, launch.order.number(), launch.os_threads, numbers.in_place.into()];
    file.extend(halves.into_iter().flat_map(u32::to_le_bytes));
    file.extend(numbers.task(Addresses { numbers: 0, own: 0, result: 0 }));
    let together = numbers.together();
    let lens = [together.len(), numbers.apart().len()];
    let words = numbers.offsets.into_iter().chain(lens).map(|word| word as u64);
    file.extend(words.flat_map(u64::to_le_bytes));
    file.extend(together);
    file.extend(numbers.apart());
    file.extend(numbers.expected());
}

#[cfg(mgcomp_shim)]
fn run(task: &[u8; TASK_LEN], launch: Launch) {
    /// What the kernel takes, where it can take it.
    #[repr(C, align(8))]
    struct Task([u8; TASK_LEN]);
    unsafe extern "C" {
        fn mgc_shim_reduce(blocks: u32, order: u32, seed: u64, os_threads: u32, task: *const Task) -> i32;
    }
    let seed = if let super::LaneOrder::Random(seed) = launch.order { seed } else { 0 };
    // SAFETY: addresses and lengths are those of live memory that nobody else uses meanwhile. That the kernel stays inside is
    // what the tests check, with guard bytes and under a sanitizer.
    let refused = unsafe {
        mgc_shim_reduce(launch.blocks, launch.order.number(), seed, launch.os_threads, &Task(*task))
    };
    assert_eq!(refused, 0, "no such order");
}

#[cfg(not(mgcomp_shim))]
fn run(_: &[u8; TASK_LEN], _: Launch) {
    unreachable!("a Shim exists only where the kernels were built")
}

/// Numbers that are hard to combine: bits of this width, the same for all datatypes of it.
#[must_use]
pub fn special_bits(datatype: Datatype) -> Vec<u64> {
    /// Bits of exponent and fraction of a float.
    fn float(exponent: u32, fraction: u32) -> Vec<u64> {
        let (one, infinite) = (1 << fraction, ((1u64 << exponent) - 1) << fraction);
        let bias = ((1u64 << (exponent - 1)) - 1) << fraction;
        let positive = [
            0,       // zero
            1,       // the smallest denormal
            one - 1, // the largest
            one,     // the smallest of all others
            one + 1,
            bias, // 1
            bias + 1,
            bias - 1,
            bias + one,                         // 2
            bias + fraction as u64 * one,       // from here on the last bit is 1
            bias + (fraction as u64 + 1) * one, // 1 is half of the last bit
            bias + (fraction as u64 + 1) * one + 1,
            infinite - 1, // the largest
            infinite - one,
            infinite,
            infinite + 1,           // signalling, with a payload
            infinite + one / 2,     // quiet, without one
            infinite + one / 2 + 3, // quiet, with one
            infinite + one - 1,
        ];
        let sign = 1 << (exponent + fraction);
        positive.into_iter().flat_map(|bits| [bits, bits | sign]).collect()
    }
    let width = 8 * datatype.width_bytes() as u32;
    match datatype {
        Datatype::F16 => float(5, 10),
        Datatype::Bf16 => float(8, 7),
        Datatype::F32 => float(8, 23),
        Datatype::F64 => float(11, 52),
        _ => {
            let (top, ones) = (1u64 << (width - 1), u64::MAX >> (64 - width));
            vec![0, 1, 2, 3, 7, 100, top - 1, top, top + 1, ones, ones - 1, ones - 2, ones / 3, top + top / 2]
        }
    }
}

/// The bytes of numbers with these bits.
#[must_use]
pub fn bytes_of(datatype: Datatype, bits: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let width = datatype.width_bytes();
    bits.into_iter().flat_map(|bits| bits.to_le_bytes().into_iter().take(width)).collect()
}
