//! What was measured of every transfer under every codec.

use std::time::Duration;

use mgcomp_codecs::frame::Options;
use mgcomp_codecs::{Algorithm, Codec, Cpu, codecs_on, frame};

use super::completion::Sent;
use super::sequence::Cut;
use super::source::Source;
use crate::error::BenchError;
use crate::timing::{Buffer, Candidate, Framed};

/// Samples of short calls take at least this long, by as many calls as that needs.
const SAMPLE: Duration = Duration::from_micros(60);
/// DEFLATE is so slow that longer transfers are timed on so much of them, and the rest is taken to go alike.
const DEFLATED_BYTES: usize = 64 << 10;
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
    /// Measures every cut under every codec.
    pub(super) fn measure(
        cuts: &[Cut],
        sources: &[Source],
        threads: usize,
        rounds: usize,
    ) -> Result<Self, BenchError> {
        let longest = cuts.iter().map(|cut| cut.len).max().unwrap_or_default();
        let mut back =
            Buffer::new(longest).map_err(|source| BenchError::Buffer { bytes: longest, source })?;
        let measure = |cut: &Cut| {
            let source = &sources[cut.source];
            let raw = &source.raw()[cut.offset..][..cut.len];
            let mut contest = Contest { cut, source, raw, back: &mut back[..cut.len], threads };
            contest.run(rounds)
        };
        let rows = cuts.iter().map(measure).collect::<Result<_, _>>()?;
        Ok(Self { rows, lens: cuts.iter().map(|cut| cut.len as u64).collect() })
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

/// All codecs on one cut.
struct Contest<'a> {
    cut: &'a Cut,
    source: &'a Source,
    raw: &'a [u8],
    back: &'a mut [u8],
    threads: usize,
}

struct Entrant {
    algorithm: Algorithm,
    framed: Framed,
    raw_len: usize,
    coded_len: u64,
    encode: Vec<Duration>,
    decode: Vec<Duration>,
}

impl Contest<'_> {
    /// Every codec has its turn in every round, so that all see the same machine.
    fn run(&mut self, rounds: usize) -> Result<[Option<Coded>; 16], BenchError> {
        let algorithms = codecs_on(Cpu::active()).map(Codec::algorithm);
        let mut entrants =
            algorithms.map(|algorithm| self.enter(algorithm)).collect::<Result<Vec<_>, _>>()?;
        for round in 0..rounds {
            for entrant in &mut entrants {
                if entrant.algorithm != Algorithm::Deflate || round == 0 {
                    self.time(entrant)?;
                }
            }
        }
        let mut row = [None; 16];
        for entrant in entrants {
            // A part stands for the whole.
            let by = self.raw.len() as f64 / entrant.raw_len as f64;
            row[usize::from(entrant.algorithm.number())] = Some(Coded {
                bytes: (entrant.coded_len as f64 * by).round() as u64,
                encode_ns: median_ns(entrant.encode) * by,
                decode_ns: median_ns(entrant.decode) * by,
            });
        }
        Ok(row)
    }

    /// Codes, decodes and compares once.
    fn enter(&mut self, algorithm: Algorithm) -> Result<Entrant, BenchError> {
        let raw_len = match algorithm {
            Algorithm::Deflate => self.raw.len().min(DEFLATED_BYTES),
            _ => self.raw.len(),
        };
        let (raw, back) = (&self.raw[..raw_len], &mut self.back[..raw_len]);
        let options = Options::for_len(raw_len);
        let element = self.cut.element;
        let framed = Framed::new(Cpu::active(), algorithm, element, raw_len, options, self.threads);
        let mut framed = framed.map_err(|source| self.source.failed(algorithm, source))?;
        framed.encode(raw, 1).map_err(|source| self.source.failed(algorithm, source))?;
        back.iter_mut().zip(raw).for_each(|(back, raw)| *back = !raw);
        framed.decode(back, 1).map_err(|source| self.source.failed(algorithm, source))?;
        if back != raw {
            let offset = raw.iter().zip(&*back).position(|(raw, back)| raw != back).unwrap_or_default();
            let path = self.source.item.path.clone();
            return Err(BenchError::RoundTrip { path, algorithm: algorithm.name(), offset });
        }
        let coded_len = framed.coded_len();
        let codec = mgcomp_codecs::codec(algorithm).expect("it is in the table");
        // The size-only path of DEFLATE does all the work again.
        let estimated = if algorithm == Algorithm::Deflate {
            coded_len
        } else {
            frame::frame_len(codec, element, raw, options)
        };
        if estimated != coded_len {
            let path = self.source.item.path.clone();
            return Err(BenchError::Estimate {
                path,
                algorithm: algorithm.name(),
                estimated,
                coded: coded_len,
            });
        }
        Ok(Entrant { algorithm, framed, raw_len, coded_len, encode: Vec::new(), decode: Vec::new() })
    }

    fn time(&mut self, entrant: &mut Entrant) -> Result<(), BenchError> {
        let Entrant { algorithm, framed, raw_len, encode, decode, .. } = entrant;
        let (raw, back) = (&self.raw[..*raw_len], &mut self.back[..*raw_len]);
        let sample = |time: &mut dyn FnMut(usize) -> Result<Duration, _>| {
            let first = time(1)?;
            let calls = SAMPLE.as_nanos().div_ceil(first.as_nanos().max(10)) as usize;
            // A first call that is a sample already has no caches to warm.
            if calls == 1 { Ok(first) } else { Ok(time(calls)? / calls as u32) }
        };
        let times = sample(&mut |calls| framed.encode(raw, calls))
            .and_then(|encoded| Ok((encoded, sample(&mut |calls| framed.decode(back, calls))?)));
        let (encoded, decoded) = times.map_err(|source| self.source.failed(*algorithm, source))?;
        encode.push(encoded);
        decode.push(decoded);
        Ok(())
    }
}

fn median_ns(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_nanos() as f64
}
