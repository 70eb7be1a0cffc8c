//! What is known of the data of a stream, and of how codecs do on it.

use mgcomp_codecs::{Algorithm, AlgorithmSet};

use super::bands::{BANDS, band, nearest_to, of_another_band};
use super::kinds::{Kinds, Turn};
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
pub(super) const RECOVERED: f64 = 0.125;
/// A single time may be that of an interrupt.
const MOST_AT_ONCE: f64 = 2.0;
/// How far codecs on this data may be from what was measured.
const MOST_IN_ALL: f64 = 16.0;
/// A codec that was timed so often in a band is timed there on every fourth transfer only.
const WELL_TIMED: u32 = 16;
/// By algorithm: the fraction that is left of the data, and how much slower than measured the codec is.
#[derive(Clone, Debug)]
pub(super) struct Knowledge {
    kinds: Kinds,
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
    /// What the last transfers became, since others were far from that.
    latest: f64,
    /// Bytes that it was seen on, old ones counted less and less.
    evidence_bytes: f64,
    /// What the next one is taken to become.
    expected: f64,
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
        let (live, settled) = ([Entry::UNKNOWN; 16], [Entry::UNKNOWN; 16]);
        Self { kinds: Kinds::default(), live, settled, times: 0, recovered: 0 }
    }
}

impl Knowledge {
    /// Nothing of the data, but how fast codecs have been for others.
    pub(super) fn starting_from(others: &Self) -> Self {
        let live = others.live.map(|entry| Entry {
            data: None,
            paces: entry.paces.map(|pace| Pace { timed: 0, heard: 0, ..pace }),
        });
        let (times, recovered) = (others.times, others.recovered);
        Self { kinds: Kinds::default(), settled: live, live, times, recovered }
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
        let (kinds, times, recovered) = (self.kinds.clone(), self.times, self.recovered);
        Self { kinds, settled: live, live, times, recovered }
    }

    /// Coded bytes per raw byte that the next transfer is taken to become, without framing, if known.
    pub(super) fn fraction(&self, algorithm: Algorithm) -> Option<f64> {
        self.settled[usize::from(algorithm.number())].data.map(|data| data.expected)
    }

    /// The same, though choices may not rest on it yet.
    pub(super) fn expected_fraction(&self, algorithm: Algorithm) -> Option<f64> {
        self.live[usize::from(algorithm.number())].data.map(|data| data.expected)
    }

    /// What the last transfers became.
    pub(super) fn latest_fraction(&self, algorithm: Algorithm) -> Option<f64> {
        self.live[usize::from(algorithm.number())].data.map(|data| data.latest)
    }

    /// Learns what a transfer became, once of each; what it was sent as comes first. If it is of another kind than the last one, and that
    /// kind is known, so is what it becomes in the forms in which nobody has seen it.
    pub(super) fn learn_kind(&mut self, seen: &[(Algorithm, f64)], bytes: f64, tolerance: f64) -> Turn {
        let turn = self.kinds.learn(seen, bytes, tolerance);
        // What is short beside all that is known may be an exception.
        let known = self.live.iter().filter_map(|entry| entry.data);
        let evidence_bytes = known.map(|data| data.evidence_bytes).fold(0.0, f64::max);
        if turn == Turn::Back && bytes >= EXCEPTION * evidence_bytes {
            for algorithm in Algorithm::ALL {
                if seen.iter().all(|(one, _)| *one != algorithm)
                    && let Some(fraction) = self.kinds.recall(algorithm)
                {
                    self.set_fraction(algorithm, fraction);
                }
            }
        }
        turn
    }

    /// What tells whether data is of another kind again.
    pub(super) fn telling_kinds(&self) -> impl Iterator<Item = AlgorithmSet> {
        self.kinds.telling()
    }

    /// The same for a transfer that was looked at, whatever others become: what was `seen` of it, and in other forms what the last ones
    /// were moved to by that; where it `is_raw` else, nothing was moved.
    pub(super) fn of_this_one(&self, seen: impl Fn(Algorithm) -> Option<f64>, is_raw: bool) -> Self {
        let mut settled = self.live;
        for algorithm in Algorithm::ALL {
            if let Some(data) = &mut settled[usize::from(algorithm.number())].data {
                let unseen = if is_raw { data.expected } else { data.latest };
                data.expected = seen(algorithm).unwrap_or(unseen);
            }
        }
        Self { kinds: Kinds::default(), settled, ..*self }
    }

    /// Has what is expected follow what is known of kinds.
    pub(super) fn expect(&mut self) {
        for algorithm in Algorithm::ALL {
            if let Some(data) = &mut self.live[usize::from(algorithm.number())].data {
                data.expected = self.kinds.expected(algorithm, data.latest);
            }
        }
    }

    /// Whether what is expected may be something else than what was last.
    pub(super) fn kinds_matter(&self) -> bool {
        self.kinds.matter()
    }

    /// Whether the last transfer says little of the next one.
    pub(super) fn comes_by_chance(&self) -> bool {
        self.kinds.come_by_chance()
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
        let (latest, evidence_bytes) = match *known {
            Some(Data { latest: before, evidence_bytes, .. }) => {
                // What is short beside all that is known may be an exception.
                let says_much = raw_bytes >= EXCEPTION * evidence_bytes;
                let kept =
                    if differ(before, fraction) <= drift || !says_much { 1.0 - WEIGHT } else { DOUBTED };
                let evidence_bytes = evidence_bytes * kept + raw_bytes;
                (before + (fraction - before) * raw_bytes / evidence_bytes, evidence_bytes)
            }
            None => (fraction, raw_bytes),
        };
        let expected = self.kinds.expected(algorithm, latest);
        *known = Some(Data { latest, evidence_bytes, expected });
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
        self.live.map(|entry| entry.data.map(|data| data.latest))
    }

    /// Takes an algorithm that something is known of to become `fraction`, on no more evidence than before.
    pub(super) fn set_fraction(&mut self, algorithm: Algorithm, fraction: f64) {
        if let Some(data) = &mut self.live[usize::from(algorithm.number())].data {
            (data.latest, data.expected) = (fraction, self.kinds.expected(algorithm, fraction));
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
                (Some(a), Some(b)) => is_further(a.expected, b.expected, part),
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
mod tests;
