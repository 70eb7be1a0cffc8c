//! Files that are no tables any more, or never were: an error, and no memory that the file does not pay for.

use mgcomp_codecs::Cpu;
use mgcomp_codecs::ibp::{Codebook, Granule, Invariants};
use mgcomp_transport::table::{LoadOptions, Table, TableFileError, TableOptions};

use super::random::Random;
use super::rows::{all, options, rows, small_table};

fn bytes(table: &Table) -> Vec<u8> {
    let mut bytes = Vec::new();
    table.write_to(&mut bytes).unwrap();
    bytes
}

fn load(bytes: &[u8]) -> Result<Table, TableFileError> {
    Table::read_from(bytes, bytes.len() as u64, &LoadOptions::default())
}

/// Puts the checksums right that changed bytes have made wrong: of the header, of codebook and rows, and of the first block.
fn seal(bytes: &mut [u8], front_len: usize) {
    let seal = |bytes: &mut [u8], start: usize, end: usize| {
        let checksum = crc32c::crc32c(&bytes[start..end]);
        bytes[end..end + 4].copy_from_slice(&checksum.to_le_bytes());
    };
    seal(bytes, 0, 28);
    seal(bytes, 32, front_len - 4);
    let end = bytes.len() - 4;
    seal(bytes, front_len, end);
}

/// The file of the small table: 32 bytes of header, 28 of codebook, 1 of bits, a checksum; and one block.
fn small_file() -> (Vec<u8>, usize) {
    (bytes(&small_table()), 32 + 28 + 1 + 4)
}

fn changed(change: impl Fn(&mut Vec<u8>)) -> TableFileError {
    let (mut file, front_len) = small_file();
    change(&mut file);
    seal(&mut file, front_len);
    load(&file).unwrap_err()
}

#[test]
fn a_sealed_file_is_the_table() {
    let (mut file, front_len) = small_file();
    let before = file.clone();
    seal(&mut file, front_len);
    assert_eq!(file, before, "the test knows where checksums are");
    assert_eq!(all(&load(&file).unwrap()), all(&small_table()));
}

#[test]
fn files_that_end_early_or_late() {
    let table = Table::build(rows(&mut Random(5), 60, 21), 21, &options(Cpu::active(), 2, 1)).unwrap();
    let file = bytes(&table);
    for len in 0..file.len() {
        assert!(load(&file[..len]).is_err(), "{len} of {}", file.len());
        // And a file that is cut while it is read.
        let error = Table::read_from(&file[..len], file.len() as u64, &LoadOptions::default()).unwrap_err();
        assert!(matches!(error, TableFileError::Truncated { .. }), "{len}: {error}");
    }
    let error = load(&[&file[..], &[0]].concat()).unwrap_err();
    let (needed, got) = (file.len() as u128, file.len() as u64 + 1);
    assert!(
        matches!(error, TableFileError::Length { needed: n, got: g } if (n, g) == (needed, got)),
        "{error}"
    );
}

#[test]
fn every_bit_that_flips_is_noticed() {
    let table = Table::build(rows(&mut Random(6), 40, 21), 21, &options(Cpu::active(), 2, 1)).unwrap();
    let mut file = bytes(&table);
    for bit in 0..8 * file.len() {
        file[bit / 8] ^= 1 << (bit % 8);
        assert!(load(&file).is_err(), "bit {bit} of {}", 8 * file.len());
        file[bit / 8] ^= 1 << (bit % 8);
    }
    assert!(all(&load(&file).unwrap()) == all(&table));
}

#[test]
fn headers_that_lie() {
    let put = |at: usize, value: u64| {
        move |file: &mut Vec<u8>| file[at..at + 8].copy_from_slice(&value.to_le_bytes())
    };
    assert!(matches!(
        changed(|file| file[0] = b'X'),
        TableFileError::Magic { got: [b'X', b'G', b'T', b'B'] }
    ));
    assert!(matches!(changed(|file| file[4] = 2), TableFileError::Version { got: 2 }));
    assert!(matches!(changed(|file| file[6] = 9), TableFileError::Reserved { offset: 6, got: 9 }));
    for rows in [0, 2, 4, 1 << 20, u64::MAX / 8, u64::MAX] {
        let error = changed(put(8, rows));
        // Four rows would have as many bits and blocks, but take more bytes.
        match rows {
            4 => assert!(matches!(error, TableFileError::TooFew { least: 32.., got: 29 }), "{error}"),
            2 => assert!(
                matches!(error, TableFileError::BlockLen { offset: 65, got: 29, most: 20 }),
                "{error}"
            ),
            _ => assert!(matches!(error, TableFileError::Length { .. }), "{rows}: {error}"),
        }
    }
    for stored in [0, 28, 30, u64::MAX] {
        assert!(matches!(changed(put(16, stored)), TableFileError::Length { .. }), "{stored}");
    }
    let codebook = |len: u32| move |file: &mut Vec<u8>| file[24..28].copy_from_slice(&len.to_le_bytes());
    assert!(matches!(changed(codebook(u32::MAX)), TableFileError::CodebookLen { got: 0xffff_ffff }));
    assert!(matches!(changed(codebook(1000)), TableFileError::Truncated { offset: 32, needed: 1000, .. }));
    for len in [0, 27, 29] {
        assert!(matches!(changed(codebook(len)), TableFileError::Codebook(_)), "{len}");
    }
}

