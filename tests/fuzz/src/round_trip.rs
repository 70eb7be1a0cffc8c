//! Any bytes as the raw bytes of a frame, by one thread and several.

use crate::common::codecs_of;
use crate::input::{AS_IT_IS, Input, Sample, samples};
use mgcomp_codecs::frame::{self, ChunkSize, Frame, Options, Workers};
use std::sync::LazyLock;

/// A largest chunk and a bit, or many small ones.
const MAX_RAW_LEN: usize = 70_000;

/// Algorithm, element, options; repetitions (two bytes) and their step; then the raw bytes.
///
/// # Panics
/// If a frame does not come back, is longer than promised, or depends on threads or instruction sets.
pub fn run(input: &[u8]) {
    let mut input = Input(input);
    let Some(algorithm) = input.algorithm() else { return };
    let (element, options) = (input.element(), any_options(input.byte()));
    let raw = input.raw(MAX_RAW_LEN);
    let room_len = frame::max_frame_len(raw.len(), options);

    let mut expected: Option<Vec<u8>> = None;
    for codec in codecs_of(algorithm) {
        let coded = frame::encode(codec, element, &raw, options).expect("short enough");
        assert!(coded.len() <= room_len, "{} bytes, promised {room_len}", coded.len());
        assert!(
            *expected.get_or_insert_with(|| coded.clone()) == coded,
            "{algorithm}: instruction sets differ"
        );
    }
    let expected = expected.expect("portable code is always there");
    let parsed = Frame::parse(&expected).expect("a frame");
    assert!(parsed.decode_to_vec(raw.len() as u64).as_deref() == Ok(&raw), "{algorithm}: round trip");

    for workers in workers() {
        let mut room = vec![0x3c; room_len];
        let codec = mgcomp_codecs::codec(algorithm).expect("it has one");
        let len = workers.encode_to(codec, element, &raw, options, &mut room, &|_| {}).expect("room enough");
        assert!(room[..len] == expected, "{algorithm}: frame of {} threads", workers.threads());
        let mut decoded = vec![0xc3; raw.len()];
        workers.decode_into(&parsed, &mut decoded).expect("a good frame");
        assert!(decoded == raw, "{algorithm}: bytes of {} threads", workers.threads());
    }
}

/// Every kind of data for every algorithm, most of it over several chunks.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let seed = |sample: Sample| {
        let options = sample.raw.len() as u8;
        let repeated = if sample.raw.len().is_multiple_of(4) { AS_IT_IS } else { [25, 0, 3] };
        [&sample.choices()[..], &[options], &repeated, &sample.raw].concat()
    };
    samples(500).map(seed).collect()
}

/// Options of every kind.
pub(crate) fn any_options(choice: u8) -> Options {
    let chunk_size = ChunkSize::from_log2(12 + choice % 5).expect("12 to 16");
    Options { chunk_size, checksum: choice >= 128 }
}

/// The smallest chunks.
pub(crate) fn small_options(checksum: bool) -> Options {
    Options { chunk_size: ChunkSize::SMALL, checksum }
}

/// Two and three threads.
pub(crate) fn workers() -> &'static [Workers; 2] {
    static WORKERS: LazyLock<[Workers; 2]> =
        LazyLock::new(|| [2, 3].map(|threads| Workers::new(threads).expect("threads")));
    &WORKERS
}
