//! Reading a whole file, or standard input.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use mgcomp_codecs::Element;
use mgcomp_codecs::frame::{ChunkSize, MAX_RAW_LEN, Options, max_frame_len};

use crate::error::CliError;
use crate::progress::Progress;

/// How much is read between two looks at the progress bar.
const PIECE_BYTES: u64 = 1 << 20;

/// Whether `path` stands for standard input or output.
pub(crate) fn is_stream(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// What the type of the values may be called by a name like `x.f32.bin`: `f32`. Empty where there is nothing like it.
pub(crate) fn type_suffix(path: &Path) -> &str {
    let stem = path.file_stem().map(Path::new);
    stem.and_then(Path::extension).and_then(std::ffi::OsStr::to_str).unwrap_or_default()
}

/// The element that a name like `x.f32.bin` tells; bytes where it tells none.
pub(crate) fn element_of_name(path: &Path) -> Element {
    match type_suffix(path) {
        "i8" => Element::U8,
        "i16" => Element::U16,
        "i32" => Element::U32,
        "i64" => Element::U64,
        name => name.parse().unwrap_or(Element::U8),
    }
}

/// What messages call an input.
pub(crate) fn name(path: &Path) -> String {
    if is_stream(path) { "standard input".into() } else { path.display().to_string() }
}

/// Reads a file that is to be compressed, which may be empty.
pub(crate) fn read_any(path: &Path, progress: &mut Progress) -> Result<Vec<u8>, CliError> {
    read(path, MAX_RAW_LEN, progress)
}

/// Reads a file with data to work on.
pub(crate) fn read_raw(path: &Path, progress: &mut Progress) -> Result<Vec<u8>, CliError> {
    some(path, read(path, MAX_RAW_LEN, progress)?)
}

/// Reads a file that should be a frame.
pub(crate) fn read_frame(path: &Path, progress: &mut Progress) -> Result<Vec<u8>, CliError> {
    let largest =
        max_frame_len(MAX_RAW_LEN as usize, Options { chunk_size: ChunkSize::SMALL, checksum: true });
    some(path, read(path, largest as u64, progress)?)
}

fn some(path: &Path, bytes: Vec<u8>) -> Result<Vec<u8>, CliError> {
    if bytes.is_empty() { Err(CliError::Empty { name: name(path) }) } else { Ok(bytes) }
}

fn read(path: &Path, limit_bytes: u64, progress: &mut Progress) -> Result<Vec<u8>, CliError> {
    let failed = |source| CliError::Read { name: name(path), source };
    let mut bytes = Vec::new();
    if is_stream(path) {
        read_pieces(&mut io::stdin().lock(), &name(path), limit_bytes, &mut bytes, progress)?;
    } else {
        let len = readable_len(path)?;
        if len > limit_bytes {
            return Err(CliError::TooLong { name: name(path), limit_bytes });
        }
        bytes.try_reserve_exact(len as usize).map_err(|_| failed(io::ErrorKind::OutOfMemory.into()))?;
        progress.stage(format!("reading {}", name(path)), len);
        read_pieces(&mut File::open(path).map_err(failed)?, &name(path), limit_bytes, &mut bytes, progress)?;
    }
    Ok(bytes)
}

/// The length that the file system gives for `path`; a hint, since a pipe has none.
///
/// Devices are refused: some of them never end.
fn readable_len(path: &Path) -> Result<u64, CliError> {
    let metadata = fs::metadata(path).map_err(|source| CliError::Read { name: name(path), source })?;
    if metadata.is_file() || is_pipe(&metadata) {
        Ok(metadata.len())
    } else {
        Err(CliError::NotReadable { name: name(path) })
    }
}

#[cfg(unix)]
fn is_pipe(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    metadata.file_type().is_fifo()
}

#[cfg(not(unix))]
fn is_pipe(_: &fs::Metadata) -> bool {
    false
}

fn read_pieces(
    source: &mut impl Read,
    name: &str,
    limit_bytes: u64,
    bytes: &mut Vec<u8>,
    progress: &mut Progress,
) -> Result<(), CliError> {
    loop {
        let got = source.by_ref().take(PIECE_BYTES).read_to_end(bytes);
        if got.map_err(|source| CliError::Read { name: name.to_owned(), source })? == 0 {
            return Ok(());
        }
        if bytes.len() as u64 > limit_bytes {
            return Err(CliError::TooLong { name: name.to_owned(), limit_bytes });
        }
        progress.set(bytes.len() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_elements() {
        let element = |name: &str| element_of_name(Path::new(name));
        assert_eq!(element("dir/w.bf16.bin"), Element::Bf16);
        assert_eq!(element("ids.i64.bin"), Element::U64);
        assert_eq!(element("f32.bin"), Element::U8);
        assert_eq!(element("x.tar.gz"), Element::U8);
    }

    #[test]
    fn reading_stops_at_the_limit() {
        let read = |len: u64, limit| {
            let mut bytes = Vec::new();
            let source = &mut io::repeat(7).take(len);
            read_pieces(source, "source", limit, &mut bytes, &mut Progress::start())
                .map(|()| bytes.len() as u64)
        };
        let limit = 2 * PIECE_BYTES + 3;
        assert_eq!(read(limit, limit).unwrap(), limit);
        assert!(matches!(
            read(u64::MAX, limit),
            Err(CliError::TooLong { name, limit_bytes }) if name == "source" && limit_bytes == limit
        ));
    }
}
