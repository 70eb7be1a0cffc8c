//! What is handed to the driver as a kernel's code. The driver is not told how long it is.

/// Why an image is not handed to the driver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// Machine code for another kind of machine.
    #[error("its class is {class}, its byte order {order}; those of 64-bit little-endian code are 2 and 1")]
    Kind {
        /// What its header says.
        class: u8,
        /// What its header says.
        order: u8,
    },
    /// A table has entries of an unknown size, or none.
    #[error("its {table} has {count} entries of {size} bytes, not some of {wanted}")]
    Entries {
        /// Which table.
        table: &'static str,
        /// How many entries it is said to have.
        count: usize,
        /// What each of them is said to take.
        size: usize,
        /// What each of them takes.
        wanted: usize,
    },
    /// A part lies behind the end.
    #[error("its {part} is {len} bytes from byte {start} on; there are {got} in all")]
    Outside {
        /// Which part.
        part: &'static str,
        /// Where it starts.
        start: u64,
        /// How long it is.
        len: u64,
        /// How long the image is.
        got: usize,
    },
    /// Neither machine code nor text without zeros.
    #[error("it is neither machine code nor text: byte {offset} is {byte:#04x}")]
    NoText {
        /// The first byte that is none of a text's.
        offset: usize,
        /// What it is.
        byte: u8,
    },
}

const MAGIC: [u8; 4] = *b"\x7fELF";
const HEADER_LEN: usize = 64;
/// A section that takes no bytes of the file.
const NOBITS: u32 = 8;

/// Code that says itself where it ends, and tells the truth: machine code whose tables and sections lie inside of
/// it, or text with a zero behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Image(Vec<u8>);

impl Image {
    /// The image of `bytes`; a text gets the zero that it lacks.
    ///
    /// # Errors
    /// [`ImageError`] if it does not say where it ends.
    pub(super) fn of(mut bytes: Vec<u8>) -> Result<Self, ImageError> {
        if bytes.starts_with(&MAGIC) {
            check_elf(&bytes)?;
            return Ok(Self(bytes));
        }
        while bytes.last() == Some(&0) {
            bytes.pop();
        }
        let text_len = match std::str::from_utf8(&bytes) {
            Ok(text) => text.find('\0').unwrap_or(bytes.len()),
            Err(error) => error.valid_up_to(),
        };
        if let Some(&byte) = bytes.get(text_len) {
            return Err(ImageError::NoText { offset: text_len, byte });
        }
        bytes.push(0);
        Ok(Self(bytes))
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    pub(super) fn as_ptr(&self) -> *const u8 {
        self.0.as_ptr()
    }
}

/// Fails unless header, tables and all that they name lie inside of `file`.
fn check_elf(file: &[u8]) -> Result<(), ImageError> {
    inside(file, "header", 0, HEADER_LEN as u64)?;
    if (file[4], file[5]) != (2, 1) {
        return Err(ImageError::Kind { class: file[4], order: file[5] });
    }
    for segment in table(file, "table of segments", 32, 54, 56)? {
        inside(file, "segment", word(segment, 8), word(segment, 32))?;
    }
    let sections = table(file, "table of sections", 40, 58, 64)?;
    for section in &sections {
        if word(section, 4) as u32 != NOBITS {
            inside(file, "section", word(section, 24), word(section, 32))?;
        }
    }
    // The number of sections is that of the table, and not in its first entry.
    if word(file, 40) != 0 && sections.is_empty() {
        return Err(ImageError::Entries { table: "table of sections", count: 0, size: 64, wanted: 64 });
    }
    Ok(())
}

/// The entries of the table whose offset is at byte `offset_at` of the header, and size and number of its entries at
/// byte `size_at` and behind. There are none if it says so.
fn table<'a>(
    file: &'a [u8],
    name: &'static str,
    offset_at: usize,
    size_at: usize,
    wanted: usize,
) -> Result<Vec<&'a [u8]>, ImageError> {
    let start = word(file, offset_at);
    let [size, count] = [0, 2].map(|at| usize::from(word(file, size_at + at) as u16));
    if count == 0 {
        return Ok(Vec::new());
    }
    if size != wanted {
        return Err(ImageError::Entries { table: name, count, size, wanted });
    }
    let len = size * count;
    inside(file, name, start, len as u64)?;
    Ok(file[start as usize..][..len].chunks_exact(size).collect())
}

