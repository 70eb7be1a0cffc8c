//! ZCOMP by hand, on every instruction set.

mod common;

use common::Random;
use mgcomp_codecs::Cpu;
use mgcomp_codecs::zcomp::{
    Compressed, Condition, Headers, Lane, Vector, ZcompError, zcompl, zcompl_separate, zcomps,
    zcomps_separate,
};

fn floats(values: [f32; 16]) -> Vector {
    values.map(f32::to_le_bytes).concat().try_into().unwrap()
}

/// The paper's example: 16 floats of which 6 are kept take 2 + 24 bytes.
#[test]
fn sixteen_floats_with_six_kept_are_26_bytes() {
    let mut values = [0.0; 16];
    for (i, at) in [1, 2, 5, 8, 13, 15].into_iter().enumerate() {
        values[at] = 1.0 + i as f32;
    }
    for cpu in Cpu::available() {
        let (mut stored, mut vector) = ([0xee; 40], [0xee; 64]);
        assert_eq!(zcomps(cpu, Lane::F32, Condition::EqZ, &floats(values), &mut stored), Ok(26));
        // Bits 1, 2, 5 and 8, 13, 15.
        assert_eq!(stored[..2], [0b0010_0110, 0b1010_0001]);
        assert_eq!(stored[2..6], 1f32.to_le_bytes());
        assert_eq!(stored[22..26], 6f32.to_le_bytes());
        assert_eq!(stored[26..], [0xee; 14], "nothing is written behind the elements");
        assert_eq!(zcompl(cpu, Lane::F32, &stored, &mut vector), Ok(26));
        assert_eq!(vector, floats(values));
    }
}

#[test]
fn a_separate_header_leaves_the_elements_alone() {
    let vector: Vector = std::array::from_fn(|i| if i % 16 == 3 { i as u8 } else { 0 });
    for cpu in Cpu::available() {
        let (mut header, mut stored, mut loaded) = ([0xee; 8], [0xee; 5], [0xee; 64]);
        let written = zcomps_separate(cpu, Lane::I8, Condition::EqZ, &vector, &mut header, &mut stored);
        assert_eq!(written, Ok(4));
        assert_eq!(header, [8, 0, 8, 0, 8, 0, 8, 0]);
        assert_eq!(stored, [3, 19, 35, 51, 0xee]);
        assert_eq!(zcompl_separate(cpu, Lane::I8, &header, &stored, &mut loaded), Ok(4));
        assert_eq!(loaded, vector);
    }
}

/// The first elements of a vector, the rest zero, and whether each is kept.
fn check_kept(lane: Lane, condition: Condition, elements: &[(&[u8], bool)]) {
    let width = lane.width_bytes();
    let mut vector: Vector = [0; 64];
    let mut expected: Vector = [0; 64];
    let mut mask = 0u64;
    for (i, (bytes, kept)) in elements.iter().enumerate() {
        vector[i * width..(i + 1) * width].copy_from_slice(bytes);
        if *kept {
            expected[i * width..(i + 1) * width].copy_from_slice(bytes);
            mask |= 1 << i;
        }
    }
    for cpu in Cpu::available() {
        let (mut stored, mut loaded) = ([0; 72], [0xee; 64]);
        let len = zcomps(cpu, lane, condition, &vector, &mut stored).unwrap();
        assert_eq!(stored[..lane.header_len()], mask.to_le_bytes()[..lane.header_len()], "{cpu:?} {lane:?}");
        assert_eq!(zcompl(cpu, lane, &stored[..len], &mut loaded), Ok(len));
        assert_eq!(loaded, expected, "{cpu:?} {lane:?}");
    }
}

#[test]
fn equal_to_zero_means_every_bit() {
    let minus_zero = (-0.0f32).to_le_bytes();
    let cases: [(&[u8], bool); 4] =
        [(&minus_zero, true), (&[0; 4], false), (&[1, 0, 0, 0], true), (&[0, 0, 0xc0, 0x7f], true)];
    check_kept(Lane::F32, Condition::EqZ, &cases);
    check_kept(Lane::I32, Condition::EqZ, &cases);
}

