//! What came of one operation of one size in one mode.

use std::time::Duration;

use mgcomp_codecs::Algorithm;
use mgcomp_transport::control;
use mgcomp_transport::node::Tally;

use super::member::{Counts, Step};
use super::operation::Op;
use super::options::{Args, Mode};

const ALGORITHMS: usize = Algorithm::ALL.len();
/// Of each algorithm: transfers, raw bytes, coded bytes.
const TALLY_WORDS: usize = 3;
const HEAD_WORDS: usize = 5;
const WORDS: usize = HEAD_WORDS + TALLY_WORDS * ALGORITHMS;

/// What one rank saw of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    took_ns: Vec<u64>,
    pub(super) wrong: u64,
    by_window: u64,
    by_host: u64,
    sent: [Tally; ALGORITHMS],
}

/// Bytes that devices have made, by the way they have gone to other ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ways {
    /// Into windows of the others' devices.
    pub(super) window_bytes: u64,
    /// By way of the host.
    pub(super) host_bytes: u64,
}

impl Ways {
    /// What part of all bytes went into windows, from 0 to 1; `None` if there were none.
    pub(super) fn window_share(self) -> Option<f64> {
        let total = self.window_bytes + self.host_bytes;
        (total > 0).then(|| self.window_bytes as f64 / total as f64)
    }
}

impl Seen {
    /// An iteration took so long, and the rank's counters were these before and after.
    pub(super) fn count(&mut self, took: Duration, before: &Counts, after: &Counts) {
        self.took_ns.push(took.as_nanos() as u64);
        self.by_window += after.ways.window_bytes - before.ways.window_bytes;
        self.by_host += after.ways.host_bytes - before.ways.host_bytes;
        for (algorithm, after) in &after.stats.sent {
            let before = before.stats.sent.get(algorithm).copied().unwrap_or_default();
            let sent = &mut self.sent[usize::from(algorithm.number())];
            sent.transfers += after.transfers - before.transfers;
            sent.raw_bytes += after.raw_bytes - before.raw_bytes;
            sent.coded_bytes += after.coded_bytes - before.coded_bytes;
        }
    }

    /// All of it in as many words on every rank.
    pub(super) fn words(&self) -> [u64; WORDS] {
        let mut took = self.took_ns.clone();
        took.sort_unstable();
        let (median, min) = (took.get(took.len() / 2), took.first());
        let mut words = [0; WORDS];
        let times = [*median.unwrap_or(&0), *min.unwrap_or(&0)];
        words[..2].copy_from_slice(&times);
        words[2..HEAD_WORDS].copy_from_slice(&[self.wrong, self.by_window, self.by_host]);
        for (words, sent) in words[HEAD_WORDS..].chunks_mut(TALLY_WORDS).zip(&self.sent) {
            words.copy_from_slice(&[sent.transfers, sent.raw_bytes, sent.coded_bytes]);
        }
        words
    }
}

/// What all ranks saw of it.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) op: Op,
    pub(super) ranks: usize,
    pub(super) bytes: usize,
    pub(super) width: usize,
    pub(super) element: &'static str,
    pub(super) link: &'static str,
    /// What the device of rank 0 is called, if buffers are there.
    pub(super) device: Option<String>,
    pub(super) mode: String,
    /// Whether compression is switched off for all of this process.
    pub(super) is_off: bool,
    /// Of the slowest rank: median and shortest.
    pub(super) median_ns: u64,
    pub(super) min_ns: u64,
    pub(super) wrong: u64,
    /// Of links that have windows.
    pub(super) ways: Option<Ways>,
    sent: [Tally; ALGORITHMS],
}

impl Row {
    /// From the words of all ranks.
    pub(super) fn new(args: &Args, step: &Step, (mode, device): (Mode, Option<&str>), words: &[u64]) -> Self {
        let is_off = control::is_off();
        let mut row = Self {
            op: step.op,
            ranks: step.case.ranks,
            bytes: step.case.bytes,
            width: args.values().width_bytes(),
            element: args.values().name(),
            link: args.link.name(),
            device: device.map(str::to_owned),
            mode: args.mode_name(mode, is_off),
            is_off,
            median_ns: 0,
            min_ns: 0,
            wrong: 0,
            ways: args.link.has_windows().then(Ways::default),
            sent: [Tally::default(); ALGORITHMS],
        };
        for words in words.chunks_exact(WORDS) {
            row.median_ns = row.median_ns.max(words[0]);
            row.min_ns = row.min_ns.max(words[1]);
            row.wrong += words[2];
            if let Some(ways) = &mut row.ways {
                ways.window_bytes += words[3];
                ways.host_bytes += words[4];
            }
            for (sent, words) in row.sent.iter_mut().zip(words[HEAD_WORDS..].chunks(TALLY_WORDS)) {
                sent.transfers += words[0];
                sent.raw_bytes += words[1];
                sent.coded_bytes += words[2];
            }
        }
        row
    }

