//! What a program has set for the floats of its threads: reductions and codecs give the same bits, and leave it alone.

#![cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]

mod common;

use common::Random;
use common::data::kinds;
use common::float_environment::{ENVIRONMENTS, FloatEnvironment};
use common::{all_codecs, decode_chunk, encode_chunk};
use mgcomp_codecs::Element;
use mgcomp_codecs::frame::{ChunkSize, Options, estimated_frame_len};
use mgcomp_codecs::reduction::{
    Datatype::{self, Bf16, F16, F32, F64},
    Operation::{self, Avg, Max, Min, Sum},
    combine, finish,
};

/// So many that vectors and their rests have some.
const COPIES: usize = 37;

/// Bits of a number of each rank, how many ranks are told, and the bits of the result.
type Known = (Datatype, Operation, &'static [u64], u32, u64);

/// Worked out by hand. Behind each what comes of it elsewhere.
const KNOWN: [Known; 37] = [
    // Denormals: lost by DAZ.
    (F32, Sum, &[0x0000_0001, 0x0000_0002], 2, 0x0000_0003), // 0
    (F32, Sum, &[0x0040_0000, 0x0040_0000], 2, 0x0080_0000), // 0
    (F32, Sum, &[0x8000_0100, 0x8000_0100], 2, 0x8000_0200), // −0
    (F32, Avg, &[0x0000_0001, 0x0000_0002], 2, 0x0000_0002), // 0; a tie, towards zero 1
    (F32, Max, &[0x0000_0001, 0x8000_0002], 2, 0x0000_0001),
    (F32, Min, &[0x0000_0001, 0x0000_0002], 2, 0x0000_0001),
    (F64, Sum, &[0x0000_0000_0000_0001, 0x0000_0000_0000_0002], 2, 0x0000_0000_0000_0003), // 0
    (F64, Sum, &[0x0008_0000_0000_0000, 0x0008_0000_0000_0000], 2, 0x0010_0000_0000_0000), // 0
    (F64, Avg, &[0x0000_0000_0000_0001, 0x0000_0000_0000_0002], 2, 0x0000_0000_0000_0002), // 0; towards zero 1
    (Bf16, Sum, &[0x0001, 0x0002], 2, 0x0003),                                             // 0
    (Bf16, Sum, &[0x0040, 0x0040], 2, 0x0080),                                             // 0
    (Bf16, Avg, &[0x0001, 0x0002], 2, 0x0002),                                             // 0
    (F16, Sum, &[0x0001, 0x0002], 2, 0x0003),
    (F16, Avg, &[0x0001, 0x0002], 2, 0x0002),
    // Normal numbers, and a result that is none: lost by FTZ.
    (F32, Sum, &[0x0080_0001, 0x8080_0000], 2, 0x0000_0001), // 0
    (F32, Avg, &[0x0080_0000, 0x0000_0000], 2, 0x0040_0000), // 0
    (F64, Avg, &[0x0010_0000_0000_0000, 0x0000_0000_0000_0000], 2, 0x0008_0000_0000_0000), // 0
    (Bf16, Avg, &[0x0080, 0x0000], 2, 0x0040),               // 0
    // 1 and three quarters of a step, 1 and a quarter of a step.
    (F32, Sum, &[0x3f80_0000, 0x33c0_0000], 2, 0x3f80_0001), // towards zero and down 1
    (F32, Sum, &[0x3f80_0000, 0x3300_0000], 2, 0x3f80_0000), // up 1 and a step
    (F32, Sum, &[0xbf80_0000, 0xb3c0_0000], 2, 0xbf80_0001), // towards zero and up −1
    (F64, Sum, &[0x3ff0_0000_0000_0000, 0x3ca8_0000_0000_0000], 2, 0x3ff0_0000_0000_0001), // towards zero 1
    (F64, Sum, &[0x3ff0_0000_0000_0000, 0x3c90_0000_0000_0000], 2, 0x3ff0_0000_0000_0000), // up 1 and a step
    // 4 / 3: of 1.0101… what is cut off is more than half of f32's last place, less of f64's.
    (F32, Avg, &[0x3f80_0000, 0x3f80_0000, 0x4000_0000], 3, 0x3faa_aaab), // towards zero …aa
    (F64, Avg, &[0x3ff0_0000_0000_0000, 0x4008_0000_0000_0000], 3, 0x3ff5_5555_5555_5555), // up …56
    // The greatest number, twice.
    (F32, Sum, &[0x7f7f_ffff, 0x7f7f_ffff], 2, 0x7f80_0000), // towards zero that number
    (F64, Sum, &[0x7fef_ffff_ffff_ffff, 0x7fef_ffff_ffff_ffff], 2, 0x7ff0_0000_0000_0000), // that number
    (Bf16, Sum, &[0x7f7f, 0x7f7f], 2, 0x7f80),
    (F16, Sum, &[0x7bff, 0x7bff], 2, 0x7c00),
    // 1 − 1.
    (F32, Sum, &[0x3f80_0000, 0xbf80_0000], 2, 0), // down −0
    (F64, Sum, &[0x3ff0_0000_0000_0000, 0xbff0_0000_0000_0000], 2, 0), // down −0
    (Bf16, Sum, &[0x3f80, 0xbf80], 2, 0),          // down −0
    (F16, Sum, &[0x3c00, 0xbc00], 2, 0),           // down −0
    // Quotients whose f32 is next to a tie of 16 bits: 1024 / 7735, 1024 / 258733, 128 / 61455, 134 / 69559.
    (F16, Avg, &[0x6400], 7735, 0x303d),    // towards zero 303c
    (F16, Avg, &[0x6400], 258_733, 0x1c0d), // up 1c0e
    (Bf16, Avg, &[0x4300], 61_455, 0x3b09), // towards zero 3b08
    (Bf16, Avg, &[0x4306], 69_559, 0x3afc), // up 3afd
];

fn copies(datatype: Datatype, bits: u64) -> Vec<u8> {
    bits.to_le_bytes()[..datatype.width_bytes()].repeat(COPIES)
}

fn reduced((datatype, operation, numbers, ranks, _): Known) -> Vec<u8> {
    let mut left = copies(datatype, numbers[0]);
    for &right in &numbers[1..] {
        combine(operation, datatype, &mut left, &copies(datatype, right));
    }
    finish(operation, datatype, &mut left, ranks);
    left
}

#[test]
fn reductions_have_the_same_bits_everywhere() {
    for environment in ENVIRONMENTS {
        for known in KNOWN {
            let (result, after) = environment.during(|| reduced(known));
            assert_eq!(result, copies(known.0, known.4), "{}: {known:x?}, in copies", environment.name);
            assert_eq!(after, environment, "{known:x?}");
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn reductions_trap_nothing() {
    use common::float_environment::TRAPS;

    let signalling = (F32, Max, &[0x7f80_0001, 0x3f80_0000][..], 2, 0x7f80_0001);
    for known in KNOWN.into_iter().chain([signalling]) {
        let (result, after) = TRAPS.during(|| reduced(known));
        assert_eq!(result, copies(known.0, known.4), "{known:x?}");
        assert_eq!(after, TRAPS, "{known:x?}");
    }
}

/// They compute no floats but such as are exact, so there is nothing to round, to flag, or to trap.
#[test]
fn codecs_write_the_same_bytes_everywhere() {
    let mut random = Random(31);
    let options = Options { chunk_size: ChunkSize::SMALL, checksum: true };
    for (isa, codec) in all_codecs() {
        for (i, element) in Element::ALL.into_iter().enumerate() {
            for kind in kinds().skip(i % 3).step_by(3) {
                let raw = kind.fill(&mut random, element, 4096);
                let expected = encode_chunk(codec, element, &raw);
                let expected_len = estimated_frame_len(codec, element, &raw, options);
                for environment in environments() {
                    let ((coded, decoded, len), after) = environment.during(|| {
                        let coded = encode_chunk(codec, element, &raw);
                        let decoded = decode_chunk(codec, element, &coded, raw.len()).unwrap();
                        (coded, decoded, estimated_frame_len(codec, element, &raw, options))
                    });
                    let label =
                        format!("{} {isa} {element} {} {}", codec.algorithm(), kind.name, environment.name);
                    assert!(coded == expected, "{label}: coded");
                    assert!(decoded == raw, "{label}: decoded");
                    assert_eq!(len, expected_len, "{label}: estimated");
                    assert_eq!(after, environment, "{label}");
                }
            }
        }
    }
}

/// All of them; where exceptions can trap, that one last, once the others have shown by their flags that there are none.
fn environments() -> impl Iterator<Item = FloatEnvironment> {
    #[cfg(target_arch = "x86_64")]
    let traps = Some(common::float_environment::TRAPS);
    #[cfg(not(target_arch = "x86_64"))]
    let traps = None;
    ENVIRONMENTS.into_iter().chain(traps)
}
