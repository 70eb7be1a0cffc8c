//! Values that several subcommands take, with the one spelling that files and JSON use too.

use std::time::Duration;

use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser, TypedValueParser};
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

/// Parses a number of threads, 1 to 1024.
pub(crate) fn threads() -> impl TypedValueParser<Value = usize> {
    clap::value_parser!(u16).range(1..=MAX_THREADS as i64).map(usize::from)
}

/// Parses the time between two updates in milliseconds: 100 to 60000, as the daemon has it.
pub(crate) fn interval_ms() -> impl TypedValueParser<Value = u32> {
    clap::value_parser!(u32).range(100..=60_000)
}

/// As many threads as this process may run at once.
pub(crate) fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS)
}

/// Parses the id of a job. None is empty: what a shell makes of a variable that is not set is not to stand for the whole node.
pub(crate) fn job() -> impl TypedValueParser<Value = String> {
    NonEmptyStringValueParser::new()
}

/// Parses a time in seconds, from a millisecond to a day.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.001..=86_400.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(format!("{text:?} is no number of seconds from 0.001 to 86400")),
    }
}

/// Parses the rate of a link in Gb/s. At slower ones nothing would arrive in the time that ranks wait for each other.
pub(crate) fn link_gbps(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(gbps) if (0.001..=100_000.0).contains(&gbps) => Ok(gbps),
        _ => Err(format!("{text:?} is no link rate from 0.001 to 100000 Gb/s")),
    }
}

/// Parses what each message takes on top, in microseconds.
pub(crate) fn latency_us(text: &str) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(latency_us @ 0..=10_000_000) => Ok(latency_us),
        _ => Err(format!("{text:?} is no latency from 0 to 10000000 µs, which is 10 s")),
    }
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
    fn links_are_as_slow_and_as_fast_as_they_can_be_imitated() {
        for (good, gbps) in [("0.001", 0.001), ("0.5", 0.5), ("1e5", 100_000.0)] {
            assert_eq!(link_gbps(good), Ok(gbps));
        }
        for wrong in ["1e-300", "0.0009", "0", "-1", "100001", "inf", "NaN", "fast", ""] {
            assert_eq!(link_gbps(wrong), Err(format!("{wrong:?} is no link rate from 0.001 to 100000 Gb/s")));
        }
        assert_eq!((latency_us("0"), latency_us("10000000")), (Ok(0), Ok(10_000_000)));
        for wrong in ["10000001", "4294967295", "18446744073709551616", "-1", "1.5"] {
            assert!(latency_us(wrong).unwrap_err().contains("from 0 to 10000000 µs"), "{wrong}");
        }
    }

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
