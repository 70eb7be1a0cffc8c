//! How fast each algorithm is on the files, for the plot.

use std::time::Duration;

use mgcomp_codecs::frame::Options;
use mgcomp_codecs::{Algorithm, Cpu};

use crate::baseline::Library;
use crate::data::Item;
use crate::error::BenchError;
use crate::timing::{Blocks, Buffer, Candidate, CandidateError, Framed, memcpy, race};
use mgcomp_plot::Mark;

/// Time for one file under one algorithm.
const BUDGET: Duration = Duration::from_millis(5);

/// Adds up what files take under one algorithm.
struct Tally {
    name: &'static str,
    is_library: bool,
    raw_bytes: u64,
    coded_bytes: u64,
    encode: Duration,
    decode: Duration,
}

/// Bytes and times by algorithm, and those of memcpy.
#[derive(Default)]
pub(super) struct Speeds {
    tallies: Vec<Tally>,
    memcpy_bytes: u64,
    memcpy: Duration,
}

#[derive(Clone, Copy)]
enum Operation {
    Memcpy,
    Encode,
    Decode,
}

impl Speeds {
    /// Times `algorithms` and the libraries on the file `item` with the content `content`.
    pub(super) fn add(
        &mut self,
        item: &Item,
        content: &[u8],
        algorithms: impl Iterator<Item = Algorithm>,
    ) -> Result<(), BenchError> {
        let bytes = content.len();
        let buffer = || Buffer::new(bytes).map_err(|source| BenchError::Buffer { bytes, source });
        let (mut raw, mut out) = (buffer()?, buffer()?);
        raw.copy_from_slice(content);
        for algorithm in algorithms {
            let name = algorithm.name();
            let options = Options { checksum: false, ..Options::for_len(bytes) };
            let framed = Framed::new(Cpu::active(), algorithm, item.element, bytes, options, 1);
            let candidate = framed.map_err(|source| failed(item, name, source))?;
            self.time(item, name, false, candidate, &raw, &mut out)?;
        }
        for library in Library::ALL {
            let candidate = Blocks::new(library, bytes, bytes, 1);
            self.time(item, library.name(), true, candidate, &raw, &mut out)?;
        }
        Ok(())
    }

    fn time(
        &mut self,
        item: &Item,
        name: &'static str,
        is_library: bool,
        mut candidate: impl Candidate,
        raw: &[u8],
        out: &mut [u8],
    ) -> Result<(), BenchError> {
        let operations = [Operation::Memcpy, Operation::Encode, Operation::Decode];
        let best = race(&operations, BUDGET, |operation, calls| match operation {
            Operation::Memcpy => Ok(memcpy(raw, out, 1, calls)),
            Operation::Encode => candidate.encode(raw, calls),
            Operation::Decode => candidate.decode(out, calls),
        })
        .map_err(|source| failed(item, name, source))?;
        // memcpy left the right answer there.
        out.iter_mut().zip(raw).for_each(|(out, raw)| *out = !raw);
        candidate.decode(out, 1).map_err(|source| failed(item, name, source))?;
        if raw != out {
            let offset = raw.iter().zip(out.iter()).position(|(raw, out)| raw != out).unwrap_or_default();
            return Err(BenchError::RoundTrip { path: item.path.clone(), algorithm: name, offset });
        }
        self.memcpy_bytes += raw.len() as u64;
        self.memcpy += best[0];
        let tally = self.tally(name, is_library);
        tally.raw_bytes += raw.len() as u64;
        tally.coded_bytes += candidate.coded_len();
        tally.encode += best[1];
        tally.decode += best[2];
        Ok(())
    }

    fn tally(&mut self, name: &'static str, is_library: bool) -> &mut Tally {
        let found = self.tallies.iter().position(|tally| tally.name == name);
        let at = found.unwrap_or_else(|| {
            let (encode, decode) = (Duration::ZERO, Duration::ZERO);
            self.tallies.push(Tally { name, is_library, raw_bytes: 0, coded_bytes: 0, encode, decode });
            self.tallies.len() - 1
        });
        &mut self.tallies[at]
    }

    /// Whether any file could be timed.
    pub(super) fn has_any(&self) -> bool {
        !self.tallies.is_empty()
    }

    /// 10⁹ bytes per second.
    pub(super) fn memcpy_gbps(&self) -> f64 {
        gbps(self.memcpy_bytes, self.memcpy)
    }

    /// One per algorithm, every byte of all files weighing the same.
    pub(super) fn marks(&self) -> Vec<Mark> {
        let mark = |tally: &Tally| Mark {
            name: tally.name,
            ratio: tally.raw_bytes as f64 / tally.coded_bytes as f64,
            encode_gbps: gbps(tally.raw_bytes, tally.encode),
            decode_gbps: gbps(tally.raw_bytes, tally.decode),
            is_library: tally.is_library,
        };
        self.tallies.iter().map(mark).collect()
    }
}

fn failed(item: &Item, algorithm: &'static str, source: CandidateError) -> BenchError {
    BenchError::Candidate { path: item.path.clone(), algorithm, source }
}

fn gbps(bytes: u64, time: Duration) -> f64 {
    bytes as f64 / time.as_nanos().max(1) as f64
}

#[cfg(test)]
mod tests {
    use mgcomp_codecs::Element;

    use super::*;

    #[test]
    fn files_are_added_up() {
        let item = Item { label: "x".into(), path: "x".into(), element: Element::U32, kind: None };
        let mut speeds = Speeds::default();
        for len in [4096, 2048] {
            speeds.add(&item, &vec![0; len], [Algorithm::Zvc].into_iter()).unwrap();
        }
        let names: Vec<_> = speeds.tallies.iter().map(|tally| (tally.name, tally.raw_bytes)).collect();
        assert_eq!(names, [("zvc", 6144), ("lz4", 6144), ("zstd-1", 6144)]);
        // Each algorithm had its own memcpy.
        assert_eq!(speeds.memcpy_bytes, 3 * 6144);
        // Header 16, table 16, 32 and 16 masks of 4 bytes.
        assert_eq!(speeds.tallies[0].coded_bytes, (32 + 128) + (32 + 64));
        assert!(speeds.marks().iter().all(|mark| mark.encode_gbps > 0.0 && mark.decode_gbps.is_finite()));
        assert!((speeds.marks()[0].ratio - 24.0).abs() < 1e-9);
    }

    #[test]
    fn times_add_up_like_bytes() {
        let (encode, decode) = (Duration::from_nanos(500), Duration::from_nanos(250));
        let tally = Tally { name: "x", is_library: true, raw_bytes: 1000, coded_bytes: 400, encode, decode };
        let speeds = Speeds { tallies: vec![tally], memcpy_bytes: 3000, memcpy: Duration::from_nanos(300) };
        assert_eq!(speeds.memcpy_gbps(), 10.0);
        let mark = &speeds.marks()[0];
        assert_eq!((mark.ratio, mark.encode_gbps, mark.decode_gbps), (2.5, 2.0, 4.0));
    }
}
