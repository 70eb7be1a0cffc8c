//! What is timed: the samples of the repository, and data by chance.

use std::path::Path;

use mgcomp_codecs::Element;

use crate::codec::{Data, items_of};
use crate::data::{self, Random};
use crate::error::BenchError;

/// Bytes of a data set by chance before it repeats itself.
const CHANCE_LEN: usize = 8 << 20;

/// A sample that fills buffers.
#[derive(Debug)]
pub(super) struct Dataset {
    pub(super) label: String,
    pub(super) element: Element,
    pub(super) sample: Vec<u8>,
}

/// The files of `data`; without any, those of the folder `samples` and data by chance.
pub(super) fn datasets(data: &[Data], samples: &Path) -> Result<Vec<Dataset>, BenchError> {
    let mut datasets = Vec::new();
    let samples = [Data { path: samples.to_owned(), element: None }];
    for item in items_of(if data.is_empty() { &samples } else { data })? {
        datasets.push(Dataset { sample: data::read(&item.path)?, label: item.label, element: item.element });
    }
    if data.is_empty() {
        datasets.extend(by_chance());
    }
    Ok(datasets)
}

/// N(0, 1) as bf16, what a ReLU makes of it, and bytes that nothing makes shorter.
fn by_chance() -> [Dataset; 3] {
    let mut random = Random::new(7);
    let mut bf16s = |relu: bool| {
        let mut number = || {
            let number = random.normal() as f32;
            let number = if relu { number.max(0.0) } else { number };
            // Rounded to nearest, ties to even; no number here is near infinity.
            let bits = number.to_bits();
            ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
        };
        (0..CHANCE_LEN / 2).flat_map(|_| number().to_le_bytes()).collect()
    };
    let dataset = |label: &str, element, sample| Dataset { label: label.into(), element, sample };
    let (normal, relu) = (bf16s(false), bf16s(true));
    let noise = (0..CHANCE_LEN / 8).flat_map(|_| random.bits().to_le_bytes()).collect();
    [
        dataset("normal.bf16", Element::Bf16, normal),
        dataset("relu.bf16", Element::Bf16, relu),
        dataset("noise.u8", Element::U8, noise),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_by_chance_is_what_it_is_called() {
        let [normal, relu, noise] = by_chance();
        let numbers = |set: &Dataset| -> Vec<f32> {
            let widened = |b: &[u8; 2]| f32::from_bits(u32::from(u16::from_le_bytes(*b)) << 16);
            set.sample.as_chunks().0.iter().map(widened).collect()
        };
        let share = |set: &[f32], is: fn(f32) -> bool| {
            set.iter().filter(|x| is(**x)).count() as f64 / set.len() as f64
        };
        let (normal, relu) = (numbers(&normal), numbers(&relu));
        // Of a standard normal distribution, 68.27 % lie within 1 of 0.
        assert!((share(&normal, |x| x.abs() < 1.0) - 0.6827).abs() < 0.005);
        assert!((share(&relu, |x| x == 0.0) - 0.5).abs() < 0.005);
        assert!(relu.iter().all(|x| *x >= 0.0));
        let ones: u32 = noise.sample.iter().map(|byte| byte.count_ones()).sum();
        assert!((f64::from(ones) / (8 * CHANCE_LEN) as f64 - 0.5).abs() < 0.001);
    }
}
