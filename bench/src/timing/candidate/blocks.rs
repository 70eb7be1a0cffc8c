//! A library on blocks, which its threads share.

use std::mem;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::{Candidate, CandidateError};
use crate::baseline::{Coder, Library, LibraryError};
use crate::timing::lockstep;

/// LZ4 or zstd.
pub(crate) struct Blocks {
    block_len: usize,
    shares: Vec<Share>,
}

/// The blocks of one thread.
struct Share {
    coder: Coder,
    raw_len: usize,
    coded: Vec<u8>,
    /// Lengths of the blocks' codes, which lie one after the other in `coded`.
    lens: Vec<usize>,
}

impl Blocks {
    /// For a buffer of `raw_len` bytes, which repeats itself every `tile_len` bytes: no block is longer than
    /// that, else the libraries would find the repetition.
    pub(crate) fn new(library: Library, raw_len: usize, tile_len: usize, threads: usize) -> Self {
        let block_len = Library::MAX_BLOCK_BYTES.min(tile_len).min(raw_len.div_ceil(threads));
        let share_len = raw_len.div_ceil(block_len).div_ceil(threads) * block_len;
        let shares = (0..raw_len)
            .step_by(share_len)
            .map(|start| Share::new(library, share_len.min(raw_len - start), block_len))
            .collect();
        Self { block_len, shares }
    }
}

impl Share {
    fn new(library: Library, raw_len: usize, block_len: usize) -> Self {
        let blocks = raw_len.div_ceil(block_len);
        // Filled, so that the memory is there before the clock runs.
        let coded = vec![0x5a; blocks * library.max_len(block_len)];
        Self { coder: Coder::new(library), raw_len, coded, lens: Vec::with_capacity(blocks) }
    }

    fn encode(&mut self, raw: &[u8], block_len: usize) -> Result<(), LibraryError> {
        self.lens.clear();
        let mut rest = self.coded.as_mut_slice();
        for block in raw.chunks(block_len) {
            let len = self.coder.encode(block, rest)?;
            rest = mem::take(&mut rest).split_at_mut(len).1;
            self.lens.push(len);
        }
        Ok(())
    }

    fn decode(&mut self, raw: &mut [u8], block_len: usize) -> Result<(), LibraryError> {
        let mut rest = self.coded.as_slice();
        for (block, &len) in raw.chunks_mut(block_len).zip(&self.lens) {
            let (coded, behind) = rest.split_at(len);
            self.coder.decode(coded, block)?;
            rest = behind;
        }
        Ok(())
    }
}

impl Candidate for Blocks {
    fn encode(&mut self, raw: &[u8], calls: usize) -> Result<Duration, CandidateError> {
        let mut rest = raw;
        let mut tasks = Vec::new();
        for share in &mut self.shares {
            let (own, behind) = rest.split_at(share.raw_len);
            tasks.push((share, own));
            rest = behind;
        }
        let block_len = self.block_len;
        let failure = Failure::default();
        let time = lockstep(tasks, calls, |(share, raw)| failure.keep(share.encode(raw, block_len)));
        failure.or(time)
    }

    fn decode(&mut self, raw: &mut [u8], calls: usize) -> Result<Duration, CandidateError> {
        let mut rest = raw;
        let mut tasks = Vec::new();
        for share in &mut self.shares {
            let (own, behind) = rest.split_at_mut(share.raw_len);
            tasks.push((share, own));
            rest = behind;
        }
        let block_len = self.block_len;
        let failure = Failure::default();
        let time = lockstep(tasks, calls, |(share, raw)| failure.keep(share.decode(raw, block_len)));
        failure.or(time)
    }

    fn estimate(&mut self, _: &[u8], _: usize) -> Option<(Duration, u64)> {
        None
    }

    fn sample(&mut self, _: &[u8], _: usize) -> Option<(Duration, u64)> {
        None
    }

    fn coded_len(&self) -> u64 {
        self.shares.iter().flat_map(|share| &share.lens).map(|&len| len as u64).sum()
    }
}

/// The last failure of any thread.
#[derive(Default)]
struct Failure(Mutex<Option<LibraryError>>);

impl Failure {
    fn keep(&self, result: Result<(), LibraryError>) {
        if let Err(error) = result {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
    }

    fn or(self, time: Duration) -> Result<Duration, CandidateError> {
        match self.0.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error.into()),
            None => Ok(time),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_and_threads_share_the_buffer() {
        let raw: Vec<u8> = (0..10_000u32).map(|i| (i / 9) as u8).collect();
        // Raw length, tile, threads: block length and shares by hand.
        let cases = [
            ((10_000, 10_000, 1), (10_000, vec![10_000])),
            ((10_000, 3000, 1), (3000, vec![10_000])),
            ((10_000, 3000, 2), (3000, vec![6000, 4000])),
            ((10_000, 10_000, 3), (3334, vec![3334, 3334, 3332])),
            ((1, 10_000, 4), (1, vec![1])),
        ];
        for ((raw_len, tile_len, threads), (block_len, share_lens)) in cases {
            for library in Library::ALL {
                let mut blocks = Blocks::new(library, raw_len, tile_len, threads);
                assert_eq!(blocks.block_len, block_len);
                let lens: Vec<usize> = blocks.shares.iter().map(|share| share.raw_len).collect();
                assert_eq!(lens, share_lens);
                blocks.encode(&raw[..raw_len], 2).unwrap();
                let mut back = vec![0xff; raw_len];
                blocks.decode(&mut back, 1).unwrap();
                assert_eq!(back, raw[..raw_len]);
                let mut expected = 0;
                for share in raw[..raw_len].chunks(share_lens[0]) {
                    for block in share.chunks(block_len) {
                        expected += library.coded_len(block).unwrap();
                    }
                }
                assert_eq!(blocks.coded_len(), expected);
            }
        }
    }

    #[test]
    fn failures_of_any_thread_come_out() {
        let mut blocks = Blocks::new(Library::Zstd1, 1000, 100, 2);
        blocks.encode(&[7; 1000], 1).unwrap();
        blocks.shares[1].coded.fill(0);
        assert!(matches!(blocks.decode(&mut [0; 1000], 1), Err(CandidateError::Library(_))));
    }
}
