//! Activation maps.

use std::path::PathBuf;

use mgcomp_codecs::Element;

use crate::data::{self, Item};
use crate::error::BenchError;

/// An activation map of a layer for a batch of images.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Map {
    pub(super) label: String,
    pub(super) element: Element,
    /// Images, channels, height, width.
    pub(super) dims: [usize; 4],
    /// Its values in that order of dimensions, the last one innermost.
    pub(super) nchw: Vec<u8>,
    pub(super) is_generated: bool,
}

impl Map {
    /// Share of elements that are zero.
    pub(super) fn zero_share(&self) -> f64 {
        let elements = self.nchw.chunks_exact(self.element.width_bytes());
        let count = elements.len().max(1);
        elements.filter(|element| element.iter().all(|byte| *byte == 0)).count() as f64 / count as f64
    }

    /// The largest map of the widest elements is what throughput is measured on, a real one before a generated one.
    pub(super) fn throughput_rank(&self) -> (bool, usize, usize) {
        (!self.is_generated, self.element.width_bytes(), self.nchw.len())
    }
}

/// The tensors of four dimensions that `data` names; what is wrong with one of them stands in its place.
pub(super) fn read(data: &[PathBuf]) -> Vec<Result<Map, BenchError>> {
    let read = |item: Result<Item, BenchError>| item.and_then(read_item).transpose();
    data::list(data, None).into_iter().filter_map(read).collect()
}

fn read_item(item: Item) -> Result<Option<Map>, BenchError> {
    let shape = data::shape(&item.path)?;
    let Ok(dims) = <[usize; 4]>::try_from(shape.as_slice()) else { return Ok(None) };
    let nchw = data::read(&item.path)?;
    let elements = dims.iter().try_fold(1usize, |product, dim| product.checked_mul(*dim));
    let needed = elements.and_then(|count| count.checked_mul(item.element.width_bytes()));
    if needed != Some(nchw.len()) {
        let (path, got, needed) = (item.path, nchw.len(), needed.unwrap_or(usize::MAX));
        return Err(BenchError::Shape { path, shape, needed, got });
    }
    Ok(Some(Map { label: item.label, element: item.element, dims, nchw, is_generated: false }))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_whole_maps_of_four_dimensions_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let list = r#"{"tensors": [
            {"file": "map", "dtype": "float16", "shape": [1, 2, 1, 2]},
            {"file": "flat", "dtype": "float16", "shape": [8]},
            {"file": "short", "dtype": "float32", "shape": [1, 2, 1, 2]},
            {"file": "huge", "dtype": "float32", "shape": [4294967296, 4294967296, 2, 2]}]}"#;
        fs::write(folder.path().join("corpus.json"), list).unwrap();
        for name in ["map", "flat", "short", "huge"] {
            fs::write(folder.path().join(name), [0, 0, 1, 0, 0, 0, 0, 2]).unwrap();
        }
        let maps = read(&[folder.path().to_owned()]);
        let Ok(map) = &maps[0] else { panic!("{maps:?}") };
        assert_eq!((map.dims, map.element, map.zero_share()), ([1, 2, 1, 2], Element::F16, 0.5));
        assert!(matches!(&maps[1], Err(BenchError::Shape { needed: 16, got: 8, .. })), "{maps:?}");
        assert!(matches!(&maps[2], Err(BenchError::Shape { got: 8, .. })), "{maps:?}");
        assert_eq!(maps.len(), 3);
    }
}
