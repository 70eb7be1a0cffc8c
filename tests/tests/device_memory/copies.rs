//! Compressed copies between host and device, from Rust and by the calls that C programs make.
#![allow(unsafe_code)] // memory that a test owns, and calls as C makes them

use std::ffi::c_void;
use std::mem::MaybeUninit;

use mgcomp::copy::{
    mgcompCopier, mgcompCreateCopier, mgcompDestroyCopier, mgcompMemcpyCompressed,
    mgcompMemcpyCompressedAsync, mgcompMemcpyKind,
};
use mgcomp::error::mgcompResult;
use mgcomp::number::mgcompElement;
use mgcomp::request::{mgcompRequest, mgcompWaitRequest};
use mgcomp_codecs::Element;
use mgcomp_selector::PolicySpec;
use mgcomp_tests::data::{self, Kind};
use mgcomp_transport::copy::{Copier, CopyConfig, CopyError, Direction};
use mgcomp_transport::memory::{DeviceBuffer, HostBuffer, Slice};

use crate::rig::{bytes_of, on_device, open, with_threads};

const LEN: usize = 300_000;

#[test]
fn device_memory_is_copied() {
    with_threads("copies::device_memory_is_copied", 11, |_| {
        let (device, stream) = open();
        let raw = data::bytes(Kind::Sparse, LEN, 1);
        let copier = Copier::start(CopyConfig { segment_bytes: 64 << 10, ..CopyConfig::default() }).unwrap();
        let bdi: PolicySpec = "fixed:bdi".parse().unwrap();
        let source = on_device(&device, &stream, &raw);
        let (host, other) = (HostBuffer::zeroed(LEN), DeviceBuffer::alloc(&device, LEN).unwrap());
        let at = |slice: &DeviceBuffer| Slice::from(slice.all().after(&stream).unwrap());

        let copy = |to: Slice, from: Slice, direction| {
            copier.memcpy_compressed(to, from, direction, Element::U32, bdi).unwrap()
        };
        let report = copy(host.all().into(), at(&source), Direction::DeviceToHost);
        assert!(host.all().to_vec() == raw && report.coded_bytes < LEN as u64 * 9 / 10, "{report}");
        stream.zero(source.all().region()).unwrap();
        copy(at(&source), host.all().into(), Direction::HostToDevice);
        copy(at(&other), at(&source), Direction::DeviceToDevice);
        assert!(bytes_of(&stream, &other.all()) == raw);

        let refused =
            copier.memcpy_compressed(at(&other), host.all(), Direction::HostToHost, Element::U32, bdi);
        assert!(matches!(refused, Err(CopyError::Direction { .. })), "{refused:?}");
        let half = Slice::from(other.slice(0..LEN / 2).unwrap());
        let next = Slice::from(other.slice(4..LEN / 2 + 4).unwrap());
        let refused = copier.memcpy_compressed(half, next, Direction::DeviceToDevice, Element::U32, bdi);
        assert!(
            matches!(refused, Err(CopyError::Overlap { bytes, .. }) if bytes == LEN / 2 - 4),
            "{refused:?}"
        );
    });
}

#[test]
fn c_programs_copy_device_memory() {
    with_threads("copies::c_programs_copy_device_memory", 12, |_| {
        let (device, stream) = open();
        let raw = data::bytes(Kind::Sparse, LEN, 2);
        let source = on_device(&device, &stream, &raw);
        let back = DeviceBuffer::alloc(&device, LEN).unwrap();
        let mut host = vec![0u8; LEN];
        let address = |buffer: &DeviceBuffer| {
            std::ptr::with_exposed_provenance_mut::<c_void>(buffer.all().region().address() as usize)
        };
        let (element, policy) = (MaybeUninit::new(mgcompElement::U32), c"fixed:bdi".as_ptr());
        let kind = MaybeUninit::new;
        let (mut copier, mut request) = (mgcompCopier { id: 0 }, mgcompRequest { id: 0 });
        let mut coded = 0;
        // SAFETY: `source`, `back` and `host` live until the copies are finished; the stream is one of the device.
        unsafe {
            assert_eq!(mgcompCreateCopier(1, 0, &raw mut copier), mgcompResult::Success);
            let result = mgcompMemcpyCompressedAsync(
                copier,
                host.as_mut_ptr().cast(),
                address(&source),
                LEN,
                kind(mgcompMemcpyKind::DeviceToHost),
                element,
                policy,
                stream.as_raw(),
                &raw mut request,
            );
            assert_eq!(result, mgcompResult::Success);
            assert_eq!(mgcompWaitRequest(request, &raw mut coded), mgcompResult::Success);
            assert!(host == raw && coded < LEN as u64 * 9 / 10);
            let copy = |kind_of| {
                mgcompMemcpyCompressed(
                    copier,
                    address(&back),
                    host.as_ptr().cast(),
                    LEN,
                    kind(kind_of),
                    element,
                    policy,
                    stream.as_raw(),
                    std::ptr::null_mut(),
                )
            };
            assert_eq!(copy(mgcompMemcpyKind::HostToDevice), mgcompResult::Success);
            assert!(bytes_of(&stream, &back.all()) == raw);
            assert_eq!(copy(mgcompMemcpyKind::HostToHost), mgcompResult::InvalidArgument);
        }
        assert_eq!(mgcompDestroyCopier(copier), mgcompResult::Success);
    });
}
