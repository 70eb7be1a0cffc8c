//! What crosses between GPUs, and what stays in the memory of one.

use mgcomp_codecs::line::{LINE_LEN, LINE_WORDS, Line, from_words};

use super::super::transfer::{GPUS, Kind, Transfer};
use super::{Share, launch};
use crate::data::Random;

/// Lines in a page of 4 KB.
pub(super) const PAGE_LINES: u64 = 4096 / LINE_LEN as u64;
/// Compute units of all GPUs, 64 each.
const COMPUTE_UNITS: usize = 64 * GPUS;

/// Sends what a benchmark reads and writes to a sink, less what a GPU does in its own memory.
pub(super) struct Remote<'a> {
    share: Share,
    sink: &'a mut dyn FnMut(Transfer<'_>),
    launch_lines: u64,
}

impl<'a> Remote<'a> {
    pub(super) fn new(share: Share, sink: &'a mut dyn FnMut(Transfer<'_>)) -> Self {
        Self { share, sink, launch_lines: 0 }
    }

    /// The numbers 0 to `count` − 1 that the share takes, evenly spaced.
    pub(super) fn pick(&self, count: u64) -> impl Iterator<Item = u64> + use<> {
        let picked = self.share.of(count).max(1);
        // The middle of each part: not always a start of something.
        (0..picked).map(move |i| ((2 * i + 1) as u128 * u128::from(count) / u128::from(2 * picked)) as u64)
    }

    /// The wavefronts 0 to `count` − 1 that the share takes, one for each compute unit at a time: those go in step.
    pub(super) fn steps(&self, count: u64) -> Vec<Vec<u64>> {
        let picked: Vec<u64> = self.pick(count).collect();
        picked.chunks(COMPUTE_UNITS).map(<[u64]>::to_vec).collect()
    }

    /// Workgroup or wavefront `number` runs on this GPU.
    pub(super) const fn gpu(number: u64) -> u8 {
        (number % GPUS as u64) as u8
    }

    /// Whether line `index` of an array is in another GPU's memory.
    pub(super) const fn is_remote(gpu: u8, index: u64) -> bool {
        owner(index) != gpu
    }

    /// `gpu` reads line `index` of an array; `line` says what it holds.
    pub(super) fn read(&mut self, gpu: u8, index: u64, line: impl FnOnce() -> Line) {
        if Self::is_remote(gpu, index) {
            (self.sink)(Transfer { kind: Kind::Read, from: owner(index), to: gpu, payload: &line() });
        }
    }

    /// `gpu` writes line `index` of an array.
    pub(super) fn write(&mut self, gpu: u8, index: u64, line: impl FnOnce() -> Line) {
        if Self::is_remote(gpu, index) {
            (self.sink)(Transfer { kind: Kind::Write, from: gpu, to: owner(index), payload: &line() });
        }
    }

    /// `count` lines of kernel launches, less what the share leaves out.
    pub(super) fn launch(&mut self, count: u64) {
        for _ in 0..self.share.of(count) {
            self.launch_line();
        }
    }

    /// One line that a GPU fetches when a kernel starts. Each launch has its page on the next GPU, and the
    /// other three read it.
    pub(super) fn launch_line(&mut self) {
        let number = self.launch_lines;
        self.launch_lines += 1;
        let from = Self::gpu(number / 12);
        let to = (u64::from(from) + 1 + number % 3) % GPUS as u64;
        let payload = launch::line(number);
        (self.sink)(Transfer { kind: Kind::Read, from, to: to as u8, payload: &payload });
    }
}

/// The GPU whose memory has line `index` of an array that starts on a page of GPU 0.
const fn owner(index: u64) -> u8 {
    (index / PAGE_LINES % GPUS as u64) as u8
}

/// Chance for thing `index` of a benchmark with this seed, the same whenever it is asked for.
pub(super) const fn random(seed: u64, index: u64) -> Random {
    Random::new((seed << 48) ^ index.wrapping_mul(0xd134_2543_de82_ef95))
}

/// The line of 16 words.
pub(super) fn line(word: impl FnMut(usize) -> u32) -> Line {
    from_words(&std::array::from_fn::<u32, LINE_WORDS, _>(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_go_round_and_three_of_four_lines_are_remote() {
        assert_eq!([0, 63, 64, 191, 192, 255, 256].map(owner), [0, 0, 1, 2, 3, 3, 0]);
        let mut seen = Vec::new();
        let mut sink = |t: Transfer<'_>| seen.push((t.kind, t.from, t.to));
        let mut remote = Remote::new(Share::WHOLE, &mut sink);
        remote.read(1, 0, || [0; 64]);
        remote.read(1, 64, || [0; 64]);
        remote.write(1, 200, || [0; 64]);
        assert_eq!(seen, [(Kind::Read, 0, 1), (Kind::Write, 1, 3)]);
    }

    #[test]
    fn picks_are_spread_evenly() {
        let mut sink = |_: Transfer<'_>| {};
        let remote = Remote::new(Share(0.25), &mut sink);
        assert_eq!(remote.pick(16).collect::<Vec<_>>(), [2, 6, 10, 14]);
        assert_eq!(remote.pick(1).collect::<Vec<_>>(), [0]);
        let whole = Remote::new(Share::WHOLE, &mut sink);
        assert_eq!(whole.pick(5).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    }
}
