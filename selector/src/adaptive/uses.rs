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
/// A codec that was cold in so many more uses than it was warm takes what it takes.
const MOST_COLD: u32 = 6;
/// So many are remembered.
const REMEMBERED_COLD: u32 = 2 * MOST_COLD;
/// Of what nobody has seen the codec at work on, no more are the first ones of their peers.
const MOST_UNSEEN: u32 = 16;

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
    /// How often it was seen at work since it last was not used for a while, and how often it was used and not seen.
    since: u32,
    unseen: u32,
    /// How many more were cold than warm.
    cold: u32,
    /// Of how many of the cold ones, whose decoders were cold, too, nothing was heard, and when the last one was.
    decoders: u32,
    decoder: u32,
}

impl Uses {
    /// Takes account of a transfer, whatever becomes of it.
    pub(super) fn pass(&mut self) {
        self.passed = self.passed.wrapping_add(1);
    }

    /// A transfer was encoded. Returns whether what it took longer may be for it was one of the first for a while. Those of a trial are
    /// meant to be cold but for the last.
    pub(super) fn encoded(&mut self, algorithm: Algorithm, is_trial: bool) -> bool {
        let passed = self.passed;
        let codec = self.used(algorithm);
        codec.since = codec.since.saturating_add(1);
        codec.cold = if codec.since <= WARMING {
            (codec.cold + 1).min(REMEMBERED_COLD)
        } else {
            codec.cold.saturating_sub(if is_trial { WARMING } else { 1 })
        };
        codec.note_decoder(passed)
    }

    /// A transfer is sent as it was encoded for another peer, or nobody has seen what encoding took.
    pub(super) fn passed_on(&mut self, algorithm: Algorithm) {
        let passed = self.passed;
        let codec = self.used(algorithm);
        codec.unseen = codec.unseen.saturating_add(1);
        if codec.unseen <= MOST_UNSEEN {
            codec.note_decoder(passed);
        }
    }

    fn used(&mut self, algorithm: Algorithm) -> &mut Use {
        let codec = &mut self.codecs[usize::from(algorithm.number())];
        if codec.last.is_none_or(|last| self.passed.wrapping_sub(last) > COLD_AFTER) {
            (codec.since, codec.unseen) = (0, 0);
        }
        codec.last = Some(self.passed);
        codec
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

impl Use {
    /// A decoder is as cold as the encoder. Returns whether that is.
    fn note_decoder(&mut self, passed: u32) -> bool {
        let is_cold = self.since <= WARMING && self.cold <= MOST_COLD;
        if is_cold {
            (self.decoders, self.decoder) = (self.decoders.saturating_add(1), passed);
        }
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
        uses.encoded(algorithm, false)
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
        // Nor is it cold where it is warm now and then.
        let cold = (0..8).flat_map(|_| [20, 1, 1]).map(|after| encoded(&mut uses, after, Algorithm::Xp));
        assert_eq!(cold.filter(|is_cold| *is_cold).count(), 0);
        // Most uses are warm again.
        (0..20).for_each(|_| _ = encoded(&mut uses, 1, Algorithm::Xp));
        assert!(encoded(&mut uses, 20, Algorithm::Xp));
    }

    #[test]
    fn trials_stay_cold_as_often_as_the_last_of_each_is_warm() {
        let mut uses = Uses::default();
        let mut tried = |afters: [u32; 3]| {
            afters.map(|after| {
                (0..after).for_each(|_| uses.pass());
                uses.encoded(Algorithm::Xp, true)
            })
        };
        for _ in 0..20 {
            assert_eq!(tried([200, 1, 1]), [true, true, false]);
        }
        // Between those of many other streams, none ever is.
        let cold = [(); 4].map(|()| tried([200, 32, 32]));
        assert_eq!(cold, [[true; 3], [true; 3], [false; 3], [false; 3]]);
    }

    #[test]
    fn what_is_encoded_for_several_peers_finds_as_many_cold_decoders() {
        let mut uses = Uses::default();
        assert!(encoded(&mut uses, 1, Algorithm::Xp));
        (0..3).for_each(|_| uses.passed_on(Algorithm::Xp));
        assert_eq!([(); 5].map(|()| uses.decoded(Algorithm::Xp)), [true, true, true, true, false]);
        assert!(encoded(&mut uses, 1, Algorithm::Xp), "it is the second");
        assert!(!encoded(&mut uses, 1, Algorithm::Xp));
        uses.passed_on(Algorithm::Xp);
        assert_eq!([(); 2].map(|()| uses.decoded(Algorithm::Xp)), [true, false]);
        // Where nobody ever sees it at work, not for ever.
        let mut uses = Uses::default();
        (0..100).for_each(|_| uses.passed_on(Algorithm::Zvc));
        assert_eq!((0..100).filter(|_| uses.decoded(Algorithm::Zvc)).count(), 16);
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
