//! A case on the device: its buffers, the work on them, and what must come of it.
#![allow(unsafe_code)] // a workspace between guards

use mgcomp_codecs::device::{
    Coder, Compress, Decompress, Device, DeviceCodebook, DeviceError, Estimate, Stream, Workspace,
    workspace_len,
};
use mgcomp_codecs::frame::{self, Options};
use mgcomp_codecs::ibp::CodebookSection;
use mgcomp_codecs::{Algorithm, Codec, codec};

use super::case::Case;
use super::error::{CheckError, compare, expect_good, expect_len};
use super::guarded::Guarded;

/// The CPU's codec of an algorithm.
pub(super) fn reference(algorithm: Algorithm) -> Result<&'static dyn Codec, DeviceError> {
    codec(algorithm).ok_or(DeviceError::NoKernels(algorithm))
}

/// The frame that the CPU makes of a case.
pub(super) fn frame_of(coder: &Coder, case: &Case, checksum: bool) -> Result<Vec<u8>, CheckError> {
    frame_by(reference(coder.algorithm())?, coder, case, checksum)
}

/// The frame that `codec` makes of a case.
fn frame_by(codec: &dyn Codec, coder: &Coder, case: &Case, checksum: bool) -> Result<Vec<u8>, CheckError> {
    let options = Options { chunk_size: coder.chunk_size(), checksum };
    frame::encode(codec, case.element, &case.raw, options)
        .map_err(|source| CheckError::Frame { case: case.to_string(), source })
}

/// A case and its buffers.
pub(super) struct Rig {
    pub(super) case: Case,
    /// The CPU's frame, which the device must make as well.
    pub(super) frame: Vec<u8>,
    /// The CPU's codec, where it has learnt from the bytes, and its codebook.
    fitted: Option<Box<dyn Codec>>,
    codebook: Option<DeviceCodebook>,
    raw: Guarded,
    coded: Guarded,
    /// A frame of the CPU, to decode; it may have checksums.
    foreign: Guarded,
    back: Guarded,
    /// Status and length of `compress`, status of `decompress`, status and length of `estimate`.
    words: Guarded,
}

impl Rig {
    pub(super) fn new(
        device: &Device,
        stream: &Stream,
        coder: &Coder,
        case: Case,
        checksum: bool,
    ) -> Result<Self, CheckError> {
        let len = case.raw.len() as u64;
        let foreign = frame_of(coder, &case, checksum)?;
        let fitted = reference(coder.algorithm())?.fitted(case.element, &case.raw, usize::MAX);
        let section = fitted.as_ref().and_then(|codec| codec.codebook());
        let codebook = section.as_ref().and_then(CodebookSection::carried);
        let codebook = codebook.map(|codebook| device.codebook(stream, codebook));
        Ok(Self {
            codebook: codebook.transpose()?,
            fitted,
            frame: frame_of(coder, &case, false)?,
            raw: Guarded::new(device, stream, "the source", &case.raw, case.offset)?,
            coded: Guarded::poisoned(device, stream, "the frame", coder.max_frame_len(len), 0)?,
            foreign: Guarded::new(device, stream, "the CPU's frame", &foreign, 0)?,
            back: Guarded::poisoned(device, stream, "what came back", len, case.back_offset)?,
            words: Guarded::poisoned(device, stream, "the words", 5 * 8, 0)?,
            case,
        })
    }

    pub(super) fn compress(&self) -> Compress<'_> {
        let words = self.words.region();
        let (src, dst) = (self.raw.region(), self.coded.region());
        let (element, codebook) = (self.case.element, self.codebook.as_ref());
        Compress { element, src, dst, codebook, status: words.word(0), len: words.word(8) }
    }

    /// Of the CPU's frame.
    pub(super) fn decompress(&self) -> Decompress<'_> {
        let status = self.words.region().word(16);
        Decompress { src: self.foreign.region(), src_len: None, dst: self.back.region(), status }
    }

    /// Of the frame that `compress` leaves.
    pub(super) fn decompress_own(&self) -> Decompress<'_> {
        let src_len = Some(self.words.region().word(8));
        Decompress { src: self.coded.region(), src_len, ..self.decompress() }
    }

    pub(super) fn estimate(&self) -> Estimate<'_> {
        let words = self.words.region();
        let (status, len) = (words.word(24), words.word(32));
        let (element, codebook) = (self.case.element, self.codebook.as_ref());
        Estimate { element, src: self.raw.region(), codebook, status, len }
    }

    /// Puts other raw bytes, as many, into the place of those before.
    pub(super) fn refill(&mut self, stream: &Stream, coder: &Coder, raw: Vec<u8>) -> Result<(), CheckError> {
        stream.upload(&raw, self.raw.region())?;
        self.case.raw = raw;
        // A codebook stays as it is.
        let codec = self.fitted.as_deref().map_or_else(|| reference(coder.algorithm()), Ok)?;
        self.frame = frame_by(codec, coder, &self.case, false)?;
        Ok(())
    }

    /// Compares all that the device has made, when it is done, and looks at every guard.
    pub(super) fn check(&self, stream: &Stream) -> Result<(), CheckError> {
        let case = &self.case;
        let words = self.words.read_words(stream, case)?;
        expect_good(case, "compressing", words[0])?;
        expect_len(case, "the frame", words[1], self.frame.len())?;
        expect_good(case, "decompressing", words[2])?;
        expect_good(case, "estimating", words[3])?;
        expect_len(case, "the estimated frame", words[4], self.frame.len())?;
        let coded = self.coded.read(stream, case)?;
        compare(case, "the frame", &coded[..self.frame.len()], &self.frame)?;
        compare(case, "what came back", &self.back.read(stream, case)?, &case.raw)?;
        compare(case, "the source", &self.raw.read(stream, case)?, &case.raw)?;
        self.foreign.read(stream, case)?;
        Ok(())
    }
}

/// A workspace between guards.
pub(super) struct Scratch {
    memory: Guarded,
}

impl Scratch {
    /// For buffers of these lengths.
    pub(super) fn new(
        device: &Device,
        stream: &Stream,
        coder: &Coder,
        raw_lens: &[u64],
    ) -> Result<Self, DeviceError> {
        Self::of_len(device, stream, workspace_len(coder.chunk_size(), raw_lens))
    }

    /// For launches that need `len` bytes of workspace.
    pub(super) fn of_len(device: &Device, stream: &Stream, len: u64) -> Result<Self, DeviceError> {
        let zeros = vec![0; len as usize];
        Ok(Self { memory: Guarded::new(device, stream, "the workspace", &zeros, 0)? })
    }

    pub(super) fn workspace(&self) -> Workspace<'_> {
        // SAFETY: the memory was zero; the calls on one stream leave it so, and nothing else writes there.
        unsafe { Workspace::from_region(self.memory.region()) }
    }

    /// Fails unless all of it is zero again.
    pub(super) fn check(&self, stream: &Stream, case: &dyn std::fmt::Display) -> Result<(), CheckError> {
        let bytes = self.memory.read(stream, case)?;
        match bytes.iter().position(|byte| *byte != 0) {
            Some(at) => Err(CheckError::Workspace { case: case.to_string(), at }),
            None => Ok(()),
        }
    }
}
