//! How long a message takes.

use super::codec::Codec;

/// Most pieces in which codec and wire overlap.
const MOST_PIECES: u32 = 64;
/// Break-even is looked for among messages of up to 2 to the power of this many bytes, so many times in each doubling.
const SEARCH_LOG: u32 = 36;
const SEARCH_STEPS: u32 = 8;

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

/// What a link takes for a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Wire {
    pub(super) bytes_per_s: f64,
    pub(super) latency_s: f64,
}

/// Whether the stages of a compressed message overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overlap {
    Without,
    With,
}

impl Overlap {
    pub(super) const BOTH: [Self; 2] = [Self::Without, Self::With];
}

/// What a codec does to a compressed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stages {
    /// It stays coded where it arrives.
    Encode,
    /// It was coded before it leaves.
    Decode,
    Both,
}

/// What the time of a message depends on, beside the link.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) codec: Codec,
    pub(super) stages: Stages,
    pub(super) latency_s: f64,
    /// Of an encoder or decoder, beside the codec's time.
    pub(super) launch_s: f64,
    /// Of a link's nominal rate.
    pub(super) efficiency: f64,
}

impl Model {
    pub(super) fn wire(&self, link: Link) -> Wire {
        Wire { bytes_per_s: link.gbytes * 1e9 * self.efficiency, latency_s: self.latency_s }
    }

    /// Seconds of a message that is compressed on the way.
    pub(super) fn compressed(&self, wire: Wire, bytes: f64, overlap: Overlap) -> f64 {
        match overlap {
            Overlap::Without => self.in_pieces(wire, bytes, 1.0),
            Overlap::With => {
                let times = (1..=MOST_PIECES).map(|pieces| self.in_pieces(wire, bytes, pieces.into()));
                times.fold(f64::INFINITY, f64::min)
            }
        }
    }

    /// The first piece passes all stages; the others follow at the pace of the slowest.
    fn in_pieces(&self, wire: Wire, bytes: f64, pieces: f64) -> f64 {
        let piece = bytes / pieces;
        let carry = piece / self.codec.ratio(piece) / wire.bytes_per_s;
        let (encode, decode) = self.coding_s(piece);
        wire.latency_s + encode + carry + decode + (pieces - 1.0) * encode.max(carry).max(decode)
    }

    /// Seconds of encoding and of decoding; a stage that the message does not have takes none, not even a launch.
    fn coding_s(&self, bytes: f64) -> (f64, f64) {
        let encode = || self.launch_s + self.codec.encode_s(bytes);
        let decode = || self.launch_s + self.codec.decode_s(bytes);
        match self.stages {
            Stages::Encode => (encode(), 0.0),
            Stages::Decode => (0.0, decode()),
            Stages::Both => (encode(), decode()),
        }
    }

    /// How many times as fast as plain.
    pub(super) fn speed_up(&self, wire: Wire, bytes: f64, overlap: Overlap) -> f64 {
        wire.plain(bytes) / self.compressed(wire, bytes, overlap)
    }

    /// The size in bytes from which on compression pays; `None` if long messages do not gain. Measured rates may let it pay
    /// for shorter ones, and then not for longer ones: what counts is the last size at which it begins to.
    pub(super) fn break_even(&self, wire: Wire, overlap: Overlap) -> Option<f64> {
        let pays = |log: f64| self.speed_up(wire, log.exp2(), overlap) > 1.0;
        let log = |step: u32| f64::from(step) / f64::from(SEARCH_STEPS);
        let last = SEARCH_LOG * SEARCH_STEPS;
        match (0..=last).rev().find(|&step| !pays(log(step))) {
            None => Some(1.0),
            Some(step) if step == last => None,
            Some(step) => Some(bisect(log(step), log(step + 1), pays).exp2()),
        }
    }
}

impl Wire {
    /// Seconds of a message as it is.
    pub(super) fn plain(self, bytes: f64) -> f64 {
        self.latency_s + bytes / self.bytes_per_s
    }
}

/// Where, between `bad` and `good`, it begins to pay.
fn bisect(mut bad: f64, mut good: f64, pays: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..50 {
        let middle = f64::midpoint(bad, good);
        if pays(middle) { good = middle } else { bad = middle }
    }
    good
}

#[cfg(test)]
mod tests {
    use super::super::codec::Rates;
    use super::*;

    /// 10 GB/s, 1 µs.
    const SLOW: Wire = Wire { bytes_per_s: 1e10, latency_s: 1e-6 };

    fn rates(ratio: f64, encode_gbytes: f64, decode_gbytes: f64) -> Rates {
        Rates { ratio, encode_gbytes, decode_gbytes }
    }

    /// Takes 40 GB/s in, 80 out, and needs 3 µs for a launch.
    fn with_ratio(ratio: f64) -> Model {
        let codec = Codec::even(String::new(), rates(ratio, 40.0, 80.0));
        Model { codec, stages: Stages::Both, latency_s: 1e-6, launch_s: 3e-6, efficiency: 1.0 }
    }

    fn model() -> Model {
        with_ratio(2.0)
    }