    /// 10⁹ bytes per second.
    pub(super) fn algorithm_bandwidth(&self) -> f64 {
        self.bytes as f64 / self.median_ns.max(1) as f64
    }

    /// The same, as one port of the network sees it.
    pub(super) fn bus_bandwidth(&self) -> f64 {
        self.algorithm_bandwidth() * self.op.bus_factor(self.ranks)
    }

    /// Raw bytes for each that was sent; 1 where there were none.
    pub(super) fn ratio(&self) -> f64 {
        let sum = |field: fn(&Tally) -> u64| self.sent.iter().map(field).sum::<u64>();
        match sum(|tally| tally.coded_bytes) {
            0 => 1.0,
            coded_bytes => sum(|tally| tally.raw_bytes) as f64 / coded_bytes as f64,
        }
    }

    /// What carried something, in the order of the algorithms' numbers.
    pub(super) fn algorithms(&self) -> impl Iterator<Item = (Algorithm, Tally)> + use<'_> {
        Algorithm::ALL.into_iter().zip(self.sent).filter(|(_, tally)| tally.transfers > 0)
    }

    #[cfg(test)]
    pub(super) fn example(op: Op, ranks: usize, bytes: usize, median_ns: u64) -> Self {
        let (link, mode, element) = ("tcp", "adaptive".to_owned(), "f32");
        let mut sent = [Tally::default(); ALGORITHMS];
        sent[0] = Tally { transfers: 1, raw_bytes: 100, coded_bytes: 100 };
        sent[9] = Tally { transfers: 3, raw_bytes: 300, coded_bytes: 60 };
        Self {
            op,
            ranks,
            bytes,
            width: 4,
            element,
            link,
            device: None,
            mode,
            is_off: false,
            median_ns,
            min_ns: 900,
            wrong: 0,
            ways: None,
            sent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidths_are_worked_out_as_in_nccl_tests() {
        let row = Row::example(Op::AllReduce, 4, 1_000_000, 500_000);
        assert_eq!((row.algorithm_bandwidth(), row.bus_bandwidth()), (2.0, 3.0));
        let row = Row::example(Op::AllGather, 4, 1_000_000, 500_000);
        assert_eq!((row.algorithm_bandwidth(), row.bus_bandwidth()), (2.0, 1.5));
        assert_eq!(row.ratio(), 2.5);
        let names: Vec<&str> = row.algorithms().map(|(algorithm, _)| algorithm.name()).collect();
        assert_eq!(names, ["none", "xp"]);
    }

    #[test]
    fn a_rank_tells_its_median_and_what_it_sent() {
        let ways = Ways { window_bytes: 1000, host_bytes: 2000 };
        let mut counts = Counts { ways, ..Counts::default() };
        let mut seen = Seen { wrong: 7, ..Seen::default() };
        for (took, coded_bytes) in [(30, 10), (10, 20), (20, 30)] {
            let before = counts.clone();
            let tally = Tally { transfers: 1, raw_bytes: 100, coded_bytes };
            counts.stats.sent.insert(Algorithm::Zvc, add(before.stats.sent.get(&Algorithm::Zvc), tally));
            counts.ways.window_bytes += coded_bytes;
            counts.ways.host_bytes += 1;
            seen.count(Duration::from_nanos(took), &before, &counts);
        }
        let words = seen.words();
        assert_eq!(words[..HEAD_WORDS], [20, 10, 7, 60, 3]);
        let zvc = HEAD_WORDS + TALLY_WORDS * usize::from(Algorithm::Zvc.number());
        assert_eq!(words[zvc..zvc + 3], [3, 300, 60]);
    }

    #[test]
    fn shares_of_windows_are_those_of_what_devices_made() {
        let share = |window_bytes, host_bytes| Ways { window_bytes, host_bytes }.window_share();
        assert_eq!(
            [share(0, 0), share(3, 1), share(0, 9), share(9, 0)],
            [None, Some(0.75), Some(0.0), Some(1.0)]
        );
    }

    fn add(before: Option<&Tally>, more: Tally) -> Tally {
        let before = before.copied().unwrap_or_default();
        Tally {
            transfers: before.transfers + more.transfers,
            raw_bytes: before.raw_bytes + more.raw_bytes,
            coded_bytes: before.coded_bytes + more.coded_bytes,
        }
    }
}
