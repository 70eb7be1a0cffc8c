//! What was measured of every transfer under every codec.

use std::time::Duration;

use mgcomp_codecs::frame::Options;
use mgcomp_codecs::{Algorithm, Codec, Cpu, Element, codecs_on, frame};

use super::completion::Sent;
use super::sequence::Cut;
use super::source::Source;
use crate::error::BenchError;
use crate::timing::{Buffer, Candidate, CandidateError, Framed, bring_back};

/// Samples of short calls take at least this long, by as many calls as that needs.
const SAMPLE: Duration = Duration::from_micros(60);
/// DEFLATE is so slow that longer transfers are timed on so much of them, and the rest is taken to go and to shrink alike.
pub(super) const DEFLATED_BYTES: usize = 64 << 10;
/// What noise may shrink to.
const NOISE: f64 = 0.99;

/// A frame, and what making and reading it takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Coded {
    pub(super) bytes: u64,
    pub(super) encode_ns: f64,
    pub(super) decode_ns: f64,
}

/// By cut and number of the algorithm.
pub(super) struct Table {
    rows: Vec<[Option<Coded>; 16]>,
    lens: Vec<u64>,
}

impl Table {
    /// Measures every cut under every codec. All cuts have their turn in every round, so that what disturbs the machine for
    /// a while spoils one time of each and not all times of one.
    pub(super) fn measure(
        cuts: &[Cut],
        sources: &[Source],
        threads: usize,
        rounds: usize,
    ) -> Result<Self, BenchError> {
        let mut contest = Contest::new(cuts, sources, threads)?;
        let mut times: Vec<[Times; 16]> = cuts.iter().map(|_| Default::default()).collect();
        for round in 0..rounds {
            for (cut, times) in cuts.iter().zip(&mut times) {
                contest.round(cut, &sources[cut.source], times, round == 0)?;
            }
        }
        let rows = times.into_iter().map(|times| times.map(Times::median)).collect();
        Ok(Self { rows, lens: cuts.iter().map(|cut| cut.len as u64).collect() })
    }

    /// Of a single cut.
    #[cfg(test)]
    pub(super) fn of_cut(raw_bytes: u64, coded: impl Fn(Algorithm) -> Coded) -> Self {
        let mut row = [None; 16];
        for algorithm in Algorithm::ALL.into_iter().filter(|&algorithm| algorithm != Algorithm::None) {
            row[usize::from(algorithm.number())] = Some(coded(algorithm));
        }
        Self { rows: vec![row], lens: vec![raw_bytes] }
    }

    pub(super) fn coded(&self, cut: usize, algorithm: Algorithm) -> Option<Coded> {
        self.rows[cut][usize::from(algorithm.number())]
    }

    /// What becomes of a cut under an algorithm. A frame that is no shorter goes out raw: then encoding was in vain.
    pub(super) fn sent(&self, cut: usize, raw_bytes: u64, algorithm: Algorithm) -> Option<Sent> {
        if algorithm == Algorithm::None {
            return Some(Sent { wire_bytes: raw_bytes, encode_ns: 0.0, decode_ns: 0.0 });
        }
        let Coded { bytes, encode_ns, decode_ns } = self.coded(cut, algorithm)?;
        let shorter = bytes < raw_bytes;
        let decode_ns = if shorter { decode_ns } else { 0.0 };
        Some(Sent { wire_bytes: bytes.min(raw_bytes), encode_ns, decode_ns })
    }

    /// Whether no codec shortens a cut by more than a hair.
    pub(super) fn is_noise(&self, cut: usize) -> bool {
        let raw_bytes = self.lens[cut] as f64;
        self.rows[cut].iter().flatten().all(|coded| coded.bytes as f64 >= NOISE * raw_bytes)
    }
}

/// What was measured of one codec on one cut.
#[derive(Default)]
struct Times {
    /// Of all of the cut, even if a part stands for it.
    bytes: u64,
    encode_ns: Vec<f64>,
    decode_ns: Vec<f64>,
}

impl Times {
    /// None of a codec that is not in the contest.
    fn median(self) -> Option<Coded> {
        let (encode_ns, decode_ns) = (median(self.encode_ns)?, median(self.decode_ns)?);
        Some(Coded { bytes: self.bytes, encode_ns, decode_ns })
    }
}

/// All codecs, one cut after the other.
struct Contest {
    entrants: Vec<Framed>,
    back: Buffer,
}

/// A cut, or the part of it that stands for the whole.
struct Piece<'a> {
    source: &'a Source,
    element: Element,
    raw: &'a [u8],
    back: &'a mut [u8],
}

