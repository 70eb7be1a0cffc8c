//! Ratio against speed as a picture.

use super::row::{Row, Run, Timed};
use crate::machine::size;
use mgcomp_plot::{Mark, Plot, Reference};

/// The data that most of this is for, if it was timed.
const DATASET: &str = "weights.bf16.bin";
/// The size that figures are told of, if it was timed.
const BYTES: usize = 256 << 20;

/// All subjects on one buffer, if anything was timed.
pub(super) fn draw(run: &Run, rows: &[Row]) -> Option<String> {
    let times = || rows.iter().filter_map(|row| if let Row::Time(timed) = row { Some(timed) } else { None });
    let nearest = |row: &&Timed| (row.dataset != DATASET, row.bytes.abs_diff(BYTES));
    let chosen = times().min_by_key(nearest)?;
    let is_chosen = |row: &&Timed| (&row.dataset, row.bytes) == (&chosen.dataset, chosen.bytes);
    let marks = times().filter(is_chosen).map(|row| Mark {
        name: row.subject,
        ratio: row.ratio,
        encode_gbps: row.encode_gbps,
        decode_gbps: row.decode_gbps,
        is_library: row.is_library,
    });
    let plot = Plot {
        titles: vec![
            format!("Ratio against speed: {} ({}), {}", chosen.dataset, chosen.element, size(chosen.bytes)),
            format!("{}, {}; medians of {} rounds", run.device, run.date, chosen.rounds),
        ],
        marks: marks.collect(),
        reference: Reference { name: "copy in device memory", gbps: chosen.copy_gbps },
        speed: "GB/s of uncompressed data (filled: encode, ring: decode)",
        level: None,
    };
    Some(plot.svg())
}

#[cfg(test)]
mod tests {
    use super::super::markdown::tests::run;
    use super::super::row::tests::timed;
    use super::*;

    #[test]
    fn the_picture_is_of_one_buffer() {
        assert_eq!(draw(&run(), &[]), None);
        let rows = [
            Row::Time(timed("bdi", "x", BYTES)),
            Row::Time(timed("zvc", DATASET, 4096)),
            Row::Time(timed("xp", DATASET, 8192)),
            Row::Time(timed("rle", DATASET, 8192)),
        ];
        let svg = draw(&run(), &rows).unwrap();
        assert!(svg.contains(">xp<") && svg.contains(">rle<") && !svg.contains(">zvc<"), "{svg}");
        assert!(svg.contains("weights.bf16.bin (bf16), 8 KiB") && svg.contains("copy in device memory"));
    }
}
