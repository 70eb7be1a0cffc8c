//! The kernels give the portable frames of every kind of values that the codecs are tested with, and take
//! them apart again.

#![allow(dead_code, reason = "what this file does not use of the shared modules, other tests do")]

#[path = "../../codecs/tests/common/data/mod.rs"]
mod data;
#[path = "../../codecs/tests/common/random.rs"]
mod random;

use std::collections::BTreeSet;

use mgcomp_codecs::frame::{self, ChunkSize, Frame, Options};
use mgcomp_codecs::{Algorithm, Cpu, Element, codec_on};
use mgcomp_tests::shim::{LaneOrder, Launch, Shim, Status};
use random::Random;

/// Encodes, estimates and decodes `raw`; returns the portable frame.
fn judge(
    shim: Shim,
    algorithm: Algorithm,
    element: Element,
    raw: &[u8],
    chunk_size: ChunkSize,
    order: LaneOrder,
) -> Result<Vec<u8>, String> {
    let options = Options { chunk_size, checksum: false };
    let wanted = frame::encode(codec_on(Cpu::Portable, algorithm).unwrap(), element, raw, options).unwrap();
    let launch = Launch::new(order, raw.len().div_ceil(chunk_size.bytes()) as u32);
    let (status, coded) = shim.encode(algorithm, element, raw, chunk_size, launch);
    let differs = coded.iter().zip(&wanted).position(|(a, b)| a != b);
    if (status, coded.len(), differs) != (Status::GOOD, wanted.len(), None) {
        return Err(format!(
            "encoded: {status:?}, {} for {}, differs at {differs:?}",
            coded.len(),
            wanted.len()
        ));
    }
    let estimate = shim.estimate(algorithm, element, raw, chunk_size, launch);
    if estimate != (Status::GOOD, wanted.len() as u64) {
        return Err(format!("estimated: {estimate:?} for {}", wanted.len()));
    }
    let (status, back) = shim.decode(algorithm, &wanted, raw.len(), launch);
    let differs = back.iter().zip(raw).position(|(a, b)| a != b);
    if (status, differs) != (Status::GOOD, None) {
        return Err(format!("decoded: {status:?}, differs at {differs:?}"));
    }
    Ok(wanted)
}

/// Calls `each` with the frame of every kind of data, as every element, in chunks of every size; the lane order
/// goes round.
fn all_kinds(shim: Shim, algorithm: Algorithm, mut each: impl FnMut(&[u8])) {
    let shapes = [(ChunkSize::SMALL, 8205), (ChunkSize::DEFAULT, 16_384), (ChunkSize::LARGE, 66_001)];
    let mut random = Random(u64::from(algorithm.number()));
    for (n, kind) in data::kinds().enumerate() {
        for (e, element) in Element::ALL.into_iter().enumerate() {
            // Large chunks take long: one element of each kind.
            let shapes = if e == n % Element::ALL.len() { &shapes[..] } else { &shapes[..1 + (n + e) % 2] };
            for (s, &(chunk_size, len)) in shapes.iter().enumerate() {
                let raw = kind.fill(&mut random, element, len);
                let order = LaneOrder::ALL[(n + e + s) % 3];
                match judge(shim, algorithm, element, &raw, chunk_size, order) {
                    Ok(frame) => each(&frame),
                    Err(what) => {
                        panic!(
                            "{algorithm} {element} {} of {len} in {}: {what}",
                            kind.name,
                            chunk_size.bytes()
                        )
                    }
                }
            }
        }
    }
}

#[test]
fn every_kind_of_values() {
    let Some(shim) = Shim::or_skip("every_kind_of_values") else { return };
    for algorithm in shim.algorithms().into_iter().filter(|&algorithm| algorithm != Algorithm::Xp) {
        all_kinds(shim, algorithm, |_| ());
    }
}

#[test]
fn pairs_of_octets_of_xp_and_what_they_leave() {
    let Some(shim) = Shim::or_skip("pairs_of_octets_of_xp_and_what_they_leave") else { return };
    // Whole rounds of 4096 values, and less than one in whole groups of 64, or not.
    let shapes = [
        (Element::Bf16, ChunkSize::DEFAULT, 2 * (4096 + 64)),
        (Element::Bf16, ChunkSize::DEFAULT, 2 * (4096 + 2048)),
        (Element::Bf16, ChunkSize::LARGE, 2 * (3 * 4096 + 2048 + 64) + 1),
        (Element::F16, ChunkSize::DEFAULT, 2 * (4096 + 63)),
        (Element::F32, ChunkSize::LARGE, 4 * (4096 + 64)),
        (Element::F32, ChunkSize::LARGE, 4 * (3 * 4096 + 2048)),
    ];
    let mut random = Random(64);
    for (n, (element, chunk_size, len)) in shapes.into_iter().enumerate() {
        let mut without_masks = 0;
        for (k, kind) in data::kinds().enumerate() {
            let raw = kind.fill(&mut random, element, len);
            let frame = judge(shim, Algorithm::Xp, element, &raw, chunk_size, LaneOrder::ALL[(n + k) % 3])
                .unwrap_or_else(|what| panic!("{element} {} of {len}: {what}", kind.name));
            without_masks += modes(&frame).iter().filter(|mode| mode[0] & 12 == 0).count();
        }
        // Only those keep their codes, of which pairs are made.
        assert!(without_masks > 0, "{element} of {len}");
    }
}

/// Byte 0 and 1 of each coded chunk of an XP frame.
fn modes(coded: &[u8]) -> BTreeSet<[u8; 2]> {
    let frame = Frame::parse(coded).unwrap();
    frame.chunks().filter(|chunk| !chunk.is_raw()).map(|chunk| [chunk.stored[0], chunk.stored[1]]).collect()
}

#[test]
fn every_mode_of_xp() {
    let Some(shim) = Shim::or_skip("every_mode_of_xp") else { return };
    let mut seen = BTreeSet::new();
    all_kinds(shim, Algorithm::Xp, |frame| seen.append(&mut modes(frame)));
    let flags: BTreeSet<u8> = seen.iter().map(|mode| mode[0]).collect();
    assert_eq!(flags, (0..16).collect(), "signed, wide, zero mask, change mask");
    for (flag, shift) in [(4, 0), (8, 4)] {
        let depths = seen.iter().filter(|mode| mode[0] & flag != 0).map(|mode| mode[1] >> shift & 3);
        assert_eq!(depths.collect::<BTreeSet<u8>>(), (0..4).collect(), "depths of mask {flag}");
    }
}
