//! What is known of the data of a stream, and of how codecs do on it.

use mgcomp_codecs::Algorithm;

use super::bands::{BANDS, band, nearest_to, of_another_band};
use super::stream::Paces;
use crate::speeds::CodecTimes;

/// Weight of what is new against what is known, where transfers are as long as each other.
const WEIGHT: f64 = 0.25;
/// What is left of the weight of what is known once something else is seen.
const DOUBTED: f64 = 0.1;
/// What is shorter than this part of what is known makes that doubtful only if it comes again and again.
const EXCEPTION: f64 = 1.0 / 64.0;
/// What moves by less is not worth working out choices again.
const NEAR: f64 = 0.02;
/// What moves by more makes choices wrong.
const FAR: f64 = 0.1;
/// The part of its slowness that a codec is taken to have lost where it was not timed for long.
const RECOVERED: f64 = 0.125;
/// A single time may be that of an interrupt.
const MOST_AT_ONCE: f64 = 2.0;
/// How far codecs on this data may be from what was measured.
const MOST_IN_ALL: f64 = 16.0;
/// A codec that was timed so often in a band is timed there on every fourth transfer only.
const WELL_TIMED: u32 = 16;
/// By algorithm: the fraction that is left of the data, and how much slower than measured the codec is.
#[derive(Clone, Debug)]
pub(super) struct Knowledge {
    live: [Entry; 16],
    /// What choices rest on: `live` as it was when they were last worked out, or near it.
    settled: [Entry; 16],
    /// How many times were learned, and how many had been when codecs were last taken to recover.
    times: u32,
    recovered: u32,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    data: Option<Data>,
    paces: [Pace; BANDS],
}

#[derive(Clone, Copy, Debug)]
struct Data {
    fraction: f64,
    /// Bytes that it was seen on, old ones counted less and less.
    evidence_bytes: f64,
}

/// Times as parts of what was measured before all.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Pace {
    encode: f64,
    decode: f64,
    /// Transfers of this band that it comes from.
    timed: u32,
    /// Transfers of this band that the codec was used on, timed or not.
    passed: u32,
    /// Those whose decoder was heard of.
    heard: u32,
    /// When the last one was, by [`Knowledge::times`].
    last: u32,
}

/// How far what is known has moved from what choices rest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Moved {
    No,
    /// Choices should be worked out again some time.
    Little,
    /// Choices may be wrong.
    Far,
}

impl Entry {
    const UNKNOWN: Self = Self { data: None, paces: [Pace::UNKNOWN; BANDS] };
}

impl Pace {
    const UNKNOWN: Self = Self { encode: 1.0, decode: 1.0, timed: 0, passed: 0, heard: 0, last: 0 };
}

impl Default for Knowledge {
    fn default() -> Self {
        Self { live: [Entry::UNKNOWN; 16], settled: [Entry::UNKNOWN; 16], times: 0, recovered: 0 }
    }
}

impl Knowledge {
    /// Nothing of the data, but how fast codecs have been for others.
    pub(super) fn starting_from(others: &Self) -> Self {
        let live = others.live.map(|entry| Entry {
            data: None,
            paces: entry.paces.map(|pace| Pace { timed: 0, heard: 0, ..pace }),
        });
        Self { settled: live, live, times: others.times, recovered: others.recovered }
    }

    /// The same data, sent to somebody else: known until it turns out otherwise, which one transfer is enough for. How fast
    /// that one decodes is another matter, for which it is one of `others`.
    pub(super) fn for_another_peer(&self, others: &Self) -> Self {
        let mut live = self.live;
        for (entry, other) in live.iter_mut().zip(&others.live) {
            if let Some(data) = &mut entry.data {
                data.evidence_bytes = data.evidence_bytes.min(1.0);
            }
            for (pace, other) in entry.paces.iter_mut().zip(&other.paces) {
                (pace.decode, pace.heard) = (other.decode, 0);
            }
        }
        Self { settled: live, live, times: self.times, recovered: self.recovered }
    }

