//! What makes no sense is refused with numbers, and touches nothing.

use mgcomp_codecs::Element;
use mgcomp_transport::copy::offload::{OffloadConfig, OffloadError, OffloadQueue};
use mgcomp_transport::copy::{Copier, CopyConfig, CopyError, Direction, range};
use mgcomp_transport::memory::{HostBuffer, HostSlice};
use mgcomp_transport::payload::Payload;

use super::{Random, buffer, policy};

fn copy(into: impl Into<Payload>, from: impl Into<Payload>, element: Element) -> CopyError {
    let copier = Copier::start(CopyConfig::default()).unwrap();
    let direction = Direction::DeviceToHost;
    copier.memcpy_compressed(into, from, direction, element, policy("fixed:zvc")).unwrap_err()
}

fn slice(buffer: &HostBuffer, start: usize, end: usize) -> HostSlice {
    range(buffer, start..end).unwrap()
}

#[test]
fn ranges_lengths_and_places_that_do_not_fit() {
    let (from, into) = (HostBuffer::zeroed(100), buffer(&[7; 100]));
    let error = range(&from, 90..101).unwrap_err();
    assert_eq!(error.to_string(), "bytes 90 to 101 of a buffer of 100 bytes");
    let (start, end) = (8, 4);
    assert!(matches!(range(&from, start..end), Err(CopyError::Outside { start: 8, end: 4, len: 100 })));

    let error = copy(slice(&into, 0, 40), slice(&from, 0, 44), Element::F32);
    assert!(matches!(error, CopyError::Length { source_bytes: 44, destination_bytes: 40 }), "{error}");
    let error = copy(slice(&into, 0, 42), slice(&from, 0, 42), Element::F32);
    assert!(matches!(error, CopyError::OddLength { bytes: 42, width_bytes: 4 }), "{error}");
    let error = copy(slice(&into, 0, 40), slice(&from, 2, 42), Element::F32);
    assert!(matches!(error, CopyError::Misaligned { offset: 2, width_bytes: 4 }), "{error}");
    let error = copy(slice(&into, 4, 44), slice(&from, 8, 48), Element::F64);
    assert!(matches!(error, CopyError::Misaligned { offset: 4, width_bytes: 8 }), "{error}");
    assert_eq!(into.all().to_vec(), [7; 100]);
}

#[test]
fn source_and_destination_that_overlap() {
    let both = buffer(&Random(1).words(100, 50));
    let before = both.all().to_vec();
    let error = copy(slice(&both, 40, 80), slice(&both, 0, 40 + 4).part(4, 40).unwrap(), Element::F32);
    assert!(matches!(error, CopyError::Overlap { bytes: 4, offset: 40 }), "{error}");
    let error = copy(slice(&both, 0, 40), slice(&both, 0, 40), Element::F32);
    assert!(matches!(error, CopyError::Overlap { bytes: 40, offset: 0 }), "{error}");
    assert_eq!(both.all().to_vec(), before);
}

#[test]
fn memory_that_is_not_there_and_lengths_of_what_is_kept() {
    let into = HostBuffer::zeroed(4);
    let wire = Payload::from_bytes(vec![1, 2, 3, 4].into());
    assert!(matches!(copy(into.all(), wire, Element::U8), CopyError::Place { .. }));
    let copier = Copier::start(CopyConfig::default()).unwrap();
    let source = HostBuffer::zeroed(64);
    let kept = copier.keep(source.all(), Direction::DeviceToHost, Element::U8, policy("fixed:zvc")).unwrap();
    let (kept, _) = kept.wait().unwrap();
    let error = copier.expand(into.all(), &kept, Direction::HostToDevice).unwrap_err();
    assert!(matches!(error, CopyError::Length { source_bytes: 64, destination_bytes: 4 }), "{error}");
}

#[test]
fn settings_that_cannot_work() {
    let fails = |change: fn(&mut CopyConfig)| {
        let mut config = CopyConfig::default();
        change(&mut config);
        Copier::start(config).err().unwrap().to_string()
    };
    assert_eq!(fails(|c| c.codec_threads = 0), "codec threads of 0; it must be 1 to 1024");
    assert_eq!(fails(|c| c.window = 0), "window of 0; it must be 1 to 65536");
    assert_eq!(fails(|c| c.segment_bytes = 32), "segment bytes of 32; it must be 64 to 1073741824");
    assert!(fails(|c| c.segment_bytes = 100).contains("multiple of 64"));
    assert_eq!(fails(|c| c.read_cap_gbps = Some(-2.0)), "link rate -2 Gb/s is not a positive number");
    let copier = Copier::start(CopyConfig::default()).unwrap();
    assert!(matches!(copier.set_read_cap_gbps(f64::NAN), Err(CopyError::Rate(_))));
    assert_eq!(copier.read_cap_gbps(), None);
    copier.set_read_cap_gbps(100.0).unwrap();
    assert_eq!(copier.read_cap_gbps(), Some(100.0));
    // Three times the link.
    let copier = Copier::start(CopyConfig::simulated(16.0).unwrap()).unwrap();
    assert_eq!(copier.read_cap_gbps(), Some(3.0 * 128.0));
}

#[test]
fn tickets_of_another_queue_and_tickets_used_twice() {
    let queue = || {
        OffloadQueue::start(OffloadConfig::new(CopyConfig::default(), policy("fixed:zvc"), 1 << 20)).unwrap()
    };
    let (queue, other) = (queue(), queue());
    let source = buffer(&Random(2).words(4096, 50));
    let into = buffer(&[3; 4096]);
    let ticket = queue.offload(source.all(), Element::F32).unwrap();

    let foreign = other.prefetch(ticket, into.all()).unwrap_err();
    assert!(matches!(foreign, OffloadError::OtherQueue { number: 0, of_queue, queue } if of_queue != queue));
    assert!(matches!(other.wait(ticket), Err(OffloadError::OtherQueue { .. })));
    assert!(matches!(other.discard(ticket), Err(OffloadError::OtherQueue { .. })));
    // A buffer that does not fit leaves the ticket as it was.
    let short = queue.prefetch(ticket, into.slice(0..4092).unwrap()).unwrap_err();
    assert!(matches!(
        short,
        OffloadError::Copy(CopyError::Length { source_bytes: 4096, destination_bytes: 4092 })
    ));
    assert_eq!(into.all().to_vec(), [3; 4096]);

    let first = queue.prefetch(ticket, into.all()).unwrap();
    let second = HostBuffer::zeroed(4096);
    let twice = queue.prefetch(ticket, second.all()).unwrap_err();
    assert!(matches!(twice, OffloadError::Used { number: 0, .. }), "{twice}");
    first.wait().unwrap();
    assert_eq!(into.all().to_vec(), source.all().to_vec());
    assert!(matches!(queue.prefetch(ticket, second.all()), Err(OffloadError::Used { number: 0, .. })));
    assert!(matches!(queue.wait(ticket), Err(OffloadError::Used { .. })));
    assert!(matches!(queue.discard(ticket), Err(OffloadError::Used { .. })));
    assert_eq!(second.all().to_vec(), [0; 4096]);
    let odd = queue.offload(source.slice(0..4095).unwrap(), Element::F32).unwrap_err();
    assert!(matches!(odd, OffloadError::Copy(CopyError::OddLength { bytes: 4095, .. })));
}
