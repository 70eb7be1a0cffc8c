//! Memory for what is received, laid out as it is in the ring.

use bytes::Bytes;

use super::ring::LINE;
use crate::pool::{Pool, Pooled};

/// Longer payloads begin at a line, as they do in rings.
const UNALIGNED_BYTES: usize = 512;

/// Memory that a payload is received into.
pub(super) struct Buffer {
    bytes: Pooled,
    /// Where the payload begins.
    start: usize,
}

impl Buffer {
    /// A buffer with room for a payload of `len` bytes.
    pub(super) fn from_pool(pool: &Pool, len: usize) -> Self {
        if len < UNALIGNED_BYTES {
            return Self { bytes: pool.take(len), start: 0 };
        }
        let mut bytes = pool.take(len + LINE);
        let start = bytes.as_ptr().align_offset(LINE).min(LINE);
        bytes.resize(start, 0);
        Self { bytes, start }
    }

    /// What the payload is added to.
    pub(super) fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// The payload, when it is there.
    pub(super) fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_payloads_begin_at_a_line() {
        let pool = Pool::default();
        for len in [0, 1, 511, 512, 4096, 65_471, 65_472, 100_000] {
            let mut buffer = Buffer::from_pool(&pool, len);
            let bytes = buffer.bytes_mut();
            assert!(bytes.capacity() - bytes.len() >= len);
            bytes.resize(bytes.len() + len, 7);
            let payload = buffer.freeze();
            assert!(payload.len() == len && payload.iter().all(|&byte| byte == 7));
            assert!(len < 512 || (payload.as_ptr() as usize).is_multiple_of(64), "copies begin alike");
        }
    }
}
