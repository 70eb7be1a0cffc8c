//! Which codecs were at work lately: one that was not takes longer the first time, for its code, its tables and its buffers are no
//! longer near. That says nothing of what it takes from then on.

use mgcomp_codecs::Algorithm;

use super::stream::LOST_AFTER;

/// So many transfers push out what a codec needs.
pub(super) const COLD_AFTER: u32 = 16;
/// What a codec may take longer for that alone, in nanoseconds.
const COLD_NS: f64 = 50_000.0;
/// A codec that is used so seldom, more often in a row than that, takes what it takes.
const MOST_IN_A_ROW: u8 = 2;

/// When each codec was last used, in transfers of all streams.
#[derive(Clone, Debug, Default)]
pub(super) struct Uses {
    passed: u32,
    /// By number of the algorithm.
    codecs: [Use; 16],
}

#[derive(Clone, Copy, Debug, Default)]
struct Use {
    last: Option<u32>,
    /// How many of its last uses in a row were the first for a while.
    in_a_row: u8,
    /// When the last of those was whose decoder was cold, too, of which is heard later.
    decoder: Option<u32>,
}

impl Uses {
    /// Takes account of a transfer, whatever becomes of it.
    pub(super) fn pass(&mut self) {
        self.passed = self.passed.wrapping_add(1);
    }

    /// A transfer was encoded. Returns whether what it took longer may be for it was the first one for a while.
    pub(super) fn encoded(&mut self, algorithm: Algorithm) -> bool {
        let codec = &mut self.codecs[usize::from(algorithm.number())];
        let is_first = codec.last.is_none_or(|last| self.passed.wrapping_sub(last) > COLD_AFTER);
        codec.last = Some(self.passed);
        codec.in_a_row = if is_first { codec.in_a_row.saturating_add(1) } else { 0 };
        let is_cold = is_first && codec.in_a_row <= MOST_IN_A_ROW;
        if is_cold {
            codec.decoder = Some(self.passed);
        }
        is_cold
    }

    /// A peer has told of a transfer that it has decoded. Returns whether that may have been the first one for a while.
    pub(super) fn decoded(&mut self, algorithm: Algorithm) -> bool {
        let cold = self.codecs[usize::from(algorithm.number())].decoder.take();
        cold.is_some_and(|at| self.passed.wrapping_sub(at) <= LOST_AFTER)
    }
}

/// What is to be learned of a codec that `took` so long, if it was expected to take `expected_ns`: where it `is_cold`, what it took
/// longer may be for that.
pub(super) fn lesson_ns(took_ns: f64, expected_ns: f64, is_cold: bool) -> Option<f64> {
    if !is_cold || took_ns <= expected_ns {
        return Some(took_ns);
    }
    let warm_ns = took_ns - COLD_NS;
    (warm_ns > expected_ns).then_some(warm_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(uses: &mut Uses, after: u32, algorithm: Algorithm) -> bool {
        (0..after).for_each(|_| uses.pass());
        uses.encoded(algorithm)
    }

    #[test]
    fn the_first_use_for_a_while_is_cold() {
        let mut uses = Uses::default();
        assert!(encoded(&mut uses, 1, Algorithm::Xp), "never before");
        assert!(!encoded(&mut uses, 1, Algorithm::Xp));
        assert!(encoded(&mut uses, 1, Algorithm::Zvc), "another");
        assert!(!encoded(&mut uses, 15, Algorithm::Xp));
        assert!(encoded(&mut uses, 17, Algorithm::Xp));
    }

    #[test]
    fn what_is_always_used_seldom_takes_what_it_takes() {
        let mut uses = Uses::default();
        let cold = [(); 4].map(|()| encoded(&mut uses, 20, Algorithm::Xp));
        assert_eq!(cold, [true, true, false, false]);
        assert!(!encoded(&mut uses, 1, Algorithm::Xp));
        assert!(encoded(&mut uses, 20, Algorithm::Xp), "it was used otherwise since");
    }

    #[test]
    fn the_first_that_is_heard_of_a_decoder_is_cold_where_the_encoder_was() {
        let mut uses = Uses::default();
        assert!(encoded(&mut uses, 1, Algorithm::Xp) && !encoded(&mut uses, 1, Algorithm::Xp));
        assert_eq!([(); 2].map(|()| uses.decoded(Algorithm::Xp)), [true, false]);
        assert!(!uses.decoded(Algorithm::Zvc));
        // What is heard much later is of another one.
        for (later, is_cold) in [(32, true), (33, false)] {
            encoded(&mut uses, 20, Algorithm::Zvc);
            (0..later).for_each(|_| uses.pass());
            assert_eq!(uses.decoded(Algorithm::Zvc), is_cold);
        }
    }

    #[test]
    fn what_is_cold_teaches_nothing_unless_it_took_much_longer_or_less() {
        for (took, is_cold, lesson) in [
            (30_000.0, true, None),
            (30_000.0, false, Some(30_000.0)),
            (61_000.0, true, Some(11_000.0)),
            (900_000.0, true, Some(850_000.0)),
            (8000.0, true, Some(8000.0)),
        ] {
            assert_eq!(lesson_ns(took, 10_000.0, is_cold), lesson, "{took}");
        }
    }
}
