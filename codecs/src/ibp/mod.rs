//! Invariant bit packing: bits that hardly ever change in a set of tensors are left out.
//!
//! A [`Codebook`], [fitted](fit) to the set once, says which bits of a tensor those are. A tensor is cut into
//! granules of 4 or 8 bytes; a granule whose invariant bits are as the codebook says *participates*, and only
//! its other bits are kept. [`Packer`] packs single tensors, so that a table of rows can be packed in place;
//! [`Ibp`] codes the chunks of a frame, which names or carries the codebook.
//!
//! # Layout of a chunk of *g* whole granules
//! A buffer is one tensor after the other, the first at its start. A chunk begins and ends anywhere in them.
//!
//! | section | length in bytes | content |
//! |---|---|---|
//! | clusters | 0, or one per tensor | with more than one cluster in the codebook: that of each tensor, whole or cut, which has granules in the chunk |
//! | participation | ⌈g / 8⌉ | bit i = granule i participates; bits past the last granule are zero |
//! | kept | ⌈bits / 8⌉ | the bits left of each granule in order, lowest first; unused bits are zero |
//! | tail | raw length mod granule | what is left of the chunk, as it is |
//!
//! # Source
//! *Reducing the GPU Memory Bottleneck with Lossless Compression for ML*, section 4.

// What only the vector code uses is dead where there is none.
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod bits;
mod buffer;
mod chunks;
mod cluster;
mod codebook;
mod counts;
mod fit;
mod levels;
mod lines;
mod packer;
mod plan;
mod portable;
mod section;
mod tally;

pub use codebook::{Codebook, CodebookError, Granule, Invariants, MAX_CLUSTERS, MAX_CODEBOOK_LEN};
pub use fit::{FitOptions, fit, fit_sample};
pub use levels::THRESHOLDS;
pub use packer::{Form, Packed, Packer};
pub use section::CodebookSection;

use buffer::fit_buffer;

use crate::chunk::{CHUNK_ALIGN, ChunkError};
use crate::{Algorithm, Codec, Cpu, Element};

/// The IBP codec for the chunks of a frame.
#[derive(Debug)]
pub struct Ibp {
    cpu: Cpu,
    packer: Packer,
    /// Whether frames carry the codebook; else they name it.
    carries: bool,
}

impl Ibp {
    /// The codec without a codebook: it saves nothing before it is [fitted](Codec::fitted).
    #[must_use]
    pub fn on(cpu: Cpu) -> Self {
        Self { cpu, packer: Packer::on(cpu, Codebook::empty()), carries: true }
    }

    /// The codec for buffers of tensors that `codebook` was fitted to. Frames carry the codebook.
    ///
    /// # Errors
    /// [`CodebookError::Cut`] if its tensors have no whole number of granules.
    pub fn with(cpu: Cpu, codebook: Codebook) -> Result<Self, CodebookError> {
        let (tensor_len, granule) = (codebook.tensor_len(), codebook.granule().bytes());
        if !tensor_len.is_multiple_of(granule) {
            return Err(CodebookError::Cut { tensor_len, granule });
        }
        Ok(Self { cpu, packer: Packer::on(cpu, codebook), carries: true })
    }

    /// The same codec on another instruction set.
    pub(crate) fn on_other(&self, cpu: Cpu) -> Self {
        Self { cpu, packer: self.packer.on_other(cpu), carries: self.carries }
    }

    /// The same codec for frames that only name the codebook: their readers must have it.
    #[must_use]
    pub fn naming(self) -> Self {
        Self { carries: false, ..self }
    }
}

impl Codec for Ibp {
    fn algorithm(&self) -> Algorithm {
        Algorithm::Ibp
    }

    fn max_chunk_len(&self, _: Element, raw_len: usize) -> usize {
        chunks::max_len(&self.packer, raw_len).next_multiple_of(CHUNK_ALIGN)
    }

    fn encode_chunk(&self, element: Element, raw: &[u8], coded: &mut [u8]) -> usize {
        self.encode_chunk_at(0, element, raw, coded)
    }

    fn chunk_len(&self, element: Element, raw: &[u8]) -> usize {
        self.chunk_len_at(0, element, raw)
    }

    fn writes_steadily(&self) -> bool {
        true
    }

    fn decode_chunk(&self, element: Element, coded: &[u8], raw: &mut [u8]) -> Result<(), ChunkError> {
        self.decode_chunk_at(0, element, coded, raw)
    }

    fn encode_chunk_at(&self, offset: u64, _: Element, raw: &[u8], coded: &mut [u8]) -> usize {
        chunks::encode(&self.packer, offset, raw, coded)
    }

    fn chunk_len_at(&self, offset: u64, _: Element, raw: &[u8]) -> usize {
        chunks::len(&self.packer, offset, raw)
    }

    fn decode_chunk_at(
        &self,
        offset: u64,
        _: Element,
        coded: &[u8],
        raw: &mut [u8],
    ) -> Result<(), ChunkError> {
        chunks::decode(&self.packer, offset, coded, raw)
    }

    /// A codec with a codebook of short tensors; `None` if this one has a codebook already.
    fn fitted(&self, _: Element, raw: &[u8], sample_len: usize) -> Option<Box<dyn Codec>> {
        if self.packer.codebook().id() != 0 {
            return None;
        }
        let fitted = Self::with(self.cpu, fit_buffer(self.cpu, raw, sample_len)?).ok()?;
        Some(Box::new(fitted))
    }

    fn codebook(&self) -> Option<CodebookSection> {
        let codebook = self.packer.codebook();
        match codebook.id() {
            0 => None,
            _ if self.carries => Some(CodebookSection::Carried(codebook.clone())),
            id => Some(CodebookSection::Named(id)),
        }
    }
}
