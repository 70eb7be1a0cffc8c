//! A machine on which all takes just what was measured, or so many times as long.

use std::sync::Arc;
use std::time::Duration;

use mgcomp_codecs::{Algorithm, AlgorithmSet, Element};
use mgcomp_selector::speeds::{CodecSpeed, Point, Series, Speeds};
use mgcomp_selector::{
    Adaptive, CheapFacts, Decision, Estimate, LinkFacts, Outcome, Overlap, Plan, Policy, SampleSize, StreamId,
};

pub(crate) const MIB: u64 = 1 << 20;
/// Transfers after which what did not come back counts as lost.
pub(crate) const LOST_AFTER: usize = 32;

/// A codec that takes `ns` and half as many for a byte, and whose estimates take `call_ns` and 0.02 ns for a byte.
pub(crate) fn codec(algorithm: Algorithm, ns: f64, call_ns: f64) -> CodecSpeed {
    CodecSpeed {
        algorithm: algorithm.name().into(),
        element: "f32".into(),
        estimate_call_ns: call_ns,
        estimate_ns_per_byte: 0.02,
        series: vec![Series {
            fraction: 1.0,
            points: [1, MIB]
                .map(|raw_bytes| Point {
                    raw_bytes,
                    encode_ns: ns * raw_bytes as f64,
                    decode_ns: ns / 2.0 * raw_bytes as f64,
                })
                .into(),
        }],
    }
}

/// XP takes 0.1 and 0.05 ns a byte, ZVC half of that.
pub(crate) fn speeds() -> Arc<Speeds> {
    let codecs = vec![codec(Algorithm::Xp, 0.1, 200.0), codec(Algorithm::Zvc, 0.05, 200.0)];
    Arc::new(Speeds::try_new(codecs).unwrap())
}

pub(crate) fn link(rate_gbps: f64) -> Option<LinkFacts> {
    Some(LinkFacts::try_new(rate_gbps, 0, Overlap::None).unwrap())
}

/// A transfer at 8 Gb/s, which is 1 ns for a raw byte.
pub(crate) fn transfer(raw_bytes: u64) -> CheapFacts {
    let allowed = AlgorithmSet::supported();
    let (stream, element) = (StreamId(7), Element::F32);
    CheapFacts {
        peer: 1,
        stream,
        raw_bytes,
        element,
        allowed,
        link: link(8.0),
        lambda: None,
        is_observed: true,
    }
}

/// What the data of a stream is: coded bytes per raw byte.
#[derive(Clone, Copy)]
pub(crate) struct Data {
    pub(crate) xp: f64,
    pub(crate) zvc: f64,
    pub(crate) ibp: f64,
}

impl Data {
    pub(crate) fn fraction(self, algorithm: Algorithm) -> f64 {
        match algorithm {
            Algorithm::Xp => self.xp,
            Algorithm::Zvc => self.zvc,
            Algorithm::Ibp => self.ibp,
            _ => 1.0,
        }
    }
}

/// What came of a transfer.
pub(crate) struct Sent {
    pub(crate) decision: Decision,
    /// Bytes that a sample looked at, times algorithms.
    pub(crate) sampled_bytes: u64,
}

/// Sends a transfer of `data` on a machine where all takes just what was measured.
pub(crate) fn send(policy: &mut Adaptive, facts: &CheapFacts, data: Data) -> Sent {
    send_at(policy, facts, data, 1.0)
}

/// The same where codecs take `pace` times as long.
pub(crate) fn send_at(policy: &mut Adaptive, facts: &CheapFacts, data: Data, pace: f64) -> Sent {
    send_seen_as(policy, facts, data, data, |_| pace)
}

/// The same where a sample looks at places that shrink to what `seen` says, and each codec has a pace of its own.
pub(crate) fn send_seen_as(
    policy: &mut Adaptive,
    facts: &CheapFacts,
    data: Data,
    seen: Data,
    pace: impl Fn(Algorithm) -> f64,
) -> Sent {
    let sent = decide(policy, facts, seen);
    let Sent { decision, sampled_bytes } = sent;
    let pace = pace(decision.algorithm);
    let ns = |per_byte: f64| Duration::from_nanos((pace * per_byte * facts.raw_bytes as f64) as u64);
    let codec = match decision.algorithm {
        Algorithm::Xp => Some(0.1),
        Algorithm::Zvc => Some(0.05),
        Algorithm::Ibp => Some(0.1),
        _ => None,
    };
    let outcome = Outcome {
        sent: decision.algorithm,
        coded_bytes: (data.fraction(decision.algorithm) * facts.raw_bytes as f64) as u64,
        sampling: (sampled_bytes > 0).then(|| Duration::from_nanos((0.02 * sampled_bytes as f64) as u64)),
        encode: codec.map(ns),
        decode: codec.map(|per_byte| ns(per_byte / 2.0)),
        acknowledged: None,
    };
    policy.observe(facts, &decision, &outcome);
    sent
}

/// Has a transfer decided on, with a sample where one is asked for; nothing comes of it yet.
pub(crate) fn decide(policy: &mut Adaptive, facts: &CheapFacts, seen: Data) -> Sent {
    let (decision, sampled_bytes) = match policy.plan(facts) {
        Plan::Use(decision) => (decision, 0),
        Plan::Sample { algorithms, size: SampleSize::Bytes(bytes) } => {
            assert!(bytes <= facts.raw_bytes && algorithms.bits() != 0);
            let estimate = |algorithm| Estimate {
                algorithm,
                bits: (seen.fraction(algorithm) * facts.raw_bits() as f64) as u64,
            };
            let estimates: Vec<_> = algorithms.iter().map(estimate).collect();
            (policy.choose(facts, &estimates), bytes * estimates.len() as u64)
        }
        plan @ Plan::Sample { .. } => panic!("{plan:?}"),
    };
    Sent { decision, sampled_bytes }
}

pub(crate) const WEIGHTS: Data = Data { xp: 0.6, zvc: 1.0, ibp: 1.0 };
pub(crate) const ACTIVATIONS: Data = Data { xp: 0.45, zvc: 0.4, ibp: 1.0 };
pub(crate) const NOISE: Data = Data { xp: 1.0, zvc: 1.0, ibp: 1.0 };
