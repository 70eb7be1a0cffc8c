//! Random series of updates and gathers, held against a plain buffer.

use mgcomp_codecs::Cpu;
use mgcomp_codecs::ibp::Granule;
use mgcomp_transport::table::{Table, TableOptions};

use super::random::Random;
use super::rows::{all, cpus, options, row, rows};

#[test]
fn tables_hold_what_a_plain_buffer_holds() {
    let mut random = Random(1);
    // Lengths around granules, words and lines; odd ones have a tail.
    for row_len in [1, 2, 3, 4, 5, 7, 8, 9, 12, 31, 60, 63, 64, 65, 100, 128, 200, 1000, 1024, 1028, 5000] {
        for (clusters, threads) in [(1, 1), (3, 2)] {
            for granule in [None, Some(Granule::Four), Some(Granule::Eight)] {
                let count = 40 + random.below(60);
                let plain = rows(&mut random, count, row_len);
                compare(&mut random, plain, row_len, clusters, threads, granule);
            }
        }
    }
}

/// One table for each instruction set: their stored bytes must be the same all the way.
fn compare(
    random: &mut Random,
    mut plain: Vec<u8>,
    row_len: usize,
    clusters: usize,
    threads: usize,
    granule: Option<Granule>,
) {
    let label = format!("{row_len} {clusters} {granule:?}");
    let build = |cpu: Cpu| {
        let options = TableOptions { granule, ..options(cpu, clusters, threads) };
        Table::build(plain.clone(), row_len, &options).unwrap()
    };
    let mut tables: Vec<Table> = cpus().into_iter().map(|(_, cpu)| build(cpu)).collect();
    let count = plain.len() / row_len;
    for _ in 0..6 {
        let indices: Vec<u64> = (0..random.below(30)).map(|_| random.below(count) as u64).collect();
        let news: Vec<u8> = indices.iter().flat_map(|_| row(random, row_len)).collect();
        for (&index, new) in indices.iter().zip(news.chunks(row_len)) {
            plain[index as usize * row_len..][..row_len].copy_from_slice(new);
        }
        let wanted: Vec<u64> = (0..random.below(200)).map(|_| random.below(count) as u64).collect();
        let expected: Vec<u8> =
            wanted.iter().flat_map(|&index| &plain[index as usize * row_len..][..row_len]).copied().collect();
        for table in &mut tables {
            table.update_rows(&indices, &news).unwrap();
            let mut out = vec![0xee; expected.len()];
            let gathered = table.gather(&wanted, &mut out).unwrap();
            assert!(out == expected, "{label}");
            let stored = |&index: &u64| table.stored_row(index).unwrap().1.len() as u64;
            assert_eq!(gathered.stored_bytes, wanted.iter().map(stored).sum::<u64>(), "{label}");
            assert_eq!(table.stored_bytes(), (0..count as u64).map(|i| stored(&i)).sum::<u64>(), "{label}");
        }
        for (first, other) in tables.iter().zip(&tables[1..]) {
            assert_eq!(first.packed_mask(), other.packed_mask(), "{label}");
            assert_eq!(first.row_clusters(), other.row_clusters(), "{label}");
            for index in 0..count as u64 {
                assert_eq!(first.stored_row(index).unwrap(), other.stored_row(index).unwrap(), "{label}");
            }
        }
    }
    assert!(tables.iter().all(|table| all(table) == plain), "{label}");
}

#[test]
fn many_threads_gather_from_one_table() {
    let mut random = Random(2);
    let plain = rows(&mut random, 3000, 256);
    let table = Table::build(plain.clone(), 256, &options(Cpu::active(), 2, 3)).unwrap();
    let indices: Vec<u64> = (0..2000).map(|_| random.below(3000) as u64).collect();
    let expected: Vec<u8> =
        indices.iter().flat_map(|&i| &plain[i as usize * 256..][..256]).copied().collect();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..5 {
                    let mut out = vec![0; expected.len()];
                    assert_eq!(table.gather(&indices, &mut out).unwrap().rows, 2000);
                    assert!(out == expected);
                }
            });
        }
    });
}

#[test]
fn large_pages_change_no_row() {
    let mut random = Random(75);
    let plain = rows(&mut random, 20_000, 256);
    let table = Table::build(plain.clone(), 256, &options(Cpu::active(), 1, 2)).unwrap();
    if let Err(error) = table.enlarge_pages() {
        println!("SKIPPED: gathers from large pages, for this system gives none: {error}");
    }
    assert!(all(&table) == plain);
}
