//! Counts what policies do not see: what went raw without them, what was received, when it was acknowledged, what failed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mgcomp_selector::{CheapFacts, LinkFacts, StreamId};

use super::claims::NodeSlots;
use super::layout::OWN_SLOTS;
use super::slot::Slot;
use super::view::SlotKind;

/// A node's counters beside those of its policy; counts nothing where there is no page.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    slots: Option<Arc<NodeSlots>>,
    /// What comes from each peer.
    received: HashMap<u32, Slot>,
    /// What is sent in each stream.
    sent: HashMap<(u32, u32), Slot>,
}

impl Meter {
    pub(super) fn new(slots: Arc<NodeSlots>) -> Self {
        Self { slots: Some(slots), ..Self::default() }
    }

    /// A payload of `peer` was decoded.
    pub(crate) fn decoded(&mut self, peer: u32, raw_bytes: u64, coded_bytes: u64, took: Duration) {
        if raw_bytes > 0
            && let Some(slot) = self.received(peer)
        {
            slot.decoded(raw_bytes, coded_bytes, took);
        }
    }

    /// A codec job for `peer` failed.
    pub(crate) fn failed(&mut self, peer: u32) {
        if let Some(slot) = self.received(peer) {
            slot.failed();
        }
    }

    /// The peer has what `facts` say, `after` the plan.
    pub(crate) fn acknowledged(&mut self, facts: &CheapFacts, predicted_ns: Option<u64>, after: Duration) {
        self.of_stream(facts.peer, facts.stream, |slot| slot.acknowledged(predicted_ns, after));
    }

    /// So much went raw to `peer` that no policy was asked about.
    pub(crate) fn sent_raw(&mut self, peer: u32, stream: StreamId, raw_bytes: u64, link: Option<LinkFacts>) {
        if raw_bytes > 0 {
            self.of_stream(peer, stream, |slot| slot.sent_raw(raw_bytes, link));
        }
    }

    /// Counts in the slot of what is sent in a stream.
    fn of_stream(&mut self, peer: u32, stream: StreamId, count: impl FnOnce(&Slot)) {
        let Some(slots) = &self.slots else { return };
        let key = (peer, stream.0);
        if self.sent.len() >= OWN_SLOTS && !self.sent.contains_key(&key) {
            return count(&slots.other());
        }
        let claim = || slots.claim(peer, stream.0, SlotKind::Sent);
        count(self.sent.entry(key).or_insert_with(claim));
    }

    fn received(&mut self, peer: u32) -> Option<&Slot> {
        let slots = self.slots.as_ref()?;
        Some(self.received.entry(peer).or_insert_with(|| slots.claim(peer, 0, SlotKind::Received)))
    }
}
