//! Histograms: the pages' own, summed over a scope, in the form that other tools read.

use hdrhistogram::Histogram as Hdr;
use hdrhistogram::serialization::{Serializer, V2Serializer};
use mgcomp_proto::v1::{self, GetHistogramRequest, GetHistogramResponse, Quantile};
use mgcomp_transport::control::histogram::{Histogram, Measure};
use mgcomp_transport::control::{Page, SlotKind, SlotView};
use tonic::Status;

use super::{absent, steer};
use crate::node::Node;
use crate::settings::Scope;

/// The quantiles that are told.
const QUANTILES: [f64; 6] = [0.0, 0.5, 0.9, 0.99, 0.999, 1.0];
/// Values from here on are counted as this one.
const LARGEST: u64 = 1 << 41;
/// So many are told at most: what is more cannot be serialised from 2⁶³ on, and has wrong quantiles before that, which are
/// worked out in floating point.
const MOST: u64 = 1 << f64::MANTISSA_DIGITS;
/// Pages are less exact than that.
const DIGITS: u8 = 2;

pub(super) fn get(node: &Node, request: GetHistogramRequest) -> Result<GetHistogramResponse, Status> {
    let scope = steer::scope(request.scope)?;
    if !node.processes.has(&scope) {
        return Err(absent(&scope));
    }
    let Some((measure, kind)) = measure(request.measure) else {
        let text = format!("measure {} is not known: 1 to 7 are, as the definition says", request.measure);
        return Err(Status::invalid_argument(text));
    };
    if kind == SlotKind::Received && scope.stream.is_some() {
        let text = "what is received is not counted by stream: name the peer alone";
        return Err(Status::invalid_argument(text));
    }
    let counted = sum(node, &scope, measure, kind);
    let hdr = hdr(&counted).map_err(Status::internal)?;
    let mut hdr_v2 = Vec::new();
    V2Serializer::new().serialize(&hdr, &mut hdr_v2).map_err(|error| Status::internal(error.to_string()))?;
    let quantile = |quantile| Quantile { quantile, value: value(&hdr, quantile) };
    let quantiles = if hdr.is_empty() { Vec::new() } else { QUANTILES.map(quantile).to_vec() };
    Ok(GetHistogramResponse {
        measure: request.measure,
        count: hdr.len(),
        mean: mean(&hdr),
        quantiles,
        hdr_v2,
    })
}

/// What a measure is called in a page, and in which slots.
fn measure(measure: i32) -> Option<(Measure, SlotKind)> {
    Some(match v1::Measure::try_from(measure).ok()? {
        v1::Measure::RawBytes => (Measure::RawBytes, SlotKind::Sent),
        v1::Measure::EncodeNs => (Measure::CodecNs, SlotKind::Sent),
        v1::Measure::DecodeNs => (Measure::CodecNs, SlotKind::Received),
        v1::Measure::AcknowledgedNs => (Measure::AcknowledgedNs, SlotKind::Sent),
        v1::Measure::SizePermille => (Measure::SizePermille, SlotKind::Sent),
        v1::Measure::TimePermille => (Measure::TimePermille, SlotKind::Sent),
        v1::Measure::ReceivedRawBytes => (Measure::RawBytes, SlotKind::Received),
        v1::Measure::Unspecified => return None,
    })
}

fn sum(node: &Node, scope: &Scope, measure: Measure, kind: SlotKind) -> Histogram {
    let mut sum = Histogram::default();
    let all = node.processes.all();
    let in_job = |job: &str| scope.job.as_deref().is_none_or(|wanted| wanted == job);
    for process in all.iter().filter(|process| in_job(&process.who.identity.job)) {
        let page = &process.page;
        for slot in (0..process.used()).chain([Page::other()]) {
            let Some(whose) = page.whose(slot) else { continue };
            let of_kind = whose.kind == kind
                || (!whose.kind.has_peer() && kind == SlotKind::Sent && scope.peer.is_none());
            let in_scope = scope.peer.is_none_or(|peer| whose.peer == peer)
                && scope.stream.is_none_or(|stream| whose.kind == SlotKind::Sent && whose.stream == stream);
            // What nobody counts in is not touched: that would take memory.
            let counts = |view: SlotView| view.sent().transfers.saturating_add(view.decoded.transfers) > 0;
            if of_kind && in_scope && page.view(slot).is_some_and(counts) {
                page.add_histogram(slot, measure, &mut sum);
            }
        }
        page.let_go_of_histograms();
    }
    sum
}

fn hdr(counted: &Histogram) -> Result<Hdr<u64>, String> {
    let mut hdr = Hdr::new_with_bounds(1, LARGEST, DIGITS).map_err(|error| error.to_string())?;
    // Any process may say that it has counted whatever it likes.
    let mut room = MOST;
    for (value, count) in counted.counted() {
        let count = count.min(room);
        room -= count;
        hdr.record_n(value.min(LARGEST), count).map_err(|error| error.to_string())?;
    }
    Ok(hdr)
}

