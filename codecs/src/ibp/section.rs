//! A codebook as it stands in a frame.

use super::codebook::{Codebook, CodebookError, MAX_CODEBOOK_LEN};
use crate::chunk::CHUNK_ALIGN;

/// A codebook that a frame names, and carries or not.
///
/// ```text
/// byte  0 .. 7          8 .. 15                                16 ..
///       identity, u64   body length in bytes, u64; 0 = named   body, zeros up to a multiple of 16
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodebookSection {
    /// The reader is expected to have it.
    Named(u64),
    /// It is all there.
    Carried(Codebook),
}

/// Length of what precedes the body in bytes.
const HEADER_LEN: usize = 16;

impl CodebookSection {
    /// The identity of the codebook.
    #[must_use]
    pub fn id(&self) -> u64 {
        match self {
            Self::Named(id) => *id,
            Self::Carried(codebook) => codebook.id(),
        }
    }

    /// The codebook, if it is all there.
    #[must_use]
    pub const fn carried(&self) -> Option<&Codebook> {
        match self {
            Self::Named(_) => None,
            Self::Carried(codebook) => Some(codebook),
        }
    }

    /// The section's bytes, a multiple of 16.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let body = match self {
            Self::Named(_) => Vec::new(),
            Self::Carried(codebook) => codebook.to_bytes(),
        };
        let mut bytes = Vec::with_capacity(HEADER_LEN + body.len().next_multiple_of(CHUNK_ALIGN));
        bytes.extend_from_slice(&self.id().to_le_bytes());
        bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&body);
        bytes.resize(bytes.len().next_multiple_of(CHUNK_ALIGN), 0);
        bytes
    }

    /// Length in bytes of the section at the front of `bytes`, which may not be all there.
    ///
    /// # Errors
    /// [`CodebookError`] if it can be no codebook's, or not even its first 16 bytes are there.
    pub fn len_of(bytes: &[u8]) -> Result<usize, CodebookError> {
        let (_, body_len) = header_of(bytes)?;
        Ok(HEADER_LEN + body_len.next_multiple_of(CHUNK_ALIGN))
    }

    /// Reads the section at the front of `bytes`.
    ///
    /// # Errors
    /// [`CodebookError`]; its offsets count from the front of the section or of the body in it.
    pub fn parse(bytes: &[u8]) -> Result<Self, CodebookError> {
        let (id, body_len) = header_of(bytes)?;
        let (end, len) = (HEADER_LEN + body_len, Self::len_of(bytes)?);
        let section = bytes.get(..len).ok_or(CodebookError::Truncated { needed: len, got: bytes.len() })?;
        if let Some(i) = section[end..].iter().position(|&byte| byte != 0) {
            return Err(CodebookError::Padding { offset: end + i, got: section[end + i] });
        }
        if body_len == 0 {
            return Ok(Self::Named(id));
        }
        let codebook = Codebook::parse(&section[HEADER_LEN..end])?;
        if codebook.id() != id {
            return Err(CodebookError::Id { named: id, computed: codebook.id() });
        }
        Ok(Self::Carried(codebook))
    }
}

/// Identity and length of the body, if they are possible.
fn header_of(bytes: &[u8]) -> Result<(u64, usize), CodebookError> {
    let header: &[u8; HEADER_LEN] =
        bytes.first_chunk().ok_or(CodebookError::Truncated { needed: HEADER_LEN, got: bytes.len() })?;
    let [id, body_len] = [0, 8].map(|at| u64::from_le_bytes(std::array::from_fn(|i| header[at + i])));
    if id == 0 {
        return Err(CodebookError::Empty);
    }
    if body_len > MAX_CODEBOOK_LEN as u64 {
        return Err(CodebookError::TooLong { got: body_len });
    }
    Ok((id, body_len as usize))
}
