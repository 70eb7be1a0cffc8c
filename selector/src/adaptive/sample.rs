//! Which sample a stream can afford.

use mgcomp_codecs::{Algorithm, AlgorithmSet, Element};

use crate::speeds::{EstimateTimes, Speeds};

/// Bytes of a piece of the data that is looked at, as estimators take it: the fewest that say anything.
const PIECE_BYTES: u64 = 4 << 10;
/// More bytes say little more.
const MOST_SAMPLE_BYTES: u64 = 64 << 10;
/// As many tell one known kind from another.
const GLANCE_BYTES: u64 = 16 << 10;
/// What takes so many times as long as all quick ones together is slow.
const SLOW: f64 = 2.5;
/// What takes so many times as long as these is dear.
const DEAR: f64 = 8.0;

/// What the estimators of one element take.
#[derive(Clone, Debug)]
pub(super) struct Looks {
    /// The quickest first.
    by_time: Box<[(Algorithm, EstimateTimes)]>,
    /// What is looked at where that can be afforded, but not waited for: fitting a codebook. Where the account for all cannot pay for it,
    /// that for what is dear does, or a stream that owes much would not see it for long; but not where something dear is wanted, which
    /// would never come to its turn.
    slow: AlgorithmSet,
    /// What is paid from that account alone: DEFLATE, which has to encode all that it looks at.
    dear: AlgorithmSet,
}

/// What there is to choose a sample from.
pub(super) struct Wanted {
    pub(super) algorithms: AlgorithmSet,
    pub(super) raw_bytes: u64,
    /// How much longer estimators take than was measured.
    pub(super) factor: f64,
}

/// What is to be tried.
#[derive(Debug, PartialEq)]
pub(super) struct Sample {
    pub(super) algorithms: AlgorithmSet,
    /// How many of the transfer's bytes are looked at.
    pub(super) bytes: u64,
    /// What that is expected to take, in nanoseconds.
    pub(super) ns: f64,
    /// The part of it that the account for what is dear pays.
    pub(super) dear_ns: f64,
}

impl Looks {
    pub(super) fn of(speeds: &Speeds, element: Element) -> Self {
        let timed = |algorithm| Some((algorithm, speeds.estimate(algorithm, element)?));
        let mut by_time: Vec<_> = Algorithm::ALL.into_iter().filter_map(timed).collect();
        by_time.sort_by(|(_, a), (_, b)| a.ns(PIECE_BYTES).total_cmp(&b.ns(PIECE_BYTES)));
        let (mut slow, mut dear, mut quick_ns) = (0, 0, 0.0);
        for (algorithm, times) in &by_time {
            let ns = times.ns(PIECE_BYTES);
            if quick_ns == 0.0 || ns <= SLOW * quick_ns {
                quick_ns += ns;
            } else if ns <= DEAR * quick_ns {
                slow |= 1 << algorithm.number();
            } else {
                dear |= 1 << algorithm.number();
            }
        }
        let [slow, dear] = [slow, dear].map(AlgorithmSet::from_bits);
        Self { by_time: by_time.into(), slow, dear }
    }

    /// Those whose estimators are not dear.
    pub(super) fn cheap(&self, algorithms: AlgorithmSet) -> AlgorithmSet {
        AlgorithmSet::from_bits(algorithms.bits() & !self.dear.bits())
    }

    /// Those whose estimators are quick.
    pub(super) fn quick(&self, algorithms: AlgorithmSet) -> AlgorithmSet {
        AlgorithmSet::from_bits(self.cheap(algorithms).bits() & !self.slow.bits())
    }

    /// What a glance looks with, at how many bytes, and what that takes, in nanoseconds: of each of the sets `telling` what is quickest,
    /// or where there is none, one of those that are wanted, each in its turn. As much of that as could ever be paid.
    pub(super) fn glance(
        &self,
        wanted: &Wanted,
        telling: impl Iterator<Item = AlgorithmSet>,
        turn: usize,
        most_ns: f64,
    ) -> (AlgorithmSet, u64, f64) {
        let bytes = wanted.bytes_within(GLANCE_BYTES);
        let ns = |times: EstimateTimes| times.ns(bytes) * wanted.factor;
        let payable = || self.among(self.quick(wanted.algorithms)).filter(|(_, times)| ns(*times) <= most_ns);
        let quickest = |set: AlgorithmSet| payable().find(|(algorithm, _)| set.contains(*algorithm));
        let (mut set, mut spent_ns) = (0, 0.0);
        for (algorithm, times) in telling.filter_map(quickest) {
            let is_new = set & 1 << algorithm.number() == 0;
            if is_new && spent_ns + ns(times) <= most_ns {
                (set, spent_ns) = (set | 1 << algorithm.number(), spent_ns + ns(times));
            }
        }
        if set == 0
            && let Some((algorithm, times)) = payable().nth(turn % payable().count().max(1))
        {
            (set, spent_ns) = (1 << algorithm.number(), ns(times));
        }
        (AlgorithmSet::from_bits(set), bytes, spent_ns)
    }

