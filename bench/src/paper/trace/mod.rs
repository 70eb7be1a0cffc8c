//! Trace files: payloads that a simulator moved between four GPUs.
//!
//! Little-endian records, one after another, without a header; plain, or compressed with xz. Each is 24 bytes
//! and a payload:
//!
//! | offset | type | field |
//! |---|---|---|
//! | 0 | u8 | kind: 0 = read response, 1 = write |
//! | 1 | u8 | GPU that sends the payload, 1 to 4 |
//! | 2 | u8 | GPU that receives it, 1 to 4 |
//! | 3 | u8 | who asked, or how much of the line is new; not used here |
//! | 4 | u32 | payload length in bytes |
//! | 8 | u64 | physical address; not used here |
//! | 16 | u64 | time in picoseconds, never decreasing |

mod error;
mod record;

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use liblzma::read::XzDecoder;
use liblzma::stream::{CONCATENATED, Stream};

use super::generate::Bench;
use super::workload::Workload;
use crate::error::BenchError;
pub(crate) use error::TraceError;
use record::Reader;

/// What an xz file begins with.
const XZ_MAGIC: [u8; 6] = [0xfd, b'7', b'z', b'X', b'Z', 0];
/// Memory that an xz file may ask its reader for: more than any preset needs.
const XZ_MEMORY_BYTES: u64 = 256 << 20;
/// The most records of all traces together, for all are in memory at once: 12 bytes each, 0.8 GB, and 4 more while they run. How
/// long files are tells nothing: xz makes next to nothing of records that are alike.
const MAX_RECORDS: u64 = 1 << 26;

/// The files of `paths`, of folders all that are called like traces, by name.
pub(super) fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, BenchError> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let failed = |source| BenchError::Read { path: path.clone(), source };
        let entries = fs::read_dir(path).map_err(failed)?.collect::<Result<Vec<_>, _>>().map_err(failed)?;
        let is_trace = |file: &PathBuf| file.extension().is_some_and(|end| end == "bin" || end == "xz");
        let mut found: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).filter(is_trace).collect();
        if found.is_empty() {
            return Err(BenchError::NoFiles { path: path.clone() });
        }
        found.sort();
        files.extend(found);
    }
    Ok(files)
}

/// The traces in `files`.
pub(super) fn read_all(files: &[PathBuf], as_paper: bool) -> Result<Vec<Workload>, BenchError> {
    read_up_to(MAX_RECORDS, files, as_paper)
}

fn read_up_to(max: u64, files: &[PathBuf], as_paper: bool) -> Result<Vec<Workload>, BenchError> {
    let mut room = Room { max, taken: 0 };
    files.iter().map(|path| read(path, as_paper, &mut room)).collect()
}

/// How many records there may be, and how many there are.
struct Room {
    max: u64,
    taken: u64,
}

/// The whole trace in `path`, checked to its end. Its name is `path`.
fn read(path: &Path, as_paper: bool, room: &mut Room) -> Result<Workload, BenchError> {
    let bench = Bench::of_trace(&path.file_name().unwrap_or_default().to_string_lossy());
    let workload = Workload::new(path.display().to_string(), bench, true, as_paper);
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(BenchError::NotReadable { path: path.to_owned() });
    }
    let unreadable = |source| BenchError::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(unreadable)?;
    fill(BufReader::new(file), workload, room).map_err(|error| match error {
        // Nothing is wrong with the file itself.
        TraceError::TooMany { .. } => unreadable(io::Error::other(error)),
        source => BenchError::Trace { path: path.to_owned(), source },
    })
}

fn fill(mut file: impl BufRead, mut workload: Workload, room: &mut Room) -> Result<Workload, TraceError> {
    let mut records = Reader::new(plain(&mut file)?);
    while let Some(transfer) = records.next()? {
        workload.push(transfer);
        room.taken += 1;
        if room.taken > room.max {
            return Err(TraceError::TooMany { max: room.max });
        }
    }
    if records.count() == 0 { Err(TraceError::Empty) } else { Ok(workload.finish()) }
}

/// The records of `file`, decompressed if need be.
fn plain<'a>(file: &'a mut impl BufRead) -> Result<Box<dyn Read + 'a>, TraceError> {
    let unreadable = |source| TraceError::Unreadable { record: 0, offset: 0, source };
    let mut start = [0; XZ_MAGIC.len()];
    let len = fill_up(file, &mut start).map_err(unreadable)?;
    let is_xz = start == XZ_MAGIC;
    let whole = io::Cursor::new(start).take(len as u64).chain(file);
    if !is_xz {
        return Ok(Box::new(whole));
    }
    let stream = Stream::new_stream_decoder(XZ_MEMORY_BYTES, CONCATENATED)
        .map_err(|source| unreadable(source.into()))?;
    Ok(Box::new(BufReader::with_capacity(1 << 16, XzDecoder::new_stream(whole, stream))))
}

