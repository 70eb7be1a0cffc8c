//! Calls that cannot be meant: an error with numbers, and nothing is written.

use std::sync::atomic::{AtomicBool, Ordering};

use mgcomp_codecs::ibp::CodebookError;
use mgcomp_transport::table::{Cache, Table, TableError, TableOptions};

use super::rows::{SMALL_ROWS, all, small_codebook, small_table};

fn build(bytes: usize, row_len: usize, options: TableOptions) -> TableError {
    let mut memory = vec![7; bytes];
    let error = Table::build(&mut memory[..], row_len, &options).unwrap_err();
    assert!(memory.iter().all(|&byte| byte == 7), "the rows are as they were");
    error
}

#[test]
fn shapes_that_are_no_table() {
    let options = TableOptions::default();
    let error = build(10, 0, options);
    assert!(matches!(error, TableError::Codebook(CodebookError::TensorLen { tensor_len: 0, .. })), "{error}");
    let error = build(10, 3, options);
    assert!(matches!(error, TableError::Uneven { bytes: 10, row_len: 3 }), "{error}");
    let error = build(1 << 18, 1 << 18, options);
    assert!(
        matches!(error, TableError::Codebook(CodebookError::TensorLen { tensor_len: 262_144, .. })),
        "{error}"
    );
    for clusters in [0, 257, usize::MAX] {
        let error = build(100, 10, TableOptions { clusters, ..options });
        assert!(
            matches!(error, TableError::Codebook(CodebookError::Clusters(n)) if n == clusters),
            "{error}"
        );
    }
    for threads in [0, 100_000] {
        let error = build(100, 10, TableOptions { threads, ..options });
        assert!(matches!(error, TableError::Workers(_)), "{error}");
    }
}

#[test]
fn indices_and_buffers_that_do_not_fit() {
    let mut table = small_table();
    let mut out = [0xee; 20];
    for bad in [3, 4, u64::MAX] {
        let error = table.gather(&[1, bad], &mut out).unwrap_err();
        assert!(
            matches!(error, TableError::Index { position: 1, index, rows: 3 } if index == bad),
            "{error}"
        );
        let error = table.update_rows(&[0, bad], &[1; 20]).unwrap_err();
        assert!(
            matches!(error, TableError::Index { position: 1, index, rows: 3 } if index == bad),
            "{error}"
        );
        assert!(matches!(table.stored_row(bad), Err(TableError::Index { rows: 3, .. })));
    }
    for len in [0, 1, 10, 19] {
        let error = table.gather(&[1, 2], &mut out[..len]).unwrap_err();
        assert!(matches!(error, TableError::Buffer { rows: 2, row_len: 10, got } if got == len), "{error}");
        let error = table.update_rows(&[1, 2], &vec![1; len]).unwrap_err();
        assert!(matches!(error, TableError::Buffer { rows: 2, row_len: 10, got } if got == len), "{error}");
    }
    assert!(matches!(table.update(0, &[1; 11]), Err(TableError::Buffer { rows: 1, got: 11, .. })));
    assert_eq!(out, [0xee; 20], "nothing was written");
    assert_eq!(all(&table), SMALL_ROWS, "nothing was changed");
}

/// Memory that becomes another after the table was built: as if somebody else had written to it.
struct Treacherous {
    honest: Vec<u8>,
    other: Vec<u8>,
    turned: &'static AtomicBool,
}

impl AsRef<[u8]> for Treacherous {
    fn as_ref(&self) -> &[u8] {
        if self.turned.load(Ordering::Relaxed) { &self.other } else { &self.honest }
    }
}

impl AsMut<[u8]> for Treacherous {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.honest
    }
}

#[test]
fn a_row_that_somebody_else_wrote_to() {
    let turned: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
    let memory = Treacherous { honest: SMALL_ROWS.to_vec(), other: vec![0; 30], turned };
    let table = Table::with_codebook(memory, small_codebook(), &TableOptions::default()).unwrap();
    assert_eq!(all(&table), SMALL_ROWS);
    turned.store(true, Ordering::Relaxed);
    // No granule participates: 1 + 8 + 2 bytes do not fit a row of 10.
    let error = table.gather(&[1, 0], &mut [0; 20]).unwrap_err();
    assert!(matches!(error, TableError::Row { position: 1, index: 0, .. }), "{error}");
    assert!(error.to_string().contains("thrown away"), "{error}");
    assert_eq!(table.stored_row(0).unwrap().1.len(), 10, "no further than its place");
}

#[test]
fn slabs_that_no_entry_can_name() {
    let table = small_table();
    let error = Cache::fill(&table, [0], &[10; 9]).unwrap_err();
    assert!(matches!(error, TableError::Slabs { slabs: 9 }), "{error}");
    assert!(error.to_string().contains("at most 8"), "{error}");
    let error = Cache::fill(&table, [0], &[10, (1 << 40) + 1]).unwrap_err();
    assert!(matches!(error, TableError::SlabLen { slab: 1, bytes: 0x100_0000_0001, .. }), "{error}");
    let error = Cache::fill(&table, [0, 3], &[10]).unwrap_err();
    assert!(matches!(error, TableError::Index { position: 1, index: 3, rows: 3 }), "{error}");
}