    /// Coded bytes per raw byte, without framing, if known.
    pub(super) fn fraction(&self, algorithm: Algorithm) -> Option<f64> {
        self.settled[usize::from(algorithm.number())].data.map(|data| data.fraction)
    }

    /// The same, though choices may not rest on it yet.
    pub(super) fn latest_fraction(&self, algorithm: Algorithm) -> Option<f64> {
        self.live[usize::from(algorithm.number())].data.map(|data| data.fraction)
    }

    /// Times as they are on this data.
    pub(super) fn corrected(&self, algorithm: Algorithm, raw_bytes: u64, times: CodecTimes) -> CodecTimes {
        let Pace { encode, decode, .. } =
            self.settled[usize::from(algorithm.number())].paces[band(raw_bytes)];
        CodecTimes { encode_ns: times.encode_ns * encode, decode_ns: times.decode_ns * decode }
    }

    /// How many transfers of about this length have shown what the codec takes.
    pub(super) fn timed(&self, algorithm: Algorithm, raw_bytes: u64) -> u32 {
        self.live[usize::from(algorithm.number())].paces[band(raw_bytes)].timed
    }

    /// Takes account of a transfer of about this length; returns whether it is to show what the codec takes. Of those that have done so
    /// often, each fourth does: counted for each band, or lengths that take turns would leave some of them out for ever.
    pub(super) fn is_to_show_times(&mut self, algorithm: Algorithm, raw_bytes: u64) -> bool {
        let pace = &mut self.live[usize::from(algorithm.number())].paces[band(raw_bytes)];
        pace.passed = pace.passed.wrapping_add(1);
        pace.timed < WELL_TIMED || pace.passed.is_multiple_of(4)
    }

    /// How many times of others were learned since the last of this codec on transfers of about this length.
    pub(super) fn since_timed(&self, algorithm: Algorithm, raw_bytes: u64) -> u32 {
        self.times.wrapping_sub(self.live[usize::from(algorithm.number())].paces[band(raw_bytes)].last)
    }

    /// Whether transfers of any length and data have.
    pub(super) fn is_timed(&self, algorithm: Algorithm) -> bool {
        self.live[usize::from(algorithm.number())].paces.iter().any(|pace| pace.last > 0)
    }

    /// Learns the fraction that was seen on so many bytes. One that is further from the known than `drift` makes that
    /// doubtful, if it was not seen on very few.
    pub(super) fn learn_fraction(&mut self, algorithm: Algorithm, fraction: f64, raw_bytes: f64, drift: f64) {
        let known = &mut self.live[usize::from(algorithm.number())].data;
        *known = Some(match *known {
            Some(Data { fraction: before, evidence_bytes }) => {
                // What is short beside all that is known may be an exception.
                let says_much = raw_bytes >= EXCEPTION * evidence_bytes;
                let kept =
                    if differ(before, fraction) <= drift || !says_much { 1.0 - WEIGHT } else { DOUBTED };
                let evidence_bytes = evidence_bytes * kept + raw_bytes;
                Data { fraction: before + (fraction - before) * raw_bytes / evidence_bytes, evidence_bytes }
            }
            None => Data { fraction, evidence_bytes: raw_bytes },
        });
    }

