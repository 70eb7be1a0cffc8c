//! How fast kernels are, by the clock of the stub.

use mgcomp_codecs::device::{Cache, Device, algorithms};
use mgcomp_codecs::{Algorithm, Element, ElementSet};
use mgcomp_tests::stub::{Libraries, Stub, with_stub};
use mgcomp_transport::calibrate::{CalibrateError, SpeedsFile, calibrate_device, calibrated_device_bytes};

/// Longer than what is timed at more lengths than one.
const LAUNCH_NS: u64 = 5_000_000;
/// The shortest length.
const SHORT_BYTES: u64 = 64 << 10;

fn device(stub: &Stub) -> Device {
    stub.set("launch_ns", LAUNCH_NS);
    Device::open_with(0, Cache::Off).unwrap()
}

fn elements() -> ElementSet {
    ElementSet::from_iter([Element::Bf16, Element::U32])
}

#[test]
fn kernels_take_what_their_launches_take() {
    with_stub("calibrate::kernels_take_what_their_launches_take", Libraries::DriverAndCompiler, |stub| {
        let device = device(stub);
        let done = std::cell::Cell::new(0);
        let speeds = calibrate_device(&device, elements(), &|bytes| done.set(bytes)).unwrap();
        assert_eq!(done.get(), calibrated_device_bytes(elements()));
        for algorithm in algorithms().filter(|&algorithm| algorithm != Algorithm::Ibp) {
            let times = |bytes| speeds.times(algorithm, Element::Bf16, bytes, 0.5).unwrap();
            let ns = LAUNCH_NS as f64;
            for (bytes, expected_ns) in [(100, ns), (SHORT_BYTES, ns), (10 * SHORT_BYTES, 10.0 * ns)] {
                let got = [times(bytes).encode_ns, times(bytes).decode_ns];
                assert!(
                    got.iter().all(|got| (got / expected_ns - 1.0).abs() < 1e-6),
                    "{algorithm} {bytes} {got:?}"
                );
            }
            let estimate_ns = speeds.estimate(algorithm, Element::U32).unwrap().ns(SHORT_BYTES);
            assert!((estimate_ns / ns - 1.0).abs() < 1e-6, "{algorithm} {estimate_ns}");
            assert_eq!(speeds.times(algorithm, Element::F16, 4096, 1.0), None);
        }
        // Data that compresses well, somewhat and not at all.
        let zvc = speeds.codecs().iter().find(|codec| codec.algorithm == "zvc").unwrap();
        assert!(zvc.series.len() > 1 && zvc.series[0].fraction < 0.6, "{zvc:?}");

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("speeds.json");
        SpeedsFile::of_device(device.info(), &speeds).save(&path).unwrap();
        let loaded = SpeedsFile::load_of_device(&path, device.info()).unwrap();
        assert_eq!(loaded.codecs().len(), speeds.codecs().len());
        // The processor is another thing, and so is a device of another name.
        let refused = SpeedsFile::load(&path).unwrap_err().to_string();
        assert!(refused.contains("measured with processor \"CPU shim\""), "{refused}");
        let mut other = device.info().clone();
        other.name = "Abacus".to_owned();
        let refused = SpeedsFile::load_of_device(&path, &other).unwrap_err().to_string();
        assert!(refused.contains("this is \"Abacus\"; measure again"), "{refused}");
    });
}

#[test]
fn kernels_that_are_wrong_are_not_timed() {
    with_stub("calibrate::kernels_that_are_wrong_are_not_timed", Libraries::DriverAndCompiler, |stub| {
        let device = device(stub);
        stub.set("wrong_byte", 1);
        let error = calibrate_device(&device, elements(), &|_| ()).unwrap_err();
        let is_said = matches!(error, CalibrateError::NotEqual { .. } | CalibrateError::Kernel { .. });
        assert!(is_said, "{error}");
    });
}

#[test]
fn calls_that_fail_leave_nothing() {
    with_stub("calibrate::calls_that_fail_leave_nothing", Libraries::DriverAndCompiler, |stub| {
        let device = device(stub);
        let elements = ElementSet::from_iter([Element::F32]);
        // One by one at first, then further and further apart.
        let mut at = 1;
        loop {
            stub.fail(None, at, 2);
            let measured = calibrate_device(&device, elements, &|_| ());
            let failed = stub.failed();
            stub.fail(None, 0, 0);
            match (measured, failed) {
                (Ok(_), None) => break,
                (Err(CalibrateError::Device(_)), Some(_)) => {}
                (Ok(_), Some(call)) => assert!(is_done_without(&call), "{call} {at}"),
                (Err(error), failed) => panic!("{error} {failed:?} {at}"),
            }
            at += at / 8 + 1;
        }
    });
}

/// Who gives something back does not hear of failures, and who cannot have other rules for recordings goes by those that there are.
fn is_done_without(call: &str) -> bool {
    ["Free", "Destroy", "Unload", "PopCurrent", "ThreadExchange"].iter().any(|one| call.contains(one))
}
