//! How fast codecs are on a machine: measured times, and what lies between them.
//!
//! Codecs take longer for more bytes, but not in proportion: a frame costs something by itself, and a buffer that
//! fits a cache goes faster. And they take longer where there is more to write. So a machine is described by times
//! at a few lengths, for data of a few ratios ([`Series`]), and what is asked for is interpolated: along the length,
//! then along the coded fraction.

mod curve;
mod typical;

use std::sync::Arc;

use mgcomp_codecs::{Algorithm, Element};
use serde::{Deserialize, Serialize};

use self::curve::Curves;

/// The longest time that is believed: more than a week.
const MOST_NS: f64 = 1e15;
/// Nothing is coded in less. How much longer it takes than it was measured with could not be said, so it would stay for free.
const LEAST_NS: f64 = 1e-3;
/// More fractions, and lengths of each, than are of any use.
const MOST_SERIES: usize = 64;
const MOST_POINTS: usize = 64;
/// Numbers of algorithms and elements are below this.
const NUMBERS: usize = 16;

/// Times of one call.
///
/// # Units
/// Nanoseconds, fractions of them too: small things are measured by the thousand.
#[derive(Clone, Copy, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Point {
    /// Length of the buffer before coding.
    pub raw_bytes: u64,
    /// Time to encode it, at least 0.001.
    pub encode_ns: f64,
    /// Time to decode it, at least 0.001.
    pub decode_ns: f64,
}

/// Times for data that compresses in one way, over the length of the buffer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Coded bytes per raw byte of that data.
    pub fraction: f64,
    /// By rising length.
    pub points: Vec<Point>,
}

/// One codec on one element.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CodecSpeed {
    /// The algorithm, by name.
    pub algorithm: String,
    /// The element, by name.
    pub element: String,
    /// Time of the size-only estimator whatever it looks at, in nanoseconds.
    pub estimate_call_ns: f64,
    /// Its time for a byte that it looks at, in nanoseconds.
    pub estimate_ns_per_byte: f64,
    /// By rising fraction.
    pub series: Vec<Series>,
}

/// The codecs of a machine.
#[derive(Clone, Debug)]
pub struct Speeds {
    codecs: Vec<CodecSpeed>,
    /// By entry: the same, ready to be asked.
    curves: Vec<Curves>,
    /// By numbers of element and algorithm: where in `codecs`.
    index: [[Option<u16>; NUMBERS]; NUMBERS],
}

/// What coding a transfer takes.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct CodecTimes {
    /// At the sender, in nanoseconds.
    pub encode_ns: f64,
    /// At the receiver, in nanoseconds.
    pub decode_ns: f64,
}

/// What a size-only estimator takes.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct EstimateTimes {
    /// Whatever it looks at, in nanoseconds.
    pub call_ns: f64,
    /// For each byte that it looks at, in nanoseconds.
    pub ns_per_byte: f64,
}

impl EstimateTimes {
    /// What looking at so many bytes takes, in nanoseconds.
    #[must_use]
    pub fn ns(&self, bytes: u64) -> f64 {
        self.call_ns + self.ns_per_byte * bytes as f64
    }
}

impl Speeds {
    /// A table of measured times. A codec that is not in it will not be chosen by who goes by times.
    ///
    /// # Errors
    /// [`SpeedsError`] that names the first entry that makes no sense.
    pub fn try_new(codecs: Vec<CodecSpeed>) -> Result<Self, SpeedsError> {
        let mut index = [[None; NUMBERS]; NUMBERS];
        for (entry, codec) in codecs.iter().enumerate() {
            let wrong = |what| SpeedsError { entry, what };
            let algorithm: Algorithm = codec.algorithm.parse().map_err(|_| wrong(Wrong::Algorithm))?;
            if algorithm == Algorithm::None {
                return Err(wrong(Wrong::Raw));
            }
            let element: Element = codec.element.parse().map_err(|_| wrong(Wrong::Element))?;
            check(codec).map_err(wrong)?;
            let place = &mut index[usize::from(element.number())][usize::from(algorithm.number())];
            if place.is_some() {
                return Err(wrong(Wrong::Twice));
            }
            *place = Some(entry as u16); // no more pairs than 256 pass the line above
        }
        let curves = codecs.iter().map(Curves::of).collect();
        Ok(Self { codecs, curves, index })
    }

    /// Times of one core of a server with AVX-512: a start where nothing was measured.
    #[must_use]
    pub fn typical() -> Arc<Self> {
        typical::speeds()
    }

    /// What is expected of a GPU with so many multiprocessors: a start where nothing was measured.
    ///
    /// # Source
    /// What was measured on an H200 (`bench/results/speeds.json`), in proportion to its 132 multiprocessors.
    #[must_use]
    pub fn expected_of_device(multiprocessors: u32) -> Arc<Self> {
        typical::expected_of_device(multiprocessors)
    }

    /// These encoders and estimators with the decoders of `other`, for what is encoded here and decoded there. What one of them
    /// does not have is left out.
    #[must_use]
    pub fn decoded_by(&self, other: &Self) -> Self {
        let decoded = |codec: &CodecSpeed| {
            let (algorithm, element) = (codec.algorithm.parse().ok()?, codec.element.parse().ok()?);
            let mut codec = codec.clone();
            for Series { fraction, points } in &mut codec.series {
                for point in points {
                    point.decode_ns = other.times(algorithm, element, point.raw_bytes, *fraction)?.decode_ns;
                }
            }
            Some(codec)
        };
        let codecs = self.codecs.iter().filter_map(decoded).collect();
        // Both were good, so this is.
        Self::try_new(codecs).unwrap_or_else(|_| self.clone())
    }

