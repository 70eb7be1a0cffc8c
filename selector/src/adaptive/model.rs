//! What a transfer will take: the arithmetic of the policy, without its memory.

use crate::speeds::CodecTimes;
use crate::{Lambda, LinkFacts, Overlap};

/// What is minimised: the time until the receiver has the raw bytes, or the operator's penalty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Goal {
    pub(super) link: LinkFacts,
    /// With this λ the penalty `P = N + λ (L_C + L_D)` decides.
    pub(super) lambda: Option<Lambda>,
}

impl Goal {
    /// What it costs to send `bits` on the link, `raw_bytes` of them before coding, with codecs that take `times`:
    /// in nanoseconds, or in bits with a λ.
    pub(super) fn cost(&self, raw_bytes: u64, bits: f64, times: CodecTimes) -> f64 {
        match self.lambda {
            None => self.completion_ns(raw_bytes, bits, times),
            Some(lambda) => bits + lambda.gbps() * (times.encode_ns + times.decode_ns),
        }
    }

    /// Encode, link and decode one after the other; or of each segment, where they overlap. Then the slowest stage
    /// sets the pace, and the others show once, in the first segment and the last.
    pub(super) fn completion_ns(&self, raw_bytes: u64, bits: f64, times: CodecTimes) -> f64 {
        let wire_ns = bits / self.link.rate_gbps();
        let CodecTimes { encode_ns, decode_ns } = times;
        let overlap = self.link.overlap();
        let stages_ns = match overlap {
            Overlap::None | Overlap::Segments(_) => [encode_ns, wire_ns, decode_ns],
            Overlap::Fused(_) => [encode_ns.max(wire_ns), decode_ns, 0.0],
            Overlap::Relayed(_) => [encode_ns.max(wire_ns), decode_ns.max(wire_ns), 0.0],
        };
        let all_ns: f64 = stages_ns.iter().sum();
        let segments = match overlap.segment_bytes() {
            Some(bytes) if raw_bytes > bytes => raw_bytes.div_ceil(bytes) as f64,
            _ => return self.latency_ns() + all_ns,
        };
        let slowest_ns = stages_ns.into_iter().fold(0.0, f64::max);
        self.latency_ns() + (all_ns + slowest_ns * (segments - 1.0)) / segments
    }

    pub(super) const fn latency_ns(&self) -> f64 {
        self.link.latency_ns() as f64
    }

    /// The same with segments of another length.
    pub(super) fn with_overlap(self, overlap: Overlap) -> Self {
        Self { link: self.link.with_overlap(overlap).unwrap_or(self.link), ..self }
    }

    /// Whether it is near enough to `other` for what was worked out under one to hold under the other, as far as segments are alike.
    pub(super) fn is_near(&self, other: &Self) -> bool {
        self == other || self.is_within(other, 1.0 / 32.0)
    }

    /// Whether what was worked out under one is good enough under the other for a while.
    pub(super) fn is_similar(&self, other: &Self) -> bool {
        self.is_within(other, 0.25)
    }

