//! How often each bit of a tensor is set.

/// Set bits by position over a set of tensors of one length.
#[derive(Clone, Debug)]
pub(super) struct Counts {
    /// For each bit of the tensor, how many tensors have it set.
    pub(super) ones: Vec<u64>,
    /// How many tensors were counted.
    pub(super) tensors: u64,
}

/// Tensors whose bits fit the byte-wide counters.
pub(super) const BATCH: usize = 255;
/// The lowest bit of each byte of a word.
pub(super) const LOWEST_BITS: u64 = 0x0101_0101_0101_0101;

impl Counts {
    /// Counts over no tensors.
    pub(super) fn none(tensor_len: usize) -> Self {
        Self { ones: vec![0; 8 * tensor_len], tensors: 0 }
    }

    /// Adds how many tensors have bit number `bit` of each byte set.
    pub(super) fn add(&mut self, bit: usize, counts: impl IntoIterator<Item = u8>) {
        let sums = self.ones[bit..].iter_mut().step_by(8);
        sums.zip(counts).for_each(|(sum, count)| *sum += u64::from(count));
    }

    /// Counts over `tensors`, of `tensor_len` bytes each.
    pub(super) fn of<'a>(tensor_len: usize, tensors: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut counts = Self::none(tensor_len);
        // Counters of a byte each: byte b of `lanes[word][bit]` counts that bit of byte b of the word.
        let mut lanes = vec![[0u64; 8]; tensor_len.div_ceil(8)];
        let mut tensors = tensors.peekable();
        while tensors.peek().is_some() {
            for tensor in tensors.by_ref().take(BATCH) {
                counts.tensors += 1;
                for (lanes, word) in lanes.iter_mut().zip(words(tensor)) {
                    for (bit, lane) in lanes.iter_mut().enumerate() {
                        *lane += word >> bit & LOWEST_BITS;
                    }
                }
            }
            counts.empty(&mut lanes);
        }
        counts
    }

    /// Adds the byte-wide counters and zeroes them.
    fn empty(&mut self, lanes: &mut [[u64; 8]]) {
        for (word, lanes) in self.ones.chunks_mut(64).zip(lanes) {
            for (byte, ones) in word.chunks_exact_mut(8).enumerate() {
                for (lane, ones) in lanes.iter().zip(ones) {
                    *ones += u64::from(lane.to_le_bytes()[byte]);
                }
            }
            *lanes = [0; 8];
        }
    }

    /// The same counts if each tensor is taken as several of `tensor_len` bytes, which divides its length.
    pub(super) fn folded(&self, tensor_len: usize) -> Self {
        let mut ones = vec![0; 8 * tensor_len];
        for part in self.ones.chunks_exact(8 * tensor_len) {
            ones.iter_mut().zip(part).for_each(|(sum, count)| *sum += count);
        }
        Self { ones, tensors: self.tensors * (self.ones.len() / (8 * tensor_len)) as u64 }
    }

    /// Whether most tensors have bit `index` set; a draw counts as set.
    pub(super) fn majority(&self, index: usize) -> bool {
        2 * self.ones[index] >= self.tensors
    }

    /// How many tensors have another bit there than most.
    pub(super) fn dissenters(&self, index: usize) -> u64 {
        self.ones[index].min(self.tensors - self.ones[index])
    }
}

/// The words of a tensor, the last filled up with zeros.
pub(super) fn words(tensor: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let (words, rest) = tensor.as_chunks();
    let last = (!rest.is_empty()).then(|| rest.iter().rev().fold(0, |word, &b| word << 8 | u64::from(b)));
    words.iter().map(|&word| u64::from_le_bytes(word)).chain(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_by_hand() {
        let rows: [&[u8]; 3] = [&[0b01, 0x80], &[0b11, 0x00], &[0b10, 0x80]];
        let counts = Counts::of(2, rows.into_iter());
        assert_eq!(counts.tensors, 3);
        let mut expected = [0; 16];
        (expected[0], expected[1], expected[15]) = (2, 2, 2);
        assert_eq!(counts.ones, expected);
        assert!(counts.majority(0) && !counts.majority(2));
        assert_eq!([0, 2, 15].map(|i| counts.dissenters(i)), [1, 0, 1]);
        let folded = counts.folded(1);
        assert_eq!((folded.tensors, folded.ones), (6, vec![2, 2, 0, 0, 0, 0, 0, 2]));
    }

    #[test]
    fn more_tensors_than_a_byte_counts() {
        let row = [0xffu8; 9];
        let counts = Counts::of(9, std::iter::repeat_n(&row[..], 1000));
        assert_eq!((counts.tensors, counts.ones), (1000, vec![1000; 72]));
    }
}
