//! Between what the daemon knows and what goes over the wire.

use mgcomp_codecs::Algorithm;
use mgcomp_proto::v1;
use mgcomp_selector::Lambda;
use mgcomp_transport::control::{Identity, LastDecision, ReadCap, Settings, SizeGate, SlotView};

use crate::processes::Who;
use crate::settings::{Entry, Scope};
use crate::snapshot::Totals;

pub(crate) fn settings(settings: &Settings) -> v1::Settings {
    v1::Settings {
        lambda_gbps: settings.lambda.map(Lambda::decimal),
        policy: settings.policy.map(|policy| policy.to_string()),
        compress: settings.compress,
        least_bytes: settings.gate.map(SizeGate::least_bytes),
        read_cap_gbps: settings.read_cap.map(ReadCap::gbps),
    }
}

pub(crate) fn scope(scope: &Scope) -> v1::Scope {
    v1::Scope { job: scope.job.clone().unwrap_or_default(), peer: scope.peer, stream: scope.stream }
}

pub(crate) fn scoped(of: &Scope, own: Entry, effective: &Settings) -> v1::ScopedSettings {
    v1::ScopedSettings {
        scope: Some(scope(of)),
        own: Some(settings(&own.settings)),
        effective: Some(settings(effective)),
        version: own.version,
    }
}

pub(crate) fn decision(last: &LastDecision) -> v1::Decision {
    v1::Decision {
        decided: last.decided.name().to_owned(),
        sent: last.sent.name().to_owned(),
        reason: last
            .reason
            .map_or_else(|| "a reason that this daemon does not know".to_owned(), |r| r.to_string()),
        raw_bytes: last.raw_bytes,
        coded_bytes: last.coded_bytes,
        predicted_bits: last.predicted_bits,
        predicted_ns: last.predicted_ns,
        encode_ns: last.encode_ns,
    }
}

/// The rank on this side, where the slot has one.
pub(crate) fn rank(slot: &SlotView) -> Option<u32> {
    (slot.rank != u32::MAX).then_some(slot.rank)
}

pub(crate) fn traffic(totals: &Totals) -> v1::Traffic {
    let sent = totals.sent();
    let carried = Algorithm::ALL.into_iter().zip(&totals.algorithms).filter(|(_, count)| count.transfers > 0);
    v1::Traffic {
        transfers: sent.transfers,
        raw_bytes: sent.raw_bytes,
        coded_bytes: sent.coded_bytes,
        algorithms: carried
            .map(|(algorithm, count)| v1::AlgorithmTraffic {
                algorithm: algorithm.name().to_owned(),
                transfers: count.transfers,
                raw_bytes: count.raw_bytes,
                coded_bytes: count.coded_bytes,
            })
            .collect(),
        sampled: totals.sampled,
        sampling_ns: totals.sampling_ns,
        encode_ns: totals.encode_ns,
        decode_ns: totals.decode_ns,
        acknowledged: totals.acknowledged,
        acknowledged_ns: totals.acknowledged_ns,
        received: totals.received.transfers,
        received_raw_bytes: totals.received.raw_bytes,
        received_coded_bytes: totals.received.coded_bytes,
        errors: totals.errors,
        predicted_bits: totals.predicted_bits,
        achieved_bits: totals.achieved_bits,
        saved_ns: totals.saved_ns,
    }
}

pub(crate) fn process(who: &Who) -> v1::Process {
    let Identity { program, release, rank, ranks, started_ns, .. } = &who.identity;
    v1::Process {
        pid: who.pid,
        uid: who.uid,
        rank: *rank,
        ranks: *ranks,
        program: program.clone(),
        version: release.clone(),
        started_unix_ns: *started_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lambda_is_told_as_it_was_given() {
        for given in [0.0, 0.1, 5.9, 6.0, 1234.56789, Lambda::MAX_GBPS] {
            let lambda = Lambda::try_new(given).ok();
            let told = super::settings(&Settings { lambda, ..Settings::default() }).lambda_gbps;
            assert_eq!(told.map(f64::to_bits), Some(given.to_bits()), "{given}");
        }
    }
}