    /// `algorithms`, but not `one` if that is dear.
    pub(super) fn without_dear(&self, algorithms: AlgorithmSet, one: Algorithm) -> AlgorithmSet {
        AlgorithmSet::from_bits(algorithms.bits() & !(self.dear.bits() & 1 << one.number()))
    }

    /// What the smallest sample takes of all that are quick, in nanoseconds; if none is, of all that are not dear.
    pub(super) fn whole_ns(&self, wanted: &Wanted) -> f64 {
        let bytes = wanted.least_bytes();
        let (cheap, quick) = (self.cheap(wanted.algorithms), self.quick(wanted.algorithms));
        let waited_for = if quick.bits() == 0 { cheap } else { quick };
        self.among(waited_for).map(|(_, times)| times.ns(bytes) * wanted.factor).sum()
    }

    /// The sample that can be paid, if any: the quickest first, and as many bytes as there are nanoseconds for; of what is
    /// slow or dear and not among these, what the account for what is dear can pay.
    pub(super) fn sample(&self, wanted: &Wanted, cheap_ns: f64, dear_ns: f64) -> Option<Sample> {
        let (cheap, times) = self.cheap_within(wanted, cheap_ns);
        let bytes = match cheap.bits() {
            0 => wanted.least_bytes(),
            _ => wanted.bytes_within(((cheap_ns - times.call_ns) / times.ns_per_byte) as u64),
        };
        let (mut set, mut spent_ns) = (cheap.bits(), 0.0);
        for (algorithm, more) in self.among(self.paid_apart(wanted.algorithms)) {
            let ns = more.ns(bytes) * wanted.factor;
            if !cheap.contains(algorithm) && spent_ns + ns <= dear_ns {
                (set, spent_ns) = (set | 1 << algorithm.number(), spent_ns + ns);
            }
        }
        let ns = times.ns(bytes) + spent_ns;
        (set != 0).then_some(Sample {
            algorithms: AlgorithmSet::from_bits(set),
            bytes,
            ns,
            dear_ns: spent_ns,
        })
    }

    /// Those that the account for what is dear may pay for.
    fn paid_apart(&self, algorithms: AlgorithmSet) -> AlgorithmSet {
        let [dear, slow] = [self.dear, self.slow].map(|some| algorithms.bits() & some.bits());
        AlgorithmSet::from_bits(if dear == 0 { slow } else { dear })
    }

    /// The quickest for which there is enough time, and what they take together.
    fn cheap_within(&self, wanted: &Wanted, affordable_ns: f64) -> (AlgorithmSet, EstimateTimes) {
        let (mut set, mut times) = (0, EstimateTimes::default());
        for (algorithm, more) in self.among(self.cheap(wanted.algorithms)) {
            let sum = EstimateTimes {
                call_ns: times.call_ns + more.call_ns * wanted.factor,
                ns_per_byte: times.ns_per_byte + more.ns_per_byte * wanted.factor,
            };
            if sum.ns(wanted.least_bytes()) <= affordable_ns {
                (set, times) = (set | 1 << algorithm.number(), sum);
            }
        }
        (AlgorithmSet::from_bits(set), times)
    }

    fn among(&self, algorithms: AlgorithmSet) -> impl Iterator<Item = (Algorithm, EstimateTimes)> {
        self.by_time.iter().copied().filter(move |(algorithm, _)| algorithms.contains(*algorithm))
    }
}

impl Wanted {
    fn least_bytes(&self) -> u64 {
        self.bytes_within(PIECE_BYTES)
    }