    fn is_within(&self, other: &Self, part: f64) -> bool {
        let near = |a: f64, b: f64| (a - b).abs() <= a.min(b) * part;
        let latency_ns = |goal: &Self| goal.latency_ns() + 1000.0;
        self.lambda == other.lambda
            && self.link.overlap().is_like(other.link.overlap())
            && near(self.link.rate_gbps(), other.link.rate_gbps())
            && near(latency_ns(self), latency_ns(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goal(rate_gbps: f64, overlap: Overlap) -> Goal {
        Goal { link: LinkFacts::try_new(rate_gbps, 500, overlap).unwrap(), lambda: None }
    }

    const TIMES: CodecTimes = CodecTimes { encode_ns: 1000.0, decode_ns: 600.0 };

    #[test]
    fn without_overlap_the_stages_add_up() {
        // 40,000 bits at 10 Gb/s are 4,000 ns, after 500 of latency.
        let cost = goal(10.0, Overlap::None).cost(10_000, 40_000.0, TIMES);
        assert_eq!(cost, 500.0 + 1000.0 + 4000.0 + 600.0);
    }

    #[test]
    fn with_overlap_the_slowest_stage_sets_the_pace() {
        // Four segments of 250, 1,000 and 150 ns: the link works for 4,000, the first encode and the last decode show.
        let overlap = Overlap::Segments(2500);
        let cost = goal(10.0, overlap).cost(10_000, 40_000.0, TIMES);
        assert_eq!(cost, 500.0 + 250.0 + 4000.0 + 150.0);
        // At 100 Gb/s the encoder is slowest: 400 ns on the link.
        let cost = goal(100.0, overlap).cost(10_000, 40_000.0, TIMES);
        assert_eq!(cost, 500.0 + 1000.0 + 100.0 + 150.0);
        // A transfer shorter than a segment cannot overlap.
        let cost = goal(10.0, overlap).cost(2000, 40_000.0, TIMES);
        assert_eq!(cost, 500.0 + 1000.0 + 4000.0 + 600.0);
    }

    #[test]
    fn an_encoder_that_stores_over_the_link_takes_as_long_as_the_slower_of_them() {
        // A segment of 4,000 ns on the link.
        let cost = |rate_gbps, overlap| goal(rate_gbps, overlap).cost(10_000, 40_000.0, TIMES);
        assert_eq!(cost(10.0, Overlap::Fused(10_000)), 500.0 + 4000.0 + 600.0);
        assert_eq!(cost(10.0, Overlap::Relayed(10_000)), 500.0 + 4000.0 + 4000.0);
        // 400 ns: the codecs are slower.
        assert_eq!(cost(100.0, Overlap::Fused(10_000)), 500.0 + 1000.0 + 600.0);
        assert_eq!(cost(100.0, Overlap::Relayed(10_000)), 500.0 + 1000.0 + 600.0);
        // Four segments: the slowest stage sets the pace, and the other shows once.
        assert_eq!(cost(10.0, Overlap::Fused(2500)), 500.0 + 4000.0 + 150.0);
        assert_eq!(cost(10.0, Overlap::Relayed(2500)), 500.0 + 4000.0 + 1000.0);
        // Raw bytes, which no codec touches, pass the link once or twice.
        let raw = |overlap| goal(10.0, overlap).cost(10_000, 80_000.0, CodecTimes::default());
        assert_eq!([raw(Overlap::Fused(10_000)), raw(Overlap::Relayed(10_000))], [8500.0, 16_500.0]);
    }

    #[test]
    fn the_penalty_is_the_paper_s() {
        let lambda = Some(Lambda::try_new(8.0).unwrap());
        let cost = Goal { lambda, ..goal(1.0, Overlap::None) }.cost(10_000, 40_000.0, TIMES);
        assert_eq!(cost, 40_000.0 + 8.0 * 1600.0);
        // Without overlap and latency, completion is the penalty over the rate where λ is the rate.
        let link = LinkFacts::try_new(8.0, 0, Overlap::None).unwrap();
        assert_eq!(Goal { link, lambda: None }.cost(10_000, 40_000.0, TIMES), cost / 8.0);
    }

    #[test]
    fn small_changes_of_a_link_are_near_and_others_are_not() {
        let base = goal(100.0, Overlap::None);
        assert!(base.is_near(&goal(102.0, Overlap::None)));
        assert!(!base.is_near(&goal(110.0, Overlap::None)));
        assert!(base.is_similar(&goal(110.0, Overlap::None)));
        assert!(!base.is_similar(&goal(150.0, Overlap::None)));
        assert!(!base.is_near(&goal(100.0, Overlap::Segments(1))));
        // How long segments are may depend on how long transfers are.
        assert!(goal(100.0, Overlap::Segments(1)).is_near(&goal(100.0, Overlap::Segments(2))));
        assert!(!goal(100.0, Overlap::Segments(1)).is_near(&goal(100.0, Overlap::Fused(1))));
        let slow = LinkFacts::try_new(100.0, 50_000, Overlap::None).unwrap();
        assert!(!base.is_near(&Goal { link: slow, ..base }));
        assert!(!base.is_near(&Goal { lambda: Some(Lambda::PAPER), ..base }));
    }
}
