//! Speeds to start from where nothing was measured.

use std::sync::{Arc, LazyLock};

use mgcomp_codecs::{Algorithm, Element};

use super::{CodecSpeed, Point, Series, Speeds};

/// What a call costs whatever its length, in nanoseconds.
const CALL_NS: f64 = 1000.0;
/// What an estimate costs whatever it looks at, in nanoseconds: a codebook has to be fitted first where there is one.
const ESTIMATE_CALL_NS: f64 = 300.0;
const FITTING_NS: f64 = 120_000.0;

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

pub(super) fn speeds() -> Arc<Speeds> {
    static SPEEDS: LazyLock<Arc<Speeds>> = LazyLock::new(|| {
        let pairs = Element::ALL.into_iter().flat_map(|element| RATES.map(|rates| (element, rates)));
        let codecs = pairs.map(|(element, rates)| codec(element, rates)).collect();
        Arc::new(Speeds::try_new(codecs).expect("the table above makes sense"))
    });
    SPEEDS.clone()
}

fn codec(element: Element, (algorithm, encode, decode, estimate): (Algorithm, f64, f64, f64)) -> CodecSpeed {
    let point = |raw_bytes: u64| Point {
        raw_bytes,
        encode_ns: CALL_NS + raw_bytes as f64 / encode,
        decode_ns: CALL_NS + raw_bytes as f64 / decode,
    };
    CodecSpeed {
        algorithm: algorithm.name().to_owned(),
        element: element.name().to_owned(),
        estimate_call_ns: if algorithm == Algorithm::Ibp { FITTING_NS } else { ESTIMATE_CALL_NS },
        estimate_ns_per_byte: 1.0 / estimate,
        series: vec![Series { fraction: 1.0, points: vec![point(1 << 10), point(1 << 20)] }],
    }
}
