//! An embedding table that a device looks rows up in: packed in host memory, saved and loaded, with the most wanted rows near.
//!
//! ```text
//! cargo run --release -p mgcomp-transport --example embedding_gather [ROWS]
//! ```
//! There is no device here: a simulated link says how long the bytes of each look-up would be under way.

use std::error::Error;
use std::time::Duration;

use mgcomp_transport::simulated::SimulatedLink;
use mgcomp_transport::table::{Cache, LoadOptions, PIECE_LEN, Table, TableOptions};

/// Numbers of 32 bits in a row.
const WIDTH: usize = 128;
const ROW_LEN: usize = 4 * WIDTH;
/// Rows of a look-up, and look-ups.
const BATCH: usize = 1024;
const LOOKUPS: usize = 50;

fn main() -> Result<(), Box<dyn Error>> {
    let rows: usize = std::env::args().nth(1).map_or(Ok(20_000), |text| text.parse())?;
    let mut random = Random(1);
    let plain: Vec<u8> = (0..rows * WIDTH).flat_map(|_| random.weight().to_le_bytes()).collect();

    let table =
        Table::build(plain.clone(), ROW_LEN, &TableOptions { threads: 2, ..TableOptions::default() })?;
    let share = |bytes: u64| 100.0 * bytes as f64 / plain.len() as f64;
    println!("{rows} rows of {ROW_LEN} bytes, packed into {:.1} % in place", share(table.stored_bytes()));

    let folder = tempfile::tempdir()?;
    let path = folder.path().join("embeddings.table");
    table.save(&path)?;
    println!("saved as {:.1} % of the rows", share(std::fs::metadata(&path)?.len()));
    let mut table = Table::load(&path, &LoadOptions { threads: 2, ..LoadOptions::default() })?;

    // The first rows are the most wanted; a tenth of the table's memory is near.
    let mut cache = Cache::fill(&table, 0..table.rows(), &[plain.len() as u64 / 10])?;
    println!("a cache of 10 % of the memory holds {:.1} % of the rows", share(cache.rows() * ROW_LEN as u64));

    let link = SimulatedLink::of_gigabytes(16.0, Duration::from_micros(2))?;
    let mut out = vec![0; BATCH * ROW_LEN];
    let (mut moved_bytes, mut plain_bytes) = (0, 0);
    for _ in 0..LOOKUPS {
        let indices: Vec<u64> = (0..BATCH).map(|_| random.popular(rows)).collect();
        let found = cache.gather(&table, &indices, &mut out)?;
        link.reserve(found.from_table.link_bytes).wait();
        moved_bytes += found.from_table.link_bytes;
        plain_bytes += out.len().next_multiple_of(PIECE_LEN as usize) as u64;
        for (&index, row) in indices.iter().zip(out.chunks(ROW_LEN)) {
            assert!(row == &plain[index as usize * ROW_LEN..][..ROW_LEN], "row {index}");
        }
    }
    let lookups = (cache.hits() + cache.misses()) as f64;
    println!("{:.1} % of the look-ups hit the cache", 100.0 * cache.hits() as f64 / lookups);
    let moved = 100.0 * moved_bytes as f64 / plain_bytes as f64;
    println!("{moved:.1} % of the bytes crossed the {link}; every row was the right one");

    // A row that is trained further leaves the cache.
    let row: Vec<u8> = (0..WIDTH).flat_map(|_| random.weight().to_le_bytes()).collect();
    cache.update(&mut table, 0, &row)?;
    cache.gather(&table, &[0], &mut out[..ROW_LEN])?;
    assert_eq!(out[..ROW_LEN], row);
    println!("row 0 was changed and read back");
    Ok(())
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Small, of either sign.
    fn weight(&mut self) -> f32 {
        (0.05 * (2.0 * self.unit() - 1.0)) as f32
    }

    /// The lower, the likelier.
    fn popular(&mut self, rows: usize) -> u64 {
        (self.unit().powi(3) * rows as f64) as u64
    }
}
