//! Finding the invariant bits of a set of tensors.

use super::cluster::clusters;
use super::codebook::{Codebook, CodebookError, Granule, Invariants, check_size};
use super::counts::Counts;
use super::portable::word_of;

/// The thresholds θ that a fit tries, in thousandths: a bit is invariant if at least that share of the tensors
/// agree on it. Steps are finest where the best one usually lies.
pub const THRESHOLDS: [u64; STEPS] =
    [500, 550, 600, 650, 700, 750, 800, 825, 850, 875, 900, 925, 950, 975, 990, 1000];

const STEPS: usize = 16;

/// How a codebook is fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FitOptions {
    /// How tensors are cut; `None` for [`Granule::for_tensor`].
    pub granule: Option<Granule>,
    /// How many clusters there may be. A set of tensors that falls into fewer gets fewer.
    pub clusters: usize,
    /// Only every so manieth tensor is looked at; 1 for all. An even number is taken one higher, lest it
    /// fall in step with the data. A hundred tensors of a cluster tell its bits nearly as well as all of them.
    pub stride: usize,
}

impl Default for FitOptions {
    /// One cluster, from all tensors.
    fn default() -> Self {
        Self { granule: None, clusters: 1, stride: 1 }
    }
}

/// The codebook of `tensors`, which lie one behind the other, `tensor_len` bytes each; what is left of a last
/// one does not count.
///
/// For each cluster, the threshold is that of [`THRESHOLDS`] which packs the tensors looked at into the fewest
/// bytes; of several, the highest. The result depends on nothing but the arguments.
///
/// # Errors
/// [`CodebookError`] if `tensor_len` or the number of clusters is out of range.
///
/// # Source
/// *Reducing the GPU Memory Bottleneck*, section 4.1.
pub fn fit(tensors: &[u8], tensor_len: usize, options: FitOptions) -> Result<Codebook, CodebookError> {
    let FitOptions { granule, clusters: limit, stride } = options;
    let granule = granule.unwrap_or(Granule::for_tensor(tensor_len));
    check_size(tensor_len, limit)?;
    let sample: Vec<&[u8]> = tensors.chunks_exact(tensor_len).step_by(stride | 1).collect();
    if sample.is_empty() {
        let nothing = Invariants { mask: vec![0; tensor_len], bitval: vec![0; tensor_len] };
        return Codebook::new(granule, tensor_len, vec![nothing]);
    }
    let fitted = clusters(tensor_len, &sample, limit).into_iter().map(|members| {
        let counts = Counts::of(tensor_len, members.iter().copied());
        let sweep = Sweep::new(granule, &counts);
        let (step, _) = best(sweep.packed_bytes(&members));
        sweep.invariants(step)
    });
    Codebook::new(granule, tensor_len, fitted.collect())
}

/// Lengths of tensors that a buffer of unknown structure is tried as, in bytes. The first is a multiple of the
/// others, and all are multiples of any element.
const PERIODS: [usize; 2] = [64, 8];

/// The codebook with which a frame of `raw` is shortest, of those with short tensors; `None` if there is
/// nothing to gain. Looks at a sample of up to 64 KiB.
pub(super) fn fit_buffer(raw: &[u8]) -> Option<Codebook> {
    let period = PERIODS[0];
    let rows = raw.len() / period;
    let wanted = (rows / 16).clamp(64, 1024);
    let sample: Vec<&[u8]> = raw.chunks_exact(period).step_by((rows / wanted).max(1) | 1).collect();
    if sample.is_empty() {
        return None;
    }
    let counts = Counts::of(period, sample.iter().copied());
    let mut shortest = (raw.len() as u64, None);
    for tensor_len in PERIODS {
        let counts = counts.folded(tensor_len);
        for granule in [Granule::Eight, Granule::Four] {
            let sweep = Sweep::new(granule, &counts);
            let (step, bits) = best(sweep.stream_bits(&sample));
            let sample_bits = 8 * (period * sample.len()) as u64;
            let coded = (u128::from(bits) * raw.len() as u128 / u128::from(sample_bits)) as u64;
            let codebook = Codebook::new(granule, tensor_len, vec![sweep.invariants(step)]).ok()?;
            let carried = 16 + codebook.to_bytes().len() as u64;
            if coded + carried < shortest.0 {
                shortest = (coded + carried, Some(codebook));
            }
        }
    }
    shortest.1
}