#[test]
fn a_table_that_is_too_large_is_refused_before_its_rows_are_read() {
    let (mut file, _) = small_file();
    file[60] ^= 1; // a bit of the rows, whose checksum is wrong now
    let load = |max_bytes| {
        let options = LoadOptions { max_bytes, ..LoadOptions::default() };
        Table::read_from(&file[..], file.len() as u64, &options).unwrap_err()
    };
    assert!(matches!(load(30), TableFileError::Checksum { .. }));
    assert!(matches!(load(29), TableFileError::TooLarge { bytes: 30, limit: 29 }));
}

#[test]
fn rows_that_lie() {
    let at = |at: usize, value: u8| move |file: &mut Vec<u8>| file[at] = value;
    let (file, front_len) = small_file();
    assert_eq!((file[60], file.len() - front_len), (0b001, 4 + 29 + 4));
    assert!(matches!(changed(at(60, 0b1001)), TableFileError::UnusedBits { rows: 3, got: 0b1001 }));
    // Raw rows that are said to be packed, and a packed one that is said to be raw.
    assert!(matches!(changed(at(60, 0b111)), TableFileError::Row { row: 1, .. }));
    assert!(matches!(changed(at(60, 0b000)), TableFileError::TooFew { least: 30, got: 29 }));
    // No granule of the first row participates, so it would be longer than its place; then an unused bit is set.
    assert!(matches!(changed(at(front_len + 4, 0)), TableFileError::Row { row: 0, .. }));
    assert!(matches!(changed(at(front_len + 4, 0b111)), TableFileError::Row { row: 0, .. }));
    // Blocks that are too long, and that go on behind their rows.
    assert!(matches!(changed(at(front_len, 31)), TableFileError::BlockLen { got: 31, most: 30, .. }));
    assert!(matches!(changed(at(front_len + 2, 1)), TableFileError::BlockLen { .. }));
    let error = changed(|file| {
        file[front_len] = 30;
        file[16] = 30;
        file.insert(front_len + 4 + 29, 0);
    });
    assert!(matches!(error, TableFileError::Leftover { block: 0, bytes: 1 }), "{error}");
}

#[test]
fn clusters_that_are_not_there() {
    let nothing = Invariants { mask: vec![0; 8], bitval: vec![0; 8] };
    let full = Invariants { mask: vec![0xff; 8], bitval: vec![0; 8] };
    let codebook = Codebook::new(Granule::Eight, 8, vec![nothing, full]).unwrap();
    let table = Table::with_codebook([[0; 8], [1; 8]].concat(), codebook, &TableOptions::default()).unwrap();
    assert_eq!((table.packed_mask(), table.row_clusters()), (&[0b01][..], &[1, 0][..]));
    let front_len = 32 + 8 + 32 + 1 + 2 + 4;
    for (row, cluster, most) in [(0, 2, 1), (1, 1, 0)] {
        let mut file = bytes(&table);
        file[front_len - 6 + row] = cluster;
        seal(&mut file, front_len);
        let error = load(&file).unwrap_err();
        assert!(
            matches!(error, TableFileError::Cluster { row: r, cluster: c, most: m } if (r, c, m) == (row as u64, cluster, most)),
            "{error}"
        );
    }
}

#[test]
fn files_of_anything_with_good_checksums() {
    let mut random = Random(7);
    let (mut loaded, mut refused) = (0, 0);
    for round in 0..4000 {
        let (mut file, front_len) = small_file();
        for _ in 0..1 + random.below(3) {
            let at = 5 + random.below(file.len() - 5);
            file[at] = if round % 2 == 0 { random.bits() as u8 } else { file[at] ^ 1 << random.below(8) };
        }
        seal(&mut file, front_len);
        match load(&file) {
            // What was loaded can be gathered.
            Ok(table) => {
                assert_eq!(all(&table).len(), table.raw_bytes() as usize);
                loaded += 1;
            }
            Err(_) => refused += 1,
        }
    }
    assert!(loaded > 100 && refused > 100, "{loaded} {refused}");
}