    /// The entries, as they were given.
    #[must_use]
    pub fn codecs(&self) -> &[CodecSpeed] {
        &self.codecs
    }

    /// What coding `raw_bytes` takes that become `fraction` as many; `None` for a codec that was not measured.
    #[must_use]
    pub fn times(
        &self,
        algorithm: Algorithm,
        element: Element,
        raw_bytes: u64,
        fraction: f64,
    ) -> Option<CodecTimes> {
        Some(self.curves.get(self.entry(algorithm, element)?)?.times(raw_bytes, fraction))
    }

    /// No more than what coding `raw_bytes` takes, whatever they become; `None` for a codec that was not measured.
    pub(crate) fn least_times(
        &self,
        algorithm: Algorithm,
        element: Element,
        raw_bytes: u64,
    ) -> Option<CodecTimes> {
        Some(self.curves.get(self.entry(algorithm, element)?)?.least_times(raw_bytes))
    }

    /// What the size-only estimator takes; `None` for a codec that was not measured.
    #[must_use]
    pub fn estimate(&self, algorithm: Algorithm, element: Element) -> Option<EstimateTimes> {
        let codec = self.codecs.get(self.entry(algorithm, element)?)?;
        Some(EstimateTimes { call_ns: codec.estimate_call_ns, ns_per_byte: codec.estimate_ns_per_byte })
    }

    fn entry(&self, algorithm: Algorithm, element: Element) -> Option<usize> {
        self.index[usize::from(element.number())][usize::from(algorithm.number())].map(usize::from)
    }
}

impl Point {
    const fn times(&self) -> CodecTimes {
        CodecTimes { encode_ns: self.encode_ns, decode_ns: self.decode_ns }
    }
}

impl CodecTimes {
    fn towards(self, other: Self, share: f64) -> Self {
        let between = |a: f64, b: f64| a + (b - a) * share;
        Self {
            encode_ns: between(self.encode_ns, other.encode_ns),
            decode_ns: between(self.decode_ns, other.decode_ns),
        }
    }
}

fn check(codec: &CodecSpeed) -> Result<(), Wrong> {
    let time = |ns: f64| (0.0..=MOST_NS).contains(&ns);
    if let Some(&ns) = [codec.estimate_call_ns, codec.estimate_ns_per_byte].iter().find(|&&ns| !time(ns)) {
        return Err(Wrong::Time { ns });
    }
    if codec.series.is_empty() {
        return Err(Wrong::Empty);
    }
    if codec.series.len() > MOST_SERIES {
        return Err(Wrong::TooMany { what: "series", count: codec.series.len(), limit: MOST_SERIES });
    }
    let mut fraction_before = 0.0;
    for series in &codec.series {
        if series.points.len() > MOST_POINTS {
            return Err(Wrong::TooMany { what: "lengths", count: series.points.len(), limit: MOST_POINTS });
        }
        // Also false where the fraction is not a number. Frames are longer than raw bytes only by a header.
        let rises = series.fraction > fraction_before && series.fraction <= 2.0;
        if !rises {
            return Err(Wrong::Fraction { fraction: series.fraction });
        }
        fraction_before = series.fraction;
        if series.points.is_empty() {
            return Err(Wrong::Empty);
        }
        let mut bytes_before = 0;
        for point in &series.points {
            if point.raw_bytes <= bytes_before {
                return Err(Wrong::Length { raw_bytes: point.raw_bytes });
            }
            bytes_before = point.raw_bytes;
            if let Some(ns) = [point.encode_ns, point.decode_ns].into_iter().find(|&ns| !time(ns)) {
                return Err(Wrong::Time { ns });
            }
            if let Some(ns) = [point.encode_ns, point.decode_ns].into_iter().find(|&ns| ns < LEAST_NS) {
                return Err(Wrong::Free { ns });
            }
        }
    }
    Ok(())
}

/// Why a table of times makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("codec speeds, entry {entry}: {what}")]
pub struct SpeedsError {
    /// Which entry, from 0.
    pub entry: usize,
    /// What is wrong with it.
    pub what: Wrong,
}

/// What is wrong with an entry.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Wrong {
    /// No algorithm has this name.
    #[error("unknown algorithm")]
    Algorithm,
    /// The raw form has no codec.
    #[error("\"none\" is the raw form, which takes no time")]
    Raw,
    /// No element has this name.
    #[error("unknown element")]
    Element,
    /// Algorithm and element were there before.
    #[error("algorithm and element are there twice")]
    Twice,
    /// Nothing was measured.
    #[error("no times")]
    Empty,
    /// More than anybody measures: each choice would take its time to look through them.
    #[error("{count} {what}: at most {limit} are possible")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many were given.
        count: usize,
        /// The most that are taken.
        limit: usize,
    },
    /// Fractions do not rise, or are none.
    #[error("fraction {fraction}: fractions must rise, above 0 and at most 2")]
    Fraction {
        /// What was given.
        fraction: f64,
    },
    /// Lengths do not rise.
    #[error("length {raw_bytes}: lengths must rise, above 0")]
    Length {
        /// What was given.
        raw_bytes: u64,
    },
    /// A time in which nothing is coded.
    #[error("time {ns} ns: encoding and decoding take at least {LEAST_NS} ns")]
    Free {
        /// What was given.
        ns: f64,
    },
    /// A time that no clock shows.
    #[error("time {ns} ns: times must be numbers from 0 to {MOST_NS}")]
    Time {
        /// What was given.
        ns: f64,
    },
}

#[cfg(test)]
mod tests;
