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

    /// The numbers 0 to `count` − 1 that the share takes, evenly spaced, but for where they are in their `period`: they go through
    /// that one by one. Which GPU works on a number and which has its pages depends on that place, and numbers a fixed step
    /// apart may all have the same.
    pub(super) fn pick(&self, count: u64, period: u64) -> impl Iterator<Item = u64> + use<> {
        let picked = self.share.of(count).clamp(1, count);
        (0..picked).map(move |i| {
            let spaced = (u128::from(i) * u128::from(count) / u128::from(picked)) as u64;
            let first = spaced / period * period;
            // As many fall into a period as it has places at most, so none comes twice.
            if first + period <= count { first + i % period } else { spaced }
        })
    }

    /// The wavefronts 0 to `count` − 1 that the share takes, one for each compute unit at a time: those go in step.
    pub(super) fn steps(&self, count: u64, period: u64) -> Vec<Vec<u64>> {
        let picked: Vec<u64> = self.pick(count, period).collect();
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
    use std::collections::HashSet;

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
    fn picks_are_spread_evenly_and_go_through_their_period() {
        let mut sink = |_: Transfer<'_>| {};
        let quarter = Remote::new(Share(0.25), &mut sink);
        assert_eq!(quarter.pick(16, 1).collect::<Vec<_>>(), [0, 4, 8, 12]);
        assert_eq!(quarter.pick(32, 4).collect::<Vec<_>>(), [0, 5, 10, 15, 16, 21, 26, 31]);
        assert_eq!(quarter.pick(18, 4).collect::<Vec<_>>(), [0, 1, 6, 11, 12]);
        assert_eq!(quarter.pick(1, 4).collect::<Vec<_>>(), [0]);
        let whole = Remote::new(Share::WHOLE, &mut sink);
        // What is left beyond whole periods has no other places.
        assert_eq!(whole.pick(6, 4).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn no_number_is_picked_twice_and_all_places_alike() {
        let mut sink = |_: Transfer<'_>| {};
        for share in [0.9, 0.75, 0.5, 0.3, 0.125, 1.0 / 32.0, 0.01] {
            let remote = Remote::new(Share(share), &mut sink);
            let picked: Vec<u64> = remote.pick(6400, 64).collect();
            let mut places = [0u64; 64];
            picked.iter().for_each(|number| places[(number % 64) as usize] += 1);
            let (least, most) = (places.iter().min().unwrap(), places.iter().max().unwrap());
            assert!(most - least <= 1, "{share}: {places:?}");
            let different: HashSet<_> = picked.iter().collect();
            assert_eq!(different.len(), picked.len(), "{share}");
            assert!(picked.iter().all(|number| *number < 6400), "{share}");
        }
    }
}
