//! Small tables, worked out by hand.

use mgcomp_codecs::ibp::{Form, Granule};
use mgcomp_transport::table::{Gathered, Sample, Table, TableOptions};

use super::rows::{SMALL_ROWS, SMALL_STORED, all, cpus, options, small_codebook, small_table};

#[test]
fn rows_are_packed_where_they_are() {
    for (isa, cpu) in cpus() {
        let options = options(cpu, 1, 1);
        let mut memory = SMALL_ROWS;
        let table = Table::with_codebook(&mut memory[..], small_codebook(), &options).unwrap();
        assert_eq!((table.rows(), table.row_len(), table.raw_bytes()), (3, 10, 30), "{isa}");
        assert_eq!((table.packed_mask(), table.row_clusters()), (&[0b001][..], &[][..]), "{isa}");
        assert_eq!(table.stored_bytes(), 9 + 10 + 10, "{isa}");
        assert_eq!(table.slots()[..9], SMALL_STORED, "{isa}");
        assert_eq!(table.slots()[10..], SMALL_ROWS[10..], "{isa}");
        assert_eq!(table.stored_row(0).unwrap(), (Form::Packed { cluster: 0 }, &SMALL_STORED[..]), "{isa}");
        assert_eq!(table.stored_row(2).unwrap(), (Form::Raw, &SMALL_ROWS[20..]), "{isa}");
        assert_eq!(all(&table), SMALL_ROWS, "{isa}");
    }
}

#[test]
fn a_gather_says_what_it_read() {
    let table = small_table();
    let mut out = [0; 40];
    let gathered = table.gather(&[2, 0, 0, 1], &mut out).unwrap();
    // All rows lie in the first piece of 128 bytes, which is moved for each.
    let expected = Gathered { rows: 4, packed_rows: 2, stored_bytes: 10 + 9 + 9 + 10, link_bytes: 4 * 128 };
    assert_eq!(gathered, expected);
    assert_eq!(out[..10], SMALL_ROWS[20..]);
    assert_eq!((&out[10..20], &out[20..30]), (&SMALL_ROWS[..10], &SMALL_ROWS[..10]));
    assert_eq!(out[30..], SMALL_ROWS[10..20]);
    assert_eq!(table.gather(&[], &mut []).unwrap(), Gathered::default());
}

#[test]
fn updates_change_the_form_of_a_row() {
    let mut table = small_table();
    // The last row becomes the first, and the first one that does not get shorter.
    table.update_rows(&[2, 0], &[&SMALL_ROWS[..10], &SMALL_ROWS[20..]].concat()).unwrap();
    assert_eq!((table.packed_mask(), table.stored_bytes()), (&[0b100][..], 10 + 10 + 9));
    assert_eq!(table.slots()[20..29], SMALL_STORED);
    assert_eq!(all(&table), [&SMALL_ROWS[20..], &SMALL_ROWS[10..20], &SMALL_ROWS[..10]].concat());
    // Of two contents the last one counts.
    table.update_rows(&[1, 1], &[&SMALL_ROWS[20..], &SMALL_ROWS[..10]].concat()).unwrap();
    assert_eq!((table.packed_mask(), table.stored_bytes()), (&[0b110][..], 10 + 9 + 9));
}

/// Rows of two 4-byte granules that are alike in all rows, but of the second granule half of the rows differ in one bit.
#[test]
fn the_longer_granule_is_taken_unless_the_shorter_packs_better() {
    let row = |i: u8| [7, 0, 0, 0, i % 2, 0, 0, 0];
    let rows: Vec<u8> = (0..100).flat_map(row).collect();
    let table =
        Table::build(rows.clone(), 8, &TableOptions { sample: Sample::All, ..Default::default() }).unwrap();
    // 1 byte of participation and 1 kept bit, whatever the granule.
    assert_eq!((table.codebook().granule(), table.stored_bytes()), (Granule::Eight, 200));
    assert_eq!(all(&table), rows);

    // The second granule of every other row is wild. With granules of 8 bytes it spoils the first.
    let wild = |i: u64| ((i % 2) * i.wrapping_mul(0x9e37_79b9_7f4a_7c15)) >> 32;
    let rows: Vec<u8> = (0..1000).flat_map(|i| (wild(i) << 32 | 7).to_le_bytes()).collect();
    let table =
        Table::build(rows.clone(), 8, &TableOptions { sample: Sample::All, ..Default::default() }).unwrap();
    assert_eq!(table.codebook().granule(), Granule::Four);
    assert_eq!(all(&table), rows);
    let forced = TableOptions { granule: Some(Granule::Eight), sample: Sample::All, ..Default::default() };
    let forced = Table::build(rows, 8, &forced).unwrap();
    assert!(table.stored_bytes() < forced.stored_bytes());
}

#[test]
fn clusters_have_invariant_bits_of_their_own() {
    // Two kinds of rows that agree in nothing.
    let rows: Vec<u8> = (0..400_u32).flat_map(|i| if i % 2 == 0 { [0x00; 16] } else { [0xff; 16] }).collect();
    let build = |clusters| {
        let options = TableOptions { clusters, sample: Sample::All, ..Default::default() };
        Table::build(rows.clone(), 16, &options).unwrap()
    };
    let (one, two) = (build(1), build(2));
    // Nothing is kept but the participation of two granules.
    assert_eq!((two.codebook().clusters().len(), two.stored_bytes()), (2, 400));
    assert!(one.stored_bytes() > two.stored_bytes() && one.row_clusters().is_empty());
    let clusters = two.row_clusters();
    assert_eq!((clusters.len(), clusters[0] + clusters[1]), (400, 1));
    assert!(clusters.chunks(2).all(|pair| pair == &clusters[..2]));
    assert_eq!((all(&one), all(&two)), (rows.clone(), rows));
}

#[test]
fn a_sample_of_a_tenth_packs_nearly_as_well_as_all_rows() {
    let mut random = super::random::Random(9);
    let rows = super::rows::rows(&mut random, 5000, 96);
    let build = |sample| {
        let options = TableOptions { sample, ..Default::default() };
        Table::build(rows.clone(), 96, &options).unwrap().stored_bytes() as f64
    };
    let (tenth, whole) = (build(Sample::Percent(10.0)), build(Sample::All));
    assert!(tenth <= 1.02 * whole, "{tenth} {whole}");
    assert!(whole < 0.7 * rows.len() as f64, "{whole}");
}

#[test]
fn tables_can_be_empty() {
    let table = Table::build(Vec::new(), 12, &TableOptions::default()).unwrap();
    assert_eq!((table.rows(), table.stored_bytes(), table.packed_mask()), (0, 0, &[][..]));
    assert_eq!(table.gather(&[], &mut []).unwrap().rows, 0);
}
