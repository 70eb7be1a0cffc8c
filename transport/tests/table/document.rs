//! The worked example of `FORMAT.md`, read out of the document.

use mgcomp_transport::table::{LoadOptions, Table};

use super::rows::{SMALL_ROWS, all, small_table};

const DOCUMENT: &str = include_str!("../../../FORMAT.md");

/// The bytes of the dump called `name`: each line has an offset, bytes, and behind a bar what they mean.
fn dump(name: &str) -> Vec<u8> {
    let opening = format!("```text {name}\n");
    assert_eq!(DOCUMENT.matches(&opening).count(), 1, "dumps called {name:?}");
    let (_, block) = DOCUMENT.split_once(&opening).unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let mut bytes = Vec::new();
    for line in block.lines() {
        let (numbers, _) = line.split_once('|').unwrap_or_else(|| panic!("{name}: no bar in {line:?}"));
        let mut numbers = numbers.split_whitespace();
        let offset = usize::from_str_radix(numbers.next().unwrap(), 16).unwrap();
        assert_eq!(offset, bytes.len(), "{name}: offset of {line:?}");
        bytes.extend(numbers.map(|byte| u8::from_str_radix(byte, 16).unwrap()));
    }
    bytes
}

#[test]
fn the_document_shows_what_is_written_and_read() {
    assert_eq!(dump("rows"), SMALL_ROWS);
    let file = dump("table");
    let mut written = Vec::new();
    small_table().write_to(&mut written).unwrap();
    assert_eq!(format!("{written:02x?}"), format!("{file:02x?}"));
    let loaded = Table::read_from(&file[..], file.len() as u64, &LoadOptions::default()).unwrap();
    assert_eq!(all(&loaded), SMALL_ROWS);
}