    /// Halves. Encoding takes 200 ns up to 1000 bytes, 600 ns for 2000 and 800 ns for 4000, and so does decoding.
    fn by_size() -> Model {
        let mut codec = Codec::measured(String::new(), 1000, rates(2.0, 5.0, 5.0));
        codec.push(2000, rates(2.0, 2000.0 / 600.0, 2000.0 / 600.0));
        codec.push(4000, rates(2.0, 5.0, 5.0));
        Model { codec, stages: Stages::Both, latency_s: 1e-6, launch_s: 0.0, efficiency: 1.0 }
    }

    fn close(got: f64, expected: f64) {
        assert!((got / expected - 1.0).abs() < 1e-6, "{got} for {expected}");
    }

    #[test]
    fn links_have_a_share_of_their_rate() {
        let link = Link { name: "x", gbytes: 20.0 };
        assert_eq!(Model { efficiency: 0.5, ..model() }.wire(link), SLOW);
    }

    #[test]
    fn times_by_hand() {
        // 800 KB: 80 µs and 1 plain; 3 + 20, 40, 3 + 10 and 1 compressed.
        close(SLOW.plain(8e5), 81e-6);
        close(model().compressed(SLOW, 8e5, Overlap::Without), 77e-6);
        // Two pieces: 3 + 10, 20, 3 + 5 for the first, and 20 for the second.
        close(model().in_pieces(SLOW, 8e5, 2.0), 62e-6);
        assert!(model().compressed(SLOW, 8e5, Overlap::With) <= 62e-6);
    }

    #[test]
    fn stages_that_a_message_does_not_have_take_no_time() {
        let with = |stages| Model { stages, ..model() };
        let turn = |stages| with(stages).compressed(SLOW, 8e5, Overlap::Without);
        // 1 and 40 µs on the link, with 3 + 20 before or 3 + 10 after it.
        close(turn(Stages::Encode), 64e-6);
        close(turn(Stages::Decode), 54e-6);
        close(turn(Stages::Both), 77e-6);
        // Two pieces: 1, 3 + 10 or 3 + 5 and 20 for the first, and 20 for the second.
        close(with(Stages::Encode).in_pieces(SLOW, 8e5, 2.0), 54e-6);
        close(with(Stages::Decode).in_pieces(SLOW, 8e5, 2.0), 49e-6);
    }

    #[test]
    fn times_by_size_by_hand() {
        let wire = Wire { bytes_per_s: 1e9, latency_s: 0.0 };
        // In turn 600 ns, 1000 on the wire, and 600.
        close(by_size().compressed(wire, 2000.0, Overlap::Without), 2200e-9);
        // In pieces of 1000 bytes 200, 500 and 200 for the first, and 500 for the second. More pieces of up to 5 still
        // leave the wire 1000 ns, with 200 before and after; in 6 the codec, with 200 ns each, takes longer than it.
        close(by_size().in_pieces(wire, 2000.0, 2.0), 1400e-9);
        close(by_size().in_pieces(wire, 2000.0, 6.0), (400.0 + 1000.0 / 6.0 + 5.0 * 200.0) * 1e-9);
        close(by_size().compressed(wire, 2000.0, Overlap::With), 1400e-9);
        // Above the largest size, its rate: 1600 ns, 4000 and 1600.
        close(by_size().compressed(wire, 8000.0, Overlap::Without), 7200e-9);
    }

    #[test]
    fn break_even_by_hand() {
        // In turn a byte saves 0.05 ns on the wire and costs 0.025 + 0.0125: 6 µs are won back after 480 KB.
        close(model().break_even(SLOW, Overlap::Without).unwrap(), 480e3);
        // Overlapped it can only pay earlier, and also on a link where it never does in turn.
        assert!(model().break_even(SLOW, Overlap::With).unwrap() < 480e3);
        let fast = Wire { bytes_per_s: 2e10, ..SLOW };
        assert_eq!(model().break_even(fast, Overlap::Without), None);
        assert!(model().break_even(fast, Overlap::With).is_some());
        // Faster than its encoder it never pays.
        assert_eq!(model().break_even(Wire { bytes_per_s: 4.1e10, ..SLOW }, Overlap::With), None);
    }

    #[test]
    fn break_even_is_the_last_size_at_which_it_begins_to_pay() {
        let wire = Wire { bytes_per_s: 1e9, latency_s: 0.0 };
        // 500 ns are saved at 1000 bytes for 400, but at 2000 1000 for 1200. From there on a byte saves 0.5 ns for 0.2.
        assert!(by_size().speed_up(wire, 1000.0, Overlap::Without) > 1.0);
        assert!(by_size().speed_up(wire, 2000.0, Overlap::Without) < 1.0);
        close(by_size().break_even(wire, Overlap::Without).unwrap(), 2000.0 + 200.0 / 0.3);
    }

    #[test]
    fn what_does_not_shrink_never_pays() {
        for overlap in Overlap::BOTH {
            assert_eq!(with_ratio(1.0).break_even(SLOW, overlap), None);
        }
    }

    #[test]
    fn what_pays_pays_for_longer_messages_too_and_never_more_than_the_ratio() {
        for link in LINKS {
            for overlap in Overlap::BOTH {
                let gain = |log: i32| model().speed_up(model().wire(link), f64::from(log).exp2(), overlap);
                let gains: Vec<f64> = (10..36).map(gain).collect();
                assert!(gains.is_sorted_by_key(|&gain| gain > 1.0), "{link:?} {gains:?}");
                assert!(gains.iter().all(|&gain| gain < 2.0), "{link:?} {gains:?}");
            }
        }
    }
}
