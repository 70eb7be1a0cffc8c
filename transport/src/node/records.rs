//! What has been sent: counted, logged, and remembered for as long as something may be heard of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mgcomp_codecs::Algorithm;
use mgcomp_selector::{CheapFacts, Decision, DecisionLog, Outcome, Policy, Reason, RecordId};
use rustc_hash::FxHashMap;

use super::coded::{Coded, LatelyCoded, Lesson};
use super::stats::Stats;
use super::under_way::{Encoding, Transfer};
use crate::control::Meter;
use crate::message::Rank;
use crate::session::JobId;

pub(super) struct Records {
    meter: Meter,
    stats: Arc<Mutex<Stats>>,
    log: Arc<Mutex<DecisionLog>>,
    /// Of writes that the peer has yet to acknowledge: their records, and the times that were predicted.
    unacknowledged: FxHashMap<(Rank, JobId), (RecordId, Transfer, Option<u64>)>,
    lately_coded: LatelyCoded,
    /// What the policy has yet to hear.
    lessons: Vec<Lesson>,
}

impl Records {
    pub(super) fn new(meter: Meter, stats: Arc<Mutex<Stats>>, log: Arc<Mutex<DecisionLog>>) -> Self {
        Self {
            meter,
            stats,
            log,
            unacknowledged: FxHashMap::default(),
            lately_coded: LatelyCoded::default(),
            lessons: Vec::new(),
        }
    }

    /// Tells the policy what it has yet to hear.
    pub(super) fn teach(&mut self, policy: &mut dyn Policy) {
        self.lessons.drain(..).for_each(|lesson| lesson.teach(policy));
    }

    /// The same of what went to one peer.
    pub(super) fn teach_of(&mut self, peer: Rank, policy: &mut dyn Policy) {
        let of_peer = self.lessons.extract_if(.., |lesson| lesson.facts.peer == peer.0);
        of_peer.for_each(|lesson| lesson.teach(policy));
    }

    /// The peer has what this job encoded.
    pub(super) fn acknowledged(&mut self, by: (Rank, JobId)) {
        if let Some((record, transfer, predicted_ns)) = self.unacknowledged.remove(&by) {
            let after = transfer.planned_at.elapsed();
            lock(&self.log).acknowledged(record, after);
            self.meter.acknowledged(&transfer.facts, predicted_ns, after);
        }
    }

    /// The peer has decoded what this job encoded, which the policy hears.
    pub(super) fn decoded(&mut self, by: (Rank, JobId), took: Duration, policy: &mut dyn Policy) {
        if let Some(Coded { facts, decision, coded_bytes, record }) = self.lately_coded.take(by) {
            self.teach(policy);
            policy.decoded(&facts, &decision, coded_bytes, took);
            lock(&self.log).decoded(record, took);
        }
    }

    /// Nothing more will come of what was sent to `peer`.
    pub(super) fn forget(&mut self, peer: Rank) {
        self.lately_coded.forget(peer);
        self.unacknowledged.retain(|(to, _), _| *to != peer);
    }

    /// Counts a payload that goes out, and remembers it as long as the peer may say what came of it.
    pub(super) fn count_sent(
        &mut self,
        by: (Rank, JobId),
        encoding: &Encoding,
        (sent, coded_bytes): (Algorithm, u64),
        took: Duration,
    ) {
        let Encoding { transfer, decision, .. } = *encoding;
        let Some(record) = self.count_encoded(encoding, (sent, coded_bytes), took) else { return };
        if sent != Algorithm::None {
            let coded = Coded { facts: transfer.facts, decision, coded_bytes, record };
            self.lately_coded.put(by, coded);
        }
        if transfer.is_acknowledged() {
            self.unacknowledged.insert(by, (record, transfer, decision.predicted_ns));
        }
    }

    fn count_encoded(
        &mut self,
        encoding: &Encoding,
        (sent, coded_bytes): (Algorithm, u64),
        took: Duration,
    ) -> Option<RecordId> {
        let Encoding { transfer: Transfer { facts, .. }, decision, sampling, look, .. } = encoding;
        let sampling = *sampling;
        let is_timed = encoding.is_timed && decision.algorithm != Algorithm::None; // else no codec ran
        let took = is_timed.then_some(took);
        // What was looked at meanwhile has had its part of that time.
        let encode = took.filter(|_| look.is_none());
        let outcome = Outcome { sent, coded_bytes, sampling, encode, decode: None, acknowledged: None };
        if decision.reason == Reason::BetweenRanks {
            // No data of the program, and the policy was not asked.
            return Some(self.log(facts, decision, outcome));
        }
        self.lessons.push(Lesson { facts: *facts, decision: *decision, outcome });
        tracing::trace!(
            peer = facts.peer, raw_bytes = facts.raw_bytes, coded_bytes, algorithm = %sent,
            reason = %decision.reason, "encoded"
        );
        self.count(|stats| {
            stats.count_sent(sent, facts.raw_bytes, coded_bytes);
            stats.sampled += u64::from(sampling.is_some());
            stats.encode += sampling.unwrap_or_default() + took.unwrap_or_default();
        });
        // Where there are no bytes there was nothing to decide.
        (facts.raw_bytes > 0).then(|| self.log(facts, decision, outcome))
    }

    /// Counts what was decoded of `peer`: so many bytes raw, and coded.
    pub(super) fn count_decoded(&mut self, peer: Rank, (raw_bytes, coded_bytes): (u64, u64), took: Duration) {
        self.count(|stats| stats.decode += took);
        self.meter.decoded(peer.0, raw_bytes, coded_bytes, took);
    }

    /// Counts a look at what is encoded meanwhile.
    pub(super) fn count_look(&self, took: Duration) {
        self.count(|stats| {
            stats.sampled += 1;
            stats.encode += took;
        });
    }

    /// Counts what went wrong for `peer`.
    pub(super) fn count_failed(&mut self, peer: Rank) {
        self.meter.failed(peer.0);
    }

    fn log(&self, facts: &CheapFacts, decision: &Decision, outcome: Outcome) -> RecordId {
        lock(&self.log).push(*facts, *decision, outcome)
    }

    fn count(&self, count: impl FnOnce(&mut Stats)) {
        count(&mut lock(&self.stats));
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
