//! Damaged frames: accepted exactly where the CPU accepts them, and nothing outside is touched either way.

use mgcomp_codecs::Algorithm;
use mgcomp_codecs::device::{Coder, Decompress, Device, Status, Stream};
use mgcomp_codecs::frame::{ChunkSize, Frame};

use super::case::Case;
use super::damage::damaged;
use super::error::{CheckError, compare};
use super::guarded::Guarded;
use super::rig::{Scratch, frame_of};
use super::{Extent, Lab};
use crate::data::Random;

/// Frames in a launch.
const BATCH: usize = 32;
/// Damaged frames for each case of the other checks: they are short.
const FRAMES_PER_CASE: usize = 4;
/// Frames stay short, so that damage hits what matters.
const MAX_LEN: usize = 9000;

pub(super) fn check(lab: &Lab<'_>, algorithm: Algorithm) -> Result<Extent, CheckError> {
    let Lab { device, stream, effort } = lab;
    let mut random = Random::new(effort.seed.rotate_left(17) ^ u64::from(algorithm.number()));
    let small = device.coder(algorithm, ChunkSize::SMALL)?;
    // Reads frames of any chunk size, which damage may change.
    let coder = device.coder(algorithm, ChunkSize::LARGE)?;
    let scratch = Scratch::new(device, stream, &coder, &[])?;
    let mut extent = Extent::default();
    while extent.buffers < FRAMES_PER_CASE * effort.cases {
        let mut mutants = Vec::with_capacity(BATCH);
        for n in 0..BATCH {
            mutants.push(Mutant::new(device, stream, &small, extent.buffers + n, &mut random)?);
        }
        let jobs: Vec<_> = mutants.iter().map(Mutant::decompress).collect();
        coder.decompress(stream, &mut scratch.workspace(), &jobs)?;
        for mutant in &mutants {
            mutant.check(stream, algorithm)?;
        }
        scratch.check(stream, &"damaged frames")?;
        extent.add(BATCH, mutants.iter().map(|mutant| mutant.frame.len() as u64).sum());
    }
    Ok(extent)
}

/// A damaged frame, and the place for what it holds.
struct Mutant {
    number: usize,
    frame: Vec<u8>,
    src: Guarded,
    dst: Guarded,
    status: Guarded,
}

impl Mutant {
    fn new(
        device: &Device,
        stream: &Stream,
        coder: &Coder,
        number: usize,
        random: &mut Random,
    ) -> Result<Self, CheckError> {
        let mut case = Case::random(number, ChunkSize::SMALL, random);
        case.raw.truncate(MAX_LEN);
        let frame = damaged(&frame_of(coder, &case, random.percent(25))?, random);
        // Now and then the length that the frame claims, so that a changed one gets past the first check.
        let claimed =
            frame.get(8..16).map_or(0, |b| b.iter().rev().fold(0, |len, b| len << 8 | u64::from(*b)));
        let taken = claimed <= 2 * MAX_LEN as u64 && random.percent(50);
        let len = if taken { claimed } else { case.raw.len() as u64 };
        Ok(Self {
            number,
            src: Guarded::new(device, stream, "a damaged frame", &frame, 0)?,
            dst: Guarded::poisoned(device, stream, "the destination", len, case.back_offset)?,
            status: Guarded::poisoned(device, stream, "the status", 8, 0)?,
            frame,
        })
    }

    fn decompress(&self) -> Decompress<'_> {
        let status = self.status.region().word(0);
        Decompress { src: self.src.region(), src_len: None, dst: self.dst.region(), status }
    }

    fn check(&self, stream: &Stream, algorithm: Algorithm) -> Result<(), CheckError> {
        let head = &self.frame[..self.frame.len().min(32)];
        let case = format!("damaged frame {} ({} bytes: {head:02x?})", self.number, self.frame.len());
        let got = Status::from_word(self.status.read_words(stream, &case)?[0]);
        let back = self.dst.read(stream, &case)?;
        compare(&case, "the frame itself", &self.src.read(stream, &case)?, &self.frame)?;
        match (wanted(algorithm, &self.frame, back.len()), got) {
            (Some(raw), Status::GOOD) => compare(&case, "what came back", &back, &raw),
            (None, Status::GOOD) => Err(CheckError::Accepted { case }),
            (Some(_), got) => Err(CheckError::Refused { case, got }),
            (None, _) => Ok(()),
        }
    }
}

/// The raw bytes of `frame`, if the CPU accepts it as `len` bytes coded by `algorithm`. Checksums in the table are
/// left out, because devices do not compare them.
fn wanted(algorithm: Algorithm, frame: &[u8], len: usize) -> Option<Vec<u8>> {
    let frame = Frame::parse(frame).ok()?;
    let header = frame.header();
    if header.algorithm != algorithm || header.raw_len != len as u64 {
        return None;
    }
    let mut raw = vec![0; len];
    for (mut chunk, out) in frame.chunks().zip(raw.chunks_mut(header.chunk_size.bytes())) {
        chunk.checksum = None;
        frame.decode_chunk(&chunk, out).ok()?;
    }
    Some(raw)
}

#[cfg(test)]
mod tests {
    use mgcomp_codecs::{Element, codec, frame};

    use super::*;

    #[test]
    fn the_cpu_judges_all_but_checksums() {
        let options = frame::Options { chunk_size: ChunkSize::SMALL, checksum: true };
        let zvc = codec(Algorithm::Zvc).unwrap();
        let mut coded = frame::encode(zvc, Element::U8, &[7; 100], options).unwrap();
        assert_eq!(wanted(Algorithm::Zvc, &coded, 100), Some(vec![7; 100]));
        assert_eq!(wanted(Algorithm::Rle, &coded, 100), None);
        assert_eq!(wanted(Algorithm::Zvc, &coded, 99), None);
        // Behind the header: the chunk's end, then its checksum.
        coded[20] ^= 1;
        assert_eq!(wanted(Algorithm::Zvc, &coded, 100), Some(vec![7; 100]));
        coded.pop();
        assert_eq!(wanted(Algorithm::Zvc, &coded, 100), None);
    }
}