    /// What is looked at where so many bytes can be afforded: all of the data, or whole pieces of half of it at most; one
    /// piece at least, and if there are not two, all of them.
    fn bytes_within(&self, affordable: u64) -> u64 {
        let affordable = affordable.clamp(PIECE_BYTES, MOST_SAMPLE_BYTES);
        let pieces = (affordable / PIECE_BYTES).min(self.raw_bytes / (2 * PIECE_BYTES));
        if self.raw_bytes <= affordable || pieces == 0 { self.raw_bytes } else { pieces * PIECE_BYTES }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::speeds::{CodecSpeed, Point, Series};

    /// ZVC takes 100 ns and 1 ns a byte, XP 500 and 2, and IBP 100,000 and 1.
    fn looks() -> Looks {
        looks_with(1e5)
    }

    /// The same, but for what IBP takes beside its 1 ns a byte.
    fn looks_with(ibp_ns: f64) -> Looks {
        looks_of([(Algorithm::Xp, 500.0, 2.0), (Algorithm::Ibp, ibp_ns, 1.0), (Algorithm::Zvc, 100.0, 1.0)])
    }

    /// Nanoseconds of a look, and more for each byte.
    fn looks_of(times: [(Algorithm, f64, f64); 3]) -> Looks {
        let speed = |(algorithm, call_ns, ns_per_byte): (Algorithm, f64, f64)| CodecSpeed {
            algorithm: algorithm.name().into(),
            element: "f32".into(),
            estimate_call_ns: call_ns,
            estimate_ns_per_byte: ns_per_byte,
            series: vec![Series {
                fraction: 1.0,
                points: vec![Point { raw_bytes: 1, encode_ns: 1.0, decode_ns: 1.0 }],
            }],
        };
        Looks::of(&Speeds::try_new(times.map(speed).into()).unwrap(), Element::F32)
    }

    fn wanted(raw_bytes: u64) -> Wanted {
        Wanted { algorithms: AlgorithmSet::supported(), raw_bytes, factor: 1.0 }
    }

    fn set(algorithms: &[Algorithm]) -> AlgorithmSet {
        algorithms.iter().copied().collect()
    }

    #[test]
    fn a_glance_is_what_tells_most_quickly_as_far_as_that_can_ever_be_paid() {
        use Algorithm::{Ibp, Xp, Zvc};
        let looks = looks();
        let glance = |telling: &[&[Algorithm]], turn, most_ns| {
            let (algorithms, bytes, ns) =
                looks.glance(&wanted(1 << 20), telling.iter().map(|one| set(one)), turn, most_ns);
            assert_eq!(bytes, 16384);
            (algorithms, ns)
        };
        let (zvc, xp) = (100.0 + 16384.0, 500.0 + 2.0 * 16384.0);
        assert_eq!(glance(&[&[Xp, Zvc], &[Xp]], 0, 1e6), (set(&[Zvc, Xp]), zvc + xp));
        assert_eq!(glance(&[&[Xp, Zvc], &[Xp]], 0, 40e3), (set(&[Zvc]), zvc));
        assert_eq!(glance(&[&[Xp, Zvc], &[Zvc]], 0, 1e6), (set(&[Zvc]), zvc));
        // Where nothing tells that could be paid, each has its turn; what is dear has none.
        assert_eq!(
            [0, 1, 2].map(|turn| glance(&[&[Ibp]], turn, 1e6).0),
            [[Zvc], [Xp], [Zvc]].map(|one| set(&one))
        );
        assert_eq!([0, 1].map(|turn| glance(&[&[Xp]], turn, 20e3)), [(set(&[Zvc]), zvc); 2]);
        assert_eq!(glance(&[], 0, 10e3), (set(&[]), 0.0));
    }

    #[test]
    fn what_takes_far_longer_than_all_others_is_dear() {
        let looks = looks();
        let all = set(&[Algorithm::Zvc, Algorithm::Xp, Algorithm::Ibp]);
        assert_eq!(looks.cheap(all), set(&[Algorithm::Zvc, Algorithm::Xp]));
        assert_eq!(looks.without_dear(all, Algorithm::Ibp), set(&[Algorithm::Zvc, Algorithm::Xp]));
        assert_eq!(looks.without_dear(all, Algorithm::Xp), all);
        // 600 ns and three for each of 4,096 bytes, or of 1,000.
        assert_eq!(looks.whole_ns(&wanted(1 << 20)), 12_888.0);
        assert_eq!(looks.whole_ns(&wanted(1000)), 3600.0);
    }

    #[test]
    fn what_is_slow_is_not_waited_for_but_paid_with_all_others_or_by_the_account_for_what_is_dear() {
        let all = set(&[Algorithm::Zvc, Algorithm::Xp, Algorithm::Ibp]);
        // Of 4,096 bytes ZVC takes 4,196 ns, XP 8,692: IBP is slow beyond two and a half times both,
        // that is 32,220 ns, up to eight times.
        assert_eq!(looks_with(28_124.0).whole_ns(&wanted(1 << 20)), 12_888.0 + 32_220.0);
        for ibp_ns in [28_125.0, 99_008.0] {
            let looks = looks_with(ibp_ns);
            assert_eq!((looks.cheap(all), looks.whole_ns(&wanted(1 << 20))), (all, 12_888.0));
            let sample =
                |cheap_ns| looks.sample(&wanted(1 << 20), cheap_ns, 0.0).map(|sample| sample.algorithms);
            assert_eq!(sample(12_888.0), Some(set(&[Algorithm::Zvc, Algorithm::Xp])));
            assert_eq!(sample(12_888.0 + 4096.0 + ibp_ns), Some(all));
            // Who owes too much for that has another account.
            let other = |dear_ns| looks.sample(&wanted(1 << 20), 12_888.0, dear_ns);
            assert_eq!(other(4095.0 + ibp_ns).map(|sample| sample.dear_ns), Some(0.0));
            let paid = other(4096.0 + ibp_ns).map(|sample| (sample.algorithms, sample.dear_ns));
            assert_eq!(paid, Some((all, 4096.0 + ibp_ns)));
            // By itself it is.
            let wanted = Wanted { algorithms: set(&[Algorithm::Ibp]), ..wanted(1 << 20) };
            assert_eq!(looks.whole_ns(&wanted), 4096.0 + ibp_ns);
        }
        let quick = set(&[Algorithm::Zvc, Algorithm::Xp]);
        assert_eq!(looks_with(99_008.0).quick(all), quick);
        assert_eq!(looks_with(99_009.0).cheap(all), quick);
    }

    #[test]
    fn the_quickest_come_first_and_then_more_bytes() {
        let sample = |cheap_ns| looks().sample(&wanted(1 << 20), cheap_ns, 0.0);
        assert_eq!(sample(4195.0), None);
        // 4,096 bytes of the quicker one, and whatever more there is time for.
        let only_zvc =
            |bytes, ns| Some(Sample { algorithms: set(&[Algorithm::Zvc]), bytes, ns, dear_ns: 0.0 });
        assert_eq!(sample(4196.0), only_zvc(4096, 4196.0));
        assert_eq!(sample(10_100.0), only_zvc(8192, 8292.0));
        let both = set(&[Algorithm::Zvc, Algorithm::Xp]);
        assert_eq!(sample(12_888.0).map(|sample| (sample.algorithms, sample.bytes)), Some((both, 4096)));
        assert_eq!(
            sample(1e9).map(|sample| (sample.algorithms, sample.bytes)),
            Some((both, MOST_SAMPLE_BYTES))
        );
        let short = looks().sample(&wanted(1000), 1e9, 0.0);
        assert_eq!(short.map(|sample| (sample.bytes, sample.ns)), Some((1000, 3600.0)));
    }

    #[test]
    fn what_is_paid_for_is_what_estimators_look_at() {
        // All of it, or pieces of 4,096 bytes, each in a part of the data of twice that.
        for (raw_bytes, affordable, looked_at) in [
            (600, 4096, 600),
            (8191, 4096, 8191),
            (8192, 4096, 4096),
            (8192, 8192, 8192),
            (12_000, 8192, 4096),
            (16_384, 12_000, 8192),
            (1 << 20, 12_287, 8192),
            (1 << 20, 4095, 4096),
            (1 << 20, 1 << 20, 65_536),
            (100_000, 1 << 20, 49_152),
        ] {
            assert_eq!(wanted(raw_bytes).bytes_within(affordable), looked_at, "{raw_bytes} of {affordable}");
        }
    }

    #[test]
    fn what_is_dear_is_paid_from_its_own_account() {
        let sample = |cheap_ns, dear_ns| looks().sample(&wanted(1 << 20), cheap_ns, dear_ns);
        assert_eq!(sample(4000.0, 104_095.0), None);
        let only_ibp =
            Sample { algorithms: set(&[Algorithm::Ibp]), bytes: 4096, ns: 104_096.0, dear_ns: 104_096.0 };
        assert_eq!(sample(4000.0, 104_096.0), Some(only_ibp));
        // Where that is wanted, it pays for nothing else.
        let times = [(Algorithm::Zvc, 1e3, 0.0), (Algorithm::Ibp, 5e3, 0.0), (Algorithm::Deflate, 5e4, 0.0)];
        let looks = looks_of(times);
        let of_all = |dear_ns| looks.sample(&wanted(1 << 20), 1000.0, dear_ns).unwrap().algorithms;
        assert_eq!(of_all(49_999.0), set(&[Algorithm::Zvc]));
        assert_eq!(of_all(50_000.0), set(&[Algorithm::Zvc, Algorithm::Deflate]));
        let without = Wanted { algorithms: set(&[Algorithm::Zvc, Algorithm::Ibp]), ..wanted(1 << 20) };
        let slow = looks.sample(&without, 1000.0, 5000.0).unwrap();
        assert_eq!((slow.algorithms, slow.dear_ns), (without.algorithms, 5000.0));
        let two = Sample {
            algorithms: set(&[Algorithm::Zvc, Algorithm::Ibp]),
            bytes: 8192,
            ns: 116_484.0,
            dear_ns: 108_192.0,
        };
        assert_eq!(sample(10_100.0, 110_000.0), Some(two));
    }
}
