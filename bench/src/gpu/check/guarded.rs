//! Device buffers with a known byte pattern around them.

use std::fmt::Display;

use mgcomp_codecs::device::{Buffer, Device, DeviceError, Region, Stream};

use super::error::CheckError;

const GUARD_LEN: u64 = 256;
const GUARD_BYTE: u8 = 0xc3;
/// What buffers that are to be written hold before.
pub(super) const POISON: u8 = 0x5e;

/// A buffer in device memory at a chosen address modulo 16, between guard bytes.
pub(super) struct Guarded {
    what: &'static str,
    buffer: Buffer,
    start: u64,
    len: u64,
}

impl Guarded {
    /// A buffer that holds `content`, `offset` behind a multiple of 16.
    pub(super) fn new(
        device: &Device,
        stream: &Stream,
        what: &'static str,
        content: &[u8],
        offset: u64,
    ) -> Result<Self, DeviceError> {
        let (start, len) = (GUARD_LEN + offset, content.len() as u64);
        let buffer = device.alloc(start + len + GUARD_LEN)?;
        let mut bytes = vec![GUARD_BYTE; buffer.region().len() as usize];
        bytes[start as usize..][..content.len()].copy_from_slice(content);
        stream.upload(&bytes, buffer.region())?;
        Ok(Self { what, buffer, start, len })
    }

    /// A buffer of `len` bytes to be written.
    pub(super) fn poisoned(
        device: &Device,
        stream: &Stream,
        what: &'static str,
        len: u64,
        offset: u64,
    ) -> Result<Self, DeviceError> {
        Self::new(device, stream, what, &vec![POISON; len as usize], offset)
    }

    pub(super) fn region(&self) -> Region<'_> {
        self.buffer.slice(self.start..self.start + self.len)
    }

    /// What it holds when all work is done, if nobody wrote around it.
    pub(super) fn read(&self, stream: &Stream, case: &dyn Display) -> Result<Vec<u8>, CheckError> {
        let mut bytes = vec![0; self.buffer.region().len() as usize];
        stream.download(self.buffer.region(), &mut bytes)?;
        if let Some(at) = harm(&bytes, self.start as usize, self.len as usize) {
            let (case, what, len) = (case.to_string(), self.what, self.len);
            return Err(CheckError::Guard { case, what, len, at });
        }
        bytes.truncate((self.start + self.len) as usize);
        Ok(bytes.split_off(self.start as usize))
    }

    /// As `read`, of a buffer that holds words of 64 bits.
    pub(super) fn read_words(&self, stream: &Stream, case: &dyn Display) -> Result<Vec<u64>, CheckError> {
        let bytes = self.read(stream, case)?;
        Ok(bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect())
    }
}

/// The first guard byte that was written, counted from the start of the content.
fn harm(bytes: &[u8], start: usize, len: usize) -> Option<i64> {
    let is_guard = |at: &usize| !(start..start + len).contains(at);
    let harmed = (0..bytes.len()).filter(is_guard).find(|&at| bytes[at] != GUARD_BYTE);
    harmed.map(|at| at as i64 - start as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harm_is_seen_on_both_sides() {
        let mut bytes = vec![GUARD_BYTE; 20];
        bytes[5..15].fill(0);
        assert_eq!(harm(&bytes, 5, 10), None);
        bytes[15] = 0;
        assert_eq!(harm(&bytes, 5, 10), Some(10));
        bytes[4] = 0;
        assert_eq!(harm(&bytes, 5, 10), Some(-1));
    }
}