    /// Learns how the times of a transfer compare with those that were measured before all: observed over measured. Where nobody has
    /// seen what encoding took, as where it kept up with the link, only a trial counts, so that it is no first one again.
    pub(super) fn learn_times(&mut self, algorithm: Algorithm, raw_bytes: u64, seen: Paces, is_trial: bool) {
        let (paces, own) = (&mut self.live[usize::from(algorithm.number())].paces, band(raw_bytes));
        let pace = &mut paces[own];
        let encode = seen.encode.filter(|pace| pace.is_finite());
        if let Some(encode) = encode {
            // There are few trials, and what was before them may be long past.
            move_to(&mut pace.encode, encode, if is_trial { pace.timed.min(1) } else { pace.timed });
        }
        if encode.is_some() || is_trial {
            self.times = self.times.wrapping_add(1);
            (pace.timed, pace.last) = (pace.timed.saturating_add(1), self.times);
        }
        if encode.is_some() {
            // Rather what holds for lengths near by than what was measured on other data.
            let Pace { encode, last, .. } = *pace;
            for at in nearest_to(own, |at| paces[at].timed > 0).filter(|&at| at != own) {
                let encode = of_another_band(encode, at.abs_diff(own));
                (paces[at].encode, paces[at].last) = (encode, last);
            }
        }
        if let Some(decode) = seen.decode {
            self.learn_decoding(algorithm, raw_bytes, decode);
        }
    }

    /// Learns the same of a decoder alone.
    pub(super) fn learn_decoding(&mut self, algorithm: Algorithm, raw_bytes: u64, seen: f64) {
        if !seen.is_finite() {
            return; // where the times that are known are zero
        }
        let (paces, own) = (&mut self.live[usize::from(algorithm.number())].paces, band(raw_bytes));
        let pace = &mut paces[own];
        move_to(&mut pace.decode, seen, pace.heard);
        pace.heard = pace.heard.saturating_add(1);
        let decode = pace.decode;
        for at in nearest_to(own, |at| paces[at].heard > 0).filter(|&at| at != own) {
            paces[at].decode = of_another_band(decode, at.abs_diff(own));
        }
    }

    /// The data is other data: what it became is where to start from, no more.
    pub(super) fn doubt_fractions(&mut self) {
        for data in self.live.iter_mut().filter_map(|entry| entry.data.as_mut()) {
            data.evidence_bytes *= DOUBTED;
        }
    }

    /// What all algorithms are known to become, by number.
    pub(super) fn fractions(&self) -> [Option<f64>; 16] {
        self.live.map(|entry| entry.data.map(|data| data.fraction))
    }

    /// Takes an algorithm that something is known of to become `fraction`, on no more evidence than before.
    pub(super) fn set_fraction(&mut self, algorithm: Algorithm, fraction: f64) {
        if let Some(data) = &mut self.live[usize::from(algorithm.number())].data {
            data.fraction = fraction;
        }
    }

    /// The data is no longer what codecs were timed on: what they took is where to start from, no more.
    pub(super) fn doubt_times(&mut self) {
        for pace in self.live.iter_mut().flat_map(|entry| &mut entry.paces) {
            (pace.timed, pace.heard) = (0, 0);
        }
    }

    /// Codecs that were not timed since this was last called are taken to come nearer to what was measured before all, if they
    /// were slower: who is given up for being slow is never timed again, whatever the machine does now.
    pub(super) fn recover(&mut self) {
        let (times, since) = (self.times, self.times.wrapping_sub(self.recovered));
        let paces = self.live.iter_mut().flat_map(|entry| &mut entry.paces);
        for pace in paces.filter(|pace| times.wrapping_sub(pace.last) >= since) {
            for known in [&mut pace.encode, &mut pace.decode] {
                *known -= RECOVERED * (*known - 1.0).max(0.0);
            }
        }
        self.recovered = times;
    }

    /// How far an algorithm has moved; if it has, what was learned counts from now on.
    pub(super) fn settle(&mut self, algorithm: Algorithm) -> Moved {
        let at = usize::from(algorithm.number());
        let (live, settled) = (&self.live[at], &self.settled[at]);
        // Asked after each transfer, and mostly answered by the first comparison of each: nothing is divided.
        let by_more = |part: f64| {
            let data = match (live.data, settled.data) {
                (Some(a), Some(b)) => is_further(a.fraction, b.fraction, part),
                (None, None) => false,
                _ => true,
            };
            let paces = live.paces.iter().zip(&settled.paces);
            data | paces.fold(false, |any, (a, b)| {
                any | is_further(a.encode, b.encode, part) | is_further(a.decode, b.decode, part)
            })
        };
        if !by_more(NEAR) {
            return Moved::No;
        }
        let far = by_more(FAR);
        self.settled[at] = self.live[at];
        if far { Moved::Far } else { Moved::Little }
    }
}

