//! Finding the invariant bits of a set of tensors.

use super::cluster;
use super::codebook::{Codebook, CodebookError, Granule, Invariants, check_size};
use super::counts::Counts;
use super::levels::{Levels, STEPS, smallest};
use super::portable::word_of;

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
/// For each cluster, the threshold is that of [`THRESHOLDS`](super::THRESHOLDS) which packs the tensors looked at into the fewest
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
    fit_sample(&sample, tensor_len, granule, limit)
}

/// As [`fit`], from tensors that the caller picked, with granules of this length and up to `clusters` clusters.
///
/// # Errors
/// [`CodebookError`] if `tensor_len` or the number of clusters is out of range.
///
/// # Panics
/// If a tensor has another length.
pub fn fit_sample(
    sample: &[&[u8]],
    tensor_len: usize,
    granule: Granule,
    clusters: usize,
) -> Result<Codebook, CodebookError> {
    check_size(tensor_len, clusters)?;
    assert!(sample.iter().all(|tensor| tensor.len() == tensor_len), "tensors of {tensor_len} bytes");
    if sample.is_empty() {
        let nothing = Invariants { mask: vec![0; tensor_len], bitval: vec![0; tensor_len] };
        return Codebook::new(granule, tensor_len, vec![nothing]);
    }
    let fitted = cluster::clusters(tensor_len, sample, clusters).into_iter().map(|members| {
        let levels = Levels::of(&Counts::of(tensor_len, members.iter().copied()));
        let (step, _) = smallest(Sweep::new(granule, &levels).packed_bytes(&members));
        levels.invariants(granule.bytes(), step)
    });
    Codebook::new(granule, tensor_len, fitted.collect())
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
    fn new(granule: Granule, levels: &Levels) -> Self {
        let (granule, tensor_len) = (granule.bytes(), levels.tensor_len());
        let positions = (0..tensor_len / granule).map(|i| Position::new(levels, granule * i, granule));
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
}

impl Position {
    /// The granule whose first byte is number `start` of the tensor.
    fn new(levels: &Levels, start: usize, granule: usize) -> Self {
        let word = |byte: &dyn Fn(usize) -> u8| {
            (0..granule).rev().fold(0, |word, i| word << 8 | u64::from(byte(start + i)))
        };
        let masks = std::array::from_fn(|step| word(&|index| levels.mask(index, step)));
        let saved = masks.map(|mask| u64::from(mask.count_ones()));
        Self { majority: word(&|index| levels.majority(index)), masks, saved }
    }
}
