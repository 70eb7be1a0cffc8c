//! One figure: one map in one layout under one algorithm.

use std::path::PathBuf;

use mgcomp_codecs::frame::{self, ChunkSize, Frame, Options};
use mgcomp_codecs::{Algorithm, codec};

use super::layout::Layout;
use super::maps::Map;
use crate::error::BenchError;

/// What one algorithm makes of one map.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row<'a> {
    pub(super) map: &'a Map,
    pub(super) layout: Layout,
    pub(super) algorithm: Algorithm,
    pub(super) raw_bytes: u64,
    /// The whole frame, or the raw bytes where a frame is not smaller.
    pub(super) coded_bytes: u64,
}

impl Row<'_> {
    pub(super) fn ratio(&self) -> f64 {
        self.raw_bytes as f64 / self.coded_bytes as f64
    }
}

/// Codes `raw`, which is `map` in `layout`, in windows of 4 KiB, and checks that it comes back.
pub(super) fn measure<'a>(
    map: &'a Map,
    layout: Layout,
    raw: &[u8],
    algorithm: Algorithm,
) -> Result<Row<'a>, BenchError> {
    let (path, name) = (PathBuf::from(&map.label), algorithm.name());
    let failed = |source| BenchError::Frame { path: path.clone(), algorithm: name, source };
    let codec = codec(algorithm).ok_or(frame::FrameError::Unsupported(algorithm)).map_err(failed)?;
    let options = Options { chunk_size: ChunkSize::SMALL, checksum: false };
    let coded = frame::encode(codec, map.element, raw, options).map_err(failed)?;
    let mut decoded = vec![0; raw.len()];
    Frame::parse(&coded).and_then(|frame| frame.decode_into(&mut decoded)).map_err(failed)?;
    if let Some(offset) = decoded.iter().zip(raw).position(|(decoded, raw)| decoded != raw) {
        return Err(BenchError::RoundTrip { path, algorithm: name, offset });
    }
    let (raw_bytes, coded_bytes) = (raw.len() as u64, coded.len().min(raw.len()) as u64);
    Ok(Row { map, layout, algorithm, raw_bytes, coded_bytes })
}

/// Sums of an algorithm in a layout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sum {
    pub(super) layout: Layout,
    pub(super) algorithm: Algorithm,
    /// Of all bytes together.
    pub(super) mean: f64,
    /// Of one map.
    pub(super) most: f64,
}

/// The sums of `algorithms` over all maps, layout by layout.
pub(super) fn sums(rows: &[Row<'_>], algorithms: &[Algorithm]) -> Vec<Sum> {
    let cells = Layout::ALL.into_iter().flat_map(|layout| algorithms.iter().map(move |a| (layout, *a)));
    let sum = |(layout, algorithm)| {
        let rows = || rows.iter().filter(move |row| (row.layout, row.algorithm) == (layout, algorithm));
        let raw: u64 = rows().map(|row| row.raw_bytes).sum();
        let coded: u64 = rows().map(|row| row.coded_bytes).sum();
        let most = rows().map(Row::ratio).fold(0.0, f64::max);
        (coded > 0).then(|| Sum { layout, algorithm, mean: raw as f64 / coded as f64, most })
    };
    cells.filter_map(sum).collect()
}

#[cfg(test)]
mod tests {
    use mgcomp_codecs::Element;

    use super::*;

    fn map(nchw: Vec<u8>) -> Map {
        let dims = [1, 1, 1, nchw.len() / 4];
        Map { label: "x".into(), element: Element::F32, dims, nchw, is_generated: false }
    }

    #[test]
    fn zeros_are_32_times_as_small_but_for_the_framing() {
        let map = map(vec![0; 1 << 20]);
        let row = measure(&map, Layout::Nchw, &map.nchw, Algorithm::Zvc).unwrap();
        // 256 windows: 128 bytes of masks and 4 of the table each, and the header.
        assert_eq!(row.coded_bytes, 256 * (128 + 4) + 16);
    }

    #[test]
    fn sums_weigh_bytes() {
        let map = map(vec![0; 4]);
        let row = |raw_bytes, coded_bytes| {
            let (layout, algorithm) = (Layout::Chwn, Algorithm::Rle);
            Row { map: &map, layout, algorithm, raw_bytes, coded_bytes }
        };
        let sums = sums(&[row(100, 50), row(900, 150)], &[Algorithm::Zvc, Algorithm::Rle]);
        let expected = Sum { layout: Layout::Chwn, algorithm: Algorithm::Rle, mean: 5.0, most: 6.0 };
        assert_eq!(sums, [expected]);
    }
}
