//! The 64-byte line, and what the codecs that work on it share.
//!
//! A buffer is cut into lines; the last one is filled up with zeros. Words of a line are little-endian.

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
#[cfg(target_arch = "x86_64")]
pub(crate) mod blocks;
mod kinds;
mod streams;

pub(crate) use kinds::{Kind, KindReader, KindWriter, kinds_len};
pub(crate) use streams::{StreamReader, StreamWriter, Taken};

/// Bytes in a line.
pub const LINE_LEN: usize = 64;
/// 32-bit words in a line.
pub const LINE_WORDS: usize = LINE_LEN / 4;
/// What a line costs that is not compressed, in bits.
pub const RAW_LINE_BITS: u32 = 512;

/// How far behind the end of a code vectors may write, in bytes: the planes of 32 lines where one has any.
pub(crate) const OVERSHOOT: usize = 256;

/// One line.
pub type Line = [u8; LINE_LEN];

/// How many lines a buffer of `len` bytes has, the partial one counted.
#[must_use]
pub const fn line_count(len: usize) -> usize {
    len.div_ceil(LINE_LEN)
}

/// The lines of `raw`, the last one filled up with zeros.
pub fn lines(raw: &[u8]) -> impl Iterator<Item = Line> + '_ {
    raw.chunks(LINE_LEN).map(|bytes| {
        // The length of a whole line is known when this is compiled: no call to copy it.
        bytes.try_into().unwrap_or_else(|_| {
            let mut line = [0; LINE_LEN];
            line[..bytes.len()].copy_from_slice(bytes);
            line
        })
    })
}

/// The 16 words of a line.
#[must_use]
pub fn words(line: &Line) -> [u32; LINE_WORDS] {
    let mut words = [0; LINE_WORDS];
    for (word, bytes) in words.iter_mut().zip(line.as_chunks().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    words
}

/// The line of 16 words: the inverse of [`words`].
#[must_use]
pub fn from_words(words: &[u32; LINE_WORDS]) -> Line {
    let mut line = [0; LINE_LEN];
    for (bytes, word) in line.as_chunks_mut().0.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_line_is_zero_padded() {
        let raw = [7u8; 65];
        let all: Vec<Line> = lines(&raw).collect();
        assert_eq!(all.len(), line_count(raw.len()));
        assert_eq!(all[0], [7; 64]);
        assert_eq!(all[1][0], 7);
        assert_eq!(all[1][1..], [0; 63]);
    }

    #[test]
    fn words_are_little_endian() {
        let mut line = [0; LINE_LEN];
        line[4..8].copy_from_slice(&[1, 2, 3, 4]);
        assert_eq!(words(&line)[1], 0x0403_0201);
        assert_eq!(from_words(&words(&line)), line);
    }
}
