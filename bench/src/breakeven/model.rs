//! How long a message takes.

use crate::scale::CodecRates;

/// Most pieces in which codec and wire overlap.
const MOST_PIECES: u32 = 64;
/// Message sizes in bytes among which break-even is looked for.
const SEARCH_BYTES: (f64, f64) = (1.0, (1u64 << 36) as f64);

/// A way between two GPUs, or between one and its host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Link {
    pub(super) name: &'static str,
    /// Nominal, one way: 10⁹ bytes per second.
    pub(super) gbytes: f64,
}

/// From slow to fast.
pub(super) const LINKS: [Link; 9] = [
    Link { name: "100 Gb/s", gbytes: 12.5 },
    Link { name: "200 Gb/s", gbytes: 25.0 },
    Link { name: "PCIe 4 x16", gbytes: 31.5 },
    Link { name: "400 Gb/s", gbytes: 50.0 },
    Link { name: "PCIe 5 x16", gbytes: 63.0 },
    Link { name: "800 Gb/s", gbytes: 100.0 },
    Link { name: "NVLink 3", gbytes: 300.0 },
    Link { name: "NVLink 4", gbytes: 450.0 },
    Link { name: "NVLink 5", gbytes: 900.0 },
];

/// Whether the stages of a compressed message overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overlap {
    Without,
    With,
}

impl Overlap {
    pub(super) const BOTH: [Self; 2] = [Self::Without, Self::With];
}

/// What the time of a message depends on, beside the link.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) rates: CodecRates,
    pub(super) latency_s: f64,
    pub(super) launch_s: f64,
    /// Of a link's nominal rate.
    pub(super) efficiency: f64,
}

impl Model {
    /// Seconds of a message as it is.
    pub(super) fn plain(&self, link: Link, bytes: f64) -> f64 {
        self.latency_s + bytes / self.bytes_per_s(link)
    }

    /// Seconds of a message that is compressed on the way.
    pub(super) fn compressed(&self, link: Link, bytes: f64, overlap: Overlap) -> f64 {
        match overlap {
            Overlap::Without => self.in_pieces(link, bytes, 1.0),
            Overlap::With => {
                let times = (1..=MOST_PIECES).map(|pieces| self.in_pieces(link, bytes, pieces.into()));
                times.fold(f64::INFINITY, f64::min)
            }
        }
    }

    /// The first piece passes all stages; the others follow at the pace of the slowest.
    fn in_pieces(&self, link: Link, bytes: f64, pieces: f64) -> f64 {
        let CodecRates { ratio, encode_gbytes, decode_gbytes, .. } = self.rates;
        let piece = bytes / pieces;
        let encode = self.launch_s + piece / (encode_gbytes * 1e9);
        let wire = piece / ratio / self.bytes_per_s(link);
        let decode = self.launch_s + piece / (decode_gbytes * 1e9);
        self.latency_s + encode + wire + decode + (pieces - 1.0) * encode.max(wire).max(decode)
    }

    /// How many times as fast as plain.
    pub(super) fn speed_up(&self, link: Link, bytes: f64, overlap: Overlap) -> f64 {
        self.plain(link, bytes) / self.compressed(link, bytes, overlap)
    }

    /// The size in bytes from which on compression pays; `None` if long messages do not gain.
    pub(super) fn break_even(&self, link: Link, overlap: Overlap) -> Option<f64> {
        let pays = |bytes: f64| self.speed_up(link, bytes, overlap) > 1.0;
        let (low, high) = SEARCH_BYTES;
        if !pays(high) {
            return None;
        }
        let (mut bad, mut good) = (low.ln(), high.ln());
        for _ in 0..60 {
            let middle = f64::midpoint(bad, good);
            if pays(middle.exp()) { good = middle } else { bad = middle }
        }
        Some(good.exp())
    }

    fn bytes_per_s(&self, link: Link) -> f64 {
        link.gbytes * 1e9 * self.efficiency
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: Link = Link { name: "slow", gbytes: 10.0 };

    /// Takes 40 GB/s in, 80 out, halves, and needs 3 µs for a launch.
    fn model() -> Model {
        let rates =
            CodecRates { source: String::new(), ratio: 2.0, encode_gbytes: 40.0, decode_gbytes: 80.0 };
        Model { rates, latency_s: 1e-6, launch_s: 3e-6, efficiency: 1.0 }
    }

    fn close(got: f64, expected: f64) {
        assert!((got / expected - 1.0).abs() < 1e-6, "{got} for {expected}");
    }

    #[test]
    fn times_by_hand() {
        // 800 KB: 80 µs and 1 plain; 3 + 20, 40, 3 + 10 and 1 compressed.
        close(model().plain(SLOW, 8e5), 81e-6);
        close(model().compressed(SLOW, 8e5, Overlap::Without), 77e-6);
        // Two pieces: 3 + 10, 20, 3 + 5 for the first, and 20 for the second.
        close(model().in_pieces(SLOW, 8e5, 2.0), 62e-6);
        assert!(model().compressed(SLOW, 8e5, Overlap::With) <= 62e-6);
    }

    #[test]
    fn break_even_by_hand() {
        // In turn a byte saves 0.05 ns on the wire and costs 0.025 + 0.0125: 6 µs are won back after 480 KB.
        close(model().break_even(SLOW, Overlap::Without).unwrap(), 480e3);
        // Overlapped it can only pay earlier, and also on a link where it never does in turn.
        assert!(model().break_even(SLOW, Overlap::With).unwrap() < 480e3);
        let fast = Link { name: "fast", gbytes: 20.0 };
        assert_eq!(model().break_even(fast, Overlap::Without), None);
        assert!(model().break_even(fast, Overlap::With).is_some());
        // Faster than its encoder it never pays.
        assert_eq!(model().break_even(Link { name: "fastest", gbytes: 41.0 }, Overlap::With), None);
    }

    #[test]
    fn what_does_not_shrink_never_pays() {
        let mut same = model();
        same.rates.ratio = 1.0;
        for overlap in Overlap::BOTH {
            assert_eq!(same.break_even(SLOW, overlap), None);
        }
    }

    #[test]
    fn what_pays_pays_for_longer_messages_too_and_never_more_than_the_ratio() {
        for link in LINKS {
            for overlap in Overlap::BOTH {
                let gain = |log: i32| model().speed_up(link, f64::from(log).exp2(), overlap);
                let gains: Vec<f64> = (10..36).map(gain).collect();
                assert!(gains.is_sorted_by_key(|&gain| gain > 1.0), "{link:?} {gains:?}");
                assert!(gains.iter().all(|&gain| gain < 2.0), "{link:?} {gains:?}");
            }
        }
    }
}
