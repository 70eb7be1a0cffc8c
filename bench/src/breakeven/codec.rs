//! What a codec does to buffers of any size, from what it does to those of a few.

/// What a codec does to buffers of one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rates {
    pub(super) ratio: f64,
    /// 10⁹ bytes of uncompressed data per second.
    pub(super) encode_gbytes: f64,
    pub(super) decode_gbytes: f64,
}

/// The codec of a GPU, on one kind of data.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Codec {
    /// Where the figures come from.
    pub(super) source: String,
    /// Rates by bytes of a buffer, in ascending order; at least one.
    sizes: Vec<(f64, Rates)>,
}

impl Codec {
    /// With the same rates at every size.
    pub(super) fn even(source: String, rates: Rates) -> Self {
        Self { source, sizes: vec![(0.0, rates)] }
    }

    /// With rates that were measured on buffers of one size.
    pub(super) fn measured(source: String, bytes: usize, rates: Rates) -> Self {
        Self { source, sizes: vec![(bytes as f64, rates)] }
    }

    /// Takes in those of a larger size.
    pub(super) fn push(&mut self, bytes: usize, rates: Rates) {
        self.sizes.push((bytes as f64, rates));
    }

    /// Whether its times were measured, and so hold what a launch takes.
    pub(super) fn is_measured(&self) -> bool {
        self.first().0 > 0.0
    }

    pub(super) fn sizes(&self) -> &[(f64, Rates)] {
        &self.sizes
    }

    pub(super) fn first(&self) -> (f64, Rates) {
        self.sizes[0]
    }

    pub(super) fn last(&self) -> (f64, Rates) {
        self.sizes[self.sizes.len() - 1]
    }

    /// Seconds that encoding takes.
    pub(super) fn encode_s(&self, bytes: f64) -> f64 {
        self.seconds(bytes, |rates| rates.encode_gbytes)
    }

    /// Seconds that decoding takes.
    pub(super) fn decode_s(&self, bytes: f64) -> f64 {
        self.seconds(bytes, |rates| rates.decode_gbytes)
    }

    /// Even between two sizes, and as at the nearest beyond them.
    pub(super) fn ratio(&self, bytes: f64) -> f64 {
        self.between(bytes, |(_, rates)| rates.ratio)
    }

    /// A time is even between two sizes. A shorter buffer takes as long as the smallest, since what takes time there is
    /// hardly its bytes; a longer one has the rate of the largest.
    fn seconds(&self, bytes: f64, gbytes: impl Fn(Rates) -> f64) -> f64 {
        let (most, rates) = self.last();
        if bytes >= most {
            return bytes / (gbytes(rates) * 1e9);
        }
        self.between(bytes, |(bytes, rates)| bytes / (gbytes(rates) * 1e9))
    }

    fn between(&self, bytes: f64, value: impl Fn((f64, Rates)) -> f64) -> f64 {
        let above = self.sizes.partition_point(|size| size.0 <= bytes);
        if above == 0 {
            return value(self.first());
        }
        let Some(&high) = self.sizes.get(above) else { return value(self.last()) };
        let low = self.sizes[above - 1];
        let part = (bytes - low.0) / (high.0 - low.0);
        value(low) + part * (value(high) - value(low))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(got: f64, expected: f64) {
        assert!((got / expected - 1.0).abs() < 1e-9, "{got} for {expected}");
    }

    /// 1000 bytes in 1 µs, and 4000 in 2 µs.
    fn two_sizes() -> Codec {
        let small = Rates { ratio: 1.0, encode_gbytes: 1.0, decode_gbytes: 0.5 };
        let large = Rates { ratio: 2.0, encode_gbytes: 2.0, decode_gbytes: 4.0 };
        let mut codec = Codec::measured("x".into(), 1000, small);
        codec.push(4000, large);
        codec
    }

    #[test]
    fn times_are_even_between_sizes() {
        let expected = [
            (1.0, 1e-6),
            (999.0, 1e-6),
            (1000.0, 1e-6),
            // A third of the way.
            (2000.0, 4e-6 / 3.0),
            (2500.0, 1.5e-6),
            (4000.0, 2e-6),
            (8000.0, 4e-6),
        ];
        for (bytes, seconds) in expected {
            close(two_sizes().encode_s(bytes), seconds);
        }
        // From 2 µs down to 1.
        for (bytes, seconds) in [(10.0, 2e-6), (2500.0, 1.5e-6), (4000.0, 1e-6), (12_000.0, 3e-6)] {
            close(two_sizes().decode_s(bytes), seconds);
        }
    }

    #[test]
    fn ratios_end_with_those_of_the_outer_sizes() {
        for (bytes, ratio) in [(10.0, 1.0), (1000.0, 1.0), (2500.0, 1.5), (4000.0, 2.0), (1e9, 2.0)] {
            close(two_sizes().ratio(bytes), ratio);
        }
    }

    #[test]
    fn one_rate_holds_at_every_size() {
        let codec = Codec::even("x".into(), Rates { ratio: 1.5, encode_gbytes: 2.0, decode_gbytes: 4.0 });
        for bytes in [1.0, 1000.0, 1e9] {
            close(codec.encode_s(bytes), bytes * 0.5e-9);
            close(codec.decode_s(bytes), bytes * 0.25e-9);
            close(codec.ratio(bytes), 1.5);
        }
        assert!(!codec.is_measured() && two_sizes().is_measured());
    }
}