/// The number at byte `at`, of which the caller takes the low bits. Those behind the end are zero.
fn word(bytes: &[u8], at: usize) -> u64 {
    (0..8).map(|i| u64::from(bytes.get(at + i).copied().unwrap_or(0)) << (8 * i)).sum()
}

fn inside(file: &[u8], part: &'static str, start: u64, len: u64) -> Result<(), ImageError> {
    match start.checked_add(len) {
        Some(end) if end <= file.len() as u64 => Ok(()),
        _ => Err(ImageError::Outside { part, start, len, got: file.len() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(file: &mut [u8], at: usize, number: u64, len: usize) {
        file[at..at + len].copy_from_slice(&number.to_le_bytes()[..len]);
    }

    /// Header, 10 bytes of a section, one segment of the same bytes, three sections: none, one, one of memory only.
    fn elf() -> Vec<u8> {
        let mut file = vec![0; 64 + 10 + 56 + 3 * 64];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        put(&mut file, 32, 74, 8);
        put(&mut file, 54, 56, 2);
        put(&mut file, 56, 1, 2);
        put(&mut file, 40, 130, 8);
        put(&mut file, 58, 64, 2);
        put(&mut file, 60, 3, 2);
        put(&mut file, 74 + 8, 64, 8);
        put(&mut file, 74 + 32, 10, 8);
        put(&mut file, 194 + 24, 64, 8);
        put(&mut file, 194 + 32, 10, 8);
        put(&mut file, 258 + 4, NOBITS.into(), 4);
        put(&mut file, 258 + 32, 1 << 40, 8);
        file
    }

    #[test]
    fn machine_code_is_taken_as_it_is() {
        assert_eq!(Image::of(elf()).unwrap().0, elf());
        // The tables are at its end, so every byte is needed.
        for len in 4..elf().len() {
            assert!(Image::of(elf()[..len].to_vec()).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn machine_code_that_reaches_behind_its_end_is_refused() {
        let with = |at, number, len| {
            let mut file = elf();
            put(&mut file, at, number, len);
            Image::of(file).unwrap_err()
        };
        let outside = |part, start, len| ImageError::Outside { part, start, len, got: 322 };
        assert_eq!(with(194 + 32, 259, 8), outside("section", 64, 259));
        assert_eq!(with(194 + 24, u64::MAX, 8), outside("section", u64::MAX, 10));
        assert_eq!(with(258 + 4, 1, 4), outside("section", 0, 1 << 40));
        assert_eq!(with(74 + 32, 300, 8), outside("segment", 64, 300));
        assert_eq!(with(60, 4, 2), outside("table of sections", 130, 256));
        assert_eq!(with(40, 1 << 63, 8), outside("table of sections", 1 << 63, 192));
        assert_eq!(with(32, 300, 8), outside("table of segments", 300, 56));
        let entries = |table, count, size, wanted| ImageError::Entries { table, count, size, wanted };
        assert_eq!(with(58, 63, 2), entries("table of sections", 3, 63, 64));
        assert_eq!(with(54, 0, 2), entries("table of segments", 1, 0, 56));
        assert_eq!(with(60, 0, 2), entries("table of sections", 0, 64, 64));
        assert_eq!(with(4, 1, 1), ImageError::Kind { class: 1, order: 1 });
    }

    #[test]
    fn text_ends_in_a_zero() {
        for text in ["PTX", "PTX\0", "PTX\0\0\0"] {
            assert_eq!(Image::of(text.into()).unwrap().0, b"PTX\0");
        }
        assert_eq!(Image::of(Vec::new()).unwrap().0, [0]);
        assert_eq!(Image::of(b"PT\0X".to_vec()), Err(ImageError::NoText { offset: 2, byte: 0 }));
        // How an archive of machine code starts, which says how long it is.
        let archive = [0x50, 0xed, 0x55, 0xba, 1, 0, 0x10, 0];
        assert_eq!(Image::of(archive.to_vec()), Err(ImageError::NoText { offset: 1, byte: 0xed }));
    }
}