#[test]
fn at_most_zero_drops_negative_numbers_and_keeps_nan() {
    let bytes32 = |x: f32| x.to_le_bytes();
    let (inf, minus_inf) = (bytes32(f32::INFINITY), bytes32(f32::NEG_INFINITY));
    let nan = 0x7f80_0001u32.to_le_bytes();
    let minus_nan = 0xff80_0001u32.to_le_bytes();
    check_kept(
        Lane::F32,
        Condition::LteZ,
        &[
            (&bytes32(1.5), true),
            (&bytes32(-1.5), false),
            (&bytes32(-0.0), false),
            (&[1, 0, 0, 0], true), // the smallest denormal
            (&[1, 0, 0, 0x80], false),
            (&inf, true),
            (&minus_inf, false),
            (&nan, true),
            (&minus_nan, true),
        ],
    );
    check_kept(
        Lane::F16,
        Condition::LteZ,
        &[
            (&[0x00, 0x3c], true),  // 1
            (&[0x00, 0xbc], false), // -1
            (&[0x00, 0x7c], true),  // infinity
            (&[0x00, 0xfc], false),
            (&[0x01, 0x7c], true), // NaN
            (&[0x01, 0xfc], true),
            (&[0x00, 0x80], false), // -0
        ],
    );
    let nan64 = (0xfff0_0000_0000_0001u64).to_le_bytes();
    check_kept(
        Lane::F64,
        Condition::LteZ,
        &[
            (&2f64.to_le_bytes(), true),
            (&(-2f64).to_le_bytes(), false),
            (&f64::NEG_INFINITY.to_le_bytes(), false),
            (&nan64, true),
        ],
    );
    check_kept(Lane::I8, Condition::LteZ, &[(&[127], true), (&[128], false), (&[255], false), (&[1], true)]);
    check_kept(
        Lane::I32,
        Condition::LteZ,
        &[(&i32::MAX.to_le_bytes(), true), (&i32::MIN.to_le_bytes(), false), (&(-1i32).to_le_bytes(), false)],
    );
}

#[test]
fn a_destination_that_is_too_short_is_left_as_it_was() {
    let vector: Vector = [9; 64];
    for cpu in Cpu::available() {
        let mut stored = [0xee; 71];
        let error = zcomps(cpu, Lane::I8, Condition::EqZ, &vector, &mut stored);
        assert_eq!(error, Err(ZcompError::Room { needed: 72, got: 71 }));
        assert_eq!(stored, [0xee; 71]);
        let error = zcomps_separate(cpu, Lane::I8, Condition::EqZ, &vector, &mut [0; 7], &mut [0; 72]);
        assert_eq!(error, Err(ZcompError::HeaderLength { needed: 8, got: 7 }));
    }
}

#[test]
fn every_prefix_is_too_short() {
    let vector: Vector = std::array::from_fn(|i| (i % 3) as u8);
    for cpu in Cpu::available() {
        for lane in Lane::ALL {
            let mut stored = [0; 72];
            let len = zcomps(cpu, lane, Condition::EqZ, &vector, &mut stored).unwrap();
            for cut in 0..len {
                let error = zcompl(cpu, lane, &stored[..cut], &mut [0; 64]).unwrap_err();
                assert!(
                    matches!(error, ZcompError::Truncated { offset, needed, got }
                        if got < needed && offset + got == cut),
                    "{lane:?} {cut}: {error}"
                );
            }
        }
    }
}

/// Bytes of which about half are zero, in runs of one element.
fn sparse(random: &mut Random, len: usize, width: usize) -> Vec<u8> {
    let mut raw = random.bytes(len);
    for element in raw.chunks_mut(width) {
        if random.below(2) == 0 {
            element.fill(0);
        }
    }
    raw
}

