//! Values that several subcommands take, with the one spelling that files and JSON use too.

use std::ops::RangeInclusive;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use mgcomp_codecs::frame::{ChunkSize, MAX_THREADS};
use mgcomp_codecs::{Algorithm, Codec, Element, codec, codecs};

/// Parses an element by its name.
pub(crate) fn element() -> impl TypedValueParser<Value = Element> {
    PossibleValuesParser::new(Element::ALL.map(Element::name)).try_map(|name| name.parse())
}

/// Which codec to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// All of them; the smallest result is kept.
    Best,
    /// The one of this algorithm.
    One(Algorithm),
}

impl Choice {
    /// The codecs to try, in the order of their algorithms' numbers.
    pub(crate) fn codecs(self) -> Vec<&'static dyn Codec> {
        match self {
            Self::Best => codecs().collect(),
            Self::One(algorithm) => codec(algorithm).into_iter().collect(),
        }
    }
}

const BEST: &str = "best";

/// Parses `best` or the name of an algorithm that has a codec.
pub(crate) fn choice() -> impl TypedValueParser<Value = Choice> {
    let names = codecs().map(|codec| codec.algorithm().name());
    PossibleValuesParser::new(std::iter::once(BEST).chain(names)).try_map(|name| match name.as_str() {
        BEST => Ok(Choice::Best),
        name => name.parse().map(Choice::One),
    })
}

/// Slower links would take days for what they carry here, and nobody has faster ones.
const LINK_GBPS: RangeInclusive<f64> = 0.001..=100_000.0;

/// Parses the rate of a link in Gb/s.
pub(crate) fn link_gbps(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| LINK_GBPS.contains(rate));
    rate.ok_or_else(|| format!("no link rate from {} to {} Gb/s", LINK_GBPS.start(), LINK_GBPS.end()))
}

/// Parses a latency in microseconds, 10 s at most.
pub(crate) fn latency_us() -> impl TypedValueParser<Value = u64> {
    clap::value_parser!(u64).range(..=10_000_000)
}

/// Parses a number of threads, 1 to 1024.
pub(crate) fn threads() -> impl TypedValueParser<Value = usize> {
    clap::value_parser!(u16).range(1..=MAX_THREADS as i64).map(usize::from)
}

/// As many threads as this process may run at once.
pub(crate) fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS)
}

/// Name and base-2 logarithm of each chunk size.
const CHUNK_SIZES: [(&str, u8); 5] = [("4K", 12), ("8K", 13), ("16K", 14), ("32K", 15), ("64K", 16)];

/// Parses a chunk size: `4K` to `64K`.
pub(crate) fn chunk_size() -> impl TypedValueParser<Value = ChunkSize> {
    PossibleValuesParser::new(CHUNK_SIZES.map(|(name, _)| name)).map(|name| {
        let known = CHUNK_SIZES.into_iter().find(|(known, _)| *known == name);
        // clap has already refused every other name.
        known.and_then(|(_, log2)| ChunkSize::from_log2(log2)).unwrap_or(ChunkSize::DEFAULT)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chunk_size_of_the_format_has_a_name() {
        let named: Vec<_> = CHUNK_SIZES.iter().filter_map(|(_, log2)| ChunkSize::from_log2(*log2)).collect();
        let all: Vec<_> = (0..=u8::MAX).filter_map(ChunkSize::from_log2).collect();
        assert_eq!(named, all);
        for ((name, _), size) in CHUNK_SIZES.iter().zip(all) {
            assert_eq!(*name, format!("{}K", size.bytes() / 1024));
        }
    }
}
