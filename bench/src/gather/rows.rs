//! Rows to measure: from files, and generated ones of the kinds that the paper has.

use super::args::RowFile;
use super::published::Kind;
use crate::data::{Random, read};
use crate::error::BenchError;

/// Rows of one length.
pub(crate) struct Rows {
    pub(crate) name: String,
    /// What the paper has of that kind.
    pub(super) kind: Option<Kind>,
    pub(crate) row_len: usize,
    /// Whole rows.
    pub(crate) bytes: Vec<u8>,
}

/// The whole rows of a file.
pub(super) fn from_file(file: &RowFile) -> Result<Rows, BenchError> {
    let mut bytes = read(&file.path)?;
    bytes.truncate(bytes.len() - bytes.len() % file.row_len);
    if bytes.is_empty() {
        return Err(BenchError::Empty { path: file.path.clone() });
    }
    let name = file.path.file_name().unwrap_or_default().to_string_lossy();
    Ok(Rows { name: format!("{name} ({})", file.element), kind: None, row_len: file.row_len, bytes })
}

/// A set of rows that is made up.
#[derive(Clone, Copy)]
struct Recipe {
    name: &'static str,
    kind: Kind,
    /// Elements of a row.
    elements: usize,
    /// Bytes of an element: floats, of which the upper bytes are kept.
    width: usize,
    /// An element of a row, at a place of the row.
    element: fn(&mut Random, &Place) -> f32,
}

/// What all rows share at one place.
struct Place {
    mean: f64,
    scale: f64,
}

const RECIPES: [Recipe; 6] = [
    // As Cora: 1433 words, 18 of them in a paper.
    Recipe {
        name: "words f32",
        kind: Kind::Sparse,
        elements: 1433,
        width: 4,
        element: |r, _| f32::from(r.unit() < 0.0126),
    },
    // As Pubmed: 500 weights of words, a tenth of them there.
    Recipe {
        name: "tf-idf f32",
        kind: Kind::Sparse,
        elements: 500,
        width: 4,
        element: |r, place| if r.percent(10) { (place.scale * (0.01 + 0.1 * r.unit())) as f32 } else { 0.0 },
    },
    // As Products: 100 components, each with its own mean and deviation.
    Recipe {
        name: "features f32",
        kind: Kind::Dense,
        elements: 100,
        width: 4,
        element: |r, place| (place.mean + place.scale * r.normal()) as f32,
    },
    // Uniform, as embeddings start and, in large tables, mostly stay.
    Recipe {
        name: "embeddings f32",
        kind: Kind::Embeddings,
        elements: 128,
        width: 4,
        element: |r, _| (0.05 * (2.0 * r.unit() - 1.0)) as f32,
    },
    Recipe {
        name: "keys bf16",
        kind: Kind::KvBf16,
        elements: 128,
        width: 2,
        element: |r, place| (place.mean + place.scale * r.normal()) as f32,
    },
    Recipe {
        name: "weights bf16",
        kind: Kind::WeightsBf16,
        elements: 1024,
        width: 2,
        element: |r, _| (0.02 * r.normal()) as f32,
    },
];

/// Generated rows, some `bytes` bytes of each kind.
pub(super) fn generate(bytes: usize) -> impl Iterator<Item = Rows> {
    RECIPES.iter().map(move |recipe| recipe.rows(bytes))
}

/// Bytes of each kind that is generated, and of one of its rows.
pub(super) fn sizes(bytes: usize) -> impl Iterator<Item = (u64, usize)> {
    RECIPES.iter().map(move |recipe| (bytes as u64, recipe.row_len()))
}

impl Recipe {
    const fn row_len(&self) -> usize {
        self.elements * self.width
    }

    fn rows(&self, bytes: usize) -> Rows {
        let row_len = self.row_len();
        let mut random = Random::new(self.elements as u64);
        let place = |random: &mut Random| {
            let scale = 0.1 * (1.5 * random.normal()).exp();
            Place { mean: 2.0 * scale * random.normal(), scale }
        };
        let places: Vec<Place> = (0..self.elements).map(|_| place(&mut random)).collect();
        let count = (bytes / row_len).max(1);
        let mut rows = Vec::with_capacity(count * row_len);
        for _ in 0..count {
            for place in &places {
                let element = (self.element)(&mut random, place);
                rows.extend_from_slice(&element.to_le_bytes()[4 - self.width..]);
            }
        }
        Rows { name: self.name.to_owned(), kind: Some(self.kind), row_len, bytes: rows }
    }
}

/// Rows as the paper's microbenchmark has them: of each 8 bytes so many low bits are left to chance, and the others are the
/// same in all rows, that about `saved_percent` of a row are saved.
pub(crate) fn chosen_saving(row_len: usize, saved_percent: u32, bytes: usize) -> Rows {
    let mut random = Random::new(u64::from(saved_percent));
    // What is kept of 64 bits, without the participation bit; halves of bits are spread over the granules.
    let kept = (64.0 * (1.0 - f64::from(saved_percent) / 100.0) - 1.0).max(0.0);
    let granules = row_len / 8;
    let bits = |granule: usize| ((granule + 1) as f64 * kept) as u32 - (granule as f64 * kept) as u32;
    let masks: Vec<u64> =
        (0..granules).map(|granule| u64::MAX.checked_shl(bits(granule)).unwrap_or(0)).collect();
    let values: Vec<u64> = masks.iter().map(|mask| random.bits() & mask).collect();
    let mut rows = Vec::with_capacity(bytes);
    for _ in 0..(bytes / row_len).max(1) {
        for (mask, value) in masks.iter().zip(&values) {
            rows.extend_from_slice(&(value | random.bits() & !mask).to_le_bytes());
        }
    }
    Rows { name: format!("{saved_percent} % saved"), kind: None, row_len, bytes: rows }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_as_long_as_asked_and_the_same_every_time() {
        let (first, again): (Vec<_>, Vec<_>) = (generate(100_000).collect(), generate(100_000).collect());
        assert_eq!(first.len(), 6);
        for (rows, again) in first.iter().zip(&again) {
            assert!(rows.bytes == again.bytes && rows.bytes.len() <= 100_000, "{}", rows.name);
            assert!(
                rows.bytes.len() > 90_000 && rows.bytes.len().is_multiple_of(rows.row_len),
                "{}",
                rows.name
            );
        }
        let words = &first[0].bytes;
        let ones = words.chunks(4).filter(|word| word == &1f32.to_le_bytes()).count();
        let share = ones as f64 / (words.len() / 4) as f64;
        assert!((0.010..0.015).contains(&share), "{share}");
    }

    #[test]
    fn chosen_savings_are_those_of_the_rows() {
        for saved in [0, 10, 50, 90, 98] {
            let rows = chosen_saving(1024, saved, 100 << 10);
            assert_eq!((rows.bytes.len(), rows.row_len), (100 << 10, 1024));
            let (mut ones, mut zeros) = (vec![!0u8; 1024], vec![!0u8; 1024]);
            for row in rows.bytes.chunks(1024) {
                row.iter().zip(&mut ones).for_each(|(byte, ones)| *ones &= byte);
                row.iter().zip(&mut zeros).for_each(|(byte, zeros)| *zeros &= !byte);
            }
            let same: u32 = ones.iter().chain(&zeros).map(|byte| byte.count_ones()).sum();
            let share = 100.0 * (f64::from(same) - 128.0) / 8192.0;
            let expected = f64::from(saved);
            assert!((share - expected).abs() < 0.1 || saved == 0 && share <= 0.0, "{saved}: {share}");
        }
    }
}