#[test]
fn buffers_of_any_length_come_back_from_any_partitions() {
    let mut random = Random(50);
    for lane in Lane::ALL {
        for len in [0, 1, 7, 63, 64, 65, 127, 128, 130, 1000, 4096, 4099] {
            let raw = sparse(&mut random, len, lane.width_bytes());
            for headers in [Headers::Interleaved, Headers::Separate] {
                for (partitions, threads) in [(1, 1), (2, 1), (3, 2), (200, 3)] {
                    let compress = |cpu| {
                        Compressed::new(cpu, lane, headers, Condition::EqZ, &raw, partitions, threads)
                            .unwrap()
                    };
                    let expected = compress(Cpu::Portable);
                    assert_eq!(expected.raw_len(), len);
                    assert!(expected.partitions.len() <= partitions);
                    for cpu in Cpu::available() {
                        assert_eq!(compress(cpu), expected, "{cpu:?} {lane:?} {len}");
                        let mut back = vec![0xee; len];
                        expected.expand_into(cpu, &mut back, threads).unwrap();
                        assert!(back == raw, "{cpu:?} {lane:?} {len} {headers:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn conditions_agree_on_every_instruction_set() {
    let mut random = Random(51);
    for lane in Lane::ALL {
        let raw = random.bytes(64 * 300);
        let compress =
            |cpu| Compressed::new(cpu, lane, Headers::Separate, Condition::LteZ, &raw, 2, 1).unwrap();
        for cpu in Cpu::available() {
            assert_eq!(compress(cpu), compress(Cpu::Portable), "{cpu:?} {lane:?}");
        }
    }
}

#[test]
fn damaged_partitions_are_errors_with_a_place() {
    let raw = sparse(&mut Random(52), 150, 4);
    for cpu in Cpu::available() {
        for headers in [Headers::Interleaved, Headers::Separate] {
            let good = Compressed::new(cpu, Lane::F32, headers, Condition::EqZ, &raw, 1, 1).unwrap();
            let expand = |bad: &Compressed| bad.expand_into(cpu, &mut [0; 150], 1);
            assert_eq!(expand(&good), Ok(()));

            let mut longer = good.clone();
            longer.partitions[0].data.push(0);
            let offset = good.partitions[0].data.len();
            assert_eq!(expand(&longer), Err(ZcompError::Trailing { offset, extra: 1 }));

            let mut shorter = good.clone();
            shorter.partitions[0].data.truncate(offset - 1);
            let error = expand(&shorter).unwrap_err();
            assert!(
                matches!(error, ZcompError::Truncated { offset: at, needed: 2, got: 1 } if at == offset - 2)
            );

            let mut headed = good.clone();
            headed.partitions[0].headers.push(0);
            assert!(matches!(expand(&headed), Err(ZcompError::HeaderLength { .. })));

            assert_eq!(
                good.expand_into(cpu, &mut [0; 149], 1),
                Err(ZcompError::RawLength { needed: 150, got: 149 })
            );
            let mut uneven = good.clone();
            uneven.partitions.push(good.partitions[0].clone());
            let error = uneven.expand_into(cpu, &mut [0; 300], 1);
            assert_eq!(error, Err(ZcompError::Uneven { index: 0, raw_len: 150 }));
        }
        // 150 bytes end with 5 whole elements of 4 in the third vector: its bits 5 and up stay clear.
        let mut beyond =
            Compressed::new(cpu, Lane::F32, Headers::Separate, Condition::EqZ, &raw, 1, 1).unwrap();
        beyond.partitions[0].headers[4] = 0;
        beyond.partitions[0].headers[5] = 0x80;
        let error = beyond.expand_into(cpu, &mut [0; 150], 1).unwrap_err();
        assert!(matches!(error, ZcompError::HeaderBits | ZcompError::Truncated { .. }), "{error}");
    }
}

#[test]
fn no_partition_and_no_thread_are_refused() {
    let new = |partitions, threads| {
        Compressed::new(Cpu::Portable, Lane::I8, Headers::Separate, Condition::EqZ, &[1], partitions, threads)
    };
    assert_eq!(new(0, 1), Err(ZcompError::None));
    assert_eq!(new(1, 0), Err(ZcompError::None));
    assert_eq!(new(1, 1).unwrap().expand_into(Cpu::Portable, &mut [0], 0), Err(ZcompError::None));
}