/// Index and value of the smallest size, the last of several.
fn best(sizes: [u64; STEPS]) -> (usize, u64) {
    let mut best = (0, sizes[0]);
    for (step, &size) in sizes.iter().enumerate() {
        if size <= best.1 {
            best = (step, size);
        }
    }
    best
}

/// The masks of one cluster at every threshold. Each contains the next: bits only leave as the threshold rises.
struct Sweep {
    granule: usize,
    tensor_len: usize,
    /// By granule.
    positions: Vec<Position>,
}

struct Position {
    /// The value that most tensors have.
    majority: u64,
    /// By threshold.
    masks: [u64; STEPS],
    /// Their population counts.
    saved: [u64; STEPS],
}

impl Sweep {
    fn new(granule: Granule, counts: &Counts) -> Self {
        let (granule, tensor_len) = (granule.bytes(), counts.ones.len() / 8);
        let positions = (0..tensor_len / granule).map(|i| Position::new(counts, 8 * granule * i, granule));
        Self { granule, tensor_len, positions: positions.collect() }
    }

    /// Bytes of all `tensors` at each threshold, packed one by one.
    fn packed_bytes(&self, tensors: &[&[u8]]) -> [u64; STEPS] {
        let granules = self.positions.len();
        let whole_bits = 8 * self.granule * granules;
        let fixed = (granules.div_ceil(8) + self.tensor_len % self.granule) as u64;
        let mut bytes = [0; STEPS];
        for tensor in tensors {
            let saved = self.saved(tensor);
            for (sum, saved) in bytes.iter_mut().zip(saved) {
                let packed = fixed + (whole_bits as u64 - saved).div_ceil(8);
                *sum += packed.min(self.tensor_len as u64);
            }
        }
        bytes
    }

    /// Bits of all `tensors` at each threshold, coded one behind the other.
    fn stream_bits(&self, tensors: &[&[u8]]) -> [u64; STEPS] {
        let len = tensors.iter().map(|tensor| tensor.len()).sum::<usize>();
        let mut bits = [(8 * len + len / self.granule) as u64; STEPS];
        for tensor in tensors.iter().flat_map(|tensor| tensor.chunks_exact(self.tensor_len)) {
            let saved = self.saved(tensor);
            bits.iter_mut().zip(saved).for_each(|(bits, saved)| *bits -= saved);
        }
        bits
    }

    /// Bits that `tensor` saves at each threshold.
    fn saved(&self, tensor: &[u8]) -> [u64; STEPS] {
        let mut sums = [0; STEPS];
        for (position, granule) in self.positions.iter().zip(tensor.chunks_exact(self.granule)) {
            let dissent = word_of(granule) ^ position.majority;
            let first = position.masks.partition_point(|mask| dissent & mask != 0);
            sums[first..].iter_mut().zip(&position.saved[first..]).for_each(|(sum, saved)| *sum += saved);
        }
        sums
    }

    /// The invariant bits at one threshold.
    fn invariants(&self, step: usize) -> Invariants {
        let column = |word: fn(&Position, usize) -> u64| {
            let words = self.positions.iter().map(|position| word(position, step).to_le_bytes());
            let mut bytes: Vec<u8> = words.flat_map(|word| word.into_iter().take(self.granule)).collect();
            bytes.resize(self.tensor_len, 0);
            bytes
        };
        Invariants {
            mask: column(|position, step| position.masks[step]),
            bitval: column(|position, step| position.masks[step] & position.majority),
        }
    }
}

impl Position {
    /// The granule whose first bit is number `start` of the tensor.
    fn new(counts: &Counts, start: usize, granule: usize) -> Self {
        let (mut majority, mut masks) = (0, [0; STEPS]);
        for bit in 0..8 * granule {
            majority |= u64::from(counts.majority(start + bit)) << bit;
            let dissenters = u128::from(counts.dissenters(start + bit));
            for (mask, threshold) in masks.iter_mut().zip(THRESHOLDS) {
                let tolerated = u128::from(1000 - threshold) * u128::from(counts.tensors);
                *mask |= u64::from(1000 * dissenters <= tolerated) << bit;
            }
        }
        Self { majority, masks, saved: masks.map(|mask| u64::from(mask.count_ones())) }
    }
}