impl Contest {
    /// With memory for the longest cut.
    fn new(cuts: &[Cut], sources: &[Source], threads: usize) -> Result<Self, BenchError> {
        let longest = cuts.iter().max_by_key(|cut| cut.len);
        let (len, source) = longest.map_or((0, 0), |cut| (cut.len, cut.source));
        let back = Buffer::new(len).map_err(|source| BenchError::Buffer { bytes: len, source })?;
        let enter = |codec: &dyn Codec| {
            let (algorithm, len) = (codec.algorithm(), part_of(codec.algorithm(), len));
            let framed =
                Framed::new(Cpu::active(), algorithm, Element::U8, len, Options::for_len(len), threads);
            framed.map_err(|error| sources[source].failed(algorithm, error))
        };
        Ok(Self { entrants: codecs_on(Cpu::active()).map(enter).collect::<Result<_, _>>()?, back })
    }

    /// Times every codec on a cut once more.
    fn round(
        &mut self,
        cut: &Cut,
        source: &Source,
        times: &mut [Times; 16],
        is_first: bool,
    ) -> Result<(), BenchError> {
        bring_back(&source.raw()[cut.offset..][..cut.len]);
        bring_back(&self.back[..cut.len]);
        for framed in &mut self.entrants {
            let algorithm = framed.algorithm();
            if algorithm == Algorithm::Deflate && !is_first {
                continue;
            }
            let len = part_of(algorithm, cut.len);
            let raw = &source.raw()[cut.offset..][..len];
            let mut piece = Piece { source, element: cut.element, raw, back: &mut self.back[..len] };
            framed.fit(cut.element, len, Options::for_len(len)).map_err(|e| source.failed(algorithm, e))?;
            // A part stands for the whole.
            let by = cut.len as f64 / len as f64;
            let times = &mut times[usize::from(algorithm.number())];
            if is_first {
                times.bytes = (piece.check(framed)? as f64 * by).round() as u64;
            }
            let (encoded, decoded) = piece.time(framed).map_err(|e| source.failed(algorithm, e))?;
            times.encode_ns.push(encoded.as_nanos() as f64 * by);
            times.decode_ns.push(decoded.as_nanos() as f64 * by);
        }
        Ok(())
    }
}

impl Piece<'_> {
    /// Codes, decodes and compares once; returns the length of the frame.
    fn check(&mut self, framed: &mut Framed) -> Result<u64, BenchError> {
        let Self { source, element, raw, back } = self;
        let algorithm = framed.algorithm();
        framed.encode(raw, 1).map_err(|e| source.failed(algorithm, e))?;
        back.iter_mut().zip(*raw).for_each(|(back, raw)| *back = !raw);
        framed.decode(back, 1).map_err(|e| source.failed(algorithm, e))?;
        let path = || source.item.path.clone();
        if back != raw {
            let offset = raw.iter().zip(&**back).position(|(raw, back)| raw != back).unwrap_or_default();
            return Err(BenchError::RoundTrip { path: path(), algorithm: algorithm.name(), offset });
        }
        let coded = framed.coded_len();
        let codec = mgcomp_codecs::codec(algorithm).expect("it is in the table");
        // The size-only path of DEFLATE does all the work again.
        let estimated = match algorithm {
            Algorithm::Deflate => coded,
            _ => frame::frame_len(codec, *element, raw, Options::for_len(raw.len())),
        };
        if estimated != coded {
            let algorithm = algorithm.name();
            return Err(BenchError::Estimate { path: path(), algorithm, estimated, coded });
        }
        Ok(coded)
    }

    /// What encoding takes, and what decoding does. Decoding has a first run that does not count, however long: a destination
    /// that all other codecs have had in turn makes it slower at some lengths than it is where one codec has it.
    fn time(&mut self, framed: &mut Framed) -> Result<(Duration, Duration), CandidateError> {
        let encoded = sample(|calls| framed.encode(self.raw, calls))?;
        framed.decode(self.back, 1)?;
        Ok((encoded, sample(|calls| framed.decode(self.back, calls))?))
    }
}

/// What one of many calls takes.
fn sample(
    mut time: impl FnMut(usize) -> Result<Duration, CandidateError>,
) -> Result<Duration, CandidateError> {
    let first = time(1)?;
    let calls = SAMPLE.as_nanos().div_ceil(first.as_nanos().max(10)) as usize;
    // A first call that is a sample already has no caches to warm.
    Ok(if calls == 1 { first } else { time(calls)? / calls as u32 })
}

/// So much of a cut is timed.
fn part_of(algorithm: Algorithm, len: usize) -> usize {
    if algorithm == Algorithm::Deflate { len.min(DEFLATED_BYTES) } else { len }
}

fn median(mut times_ns: Vec<f64>) -> Option<f64> {
    times_ns.sort_unstable_by(f64::total_cmp);
    times_ns.get(times_ns.len() / 2).copied()
}
