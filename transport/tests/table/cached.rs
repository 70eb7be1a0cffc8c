//! Caches of packed rows.

use mgcomp_codecs::Cpu;
use mgcomp_codecs::ibp::Form;
use mgcomp_transport::table::{Cache, Table, TableError};

use super::random::Random;
use super::rows::{SMALL_ROWS, SMALL_STORED, all, options, row, rows, small_table};

#[test]
fn rows_lie_one_behind_the_other_in_slabs() {
    let table = small_table();
    // The packed row has 9 bytes, the raw ones 10. Row 2 is named twice and finds no room in the first slab.
    let cache = Cache::fill(&table, [0, 2, 2, 1], &[12, 25]).unwrap();
    assert_eq!((cache.rows(), cache.used_bytes()), (3, 29));
    assert_eq!(cache.slab(0).unwrap(), SMALL_STORED);
    assert_eq!(cache.slab(1).unwrap(), [&SMALL_ROWS[20..], &SMALL_ROWS[10..20]].concat());
    assert!(cache.slab(2).is_none() && cache.entry(3).is_none());
    let place = |index| cache.entry(index).map(|entry| (entry.slab(), entry.offset(), entry.form())).unwrap();
    assert_eq!(place(0), (0, 0, Form::Packed { cluster: 0 }));
    assert_eq!(place(2), (1, 0, Form::Raw));
    assert_eq!(place(1), (1, 10, Form::Raw));
    assert_eq!(cache.entry(1).unwrap().bits(), 10 | 1 << 40);
}

#[test]
fn hits_and_misses_are_counted() {
    let table = small_table();
    let cache = Cache::fill(&table, [1, 0], &[10]).unwrap();
    assert_eq!((cache.rows(), cache.used_bytes()), (1, 10), "row 0 has no room");
    let mut out = [0; 30];
    let found = cache.gather(&table, &[1, 1, 0], &mut out).unwrap();
    assert_eq!((found.hits, found.from_table.rows, found.from_table.stored_bytes), (2, 1, 9));
    assert_eq!(out, [&SMALL_ROWS[10..20], &SMALL_ROWS[10..20], &SMALL_ROWS[..10]].concat()[..]);
    cache.gather(&table, &[2], &mut out[..10]).unwrap();
    assert_eq!((cache.hits(), cache.misses()), (2, 2));
    // What is refused is not counted.
    assert!(matches!(cache.gather(&table, &[3], &mut out[..10]), Err(TableError::Index { index: 3, .. })));
    assert!(matches!(cache.gather(&table, &[1], &mut out[..9]), Err(TableError::Buffer { got: 9, .. })));
    assert_eq!((cache.hits(), cache.misses()), (2, 2));
}

#[test]
fn stale_caches_give_nothing() {
    let (mut table, other) = (small_table(), small_table());
    let mut cache = Cache::fill(&table, [0, 1], &[100]).unwrap();
    let mut out = [0xee; 10];
    assert!(matches!(cache.gather(&other, &[0], &mut out), Err(TableError::Stale { .. })));
    cache.update(&mut table, 1, &SMALL_ROWS[..10]).unwrap();
    assert_eq!((cache.rows(), cache.entry(1)), (1, None));
    assert_eq!(cache.gather(&table, &[1], &mut out).unwrap().hits, 0);
    assert_eq!(out, SMALL_ROWS[..10]);
    // A change that fails is none.
    assert!(matches!(cache.update(&mut table, 3, &out), Err(TableError::Index { index: 3, .. })));
    assert_eq!(cache.gather(&table, &[0], &mut out).unwrap().hits, 1);
    table.update(0, &SMALL_ROWS[20..]).unwrap();
    out.fill(0xee);
    let error = cache.gather(&table, &[0], &mut out).unwrap_err();
    assert!(matches!(error, TableError::Stale { cached_changes: 1, changes: 2, .. }), "{error}");
    assert!(matches!(cache.update(&mut table, 0, &out), Err(TableError::Stale { .. })));
    assert_eq!(out, [0xee; 10]);
}

#[test]
fn caches_hold_what_a_plain_buffer_holds() {
    let mut random = Random(8);
    for (row_len, clusters, threads) in [(7, 1, 1), (64, 3, 2), (1024, 1, 2)] {
        let mut plain = rows(&mut random, 300, row_len);
        let mut table =
            Table::build(plain.clone(), row_len, &options(Cpu::active(), clusters, threads)).unwrap();
        let wanted = (0..300).filter(|index| index % 3 == 0);
        let slab = 20 * row_len as u64;
        let mut cache = Cache::fill(&table, wanted, &[slab, slab, slab / 2]).unwrap();
        assert!(cache.rows() > 40 && cache.used_bytes() <= 5 * slab / 2);
        for _ in 0..20 {
            let (index, new) = (random.below(300), row(&mut random, row_len));
            cache.update(&mut table, index as u64, &new).unwrap();
            plain[index * row_len..][..row_len].copy_from_slice(&new);
            let indices: Vec<u64> = (0..200).map(|_| random.below(300) as u64).collect();
            let expected: Vec<u8> =
                indices.iter().flat_map(|&i| &plain[i as usize * row_len..][..row_len]).copied().collect();
            let mut out = vec![0; expected.len()];
            let found = cache.gather(&table, &indices, &mut out).unwrap();
            assert!(out == expected);
            let cached = indices.iter().filter(|&&index| cache.entry(index).is_some()).count() as u64;
            assert_eq!((found.hits, found.from_table.rows), (cached, 200 - cached));
        }
        assert_eq!(cache.hits() + cache.misses(), 20 * 200);
        assert!(all(&table) == plain);
    }
}