/// Reads until `buffer` is full or there is no more; returns how much there was.
fn fill_up(source: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < buffer.len() {
        match source.read(&mut buffer[len..]) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use liblzma::write::XzEncoder;

    use super::super::transfer::Kind;
    use super::super::workload::Sized;
    use super::*;

    fn record(kind: u8, from: u8, to: u8, time: u64, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![kind, from, to, 0];
        bytes.extend((payload.len() as u32).to_le_bytes());
        bytes.extend(0x1_0000_0040u64.to_le_bytes());
        bytes.extend(time.to_le_bytes());
        bytes.extend(payload);
        bytes
    }

    fn good() -> Vec<u8> {
        [record(0, 1, 2, 5, &[0; 64]), record(1, 4, 3, 5, &[7; 64]), record(1, 2, 1, 9, &[1; 128])].concat()
    }

    fn load(bytes: &[u8]) -> Result<Workload, TraceError> {
        let mut room = Room { max: MAX_RECORDS, taken: 0 };
        fill(bytes, Workload::new("x".into(), None, true, false), &mut room)
    }

    fn xz(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = XzEncoder::new(Vec::new(), 6);
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn records_are_read_plain_and_compressed() {
        for bytes in [good(), xz(&good()), [xz(&good()[..88]), xz(&good()[88..])].concat()] {
            let workload = load(&bytes).unwrap();
            let seen: Vec<_> =
                workload.transfers.iter().map(|t| (t.kind, t.from, t.to, t.raw_bytes)).collect();
            assert_eq!(seen, [(Kind::Read, 0, 1, 64), (Kind::Write, 3, 2, 64), (Kind::Write, 1, 0, 128)]);
            assert_eq!(workload.transfers[0].bits, [4, 3, 2]);
        }
    }

    #[test]
    fn every_cut_is_noticed() {
        let good = good();
        for len in 0..good.len() {
            let result = load(&good[..len]);
            match len {
                0 => assert!(matches!(result, Err(TraceError::Empty))),
                88 | 176 => assert!(result.is_ok()),
                _ => {
                    let whole = (len / 88).min(2);
                    assert!(
                        matches!(result, Err(TraceError::Truncated { record, offset, .. })
                            if record == whole as u64 && offset == 88 * whole as u64),
                        "{len}: {result:?}"
                    );
                }
            }
        }
        let packed = xz(&good);
        for len in 1..packed.len() {
            assert!(load(&packed[..len]).is_err(), "{len} of {}", packed.len());
        }
    }

    #[test]
    fn every_field_is_checked() {
        let message = |at: usize, value: u8| {
            let mut bytes = good();
            bytes[at] = value;
            load(&bytes).unwrap_err().to_string()
        };
        let second = "record 1 at byte 88";
        assert_eq!(
            message(88, 2),
            format!("{second}: kind is 2, but must be 0 (read response) or 1 (write)")
        );
        assert_eq!(message(89, 0), format!("{second}: sender is GPU 0, but GPUs are 1 to 4"));
        assert_eq!(message(90, 5), format!("{second}: receiver is GPU 5, but GPUs are 1 to 4"));
        assert_eq!(message(90, 4), format!("{second}: sender and receiver are both GPU 4"));
        assert_eq!(message(92, 0), format!("{second}: payload length is 0 bytes, but must be 1 to 4032"));
        assert_eq!(
            message(95, 1),
            format!("{second}: payload length is 16777280 bytes, but must be 1 to 4032")
        );
        assert_eq!(
            message(88 + 16, 4),
            format!("{second}: time is 4 ps, before that of the record before, 5 ps")
        );
    }

    #[test]
    fn all_files_share_the_room() {
        let folder = tempfile::tempdir().unwrap();
        let files = ["a.bin", "b.bin.xz", "c.bin"].map(|name| folder.path().join(name));
        for (path, content) in files.iter().zip([good(), xz(&good()), good()]) {
            fs::write(path, content).unwrap();
        }
        let read = |max| read_up_to(max, &files, false);
        let lens: Vec<usize> = read(9).unwrap().iter().map(|trace| trace.transfers.len()).collect();
        assert_eq!(lens, [3; 3]);
        // The file that the first record too many is in.
        for (max, file) in [(2, 0), (3, 1), (5, 1), (6, 2), (8, 2)] {
            let error = read(max).unwrap_err();
            assert_eq!(error.to_string(), format!("cannot read {}", files[file].display()), "{max}");
            let cause = std::error::Error::source(&error).unwrap().to_string();
            assert_eq!(cause, format!("with it, there are more than {max} records in all traces together"));
        }
    }

    #[test]
    fn as_many_records_as_there_may_be_take_less_than_a_gigabyte() {
        assert!(size_of::<Sized>() as u64 * MAX_RECORDS < 1_000_000_000);
    }

    #[test]
    fn damaged_xz_says_so() {
        let mut packed = xz(&good());
        let middle = packed.len() / 2;
        packed[middle] ^= 0x40;
        let error = load(&packed).unwrap_err();
        assert!(matches!(error, TraceError::Unreadable { .. } | TraceError::Truncated { .. }), "{error}");
        let trailing = [xz(&good()), b"and more".to_vec()].concat();
        assert!(load(&trailing).is_err());
    }
}
