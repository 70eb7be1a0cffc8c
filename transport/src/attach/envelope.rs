//! What stands before a message that travels by somebody else's means: what follows, and how long it is.
//! `WIRE.md` draws it.

use mgcomp_codecs::{Algorithm, Element, Numbered};

/// Bytes of an envelope.
pub const HEADER_LEN: usize = 32;
/// The first bytes of each.
pub const MAGIC: [u8; 4] = *b"MGCE";
/// The version that this is.
pub const VERSION: u8 = 1;

/// What stands before a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// How it is coded.
    pub algorithm: Algorithm,
    /// What it is values of.
    pub element: Element,
    /// Its length in bytes.
    pub raw_len: u64,
    /// The length in bytes of what follows.
    pub stored_len: u64,
    /// CRC32C of raw bytes that follow, if they have one.
    pub checksum: Option<u32>,
}

/// Why something is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnvelopeError {
    /// Too short for an envelope.
    #[error("{len} bytes are no message: an envelope has {HEADER_LEN}")]
    Short {
        /// Bytes there are.
        len: usize,
    },
    /// Something else: perhaps the other side runs without mgcomp.
    #[error("a message begins with {found:02x?} instead of {MAGIC:02x?}: does the other side run mgcomp?")]
    Magic {
        /// What is there.
        found: [u8; 4],
    },
    /// Another version of mgcomp.
    #[error("messages of version {found}, this is version {VERSION}")]
    Version {
        /// What the other side has.
        found: u8,
    },
    /// Damaged on the way.
    #[error("an envelope with checksum {found:08x} instead of {expected:08x}")]
    Damaged {
        /// What it says.
        found: u32,
        /// What it should.
        expected: u32,
    },
    /// A number that stands for nothing.
    #[error("byte {offset} of an envelope is {found}")]
    Field {
        /// Where it is.
        offset: usize,
        /// What is there.
        found: u8,
    },
    /// Lengths that do not go together.
    #[error("{stored_len} bytes by {algorithm} for {raw_len}")]
    Lengths {
        /// How it is coded.
        algorithm: Algorithm,
        /// The length in bytes.
        raw_len: u64,
        /// The same of what follows.
        stored_len: u64,
    },
    /// Raw bytes that were damaged on the way.
    #[error("{len} raw bytes with checksum {found:08x} instead of {expected:08x}")]
    Bytes {
        /// How many.
        len: usize,
        /// The checksum that they have.
        found: u32,
        /// The one that they should have.
        expected: u32,
    },
}

impl Header {
    /// That of bytes that go raw, whatever a policy would say; with a checksum if they are to be `checked`.
    #[must_use]
    pub fn raw(raw: &[u8], element: Element, checked: bool) -> Self {
        let len = raw.len() as u64;
        let checksum = checked.then(|| checksum(raw));
        Self { algorithm: Algorithm::None, element, raw_len: len, stored_len: len, checksum }
    }

    /// As it travels.
    #[must_use]
    pub fn write(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[5] = self.algorithm.number();
        bytes[6] = self.element.number();
        bytes[7] = u8::from(self.checksum.is_some());
        bytes[8..16].copy_from_slice(&self.raw_len.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.stored_len.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.checksum.unwrap_or(0).to_le_bytes());
        let of_all = checksum(&bytes[..28]);
        bytes[28..].copy_from_slice(&of_all.to_le_bytes());
        bytes
    }

    /// The envelope at the front of `message`.
    ///
    /// # Errors
    /// [`EnvelopeError`] if there is none that this version understands.
    pub fn parse(message: &[u8]) -> Result<Self, EnvelopeError> {
        let bytes: &[u8; HEADER_LEN] =
            message.first_chunk().ok_or(EnvelopeError::Short { len: message.len() })?;
        let magic: [u8; 4] = part(bytes, 0);
        if magic != MAGIC {
            return Err(EnvelopeError::Magic { found: magic });
        }
        if bytes[4] != VERSION {
            return Err(EnvelopeError::Version { found: bytes[4] });
        }
        let (found, expected) = (u32::from_le_bytes(part(bytes, 28)), checksum(&bytes[..28]));
        if found != expected {
            return Err(EnvelopeError::Damaged { found, expected });
        }
        let has_checksum = match bytes[7] {
            0 => false,
            1 => true,
            found => return Err(EnvelopeError::Field { offset: 7, found }),
        };
        let header = Self {
            algorithm: numbered(bytes, 5)?,
            element: numbered(bytes, 6)?,
            raw_len: u64::from_le_bytes(part(bytes, 8)),
            stored_len: u64::from_le_bytes(part(bytes, 16)),
            checksum: has_checksum.then_some(u32::from_le_bytes(part(bytes, 24))),
        };
        header.check_lengths()?;
        Ok(header)
    }

