//! What is known of the link to a peer.

/// A link as a policy sees it: numbers that somebody measured or was told.
///
/// # Units
/// Gb/s, which is bits per nanosecond, and nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkFacts {
    rate_gbps: f64,
    latency_ns: u64,
    overlap: Overlap,
}

/// Whether codecs work while the link does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Overlap {
    /// Encoding, the link and decoding come one after the other.
    #[default]
    None,
    /// Transfers are cut into segments of this many raw bytes: while one is on the link, the next is encoded and
    /// the one before decoded.
    Segments(u64),
    /// The same, but the encoder stores straight over the link, as kernels on a device do: of each segment the two take as
    /// long as the slower of them.
    Fused(u64),
    /// The same, but bytes go over the link twice: to memory in between, which the encoder stores to, and from there, which the
    /// decoder loads from. The rate is that of one pass.
    Relayed(u64),
}

impl Overlap {
    /// Raw bytes of a segment, where there are any.
    #[must_use]
    pub const fn segment_bytes(self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Segments(bytes) | Self::Fused(bytes) | Self::Relayed(bytes) => Some(bytes),
        }
    }

    /// Whether the same work goes beside the same, in segments of whatever length.
    pub(crate) fn is_like(self, other: Self) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }
}

impl LinkFacts {
    /// A link of `rate_gbps` Gb/s on which the first bit takes `latency_ns` ns.
    ///
    /// # Errors
    /// [`LinkFactsError`] if the rate is not a number above zero, or segments are of no bytes.
    pub fn try_new(rate_gbps: f64, latency_ns: u64, overlap: Overlap) -> Result<Self, LinkFactsError> {
        // Also false where the rate is not a number.
        let positive = rate_gbps > 0.0 && rate_gbps.is_finite();
        if !positive {
            return Err(LinkFactsError::Rate { rate_gbps });
        }
        if overlap.segment_bytes() == Some(0) {
            return Err(LinkFactsError::Segments);
        }
        Ok(Self { rate_gbps, latency_ns, overlap })
    }

    /// The same link, but for when codecs work.
    ///
    /// # Errors
    /// As [`try_new`](Self::try_new).
    pub fn with_overlap(self, overlap: Overlap) -> Result<Self, LinkFactsError> {
        Self::try_new(self.rate_gbps, self.latency_ns, overlap)
    }

    /// Bits that it carries in a nanosecond.
    #[must_use]
    pub const fn rate_gbps(&self) -> f64 {
        self.rate_gbps
    }

    /// Time that the first bit takes.
    #[must_use]
    pub const fn latency_ns(&self) -> u64 {
        self.latency_ns
    }

    /// Whether codecs work meanwhile.
    #[must_use]
    pub const fn overlap(&self) -> Overlap {
        self.overlap
    }
}

/// Why numbers do not make a link.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkFactsError {
    /// The rate is zero, negative, infinite or not a number.
    #[error("a link rate of {rate_gbps} Gb/s: it must be a number above 0")]
    Rate {
        /// What was given.
        rate_gbps: f64,
    },
    /// Segments of no bytes.
    #[error("segments of 0 bytes")]
    Segments,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_that_no_link_has_are_refused() {
        for rate in [0.0, -0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let error = LinkFacts::try_new(rate, 0, Overlap::None).unwrap_err();
            assert!(matches!(error, LinkFactsError::Rate { .. }), "{rate}");
            assert!(error.to_string().contains("above 0"), "{error}");
        }
        for overlap in [Overlap::Segments(0), Overlap::Fused(0), Overlap::Relayed(0)] {
            assert_eq!(LinkFacts::try_new(10.0, 0, overlap).unwrap_err(), LinkFactsError::Segments);
        }
        assert!(LinkFacts::try_new(f64::MIN_POSITIVE, u64::MAX, Overlap::Segments(1)).is_ok());
    }
}
