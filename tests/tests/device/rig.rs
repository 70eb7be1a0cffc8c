//! What the tests of devices share: buffers on a device, and jobs made of them.

use mgcomp_codecs::device::{
    Buffer, Cache, Coder, Compress, Decompress, Device, DeviceCodebook, DeviceError, Estimate, Region,
    Status, Stream, Workspace, workspace_len,
};
use mgcomp_codecs::frame::ChunkSize;
use mgcomp_codecs::ibp::Codebook;
use mgcomp_codecs::{Algorithm, Cpu, Element, codec_on};
pub(crate) use mgcomp_tests::stub::OUT_OF_MEMORY;

/// Every algorithm that runs on devices.
pub(crate) fn algorithms() -> Vec<Algorithm> {
    mgcomp_codecs::device::algorithms().collect()
}

/// The device, without a cache.
pub(crate) fn open() -> Device {
    Device::open_with(0, Cache::Off).unwrap()
}

/// A buffer that holds `bytes`.
pub(crate) fn upload(device: &Device, stream: &Stream, bytes: &[u8]) -> Result<Buffer, DeviceError> {
    let buffer = device.alloc(bytes.len() as u64)?;
    stream.upload(bytes, buffer.region())?;
    Ok(buffer)
}

pub(crate) fn download(stream: &Stream, region: Region<'_>) -> Result<Vec<u8>, DeviceError> {
    let mut bytes = vec![0; region.len() as usize];
    stream.download(region, &mut bytes)?;
    Ok(bytes)
}

fn fitted_codebook(algorithm: Algorithm, element: Element, raw: &[u8]) -> Option<Codebook> {
    let codec = codec_on(Cpu::Portable, algorithm)?.fitted(element, raw, usize::MAX)?;
    codec.codebook()?.carried().cloned()
}

/// One buffer on a device with room for all that can become of it.
pub(crate) struct Room {
    pub(crate) element: Element,
    pub(crate) raw: Buffer,
    pub(crate) coded: Buffer,
    pub(crate) back: Buffer,
    /// The codebook that the portable encoder would fit.
    codebook: Option<DeviceCodebook>,
    words: Buffer,
}

impl Room {
    pub(crate) fn new(
        device: &Device,
        stream: &Stream,
        coder: &Coder,
        element: Element,
        raw: &[u8],
    ) -> Result<Self, DeviceError> {
        let len = raw.len() as u64;
        Ok(Self {
            element,
            raw: upload(device, stream, raw)?,
            coded: device.alloc(coder.max_frame_len(len))?,
            back: device.alloc(len)?,
            codebook: fitted_codebook(coder.algorithm(), element, raw)
                .map(|codebook| device.codebook(stream, &codebook))
                .transpose()?,
            words: upload(device, stream, &[0xee; 40])?,
        })
    }

    pub(crate) fn compress(&self) -> Compress<'_> {
        let words = self.words.region();
        let (src, dst) = (self.raw.region(), self.coded.region());
        let codebook = self.codebook.as_ref();
        Compress { element: self.element, src, dst, codebook, len: words.word(0), status: words.word(8) }
    }

    /// Of the frame that `compress` leaves.
    pub(crate) fn decompress(&self) -> Decompress<'_> {
        let words = self.words.region();
        Decompress {
            src: self.coded.region(),
            src_len: Some(words.word(0)),
            dst: self.back.region(),
            status: words.word(16),
        }
    }

    pub(crate) fn estimate(&self) -> Estimate<'_> {
        let words = self.words.region();
        let src = self.raw.region();
        let codebook = self.codebook.as_ref();
        Estimate { element: self.element, src, codebook, len: words.word(24), status: words.word(32) }
    }

    /// The frame, when all is done.
    pub(crate) fn frame(&self, stream: &Stream) -> Result<Vec<u8>, DeviceError> {
        let compress = self.compress();
        let status = Status::from_word(stream.read(compress.status)?);
        assert_eq!(status, Status::GOOD);
        let len = stream.read(compress.len)?;
        download(stream, self.coded.slice(0..len))
    }

    /// The raw bytes that came back, when all is done.
    pub(crate) fn bytes_back(&self, stream: &Stream) -> Result<Vec<u8>, DeviceError> {
        let status = Status::from_word(stream.read(self.decompress().status)?);
        assert_eq!(status, Status::GOOD);
        download(stream, self.back.region())
    }

    /// The estimated length, when all is done.
    pub(crate) fn estimated_len(&self, stream: &Stream) -> Result<u64, DeviceError> {
        let status = Status::from_word(stream.read(self.estimate().status)?);
        assert_eq!(status, Status::GOOD);
        stream.read(self.estimate().len)
    }
}

/// A workspace for buffers of these lengths.
pub(crate) fn workspace(
    device: &Device,
    stream: &Stream,
    chunk_size: ChunkSize,
    raw_lens: &[u64],
) -> Result<Workspace<'static>, DeviceError> {
    device.workspace(stream, workspace_len(chunk_size, raw_lens))
}
