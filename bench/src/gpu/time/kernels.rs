//! Our kernels as a subject.

use mgcomp_codecs::Algorithm;
use mgcomp_codecs::device::{
    Buffer, Coder, Compress, Decompress, Device, DeviceCodebook, Estimate, Status, Stream, Workspace,
    workspace_len,
};
use mgcomp_codecs::frame::ChunkSize;

use super::contest::{Operation, Subject};
use super::{Place, TimeError};

/// Words of each buffer: length and status of the frame, status of decoding, length and status of the estimate.
const WORDS: usize = 5;
const WORD_BYTES: usize = 8;

/// The kernels of one algorithm, and room for their frames.
pub(super) struct Kernels {
    coder: Coder,
    codebook: Option<DeviceCodebook>,
    coded: Buffer,
    words: Buffer,
    workspace: Workspace<'static>,
    sets: usize,
    stride: u64,
}

impl Kernels {
    /// For calls on `stream`.
    pub(super) fn new(
        device: &Device,
        stream: &Stream,
        algorithm: Algorithm,
        place: &Place,
    ) -> Result<Self, TimeError> {
        let coder = device.coder(algorithm, ChunkSize::for_len(place.bytes))?;
        let stride = coder.max_frame_len(place.bytes as u64).next_multiple_of(256);
        let workspace_len = workspace_len(coder.chunk_size(), &[place.bytes as u64]);
        let coded = device.alloc(place.sets as u64 * stride)?;
        let words = device.alloc((place.sets * WORDS * WORD_BYTES) as u64)?;
        let workspace = device.workspace(stream, workspace_len)?;
        let codebook = place.codebook(device, stream, algorithm)?;
        Ok(Self { coder, codebook, coded, words, workspace, sets: place.sets, stride })
    }
}

impl Subject for Kernels {
    const IS_LIBRARY: bool = false;
    const ESTIMATES: bool = true;

    fn enqueue(
        &mut self,
        operation: Operation,
        set: usize,
        place: &Place,
        stream: &Stream,
    ) -> Result<(), TimeError> {
        let (element, raw, back) = (place.element, place.raw(set), place.back(set));
        let start = set as u64 * self.stride;
        let room = self.coded.slice(start..start + self.stride);
        let word = |at: usize| self.words.region().word(((set * WORDS + at) * WORD_BYTES) as u64);
        let codebook = self.codebook.as_ref();
        let workspace = &mut self.workspace;
        match operation {
            Operation::Copy => stream.copy(raw, back)?,
            Operation::Encode => {
                let job = Compress { element, src: raw, dst: room, codebook, len: word(0), status: word(1) };
                self.coder.compress(stream, workspace, &[job])?;
            }
            Operation::Decode => {
                let job = Decompress { src: room, src_len: Some(word(0)), dst: back, status: word(2) };
                self.coder.decompress(stream, workspace, &[job])?;
            }
            Operation::Estimate => {
                let job = Estimate { element, src: raw, codebook, len: word(3), status: word(4) };
                self.coder.estimate(stream, workspace, &[job])?;
            }
        }
        Ok(())
    }

    fn settle(&mut self, stream: &Stream) -> Result<u64, TimeError> {
        let mut bytes = vec![0; self.sets * WORDS * WORD_BYTES];
        stream.download(self.words.region(), &mut bytes)?;
        let words: Vec<u64> = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let mut coded_bytes = 0;
        for (set, words) in words.chunks(WORDS).enumerate() {
            let &[coded, encoded, decoded, estimated, told] = words else { continue };
            for status in [encoded, decoded, told] {
                Status::from_word(status).check().map_err(|refused| TimeError::Refused { set, refused })?;
            }
            if estimated != coded {
                return Err(TimeError::Estimate { set, estimated, coded });
            }
            coded_bytes += coded;
        }
        Ok(coded_bytes)
    }
}
