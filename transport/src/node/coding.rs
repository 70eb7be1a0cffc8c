//! Between sessions, policy and executor: turns what a session wants encoded into work, by what the policy
//! decides.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mgcomp_codecs::{Algorithm, AlgorithmSet, Element};
use mgcomp_selector::{
    Behind, CheapFacts, Decision, DecisionLog, LinkFacts, Look, Outcome, Plan, Policy, Reason, RecordId,
    StreamId,
};
use rustc_hash::FxHashMap;

use super::coded::{Coded, LatelyCoded};
use super::collectives::Collectives;
use super::stats::Stats;
use crate::control::Meter;
use crate::executor::{Done, Executor, Output, Ticket, Work};
use crate::message::{GivingUp, Rank, Status};
use crate::payload::{MemoryKind, Payload};
use crate::session::{Decoded, Encoded, JobId, Purpose, Stream};

/// Stream numbers of tags have this bit set; those of regions are their numbers.
const TAG_STREAM: u32 = 1 << 31;

/// A session's job that is done.
pub(super) struct Finished {
    pub(super) peer: Rank,
    pub(super) job: JobId,
    pub(super) result: JobResult,
    /// What the driver says, if the device is lost.
    pub(super) lost: Option<String>,
}

pub(super) enum JobResult {
    Encoded(Encoded),
    /// How long it took stands beside it.
    Decoded(Decoded, Duration),
}

/// Codec work of a node that is under way.
pub(super) struct Coder {
    policy: Box<dyn Policy>,
    /// For what is in the memory of devices: they are far away, so nothing waits for a look at it.
    behind: Behind,
    meter: Meter,
    executor: Box<dyn Executor>,
    collectives: Arc<Collectives>,
    stats: Arc<Mutex<Stats>>,
    under_way: FxHashMap<Ticket, UnderWay>,
    /// By what looks at them: payloads that are looked at, and once they are encoded, what came of that. Nobody hears of it before
    /// the look is over, since the memory is the program's again then.
    looked_at: FxHashMap<Ticket, Option<Finished>>,
    next_ticket: u64,
    log: Arc<Mutex<DecisionLog>>,
    /// Of writes that the peer has yet to acknowledge: their records, and the times that were predicted.
    unacknowledged: FxHashMap<(Rank, JobId), (RecordId, Transfer, Option<u64>)>,
    lately_coded: LatelyCoded,
}

struct UnderWay {
    peer: Rank,
    job: JobId,
    stage: Stage,
}

enum Stage {
    Sampling {
        source: Payload,
        transfer: Transfer,
    },
    /// Beside its encoding.
    Looking {
        facts: CheapFacts,
    },
    /// `sampling` is the time that a sample took, if one was taken first; `look` what looks at it meanwhile.
    Encoding {
        transfer: Transfer,
        decision: Decision,
        sampling: Option<Duration>,
        look: Option<Ticket>,
    },
    Decoding {
        raw_bytes: u64,
        coded_bytes: u64,
    },
}

/// What is to be encoded, as policy and log see it.
#[derive(Clone, Copy)]
struct Transfer {
    facts: CheapFacts,
    /// The group whose collectives it is a part of.
    group: Option<u32>,
    planned_at: Instant,
    purpose: Purpose,
    /// Whether the session that it is for is over.
    forgotten: bool,
}

impl Transfer {
    /// Whether the peer will say when it has it.
    fn is_acknowledged(&self) -> bool {
        self.purpose == Purpose::Write
    }
}

impl Coder {
    pub(super) fn new(
        (policy, meter): (Box<dyn Policy>, Meter),
        executor: Box<dyn Executor>,
        collectives: Arc<Collectives>,
        stats: Arc<Mutex<Stats>>,
        log: Arc<Mutex<DecisionLog>>,
    ) -> Self {
        Self {
            policy,
            behind: Behind::default(),
            meter,
            executor,
            collectives,
            stats,
            under_way: FxHashMap::default(),
            looked_at: FxHashMap::default(),
            next_ticket: 0,
            log,
            unacknowledged: FxHashMap::default(),
            lately_coded: LatelyCoded::default(),
        }
    }

