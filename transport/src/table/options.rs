//! How a table is built.

use mgcomp_codecs::Cpu;
use mgcomp_codecs::ibp::Granule;

/// How a [`Table`](super::Table) is built.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TableOptions {
    /// How rows are cut; `None` for whichever packs the sample into fewer bytes.
    pub granule: Option<Granule>,
    /// How many groups of rows may have invariant bits of their own. Each costs two rows of memory, and packing time.
    pub clusters: usize,
    /// Which rows the invariant bits are found from.
    pub sample: Sample,
    /// Threads that pack and gather, the caller's included.
    pub threads: usize,
    /// The instruction set to run on.
    pub cpu: Cpu,
}

impl Default for TableOptions {
    /// One cluster, from a tenth of the rows, on the caller's thread.
    fn default() -> Self {
        Self { granule: None, clusters: 1, sample: Sample::Percent(10.0), threads: 1, cpu: Cpu::active() }
    }
}

/// Rows that stand for all of them. They are picked from all over the table, the same ones every time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sample {
    /// Every row.
    All,
    /// This part of the rows, but not so few that chance would decide: [`Sample::LEAST`] for each cluster, if there are.
    Percent(f64),
    /// So many rows, or all if there are fewer; at least one.
    Rows(u64),
}

impl Sample {
    /// The fewest rows of a cluster that a percentage is taken to mean.
    pub const LEAST: u64 = 128;

    /// How many of `rows` rows are looked at.
    #[must_use]
    pub fn count(self, rows: u64, clusters: usize) -> u64 {
        let wanted = match self {
            Self::All => rows,
            // The cast saturates, and makes 0 of what is no number.
            Self::Percent(percent) => {
                let least = Self::LEAST.saturating_mul(clusters as u64);
                ((rows as f64 * percent / 100.0).ceil() as u64).max(least)
            }
            Self::Rows(wanted) => wanted.max(1),
        };
        wanted.min(rows)
    }

    /// Their indices, in order: one from each of as many stretches of the table, at a place that falls in step with
    /// nothing in the data.
    pub(super) fn indices(self, rows: u64, clusters: usize) -> impl Iterator<Item = u64> {
        let count = self.count(rows, clusters);
        let start = move |i: u64| (u128::from(i) * u128::from(rows) / u128::from(count.max(1))) as u64;
        (0..count).map(move |i| {
            let stretch = start(i + 1) - start(i);
            start(i) + scatter(i) % stretch
        })
    }
}

/// A number that looks like chance: the finaliser of SplitMix64.
fn scatter(number: u64) -> u64 {
    let mut z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_of_the_size_asked_for() {
        assert_eq!(Sample::All.count(5000, 1), 5000);
        assert_eq!(Sample::Percent(10.0).count(5001, 1), 501);
        assert_eq!(Sample::Percent(1.0).count(5000, 1), 128);
        assert_eq!(Sample::Percent(1.0).count(5000, 4), 512);
        assert_eq!(Sample::Percent(1.0).count(100, 1), 100);
        assert_eq!(Sample::Percent(f64::NAN).count(5000, 1), 128);
        assert_eq!(Sample::Percent(1e300).count(5000, 1), 5000);
        assert_eq!(Sample::Rows(0).count(5000, 9), 1);
        assert_eq!(Sample::Rows(7).count(0, 1), 0);
    }

    #[test]
    fn indices_are_one_from_each_stretch() {
        for (rows, wanted) in [(10_u64, 3_u64), (1000, 7), (5, 5), (1, 1), (0, 4)] {
            let indices: Vec<u64> = Sample::Rows(wanted).indices(rows, 1).collect();
            assert_eq!(indices.len() as u64, wanted.min(rows));
            for (i, &index) in (0..).zip(&indices) {
                assert!(
                    (i * rows / wanted..(i + 1) * rows / wanted).contains(&index),
                    "{indices:?} of {rows}"
                );
            }
        }
        assert!(Sample::All.indices(1000, 1).eq(0..1000));
        // Not always at the same place of their stretch.
        let places: std::collections::HashSet<u64> =
            Sample::Rows(100).indices(1000, 1).map(|index| index % 10).collect();
        assert!(places.len() > 5, "{places:?}");
    }
}
