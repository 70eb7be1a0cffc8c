//! Speeds to start from where nothing was measured.

use std::sync::{Arc, LazyLock};

use mgcomp_codecs::{Algorithm, Element};

use super::{CodecSpeed, Point, Series, Speeds};

/// What calls cost whatever their length, and how far times are known: beyond it they are in proportion.
#[derive(Clone, Copy)]
struct Calls {
    ns: f64,
    estimate_ns: f64,
    most_bytes: u64,
}

const HOST_CALLS: Calls = Calls { ns: 1000.0, estimate_ns: 300.0, most_bytes: 1 << 20 };
/// Instead, where a codebook has to be fitted first.
const FITTING_NS: f64 = 10_000.0;

const DEVICE_CALLS: Calls = Calls { ns: 10_000.0, estimate_ns: 8000.0, most_bytes: 1 << 30 };

/// GB/s of raw bytes on one core: encode, decode, exact size. `mgcomp-bench codec` at 256 MiB on one server core
/// with AVX-512, memcpy 14 GB/s, on the data that each codec is for.
const RATES: [(Algorithm, f64, f64, f64); 10] = [
    (Algorithm::Bdi, 6.0, 15.0, 17.0),
    (Algorithm::Fpc, 6.5, 7.0, 19.0),
    (Algorithm::CpackZ, 5.0, 7.0, 13.0),
    (Algorithm::Zvc, 11.0, 20.0, 32.0),
    (Algorithm::Rle, 8.0, 12.0, 30.0),
    (Algorithm::Deflate, 0.06, 0.3, 0.06),
    (Algorithm::Bpc, 3.3, 3.2, 10.0),
    (Algorithm::Ibp, 5.0, 11.0, 30.0),
    (Algorithm::Xp, 11.0, 13.0, 15.0),
    (Algorithm::Int, 7.5, 8.0, 8.0),
];

/// Multiprocessors of the GPU that the rates below are of.
const MULTIPROCESSORS: f64 = 132.0;

/// GB/s of raw bytes on an H200: encode, decode, exact size. `mgcomp calibrate --device cuda`, from 1 to 32 MiB, the median over
/// all elements and all data that it makes up; calls are those on 64 KiB (`bench/results/speeds.json`).
const DEVICE_RATES: [(Algorithm, f64, f64, f64); 8] = [
    (Algorithm::Bdi, 990.0, 1900.0, 3050.0),
    (Algorithm::Fpc, 820.0, 1560.0, 1510.0),
    (Algorithm::CpackZ, 740.0, 1440.0, 1440.0),
    (Algorithm::Zvc, 1100.0, 1910.0, 3700.0),
    (Algorithm::Rle, 1010.0, 1730.0, 2400.0),
    (Algorithm::Bpc, 570.0, 960.0, 1660.0),
    (Algorithm::Xp, 740.0, 920.0, 1380.0),
    (Algorithm::Int, 510.0, 770.0, 710.0),
];

pub(super) fn speeds() -> Arc<Speeds> {
    static SPEEDS: LazyLock<Arc<Speeds>> = LazyLock::new(|| {
        table(&RATES, |algorithm| match algorithm {
            Algorithm::Ibp => Calls { estimate_ns: FITTING_NS, ..HOST_CALLS },
            _ => HOST_CALLS,
        })
    });
    SPEEDS.clone()
}

pub(super) fn expected_of_device(multiprocessors: u32) -> Arc<Speeds> {
    // A device without any is none; whoever says so gets a slow one.
    let scale = f64::from(multiprocessors.max(1)) / MULTIPROCESSORS;
    let rates = DEVICE_RATES.map(|(algorithm, encode, decode, estimate)| {
        (algorithm, encode * scale, decode * scale, estimate * scale)
    });
    table(&rates, |_| DEVICE_CALLS)
}

/// The same rates for all elements.
fn table(rates: &[(Algorithm, f64, f64, f64)], calls: impl Fn(Algorithm) -> Calls) -> Arc<Speeds> {
    let pairs = Element::ALL.into_iter().flat_map(|element| rates.iter().map(move |&rates| (element, rates)));
    let codecs = pairs.map(|(element, rates)| codec(element, rates, calls(rates.0))).collect();
    Arc::new(Speeds::try_new(codecs).expect("the tables above make sense"))
}

fn codec(
    element: Element,
    (algorithm, encode, decode, estimate): (Algorithm, f64, f64, f64),
    calls: Calls,
) -> CodecSpeed {
    let point = |raw_bytes: u64| Point {
        raw_bytes,
        encode_ns: calls.ns + raw_bytes as f64 / encode,
        decode_ns: calls.ns + raw_bytes as f64 / decode,
    };
    CodecSpeed {
        algorithm: algorithm.name().to_owned(),
        element: element.name().to_owned(),
        estimate_call_ns: calls.estimate_ns,
        estimate_ns_per_byte: 1.0 / estimate,
        series: vec![Series { fraction: 1.0, points: vec![point(1 << 10), point(calls.most_bytes)] }],
    }
}