    /// Starts encoding `source` for `peer`, or first sampling it, in host memory; what is in that of a device is sampled
    /// meanwhile. What is done at once is returned.
    pub(super) fn encode(
        &mut self,
        (peer, job): (Rank, JobId),
        source: Payload,
        element: Element,
        stream: Stream,
        (allowed, link): (AlgorithmSet, Option<LinkFacts>),
        purpose: Purpose,
    ) -> Option<Finished> {
        let group = match stream {
            Stream::Tag(tag) => GivingUp::operation_of(tag),
            Stream::Region(_) => None,
        };
        let stream = stream_id(stream);
        let (peer_rank, raw_bytes) = (peer.0, source.capacity());
        let facts = CheapFacts {
            peer: peer_rank,
            stream,
            raw_bytes,
            element,
            allowed,
            link,
            lambda: None,
            is_observed: true,
        };
        let transfer = Transfer { facts, group, planned_at: Instant::now(), purpose, forgotten: false };
        if group.is_some_and(|group| self.collectives.are_reports(group)) {
            let decision = Decision::bypass(&facts, Reason::BetweenRanks);
            return self.start_encoding((peer, job), source, transfer, (decision, None, None));
        }
        if matches!(source.memory_kind(), MemoryKind::Device(_)) {
            let (decision, look) = self.behind.plan(self.policy.as_mut(), &facts);
            let Some(look) = look else {
                return self.start_encoding((peer, job), source, transfer, (decision, None, None));
            };
            return self.start_looking((peer, job), source, transfer, decision, look);
        }
        match self.policy.plan(&facts) {
            Plan::Use(decision) => self.start_encoding((peer, job), source, transfer, (decision, None, None)),
            Plan::Sample { algorithms, size } => {
                let work = Work::Estimate { source: source.clone(), element, algorithms, sample: size };
                self.start(UnderWay { peer, job, stage: Stage::Sampling { source, transfer } }, work)
            }
        }
    }

    /// Starts decoding what `peer` sent. What is done at once is returned.
    pub(super) fn decode(
        &mut self,
        (peer, job): (Rank, JobId),
        algorithm: Algorithm,
        payload: Payload,
        destination: Payload,
        all_or_nothing: bool,
    ) -> Option<Finished> {
        let raw_bytes = destination.capacity();
        let stage = Stage::Decoding { raw_bytes, coded_bytes: payload.capacity() };
        let work = Work::Decode { payload, algorithm, destination, all_or_nothing };
        self.start(UnderWay { peer, job, stage }, work)
    }

    /// The peer has what `job` encoded.
    pub(super) fn acknowledged(&mut self, by: (Rank, JobId)) {
        if let Some((record, transfer, predicted_ns)) = self.unacknowledged.remove(&by) {
            let after = transfer.planned_at.elapsed();
            lock(&self.log).acknowledged(record, after);
            self.meter.acknowledged(&transfer.facts, predicted_ns, after);
        }
    }

    /// The peer has decoded what `job` encoded.
    pub(super) fn decoded(&mut self, by: (Rank, JobId), took: Duration) {
        if let Some(Coded { facts, decision, coded_bytes, record }) = self.lately_coded.take(by) {
            self.policy.decoded(&facts, &decision, coded_bytes, took);
            lock(&self.log).decoded(record, took);
        }
    }

    /// Nothing more will come of what was sent to `peer`.
    pub(super) fn forget(&mut self, peer: Rank) {
        self.lately_coded.forget(peer);
        self.unacknowledged.retain(|(to, _), _| *to != peer);
        for under_way in self.under_way.values_mut().filter(|under_way| under_way.peer == peer) {
            if let Stage::Sampling { transfer, .. } | Stage::Encoding { transfer, .. } = &mut under_way.stage
            {
                transfer.forgotten = true;
            }
        }
    }

    /// Takes in what the executor did; returns the job that is done with it, if one is.
    pub(super) fn done(&mut self, done: Done) -> Option<Finished> {
        let under_way = self.under_way.remove(&done.ticket)?;
        self.end(under_way, done)
    }

    fn end(&mut self, UnderWay { peer, job, stage }: UnderWay, done: Done) -> Option<Finished> {
        let look = if let Stage::Encoding { look, .. } = stage { look } else { None };
        let result = match (stage, done.result) {
            (Stage::Sampling { source, transfer }, Ok(Output::Estimates(estimates))) => {
                let decision = self.policy.choose(&transfer.facts, &estimates);
                let how = (decision, Some(done.took), None);
                return self.start_encoding((peer, job), source, transfer, how);
            }
            (Stage::Looking { facts }, result) => {
                return self.end_look(done.ticket, &facts, result, done.took);
            }
            // It never left, and counts for nothing.
            (Stage::Encoding { transfer, .. }, Ok(Output::Encoded(sent, payload))) if transfer.forgotten => {
                JobResult::Encoded(Ok((sent, payload)))
            }
            (Stage::Encoding { transfer, decision, sampling, .. }, Ok(Output::Encoded(sent, payload))) => {
                // What was looked at meanwhile has had its part of that time.
                let times = (sampling, done.took, look.is_none());
                let record = self.count_encoded(&transfer.facts, &decision, sent, &payload, times);
                if let Some(record) = record
                    && sent != Algorithm::None
                {
                    let Transfer { facts, .. } = transfer;
                    let coded = Coded { facts, decision, coded_bytes: payload.capacity(), record };
                    self.lately_coded.put((peer, job), coded);
                }
                if let Some(record) = record.filter(|_| transfer.is_acknowledged()) {
                    self.unacknowledged.insert((peer, job), (record, transfer, decision.predicted_ns));
                }
                JobResult::Encoded(Ok((sent, payload)))
            }
            (Stage::Decoding { raw_bytes, coded_bytes }, Ok(Output::Decoded)) => {
                self.count(|stats| stats.decode += done.took);
                self.meter.decoded(peer.0, raw_bytes, coded_bytes, done.took);
                JobResult::Decoded(Ok(()), done.took)
            }
            (stage, result) => {
                self.meter.failed(peer.0);
                let status = result.err().unwrap_or(Status::Internal);
                match stage {
                    Stage::Decoding { .. } => JobResult::Decoded(Err(status), done.took),
                    _ => JobResult::Encoded(Err(status)),
                }
            }
        };
        let finished = Finished { peer, job, result, lost: done.lost };
        match look.and_then(|look| self.looked_at.get_mut(&look)) {
            Some(waiting) => {
                *waiting = Some(finished);
                None
            }
            None => Some(finished),
        }
    }

