//! A slot as the process writes it. Every slot has one writer, so counting is a load and a store; only the slot
//! of all other streams may have several, and counts with atomic additions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mgcomp_codecs::Algorithm;
use mgcomp_selector::{CheapFacts, Decision, LinkFacts, Outcome};

use super::histogram::{Measure, bucket};
use super::layout::counter;
use super::page::Page;
use super::reason;
use super::view::Count;

/// The right to count in one slot.
#[derive(Debug)]
pub(super) struct Slot {
    page: Arc<Page>,
    index: usize,
    /// Whether others count here too.
    shared: bool,
}

impl Slot {
    pub(super) fn new(page: Arc<Page>, index: usize) -> Self {
        Self { page, index, shared: index == Page::other() }
    }

    /// The settings that hold here.
    pub(super) fn settings_word(&self) -> u64 {
        self.page.settings_word(self.index)
    }

    /// Says which settings the process goes by from now on.
    pub(super) fn in_effect(&self, word: u64) {
        self.page.counters(self.index)[counter::IN_EFFECT].store(word, Ordering::Relaxed);
        self.count(counter::CHANGES, 1);
    }

    /// The program's policy cannot follow the settings.
    pub(super) fn not_followed(&self) {
        self.count(counter::NOT_FOLLOWED, 1);
    }

    /// The settings make no sense to this version.
    pub(super) fn not_understood(&self) {
        self.page.count_not_understood();
    }

    /// A payload was coded.
    pub(super) fn sent(&self, facts: &CheapFacts, decision: &Decision, outcome: &Outcome) {
        let (raw_bytes, coded_bytes) = (facts.raw_bytes, outcome.coded_bytes);
        self.carried(outcome.sent, Count { transfers: 1, raw_bytes, coded_bytes });
        self.measure(Measure::RawBytes, facts.raw_bytes);
        if let Some(took) = outcome.encode {
            let ns = took.as_nanos() as u64;
            self.count(counter::ENCODE_NS, ns);
            self.measure(Measure::CodecNs, ns);
        }
        if let Some(took) = outcome.sampling {
            self.count(counter::SAMPLED, 1);
            self.count(counter::SAMPLING_NS, took.as_nanos() as u64);
        }
        if let Some(predicted) = decision.predicted_bits.filter(|_| decision.algorithm != Algorithm::None) {
            let achieved = outcome.coded_bytes.saturating_mul(8);
            self.count(counter::PREDICTED_BITS, predicted);
            self.count(counter::ACHIEVED_BITS, achieved);
            self.measure(Measure::SizePermille, permille(achieved, predicted));
        }
        self.goes_over(facts.link);
        if !self.shared {
            let words = &self.page.counters(self.index)[counter::DECISION..][..=counter::DECISION_WORDS];
            reason::write(words, facts, decision, outcome);
        }
    }

    /// So much went out raw without a decision.
    pub(super) fn sent_raw(&self, raw_bytes: u64, link: Option<LinkFacts>) {
        self.carried(Algorithm::None, Count { transfers: 1, raw_bytes, coded_bytes: raw_bytes });
        self.measure(Measure::RawBytes, raw_bytes);
        self.goes_over(link);
    }

    /// So much went out under `algorithm`.
    pub(super) fn carried(&self, algorithm: Algorithm, count: Count) {
        let first = counter::ALGORITHMS + 3 * usize::from(algorithm.number());
        self.count(first, count.transfers);
        self.count(first + 1, count.raw_bytes);
        self.count(first + 2, count.coded_bytes);
    }

    /// The peer has it, so long after the plan.
    pub(super) fn acknowledged(&self, predicted_ns: Option<u64>, after: Duration) {
        let ns = after.as_nanos() as u64;
        self.count(counter::ACKNOWLEDGED, 1);
        self.count(counter::ACKNOWLEDGED_NS, ns);
        self.measure(Measure::AcknowledgedNs, ns);
        if let Some(predicted) = predicted_ns {
            self.measure(Measure::TimePermille, permille(ns, predicted));
        }
    }

    /// A payload from the peer was decoded. The histograms of the slot of all other streams are of what is sent.
    pub(super) fn decoded(&self, raw_bytes: u64, coded_bytes: u64, took: Duration) {
        let ns = took.as_nanos() as u64;
        self.count(counter::DECODED, 1);
        self.count(counter::DECODED_RAW_BYTES, raw_bytes);
        self.count(counter::DECODED_CODED_BYTES, coded_bytes);
        self.count(counter::DECODE_NS, ns);
        if !self.shared {
            self.measure(Measure::RawBytes, raw_bytes);
            self.measure(Measure::CodecNs, ns);
        }
    }

    /// A codec job failed.
    pub(super) fn failed(&self) {
        self.count(counter::ERRORS, 1);
    }

    /// Something of this length went out.
    #[cfg(feature = "cuda")]
    pub(super) fn of_length(&self, raw_bytes: u64) {
        self.measure(Measure::RawBytes, raw_bytes);
    }

    /// Encoders took so long for what nobody has timed.
    #[cfg(feature = "cuda")]
    pub(super) fn encoded(&self, took_ns: u64) {
        self.count(counter::ENCODE_NS, took_ns);
    }

    fn goes_over(&self, link: Option<LinkFacts>) {
        if let Some(link) = link {
            let counters = self.page.counters(self.index);
            counters[counter::LINK_GBPS].store(link.rate_gbps().to_bits(), Ordering::Relaxed);
            counters[counter::LINK_LATENCY_NS].store(link.latency_ns(), Ordering::Relaxed);
        }
    }

    fn count(&self, word: usize, more: u64) {
        self.add(&self.page.counters(self.index)[word], more);
    }

    fn measure(&self, measure: Measure, value: u64) {
        self.add(&self.page.histograms(self.index)[measure.first() + bucket(value)], 1);
    }

    fn add(&self, word: &AtomicU64, more: u64) {
        if self.shared {
            word.fetch_add(more, Ordering::Relaxed);
        } else {
            word.store(word.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
        }
    }
}

/// `achieved` in thousandths of `predicted`.
fn permille(achieved: u64, predicted: u64) -> u64 {
    achieved.saturating_mul(1000) / predicted.max(1)
}
