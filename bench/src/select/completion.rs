//! How long a transfer takes, from what was measured of it.

use mgcomp_selector::{LinkFacts, Overlap};

/// What becomes of a transfer under an algorithm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sent {
    /// Bytes on the link.
    pub(super) wire_bytes: u64,
    pub(super) encode_ns: f64,
    pub(super) decode_ns: f64,
}

/// The link that transfers are replayed over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Link {
    pub(super) rate_gbps: f64,
    pub(super) latency_ns: u64,
    /// Raw bytes of a segment, where codecs work while the link does.
    pub(super) segment: Option<u64>,
}

impl Link {
    /// Time until the receiver has the raw bytes. With segments, each goes through encoder, link and decoder; the
    /// slowest of the three is never idle, the others are waited for once.
    pub(super) fn completion_ns(&self, raw_bytes: u64, sent: &Sent) -> f64 {
        let stages_ns = [sent.encode_ns, sent.wire_bytes as f64 * 8.0 / self.rate_gbps, sent.decode_ns];
        let segments = self.segment.map_or(1, |bytes| raw_bytes.div_ceil(bytes).max(1)) as f64;
        let through_ns = stages_ns.iter().sum::<f64>() / segments;
        let slowest_ns = stages_ns.into_iter().fold(0.0, f64::max) / segments;
        self.latency_ns as f64 + through_ns + (segments - 1.0) * slowest_ns
    }

    /// The part of it that comes after all is encoded.
    pub(super) fn after_encoding_ns(&self, raw_bytes: u64, sent: &Sent) -> f64 {
        self.completion_ns(raw_bytes, sent) - sent.encode_ns
    }

    /// What a policy is told of the link.
    pub(super) fn facts(&self) -> LinkFacts {
        let overlap = self.segment.map_or(Overlap::None, Overlap::Segments);
        LinkFacts::try_new(self.rate_gbps, self.latency_ns, overlap).expect("flags were checked")
    }

    /// In a few words.
    pub(super) fn overlap(&self) -> &'static str {
        if self.segment.is_some() { "yes" } else { "no" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_add_up_or_hide_behind_the_slowest() {
        let sent = Sent { wire_bytes: 1000, encode_ns: 400.0, decode_ns: 200.0 };
        let mut link = Link { rate_gbps: 10.0, latency_ns: 50, segment: None };
        assert_eq!(link.completion_ns(4000, &sent), 50.0 + 400.0 + 800.0 + 200.0);
        // Four segments: the first is encoded in 100, the link takes 4 × 200, the last is decoded in 50.
        link.segment = Some(1000);
        assert_eq!(link.completion_ns(4000, &sent), 50.0 + 100.0 + 800.0 + 50.0);
        assert_eq!(link.after_encoding_ns(4000, &sent), 50.0 + 500.0 + 50.0);
        // A transfer shorter than a segment has nothing to overlap with.
        link.segment = Some(4000);
        assert_eq!(link.completion_ns(4000, &sent), 50.0 + 400.0 + 800.0 + 200.0);
    }
}