    /// Does some of the work that had to wait for memory; see [`Executor::resume`].
    pub(super) fn resume(&mut self) -> Option<Finished> {
        loop {
            let done = self.executor.resume()?;
            if let Some(finished) = self.done(done) {
                return Some(finished);
            }
        }
    }

    /// Whether there is such work.
    pub(super) fn is_waiting(&self) -> bool {
        self.executor.is_waiting()
    }

    fn start_encoding(
        &mut self,
        (peer, job): (Rank, JobId),
        source: Payload,
        transfer: Transfer,
        (decision, sampling, look): (Decision, Option<Duration>, Option<Ticket>),
    ) -> Option<Finished> {
        let is_looked_at = sampling.is_some() || look.is_some();
        let decision = match transfer.group {
            Some(group) => self.collectives.decide(group, &transfer.facts, decision, is_looked_at),
            None => decision,
        };
        let (element, algorithm) = (transfer.facts.element, decision.algorithm);
        let lent = transfer.purpose != Purpose::Answer;
        let work = Work::Encode { source, element, algorithm, lent, shelf: None };
        let stage = Stage::Encoding { transfer, decision, sampling, look };
        self.start(UnderWay { peer, job, stage }, work)
    }

    /// Starts encoding `source`, and looking at it at the same time.
    fn start_looking(
        &mut self,
        (peer, job): (Rank, JobId),
        source: Payload,
        transfer: Transfer,
        decision: Decision,
        (algorithms, sample): Look,
    ) -> Option<Finished> {
        let facts = transfer.facts;
        let look = self.ticket();
        self.looked_at.insert(look, None);
        let work = Work::Estimate { source: source.clone(), element: facts.element, algorithms, sample };
        let encoded = self.start_encoding((peer, job), source, transfer, (decision, None, Some(look)));
        debug_assert!(encoded.is_none(), "it waits for the look");
        self.start_as(look, UnderWay { peer, job, stage: Stage::Looking { facts } }, work)
    }

    /// Takes in what was found, if anything was; returns the job that has waited for that.
    fn end_look(
        &mut self,
        look: Ticket,
        facts: &CheapFacts,
        found: Result<Output, Status>,
        took: Duration,
    ) -> Option<Finished> {
        // What went wrong goes wrong with the encoding too, or it does no harm.
        let estimates = if let Ok(Output::Estimates(estimates)) = found { estimates } else { Vec::new() };
        self.behind.hear(self.policy.as_mut(), facts, &estimates);
        self.count(|stats| {
            stats.sampled += 1;
            stats.encode += took;
        });
        self.looked_at.remove(&look).flatten()
    }

    fn ticket(&mut self) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        ticket
    }

    fn start(&mut self, under_way: UnderWay, work: Work) -> Option<Finished> {
        let ticket = self.ticket();
        self.start_as(ticket, under_way, work)
    }

    fn start_as(&mut self, ticket: Ticket, under_way: UnderWay, work: Work) -> Option<Finished> {
        match self.executor.submit(ticket, work) {
            Some(done) => self.end(under_way, done),
            None => {
                // Whatever comes of it is taken in later.
                self.under_way.insert(ticket, under_way);
                None
            }
        }
    }

    fn count_encoded(
        &mut self,
        facts: &CheapFacts,
        decision: &Decision,
        sent: Algorithm,
        payload: &Payload,
        (sampling, encoding, is_alone): (Option<Duration>, Duration, bool),
    ) -> Option<RecordId> {
        let coded_bytes = payload.capacity();
        let took = (decision.algorithm != Algorithm::None).then_some(encoding); // else no codec ran
        let encode = took.filter(|_| is_alone);
        let outcome = Outcome { sent, coded_bytes, sampling, encode, decode: None, acknowledged: None };
        if decision.reason == Reason::BetweenRanks {
            // No data of the program, and the policy was not asked.
            return Some(lock(&self.log).push(*facts, *decision, outcome));
        }
        self.policy.observe(facts, decision, &outcome);
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
        (facts.raw_bytes > 0).then(|| lock(&self.log).push(*facts, *decision, outcome))
    }

    fn count(&self, count: impl FnOnce(&mut Stats)) {
        count(&mut lock(&self.stats));
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn stream_id(stream: Stream) -> StreamId {
    StreamId(match stream {
        Stream::Region(number) => number.into(),
        Stream::Tag(tag) => TAG_STREAM | (tag.0 ^ tag.0 >> 32) as u32,
    })
}
