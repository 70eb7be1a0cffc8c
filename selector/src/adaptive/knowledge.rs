//! What is known of the data of a stream, and of how codecs do on it.

use mgcomp_codecs::Algorithm;

use crate::speeds::CodecTimes;

/// Weight of what is new against what is known.
const WEIGHT: f64 = 0.25;
/// What moves by less is not worth working out choices again.
const NEAR: f64 = 0.02;
/// A single time may be that of an interrupt.
const MOST_AT_ONCE: f64 = 2.0;
/// How far codecs on this data may be from what was measured.
const MOST_IN_ALL: f64 = 16.0;

/// By algorithm: coded fraction, and how much slower than measured the codec is.
#[derive(Clone, Debug)]
pub(super) struct Knowledge {
    live: [Entry; 16],
    /// What choices rest on: `live` as it was when they were last worked out, or near it.
    settled: [Entry; 16],
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    fraction: Option<f64>,
    encode: f64,
    decode: f64,
}

impl Entry {
    const UNKNOWN: Self = Self { fraction: None, encode: 1.0, decode: 1.0 };
}

impl Default for Knowledge {
    fn default() -> Self {
        Self { live: [Entry::UNKNOWN; 16], settled: [Entry::UNKNOWN; 16] }
    }
}

impl Knowledge {
    /// Nothing of the data, but how fast codecs have been for others.
    pub(super) fn starting_from(others: &Self) -> Self {
        let live = others.live.map(|entry| Entry { fraction: None, ..entry });
        Self { settled: live, live }
    }

    /// Coded bytes per raw byte, if known.
    pub(super) fn fraction(&self, algorithm: Algorithm) -> Option<f64> {
        self.settled[usize::from(algorithm.number())].fraction
    }

    /// Times as they are on this data.
    pub(super) fn corrected(&self, algorithm: Algorithm, times: CodecTimes) -> CodecTimes {
        let entry = &self.settled[usize::from(algorithm.number())];
        CodecTimes { encode_ns: times.encode_ns * entry.encode, decode_ns: times.decode_ns * entry.decode }
    }

    /// Learns a fraction. One that is further from the known than `drift` replaces it, others move it.
    pub(super) fn learn_fraction(&mut self, algorithm: Algorithm, fraction: f64, drift: f64) {
        let known = &mut self.live[usize::from(algorithm.number())].fraction;
        *known = Some(match *known {
            Some(before) if differ(before, fraction) <= drift => before + (fraction - before) * WEIGHT,
            _ => fraction,
        });
    }

    /// Learns how the times of a transfer compare with those that were measured before all: observed over measured.
    pub(super) fn learn_times(&mut self, algorithm: Algorithm, encode: Option<f64>, decode: Option<f64>) {
        let entry = &mut self.live[usize::from(algorithm.number())];
        for (known, seen) in [(&mut entry.encode, encode), (&mut entry.decode, decode)] {
            if let Some(seen) = seen.filter(|seen| seen.is_finite()) {
                let seen = seen.clamp(*known / MOST_AT_ONCE, *known * MOST_AT_ONCE);
                *known = (*known + (seen - *known) * WEIGHT).clamp(1.0 / MOST_IN_ALL, MOST_IN_ALL);
            }
        }
    }

    /// Whether what was learned is worth working out choices again; if so, it counts from now on.
    pub(super) fn settle(&mut self) -> bool {
        let moved = |(live, settled): (&Entry, &Entry)| {
            let fractions = match (live.fraction, settled.fraction) {
                (Some(a), Some(b)) => differ(a, b) > NEAR,
                (a, b) => a != b,
            };
            fractions
                || differ(live.encode, settled.encode) > NEAR
                || differ(live.decode, settled.decode) > NEAR
        };
        let moved = self.live.iter().zip(&self.settled).any(moved);
        if moved {
            self.settled = self.live;
        }
        moved
    }
}

/// How far apart two sizes or times are, as a part of the smaller.
pub(super) fn differ(a: f64, b: f64) -> f64 {
    let smaller = a.min(b);
    if a == b { 0.0 } else { (a - b).abs() / smaller }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_fractions_move_the_known_and_far_ones_replace_it() {
        let mut knowledge = Knowledge::default();
        assert_eq!(knowledge.fraction(Algorithm::Xp), None);
        let mut learn = |fraction| {
            knowledge.learn_fraction(Algorithm::Xp, fraction, 0.1);
            knowledge.settle();
            knowledge.fraction(Algorithm::Xp).unwrap()
        };
        assert_eq!(learn(0.5), 0.5);
        assert_eq!(learn(0.54), 0.51);
        assert_eq!(learn(0.9), 0.9);
        assert_eq!(knowledge.fraction(Algorithm::Zvc), None);
    }

    #[test]
    fn small_moves_do_not_count_until_they_add_up() {
        let mut knowledge = Knowledge::default();
        knowledge.learn_fraction(Algorithm::Xp, 0.5, 0.1);
        assert!(knowledge.settle());
        assert!(!knowledge.settle());
        knowledge.learn_fraction(Algorithm::Xp, 0.52, 0.1); // to 0.505
        assert!(!knowledge.settle());
        assert_eq!(knowledge.fraction(Algorithm::Xp), Some(0.5));
        knowledge.learn_fraction(Algorithm::Xp, 0.55, 0.1); // to 0.51625
        assert!(knowledge.settle());
    }

    #[test]
    fn one_slow_call_does_not_condemn_a_codec() {
        let mut knowledge = Knowledge::default();
        knowledge.learn_times(Algorithm::Zvc, Some(1000.0), None);
        assert!(knowledge.settle());
        let measured = CodecTimes { encode_ns: 100.0, decode_ns: 100.0 };
        // Taken for twice as slow, and a quarter of the way there.
        let expected = CodecTimes { encode_ns: 125.0, decode_ns: 100.0 };
        assert_eq!(knowledge.corrected(Algorithm::Zvc, measured), expected);
        for _ in 0..100 {
            knowledge.learn_times(Algorithm::Zvc, Some(1000.0), Some(f64::NAN));
        }
        knowledge.settle();
        assert_eq!(knowledge.corrected(Algorithm::Zvc, measured).encode_ns, 1600.0);
    }

    #[test]
    fn new_streams_inherit_speeds_but_no_sizes() {
        let mut others = Knowledge::default();
        others.learn_fraction(Algorithm::Xp, 0.5, 0.1);
        others.learn_times(Algorithm::Xp, Some(2.0), None);
        let new = Knowledge::starting_from(&others);
        assert_eq!(new.fraction(Algorithm::Xp), None);
        let measured = CodecTimes { encode_ns: 100.0, decode_ns: 100.0 };
        assert_eq!(new.corrected(Algorithm::Xp, measured).encode_ns, 125.0);
    }
}