/// Moves what is known of a pace towards one that was seen, after so many of which the first count more.
fn move_to(known: &mut f64, seen: f64, times: u32) {
    let weight = WEIGHT.max(1.0 / (f64::from(times) + 1.5));
    let seen = seen.clamp(*known / MOST_AT_ONCE, *known * MOST_AT_ONCE);
    *known = (*known + (seen - *known) * weight).clamp(1.0 / MOST_IN_ALL, MOST_IN_ALL);
}

/// How far apart two sizes or times are, as a part of the smaller.
pub(super) fn differ(a: f64, b: f64) -> f64 {
    let smaller = a.min(b);
    if a == b { 0.0 } else { (a - b).abs() / smaller }
}

/// Whether they are further apart than that.
fn is_further(a: f64, b: f64, part: f64) -> bool {
    (a - b).abs() > part * a.min(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    #[test]
    fn what_is_no_number_says_nothing_of_a_decoder() {
        let mut knowledge = Knowledge::default();
        for pace in [f64::NAN, f64::INFINITY, f64::NAN] {
            knowledge.learn_decoding(Algorithm::Xp, KIB, pace);
        }
        knowledge.settle(Algorithm::Xp);
        let times = CodecTimes { encode_ns: 1.0, decode_ns: 2.0 };
        assert_eq!(knowledge.corrected(Algorithm::Xp, KIB, times), times);
    }

    #[test]
    fn near_fractions_move_the_known_and_far_ones_replace_it() {
        let mut knowledge = Knowledge::default();
        assert_eq!(knowledge.fraction(Algorithm::Xp), None);
        let mut learn = |fraction, raw_bytes| {
            knowledge.learn_fraction(Algorithm::Xp, fraction, raw_bytes, 0.1);
            knowledge.settle(Algorithm::Xp);
            knowledge.fraction(Algorithm::Xp).unwrap()
        };
        assert_eq!(learn(0.5, 1000.0), 0.5);
        // 0.75 of what was there before, and as much as that was: 4/7 of the way.
        assert!((learn(0.535, 1000.0) - 0.52).abs() < 1e-9);
        assert!(learn(0.9, 1000.0) > 0.82);
        // What is short says little of what is long.
        assert!(learn(0.1, 1.0) > 0.8);
        assert!(learn(0.1, 1e6) < 0.11);
        assert_eq!(knowledge.fraction(Algorithm::Zvc), None);
    }

    #[test]
    fn what_is_short_beside_what_is_known_does_not_make_it_doubtful() {
        let mut knowledge = Knowledge::default();
        let mut learn = |fraction, raw_bytes| {
            knowledge.learn_fraction(Algorithm::Xp, fraction, raw_bytes, 0.1);
            knowledge.latest_fraction(Algorithm::Xp).unwrap()
        };
        learn(0.5, 64e6);
        (0..3).for_each(|_| assert!(learn(0.9, 600.0) < 0.5001));
        // 27 MB of evidence are left, of which the next one leaves three quarters. A tenth each time would be 64 KB.
        assert!(learn(0.54, 64e3) < 0.5003);
        // What is a 64th of that or more does: 20.3 MB, of which a tenth is left.
        assert!(learn(0.9, 64e4) > 0.59);
    }

    #[test]
    fn what_is_known_of_other_data_weighs_little() {
        let mut knowledge = Knowledge::default();
        for _ in 0..100 {
            knowledge.learn_fraction(Algorithm::Ibp, 1.0, 1000.0, 0.3);
        }
        let learn = |knowledge: &mut Knowledge| {
            knowledge.learn_fraction(Algorithm::Ibp, 0.8, 1000.0, 0.3);
            knowledge.latest_fraction(Algorithm::Ibp).unwrap()
        };
        // Near enough to what is known, it is one of four.
        assert!((learn(&mut knowledge.clone()) - 0.95).abs() < 1e-6);
        knowledge.doubt_fractions();
        // 4,000 bytes of evidence, a tenth of them left, and three quarters of these.
        assert!((learn(&mut knowledge) - (1.0 - 0.2 * 1000.0 / 1300.0)).abs() < 1e-6);
    }

    #[test]
    fn small_moves_do_not_count_until_they_add_up() {
        let mut knowledge = Knowledge::default();
        let mut learn = |fraction| {
            knowledge.learn_fraction(Algorithm::Xp, fraction, 1000.0, 0.1);
            knowledge.settle(Algorithm::Xp)
        };
        assert_eq!(learn(0.5), Moved::Far);
        assert_eq!(learn(0.5), Moved::No);
        assert_eq!(learn(0.51), Moved::No);
        assert_eq!(learn(0.53), Moved::Little);
        assert_eq!(learn(0.8), Moved::Far);
    }

    #[test]
    fn one_slow_call_does_not_condemn_a_codec() {
        let mut knowledge = Knowledge::default();
        knowledge.learn_times(Algorithm::Zvc, KIB, Paces { encode: Some(1000.0), decode: None }, false);
        assert_eq!(knowledge.settle(Algorithm::Zvc), Moved::Far);
        let measured = CodecTimes { encode_ns: 90.0, decode_ns: 90.0 };
        // Taken for twice as slow, and two thirds of the way there.
        let corrected = knowledge.corrected(Algorithm::Zvc, KIB, measured);
        assert!((corrected.encode_ns - 150.0).abs() < 1e-9 && corrected.decode_ns == 90.0, "{corrected:?}");
        for _ in 0..100 {
            knowledge.learn_times(
                Algorithm::Zvc,
                KIB,
                Paces { encode: Some(1000.0), decode: Some(f64::NAN) },
                false,
            );
        }
        knowledge.settle(Algorithm::Zvc);
        assert_eq!(knowledge.corrected(Algorithm::Zvc, KIB, measured).encode_ns, 1440.0);
    }

    #[test]
    fn what_was_slow_and_is_not_timed_recovers() {
        let mut knowledge = Knowledge::default();
        // Two thirds of the way.
        knowledge.learn_times(Algorithm::Zvc, KIB, Paces { encode: Some(1.6), decode: Some(0.7) }, false);
        let near = |times: CodecTimes, encode_ns: f64| {
            assert!((times.encode_ns - encode_ns).abs() < 1e-9, "{times:?}");
            assert!((times.decode_ns - 0.8).abs() < 1e-9, "what is quicker stays so: {times:?}");
        };
        let mut recovered = || {
            knowledge.recover();
            knowledge.settle(Algorithm::Zvc);
            knowledge.corrected(Algorithm::Zvc, KIB, CodecTimes { encode_ns: 1.0, decode_ns: 1.0 })
        };
        near(recovered(), 1.4); // it was timed since the last time
        near(recovered(), 1.35);
        near(recovered(), 1.30625);
    }

    #[test]
    fn outcomes_without_times_teach_none() {
        let mut knowledge = Knowledge::default();
        let nothing = Paces { encode: None, decode: None };
        // Two thirds of the way to twice as slow, and 40 % of the rest of it.
        let slow = Paces { encode: Some(4.0), decode: None };
        (0..2).for_each(|_| knowledge.learn_times(Algorithm::Zvc, KIB, slow, false));
        let encode = |knowledge: &Knowledge| knowledge.live[usize::from(Algorithm::Zvc.number())].paces;
        let learned = encode(&knowledge)[band(KIB)].encode;
        assert!((learned - (5.0 / 3.0 + 0.4 * 5.0 / 3.0)).abs() < 1e-9, "{learned}");
        knowledge.recover();
        for _ in 0..3 {
            (0..100).for_each(|_| knowledge.learn_times(Algorithm::Zvc, KIB, nothing, false));
            knowledge.recover();
        }
        let left = encode(&knowledge)[band(KIB)];
        assert!((left.encode - 1.0 - (learned - 1.0) * 0.875f64.powi(3)).abs() < 1e-9, "{left:?}");
        assert_eq!((left.timed, knowledge.timed(Algorithm::Zvc, 64 << 20)), (2, 0));
        // Other lengths are known from elsewhere by then.
        knowledge.learn_times(Algorithm::Zvc, 64 << 20, Paces { encode: Some(0.9), decode: None }, false);
        knowledge.doubt_times();
        let before = encode(&knowledge).map(|pace| pace.encode);
        knowledge.learn_times(Algorithm::Zvc, KIB, nothing, true);
        assert_eq!(encode(&knowledge).map(|pace| pace.encode), before);
        assert_eq!(knowledge.timed(Algorithm::Zvc, KIB), 1, "that it was tried counts");
    }

    #[test]
    fn other_lengths_go_by_the_nearest_that_was_timed_until_they_are() {
        let mut knowledge = Knowledge::default();
        let encode_ns = |knowledge: &mut Knowledge, raw_bytes| {
            knowledge.settle(Algorithm::Zvc);
            let measured = CodecTimes { encode_ns: 1.0, decode_ns: 1.0 };
            knowledge.corrected(Algorithm::Zvc, raw_bytes, measured).encode_ns
        };
        knowledge.learn_times(Algorithm::Zvc, KIB, Paces { encode: Some(1.6), decode: None }, false);
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a}, not {b}");
        near(encode_ns(&mut knowledge, KIB), 1.4);
        // 85 % of the 0.4 in the next band, 85 % of that in the one behind; four bands on 52.200625 %.
        near(encode_ns(&mut knowledge, 512 * KIB), 1.34);
        near(encode_ns(&mut knowledge, 2 << 20), 1.289);
        near(encode_ns(&mut knowledge, 64 << 20), 1.2088025);
        assert_eq!((knowledge.timed(Algorithm::Zvc, KIB), knowledge.timed(Algorithm::Zvc, 64 << 20)), (1, 0));
        // Two thirds of the way there.
        knowledge.learn_times(Algorithm::Zvc, 64 << 20, Paces { encode: Some(0.9), decode: None }, false);
        let long = 1.2088025 - 2.0 / 3.0 * 0.3088025;
        near(encode_ns(&mut knowledge, 64 << 20), long);
        near(encode_ns(&mut knowledge, 8 << 20), 1.0 + 0.85 * (long - 1.0));
        // As near to both: the shorter.
        near(encode_ns(&mut knowledge, 2 << 20), 1.289);
        near(encode_ns(&mut knowledge, KIB), 1.4);
    }

    #[test]
    fn new_streams_inherit_speeds_but_no_sizes() {
        let mut others = Knowledge::default();
        others.learn_fraction(Algorithm::Xp, 0.5, 1000.0, 0.1);
        others.learn_times(Algorithm::Xp, KIB, Paces { encode: Some(1.6), decode: None }, false);
        let new = Knowledge::starting_from(&others);
        assert_eq!(new.fraction(Algorithm::Xp), None);
        assert_eq!(new.timed(Algorithm::Xp, KIB), 0);
        let measured = CodecTimes { encode_ns: 100.0, decode_ns: 100.0 };
        assert!((new.corrected(Algorithm::Xp, KIB, measured).encode_ns - 140.0).abs() < 1e-9);
    }
}
