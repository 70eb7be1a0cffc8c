//! Frame lengths without frames: the exact one equals the frame's, the sampled one comes near.

mod common;

use common::{ELEMENTS, Random, data};
use mgcomp_codecs::frame::{self, ChunkSize, Options};
use mgcomp_codecs::{Algorithm, Element, codecs};

#[test]
fn the_exact_length_is_that_of_the_frame() {
    let mut random = Random(40);
    for codec in codecs() {
        for element in ELEMENTS {
            for (name, fill) in data::KINDS {
                for len in [0, 1, 15, 16, 17, 4095, 4096, 4097, 20_001] {
                    let raw = fill(&mut random, len);
                    for checksum in [false, true] {
                        let options = Options { chunk_size: ChunkSize::SMALL, checksum };
                        let expected = frame::encode(codec, element, &raw, options).unwrap().len() as u64;
                        let exact = frame::frame_len(codec, element, &raw, options);
                        assert_eq!(exact, expected, "{} {element} {name} {len}", codec.algorithm());
                    }
                }
            }
        }
    }
}

/// Independent draws: every piece looks like every other, so a sample has nothing to miss.
fn even_mixture(len: usize) -> Vec<u8> {
    let mut random = Random(41);
    let mut raw = Vec::with_capacity(len);
    while raw.len() < len {
        let word = if random.below(10) < 3 { 0 } else { 0x3f00_0000 | random.next() as u32 & 0xff_ffff };
        raw.extend_from_slice(&word.to_le_bytes());
    }
    raw
}

#[test]
fn the_sampled_length_of_even_data_is_within_two_percent() {
    for len in [1 << 20, 3_000_017] {
        let raw = even_mixture(len);
        let options = Options::for_len(len);
        for codec in codecs() {
            let exact = frame::frame_len(codec, Element::F32, &raw, options) as f64;
            let sampled = frame::estimated_frame_len(codec, Element::F32, &raw, options) as f64;
            let error = (sampled - exact).abs() / exact;
            assert!(error < 0.02, "{} {len}: {sampled} for {exact}", codec.algorithm());
        }
    }
}

#[test]
fn long_buffers_are_sampled_as_well() {
    let raw = even_mixture(1 << 20).repeat(33);
    let options = Options::for_len(raw.len());
    for codec in codecs().filter(|codec| codec.algorithm() != Algorithm::Deflate) {
        let exact = frame::frame_len(codec, Element::F32, &raw, options) as f64;
        let sampled = frame::estimated_frame_len(codec, Element::F32, &raw, options) as f64;
        let error = (sampled - exact).abs() / exact;
        assert!(error < 0.02, "{}: {sampled} for {exact}", codec.algorithm());
    }
}

#[test]
fn a_caller_decides_how_much_is_looked_at() {
    let raw = even_mixture(1 << 20);
    let options = Options::for_len(raw.len());
    for codec in codecs() {
        let exact = frame::frame_len(codec, Element::F32, &raw, options);
        let sampled = |len| frame::sampled_frame_len(codec, Element::F32, &raw, options, len);
        for (sample_len, most_error) in [(0, 0.15), (8 << 10, 0.1), (64 << 10, 0.03), (256 << 10, 0.02)] {
            let error = (sampled(sample_len) as f64 - exact as f64).abs() / exact as f64;
            assert!(error < most_error, "{} from {sample_len} bytes: off by {error}", codec.algorithm());
        }
        for all in [raw.len(), 2 * raw.len(), usize::MAX] {
            assert_eq!(sampled(all), exact, "{}", codec.algorithm());
        }
        assert_eq!(frame::sampled_frame_len(codec, Element::F32, &[], options, 0), 16);
    }
}

#[test]
fn short_buffers_are_looked_at_as_a_whole() {
    let raw = even_mixture(30_000);
    let options = Options::for_len(raw.len());
    for codec in codecs() {
        let exact = frame::frame_len(codec, Element::U32, &raw, options);
        assert_eq!(frame::estimated_frame_len(codec, Element::U32, &raw, options), exact);
    }
}

#[test]
fn no_estimate_is_more_than_the_worst_case() {
    let raw = Random(42).bytes(2 << 20);
    let options = Options::for_len(raw.len());
    for codec in codecs() {
        let worst = frame::max_frame_len(raw.len(), options) as u64;
        assert_eq!(frame::frame_len(codec, Element::U64, &raw, options), worst);
        assert!(frame::estimated_frame_len(codec, Element::U64, &raw, options) <= worst);
    }
}
