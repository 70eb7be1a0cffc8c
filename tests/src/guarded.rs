//! Buffers with a known byte pattern around them.

const GUARD_LEN: usize = 256;
const GUARD_BYTE: u8 = 0xc3;
const ALIGN: usize = 16;

/// A buffer that stands at a chosen address modulo 16, between guard bytes.
#[derive(Debug)]
pub struct Guarded {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Guarded {
    /// A buffer holding `content`, at an address that is `offset` behind a multiple of 16.
    #[must_use]
    pub fn new(content: &[u8], offset: usize) -> Self {
        let mut bytes = vec![GUARD_BYTE; content.len() + 2 * GUARD_LEN + ALIGN];
        let misalign = (bytes.as_ptr().addr() + GUARD_LEN) % ALIGN;
        let start = GUARD_LEN + (offset + ALIGN - misalign) % ALIGN;
        bytes[start..start + content.len()].copy_from_slice(content);
        Self { bytes, start, len: content.len() }
    }

    /// The bytes between the guards.
    #[must_use]
    pub fn content(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }

    /// The bytes between the guards.
    pub fn content_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }

    /// Checks that nobody wrote around the content.
    ///
    /// # Panics
    /// If somebody did; the message names the first such byte, counted from the start of the content.
    pub fn check(&self) {
        let end = self.start + self.len;
        let harmed = (0..self.bytes.len())
            .find(|i| !(self.start..end).contains(i) && self.bytes[*i] != GUARD_BYTE)
            .map(|i| i as i64 - self.start as i64);
        assert_eq!(harmed, None, "a byte outside of a buffer of {} bytes was written", self.len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stands_where_asked() {
        for offset in 0..ALIGN {
            let buffer = Guarded::new(&[1, 2, 3], offset);
            assert_eq!(buffer.content().as_ptr().addr() % ALIGN, offset);
            assert_eq!(buffer.content(), [1, 2, 3]);
            buffer.check();
        }
    }

    #[test]
    #[should_panic(expected = "outside of a buffer of 3 bytes")]
    fn harm_is_seen() {
        let mut buffer = Guarded::new(&[0; 3], 0);
        let behind = buffer.start + 3;
        buffer.bytes[behind] = 0;
        buffer.check();
    }
}
