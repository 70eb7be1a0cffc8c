//! Sizes that were worked out by hand.

use std::time::Duration;

use bytes::Bytes;
use mgcomp_codecs::frame::Frame;
use mgcomp_codecs::{Algorithm, Element};
use mgcomp_selector::Reason;
use mgcomp_transport::copy::{Copier, CopyConfig, CopyError, Direction, Kept};
use mgcomp_transport::memory::HostBuffer;

use super::{Random, buffer, policy};

/// Header and table of a frame of one chunk: 16 bytes, and one entry of 4 bytes padded to 16.
const FRONT: u64 = 32;

fn coded(raw: &[u8], algorithm: &str) -> (Algorithm, u64) {
    let copier = Copier::start(CopyConfig::default()).unwrap();
    let into = HostBuffer::zeroed(raw.len());
    let direction = Direction::DeviceToHost;
    let report = copier
        .memcpy_compressed(into.all(), buffer(raw).all(), direction, Element::F32, policy(algorithm))
        .unwrap();
    assert_eq!(into.all().to_vec(), raw);
    assert_eq!((report.raw_bytes, report.reason), (raw.len() as u64, Some(Reason::Fixed)));
    (report.algorithm, report.coded_bytes)
}

#[test]
fn zero_value_compression_takes_a_bit_for_every_element_and_the_others() {
    // 1024 floats: 32 masks of 4 bytes.
    assert_eq!(coded(&[0; 4096], "fixed:zvc"), (Algorithm::Zvc, FRONT + 128));
    // One of every 32 is not zero.
    let sparse: Vec<u8> =
        (0..1024u32).flat_map(|i| if i % 32 == 7 { 1.5f32 } else { 0.0 }.to_le_bytes()).collect();
    assert_eq!(coded(&sparse, "fixed:zvc"), (Algorithm::Zvc, FRONT + 128 + 32 * 4));
}

#[test]
fn what_does_not_shrink_goes_raw() {
    let noise = Random(1).words(4096, 0);
    assert_eq!(coded(&noise, "fixed:zvc"), (Algorithm::None, 4096));
    assert_eq!(coded(&noise, "fixed:none"), (Algorithm::None, 4096));
}

#[test]
fn a_copy_of_one_segment_is_kept_as_one_frame_and_longer_ones_as_several() {
    let config = CopyConfig { segment_bytes: 8192, ..CopyConfig::default() };
    let copier = Copier::start(config).unwrap();
    let keep = |raw: &[u8]| {
        let kept = copier.keep(buffer(raw).all(), Direction::DeviceToHost, Element::F32, policy("fixed:zvc"));
        kept.unwrap().wait().unwrap().0
    };
    let one = keep(&[0; 8192]);
    // Two chunks of 4 KiB: 16 bytes of header, 8 of table padded to 16, 128 for each chunk.
    assert_eq!((one.segments().len(), one.bytes(), one.algorithm()), (1, 16 + 16 + 256, Algorithm::Zvc));
    let (_, frame) = one.segments().next().unwrap();
    assert_eq!(Frame::parse(frame.bytes().unwrap()).unwrap().decode_to_vec(8192).unwrap(), [0; 8192]);

    // Two and a half segments, the second of which is noise.
    let mut raw = vec![0; 20_480];
    raw[8192..16_384].copy_from_slice(&Random(2).words(8192, 0));
    let kept = keep(&raw);
    let sizes: Vec<_> = kept.segments().map(|(algorithm, bytes)| (algorithm, bytes.capacity())).collect();
    assert_eq!(sizes, [(Algorithm::Zvc, 288), (Algorithm::None, 8192), (Algorithm::Zvc, FRONT + 128)]);

    // The same, put together elsewhere.
    let segments = || segments_of(&kept);
    let again = Kept::from_segments(Element::F32, 20_480, 8192, segments()).unwrap();
    let into = HostBuffer::zeroed(20_480);
    copier.expand(into.all(), &again, Direction::HostToDevice).unwrap().wait().unwrap();
    assert_eq!(into.all().to_vec(), raw);

    let wrong = |element, raw_bytes, segment_bytes| {
        Kept::from_segments(element, raw_bytes, segment_bytes, segments()).unwrap_err()
    };
    assert!(matches!(wrong(Element::U32, 20_480, 8192), CopyError::Segment { start: 0, end: 8192, .. }));
    assert!(matches!(
        wrong(Element::F32, 20_476, 8192),
        CopyError::Segment { start: 16_384, end: 20_476, .. }
    ));
    assert!(matches!(
        wrong(Element::F32, 20_480, 4096),
        CopyError::Setting { got: 3, least: 5, most: 5, .. }
    ));
    assert!(matches!(wrong(Element::F32, 20_480, 0), CopyError::Setting { got: 3, .. }));
}

fn segments_of(kept: &Kept) -> Vec<(Algorithm, Bytes)> {
    kept.segments().map(|(algorithm, bytes)| (algorithm, bytes.bytes().unwrap().clone())).collect()
}

#[test]
fn a_damaged_frame_is_an_error_that_says_where() {
    let config = CopyConfig { segment_bytes: 8192, checksum: true, ..CopyConfig::default() };
    let copier = Copier::start(config).unwrap();
    let source = buffer(&Random(3).words(32_768, 70));
    let direction = Direction::DeviceToHost;
    let kept = copier.keep(source.all(), direction, Element::F32, policy("fixed:zvc")).unwrap();
    let (kept, _) = kept.wait().unwrap();
    let mut segments = segments_of(&kept);
    let mut damaged = segments[2].1.to_vec();
    let last = damaged.len() / 2;
    damaged[last] ^= 0x40;
    segments[2].1 = damaged.into();
    let kept = Kept::from_segments(Element::F32, 32_768, 8192, segments).unwrap();
    let into = HostBuffer::zeroed(32_768);
    let failed = copier.expand(into.all(), &kept, Direction::HostToDevice).unwrap().wait();
    let Err(CopyError::Segment { start: 16_384, end: 24_576, raw_bytes: 32_768, .. }) = failed else {
        panic!("{failed:?}")
    };
}

#[test]
fn links_that_are_simulated_carry_what_is_coded_and_every_report_says_so() {
    // 16 kB a second, so 160 bytes take 10 ms; and three times as much may be read.
    let copier = Copier::start(CopyConfig::simulated(16e-6).unwrap()).unwrap();
    assert!(copier.read_cap_gbps().is_some_and(|gbps| (gbps - 384e-6).abs() < 1e-9));
    let (source, into) = (HostBuffer::zeroed(4096), HostBuffer::zeroed(4096));
    let direction = Direction::HostToDevice;
    let report = copier
        .memcpy_compressed(into.all(), source.all(), direction, Element::F32, policy("fixed:zvc"))
        .unwrap();
    assert_eq!((report.coded_bytes, report.simulated_gbps), (FRONT + 128, Some(128e-6)));
    assert!(report.to_string().ends_with("over a simulated link of 0.000016 GB/s"), "{report}");
    assert!(report.took >= Duration::from_millis(10), "{report}");
    let direction = Direction::HostToHost;
    let report = copier
        .memcpy_compressed(into.all(), source.all(), direction, Element::F32, policy("adaptive"))
        .unwrap();
    assert_eq!((report.algorithm, report.simulated_gbps), (Algorithm::None, None));
    assert!(!report.to_string().contains("simulated"), "{report}");
}
