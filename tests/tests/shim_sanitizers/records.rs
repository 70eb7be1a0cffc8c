//! Frames, tables and numbers that both kinds of sanitizers see kernels at.

use mgcomp_codecs::frame::{self, ChunkSize, Options};
use mgcomp_codecs::ibp::Granule;
use mgcomp_codecs::reduction::{Datatype, Operation};
use mgcomp_codecs::{Algorithm, Cpu, Element, codec_on};
use mgcomp_tests::data::{self, Kind, Random};
use mgcomp_tests::series::{self, Near, Shape};
use mgcomp_tests::shim::numbers::{self, Numbers};
use mgcomp_tests::shim::rows::RowTable;
use mgcomp_tests::shim::{LaneOrder, Launch};
use mgcomp_transport::table::{Cache, Sample, Table, TableOptions};

pub(crate) fn coded(
    algorithm: Algorithm,
    element: Element,
    kind: Kind,
    len: usize,
    chunk_size: ChunkSize,
) -> Vec<u8> {
    let raw = data::bytes(kind, len, len as u64);
    let options = Options { chunk_size, checksum: false };
    frame::encode(codec_on(Cpu::Portable, algorithm).unwrap(), element, &raw, options).unwrap()
}

/// Words that INT predicts, of each width, that stand out by all lengths of patches: more than a chunk of them.
pub(crate) fn predicted() -> impl Iterator<Item = (Element, Vec<u8>)> {
    let shape = |near, noise_bits, outlier_bits, shift| {
        let outlier_percent = if outlier_bits == 56 { 75 } else { 4 };
        Shape { near, noise_bits, outlier_percent, outlier_bits, shift }
    };
    let shapes = [
        (Element::U8, shape(Near::Before(1), 1, 7, 0)),
        (Element::U8, shape(Near::Plane(4, 64), 2, 8, 0)),
        (Element::U16, shape(Near::Plane(1, 128), 2, 12, 3)),
        (Element::F32, shape(Near::BaseFromTop, 5, 16, 0)),
        (Element::U32, shape(Near::Plane(3, 17), 3, 24, 0)),
        (Element::U64, shape(Near::Before(27), 9, 40, 0)),
        (Element::U64, shape(Near::Base, 0, 56, 0)),
    ];
    shapes.into_iter().map(|(element, shape)| {
        let width = element.width_bytes();
        (element, series::words(shape, width, 4300 / width, &mut Random::new(6)))
    })
}

/// A table of `rows` rows with a tail, and the same with some of them cached.
pub(crate) fn row_tables(granule: Granule, row_len: usize, clusters: usize, rows: usize) -> [RowTable; 2] {
    let options =
        TableOptions { granule: Some(granule), clusters, sample: Sample::All, ..TableOptions::default() };
    let raw = data::tensors(row_len, clusters, rows, row_len as u64);
    let table = Table::build(raw, row_len, &options).unwrap();
    let room = table.stored_bytes() / 4;
    let cache = Cache::fill(&table, (0..table.rows()).step_by(2), &[room, room + 1]).unwrap();
    [RowTable::of(&table), RowTable::of(&table).with_cache(&cache, 7)]
}

/// Numbers of three ranks, of lengths on the borders of units and of what a block has at a time, which is 8 KiB.
pub(crate) fn reductions(lens: &[usize], launch: Launch) -> Vec<u8> {
    let mut file = Vec::new();
    for (n, datatype) in Datatype::ALL.into_iter().enumerate() {
        let (special, width) = (numbers::special_bits(datatype), datatype.width_bytes());
        for (k, len) in lens.iter().enumerate() {
            let bits = |rank: usize| special.iter().copied().cycle().skip(3 * rank).take(len / width);
            let of_ranks = (0..3).map(|rank| numbers::bytes_of(datatype, bits(rank))).collect();
            let own = [None, Some(0), Some(2)][(n + k) % 3];
            let offsets = [[0, 0, 0], [8, 1, 8], [1, 5, 0], [3, 0, 1]][k % 4];
            let operation = Operation::ALL[(n + k / 4) % 4];
            let in_place = own.is_some() && n % 2 == 0;
            let numbers =
                Numbers { own, in_place, offsets, gap: k % 3, ..Numbers::new(datatype, operation, of_ranks) };
            let order = LaneOrder::ALL[(n + k) % 3];
            numbers::push(&mut file, &numbers, Launch { order, ..launch });
        }
    }
    file
}