/// The value of a quantile, as a page stands for it: the middle of a bucket. It is the lowest of those that two digits do not
/// tell apart, and the highest, which would be told otherwise, is further away from what was counted than pages are.
fn value(hdr: &Hdr<u64>, quantile: f64) -> u64 {
    hdr.lowest_equivalent(hdr.value_at_quantile(quantile))
}

/// The mean of the same values.
fn mean(hdr: &Hdr<u64>) -> f64 {
    let recorded = hdr.iter_recorded();
    let sums = recorded.map(|counted| {
        hdr.lowest_equivalent(counted.value_iterated_to()) as f64 * counted.count_at_value() as f64
    });
    sums.sum::<f64>() / hdr.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use mgcomp_transport::control::histogram::{BUCKETS, bucket, middle};

    use super::*;
    use crate::played::Played;
    use crate::processes::Owner;

    fn adopt(node: &Node, played: &Played) {
        let owner = Owner { uid: 7, pid: 0, is_operator: false };
        node.processes.adopt(played.page(), owner, &node.config(), &node.store.scopes()).unwrap();
    }

    #[test]
    fn whatever_a_process_says_that_it_has_counted_can_be_told() {
        let mut played = Played::new("a", 0);
        let slot = played.sends(1, 8);
        for (counts, told) in [([3, 4], 7), ([u64::MAX, 1], MOST), ([1, u64::MAX], MOST), ([MOST; 2], MOST)] {
            for (bucket, count) in [20, 40].into_iter().zip(counts) {
                played.has_counted(slot, bucket, count);
            }
            let mut counted = Histogram::default();
            played.page().add_histogram(slot as usize, Measure::RawBytes, &mut counted);
            let hdr = hdr(&counted).unwrap();
            assert_eq!(hdr.len(), told, "{counts:?}");
            V2Serializer::new().serialize(&hdr, &mut Vec::new()).unwrap();
            assert!(mean(&hdr).is_finite() && value(&hdr, 1.0) > 0);
        }
    }

    #[test]
    fn a_slot_is_told_whatever_it_says_that_it_has_received() {
        let folder = tempfile::tempdir().unwrap();
        let node = Node::open(crate::played::config(&folder)).unwrap();
        let mut played = Played::new("a", 0);
        let slot = played.sends(1, 8);
        played.has_counted(slot, 8, 3);
        played.has_received(slot, u64::MAX, 1);
        adopt(&node, &played);
        let request = GetHistogramRequest { scope: None, measure: v1::Measure::RawBytes.into() };
        assert_eq!(get(&node, request).unwrap().count, 3);
    }

    #[test]
    fn what_is_received_has_no_streams() {
        let folder = tempfile::tempdir().unwrap();
        let node = Node::open(crate::played::config(&folder)).unwrap();
        let mut played = Played::new("a", 0);
        played.sends(1, 8);
        adopt(&node, &played);
        let ask = |measure: v1::Measure, stream| {
            let scope = Some(v1::Scope { job: "a".to_owned(), peer: Some(1), stream });
            get(&node, GetHistogramRequest { scope, measure: measure.into() }).map(drop)
        };
        for measure in [v1::Measure::DecodeNs, v1::Measure::ReceivedRawBytes] {
            let refused = ask(measure, Some(0)).unwrap_err();
            assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{refused}");
            ask(measure, None).unwrap();
        }
        ask(v1::Measure::EncodeNs, Some(0)).unwrap();
    }

    #[test]
    fn values_are_as_near_as_is_promised() {
        // The middle of its bucket is nowhere further away than from a power of two.
        for log2 in 0..40 {
            let counted = 1u64 << log2;
            let mut played = Played::new("a", 0);
            let slot = played.sends(1, counted);
            played.has_counted(slot, bucket(counted) as u64, 7);
            let mut sum = Histogram::default();
            played.page().add_histogram(slot as usize, Measure::RawBytes, &mut sum);
            let hdr = hdr(&sum).unwrap();
            let told = QUANTILES.map(|quantile| value(&hdr, quantile) as f64);
            for told in told.into_iter().chain([mean(&hdr)]) {
                let error = (told - counted as f64).abs() / counted as f64;
                assert!(error <= 0.0625, "{counted}: {told}");
            }
        }
    }

    #[test]
    fn two_digits_tell_the_middles_of_buckets_apart() {
        let mut hdr = Hdr::<u64>::new_with_bounds(1, LARGEST, DIGITS).unwrap();
        for bucket in 0..BUCKETS {
            hdr.reset();
            hdr.record(middle(bucket)).unwrap();
            assert_eq!(value(&hdr, 0.5), middle(bucket), "{bucket}");
        }
    }
}