    /// Checks the raw bytes that came with this envelope.
    ///
    /// # Errors
    /// [`EnvelopeError::Bytes`] if they are not those that were sent, [`EnvelopeError::Lengths`] if they are not as many.
    pub fn check_raw(&self, raw: &[u8]) -> Result<(), EnvelopeError> {
        let Self { algorithm, raw_len, .. } = *self;
        if algorithm != Algorithm::None || raw_len != raw.len() as u64 {
            return Err(EnvelopeError::Lengths { algorithm, raw_len, stored_len: raw.len() as u64 });
        }
        let Some(expected) = self.checksum else { return Ok(()) };
        match checksum(raw) {
            found if found == expected => Ok(()),
            found => Err(EnvelopeError::Bytes { len: raw.len(), found, expected }),
        }
    }

    fn check_lengths(&self) -> Result<(), EnvelopeError> {
        let Self { algorithm, raw_len, stored_len, checksum, .. } = *self;
        let fits = match algorithm {
            Algorithm::None => stored_len == raw_len,
            _ => stored_len < raw_len && checksum.is_none(),
        };
        if fits { Ok(()) } else { Err(EnvelopeError::Lengths { algorithm, raw_len, stored_len }) }
    }
}

/// CRC32C (Castagnoli).
#[must_use]
pub fn checksum(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// The thing that byte `offset` is the number of.
fn numbered<T: Numbered>(bytes: &[u8; HEADER_LEN], offset: usize) -> Result<T, EnvelopeError> {
    let found = bytes[offset];
    let known = T::ALL.iter().copied().find(|known| known.number() == found);
    known.ok_or(EnvelopeError::Field { offset, found })
}

fn part<const N: usize>(bytes: &[u8; HEADER_LEN], offset: usize) -> [u8; N] {
    std::array::from_fn(|i| bytes[offset + i])
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Header = Header {
        algorithm: Algorithm::Xp,
        element: Element::Bf16,
        raw_len: 0x0102_0304,
        stored_len: 0x0a_0b0c,
        checksum: None,
    };

    #[test]
    fn it_is_laid_out_as_its_table_says() {
        let bytes = FRAME.write();
        let mut expected = [0; HEADER_LEN];
        expected[..8].copy_from_slice(&[0x4d, 0x47, 0x43, 0x45, 1, 9, 5, 0]);
        expected[8..12].copy_from_slice(&[4, 3, 2, 1]);
        expected[16..19].copy_from_slice(&[0x0c, 0x0b, 0x0a]);
        let of_all = crc32c::crc32c(&expected[..28]);
        expected[28..].copy_from_slice(&of_all.to_le_bytes());
        assert_eq!(bytes, expected);
        assert_eq!(Header::parse(&bytes), Ok(FRAME));
    }

    #[test]
    fn every_damaged_byte_is_found() {
        for offset in 0..HEADER_LEN {
            let mut bytes = FRAME.write();
            bytes[offset] ^= 0x10;
            assert!(Header::parse(&bytes).is_err(), "byte {offset}");
        }
        assert_eq!(Header::parse(&FRAME.write()[..31]), Err(EnvelopeError::Short { len: 31 }));
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_place() {
        let with = |offset: usize, value: u8| {
            let mut bytes = FRAME.write();
            bytes[offset] = value;
            let of_all = crc32c::crc32c(&bytes[..28]);
            bytes[28..].copy_from_slice(&of_all.to_le_bytes());
            Header::parse(&bytes).unwrap_err()
        };
        assert_eq!(with(4, 2), EnvelopeError::Version { found: 2 });
        assert_eq!(with(5, 16), EnvelopeError::Field { offset: 5, found: 16 });
        assert_eq!(with(6, 10), EnvelopeError::Field { offset: 6, found: 10 });
        assert_eq!(with(7, 2), EnvelopeError::Field { offset: 7, found: 2 });
        // Raw bytes are as many as were sent, and frames are shorter.
        assert!(matches!(with(5, 0), EnvelopeError::Lengths { .. }));
        assert!(matches!(with(19, 0xff), EnvelopeError::Lengths { .. }));
    }

    #[test]
    fn damaged_raw_bytes_are_found() {
        let raw = *b"123456789";
        // The check value of CRC-32C.
        let header = Header::raw(&raw, Element::U8, true);
        assert_eq!(header.checksum, Some(0xe306_9283));
        assert_eq!(Header::raw(&raw[..3], Element::U8, false).check_raw(b"abc"), Ok(()));
        assert_eq!(header.check_raw(&raw), Ok(()));
        assert!(matches!(header.check_raw(b"123456780"), Err(EnvelopeError::Bytes { len: 9, .. })));
        assert!(matches!(header.check_raw(&raw[..8]), Err(EnvelopeError::Lengths { .. })));
    }
}
