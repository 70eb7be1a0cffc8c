//! Which codecs were at work lately: one that was not takes longer the first times, for its code, its tables and its buffers are no
//! longer near, or new to the system. That says nothing of what it takes from then on.

use mgcomp_codecs::Algorithm;

use super::stream::LOST_AFTER;

/// So many transfers push out what a codec needs.
pub(super) const COLD_AFTER: u32 = 16;
/// So many uses bring it back.
pub(super) const WARMING: u32 = 2;
/// What a codec may take longer meanwhile, in nanoseconds: for itself, for each byte of memory that nobody has touched before, and at most.
const COLD: (f64, f64, f64) = (50_000.0, 1.0, 1e6);
/// A codec that was cold in more uses, and never warm between them, takes what it takes.
const MOST_COLD: u32 = 6;

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
    /// How often it was used since it last was not for a while.
    since: u32,
    /// How many uses were cold since the last one that was not.
    cold: u32,
    /// Of how many of those, whose decoders were cold, too, nothing was heard, and when the last one was.
    decoders: u32,
    decoder: u32,
}

impl Uses {
    /// Takes account of a transfer, whatever becomes of it.
    pub(super) fn pass(&mut self) {
        self.passed = self.passed.wrapping_add(1);
    }

    /// A transfer was encoded. Returns whether what it took longer may be for it was one of the first for a while.
    pub(super) fn encoded(&mut self, algorithm: Algorithm) -> bool {
        let codec = &mut self.codecs[usize::from(algorithm.number())];
        let is_first = codec.last.is_none_or(|last| self.passed.wrapping_sub(last) > COLD_AFTER);
        codec.last = Some(self.passed);
        codec.since = if is_first { 1 } else { codec.since.saturating_add(1) };
        codec.cold = if codec.since <= WARMING { codec.cold.saturating_add(1) } else { 0 };
        let is_cold = (1..=MOST_COLD).contains(&codec.cold);
        if is_cold {
            (codec.decoders, codec.decoder) = (codec.decoders + 1, self.passed);
        }
        is_cold
    }

    /// A peer has told of a transfer that it has decoded. Returns whether that may have been one of the first for a while.
    pub(super) fn decoded(&mut self, algorithm: Algorithm) -> bool {
        let codec = &mut self.codecs[usize::from(algorithm.number())];
        if self.passed.wrapping_sub(codec.decoder) > LOST_AFTER {
            codec.decoders = 0;
        }
        let is_cold = codec.decoders > 0;
        codec.decoders = codec.decoders.saturating_sub(1);
        is_cold
    }
}

/// What is to be learned of a codec that `took` so long for so many bytes, if it was expected to take `expected_ns`: where it `is_cold`,
/// what it took longer may be for that.
pub(super) fn lesson_ns(took_ns: f64, expected_ns: f64, raw_bytes: u64, is_cold: bool) -> Option<f64> {
    if !is_cold || took_ns <= expected_ns {
        return Some(took_ns);
    }
    let (itself_ns, byte_ns, most_ns) = COLD;
    let warm_ns = took_ns - (itself_ns + byte_ns * raw_bytes as f64).min(most_ns);
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
    fn the_first_two_uses_for_a_while_are_cold() {
        let mut uses = Uses::default();
        let cold = [(); 4].map(|()| encoded(&mut uses, 1, Algorithm::Xp));
        assert_eq!(cold, [true, true, false, false], "never before");
        assert!(encoded(&mut uses, 1, Algorithm::Zvc), "another");
        assert!(!encoded(&mut uses, 15, Algorithm::Xp));
        let cold = [17, 16, 16].map(|after| encoded(&mut uses, after, Algorithm::Xp));
        assert_eq!(cold, [true, true, false]);
    }

    #[test]
    fn what_is_always_used_seldom_takes_what_it_takes() {
        let mut uses = Uses::default();
        let cold = [(); 8].map(|()| encoded(&mut uses, 20, Algorithm::Xp));
        assert_eq!(cold, [true, true, true, true, true, true, false, false]);
        assert!((0..2).all(|_| !encoded(&mut uses, 1, Algorithm::Xp)));
        assert!(encoded(&mut uses, 20, Algorithm::Xp), "it was warm since");
    }

    #[test]
    fn what_is_first_heard_of_a_decoder_is_cold_where_the_encoder_was() {
        let mut uses = Uses::default();
        let cold = [(); 3].map(|()| encoded(&mut uses, 1, Algorithm::Xp));
        assert_eq!(cold, [true, true, false]);
        assert_eq!([(); 3].map(|()| uses.decoded(Algorithm::Xp)), [true, true, false]);
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
        // Of 10,000 bytes, 60 µs longer; of many, 1 ms.
        for (took, raw_bytes, is_cold, lesson) in [
            (70_000.0, 10_000, true, None),
            (70_000.0, 10_000, false, Some(70_000.0)),
            (71_000.0, 10_000, true, Some(11_000.0)),
            (8000.0, 10_000, true, Some(8000.0)),
            (1_010_000.0, 1 << 30, true, None),
            (3_000_000.0, 1 << 30, true, Some(2_000_000.0)),
        ] {
            assert_eq!(lesson_ns(took, 10_000.0, raw_bytes, is_cold), lesson, "{took}");
        }
    }
}
