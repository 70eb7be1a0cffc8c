//! Which codecs were at work lately: one that was not takes longer the first time, for its code, its tables and its buffers are no
//! longer near. That says nothing of what it takes from then on.

use mgcomp_codecs::Algorithm;

/// So many transfers of its stream push out what a codec needs.
const COLD_AFTER: u32 = 16;
/// What a codec may take longer for that alone, in nanoseconds.
const COLD_NS: f64 = 50_000.0;

/// When each codec was last used, in transfers of the stream.
#[derive(Clone, Debug, Default)]
pub(super) struct Uses {
    passed: u32,
    /// By number of the algorithm.
    codecs: [Use; 16],
}

#[derive(Clone, Copy, Debug, Default)]
struct Use {
    last: Option<u32>,
    /// Whether the peer's decoder, of which is heard later, had not been at work lately either.
    is_decoder_cold: bool,
}

impl Uses {
    /// Takes account of a transfer, whatever becomes of it.
    pub(super) fn pass(&mut self) {
        self.passed = self.passed.wrapping_add(1);
    }

    /// A transfer was encoded. Returns whether that was the first one for a while.
    pub(super) fn encoded(&mut self, algorithm: Algorithm) -> bool {
        let codec = &mut self.codecs[usize::from(algorithm.number())];
        let is_cold = codec.last.is_none_or(|last| self.passed.wrapping_sub(last) > COLD_AFTER);
        codec.last = Some(self.passed);
        codec.is_decoder_cold |= is_cold;
        is_cold
    }

    /// A transfer was decoded. Returns whether it may have been the first one for a while.
    pub(super) fn decoded(&mut self, algorithm: Algorithm) -> bool {
        std::mem::take(&mut self.codecs[usize::from(algorithm.number())].is_decoder_cold)
    }
}

/// What something would have taken that `took` so long, if it was expected to take `expected_ns`: where it `is_cold`, what it took longer
/// may be for that.
pub(super) fn warm_ns(took_ns: f64, expected_ns: f64, is_cold: bool) -> f64 {
    if is_cold { took_ns.min(expected_ns.max(took_ns - COLD_NS)) } else { took_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_use_for_a_while_is_cold() {
        let mut uses = Uses::default();
        let used = |uses: &mut Uses, after: u32, algorithm| {
            (0..after).for_each(|_| uses.pass());
            uses.encoded(algorithm)
        };
        assert!(used(&mut uses, 1, Algorithm::Xp), "never before");
        assert!(!used(&mut uses, 1, Algorithm::Xp));
        assert!(used(&mut uses, 1, Algorithm::Zvc), "another");
        assert!(!used(&mut uses, 15, Algorithm::Xp));
        assert!(used(&mut uses, 17, Algorithm::Xp));
    }

    #[test]
    fn the_first_that_is_heard_of_a_decoder_is_cold_where_the_encoder_was() {
        let mut uses = Uses::default();
        uses.encoded(Algorithm::Xp);
        uses.encoded(Algorithm::Xp);
        assert_eq!([(); 2].map(|()| uses.decoded(Algorithm::Xp)), [true, false]);
        assert!(!uses.decoded(Algorithm::Zvc));
    }

    #[test]
    fn what_is_cold_counts_as_expected_unless_it_took_much_longer_or_less() {
        for (took, is_cold, expected) in [
            (30_000.0, true, 10_000.0),
            (30_000.0, false, 30_000.0),
            (61_000.0, true, 11_000.0),
            (900_000.0, true, 850_000.0),
            (8000.0, true, 8000.0),
        ] {
            assert_eq!(warm_ns(took, 10_000.0, is_cold), expected, "{took}");
        }
    }
}
