//! Between sessions, policy and executor: turns what a session wants encoded into work, by what the policy
//! decides.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mgcomp_codecs::{Algorithm, AlgorithmSet, Element};
use mgcomp_selector::{Behind, CheapFacts, Decision, LinkFacts, Look, Plan, Policy, Reason, StreamId};
use rustc_hash::FxHashMap;

use super::collectives::Collectives;
use super::comparison::{self, Comparisons};
use super::records::Records;
use super::under_way::{Encoding, Follower, Stage, Transfer, UnderWay};
use crate::executor::{Done, Executor, Output, Ticket, Work};
use crate::fanout::{Claim, Fanout, KeptFrames};
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
    executor: Box<dyn Executor>,
    collectives: Arc<Collectives>,
    /// What this rank's reads, writes and sends take.
    pub(super) comparisons: Comparisons,
    /// Whether the program wants everything raw.
    is_off: Arc<AtomicBool>,
    records: Records,
    under_way: FxHashMap<Ticket, UnderWay>,
    /// By what encodes it: what other peers get of the same payload.
    followers: FxHashMap<Ticket, Vec<Follower>>,
    kept_frames: KeptFrames,
    /// Nobody has heard of it yet.
    finished: VecDeque<Finished>,
    /// By what looks at them: payloads that are looked at, and once they are encoded, what came of that. Nobody hears of it before
    /// the look is over, since the memory is the program's again then.
    looked_at: FxHashMap<Ticket, Option<Finished>>,
    next_ticket: u64,
}

impl Coder {
    pub(super) fn new(
        policy: Box<dyn Policy>,
        executor: Box<dyn Executor>,
        collectives: Arc<Collectives>,
        records: Records,
    ) -> Self {
        Self {
            policy,
            behind: Behind::default(),
            executor,
            collectives,
            comparisons: Comparisons::default(),
            is_off: Arc::default(),
            records,
            under_way: FxHashMap::default(),
            followers: FxHashMap::default(),
            kept_frames: KeptFrames::default(),
            finished: VecDeque::new(),
            looked_at: FxHashMap::default(),
            next_ticket: 0,
        }
    }

    /// Set while the program wants everything raw, whatever a policy or an operator says.
    pub(super) fn is_off(&self) -> Arc<AtomicBool> {
        self.is_off.clone()
    }

    /// Whether all goes raw.
    pub(super) fn is_switched_off(&self) -> bool {
        self.is_off.load(Ordering::Relaxed)
    }

    /// The next job that has come to its end some time after it was started.
    pub(super) fn next_finished(&mut self) -> Option<Finished> {
        self.finished.pop_front()
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
        let facts = CheapFacts {
            peer: peer.0,
            stream,
            raw_bytes: source.capacity(),
            element,
            allowed,
            link,
            lambda: None,
            is_observed: true,
        };
        let transfer = Transfer { facts, group, planned_at: Instant::now(), purpose, forgotten: false };
        self.at_once(|coder| coder.plan((peer, job), source, transfer))
    }

    /// Tells the policy what has come of what it decided: before it decides anything else, and else once that is on its way, which
    /// need not wait for it.
    pub(super) fn learn(&mut self) {
        self.records.teach(self.policy.as_mut());
    }

    /// The same of what went to one peer.
    pub(super) fn learn_of(&mut self, peer: Rank) {
        self.records.teach_of(peer, self.policy.as_mut());
    }

    /// Starts what the policy says of it.
    fn plan(&mut self, by: (Rank, JobId), source: Payload, transfer: Transfer) {
        self.learn();
        let facts = &transfer.facts;
        let raw = if transfer.group.is_some_and(|group| self.collectives.are_reports(group)) {
            Some(Reason::BetweenRanks)
        } else {
            self.is_off.load(Ordering::Relaxed).then_some(Reason::SwitchedOff)
        };
        if let Some(reason) = raw {
            let decision = Decision::bypass(facts, reason);
            return self.start_encoding(by, source, transfer, (decision, None, None));
        }
        if matches!(source.memory_kind(), MemoryKind::Device(_)) {
            return match self.behind.plan(self.policy.as_mut(), facts) {
                (decision, None) => self.start_encoding(by, source, transfer, (decision, None, None)),
                (decision, Some(look)) => self.start_looking(by, source, transfer, decision, look),
            };
        }
        match self.policy.plan(facts) {
            Plan::Use(decision) => self.start_encoding(by, source, transfer, (decision, None, None)),
            Plan::Sample { algorithms, size } => {
                let element = facts.element;
                let work = Work::Estimate { source: source.clone(), element, algorithms, sample: size };
                let (peer, job) = by;
                self.start(UnderWay { peer, job, stage: Stage::Sampling { source, transfer } }, work);
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
        self.at_once(|coder| coder.start(UnderWay { peer, job, stage }, work))
    }

    /// Starts one job; returns it if it is done at once. What was done before is still to be heard of.
    fn at_once(&mut self, start: impl FnOnce(&mut Self)) -> Option<Finished> {
        let before = self.finished.len();
        start(self);
        if self.finished.len() > before { self.finished.pop_back() } else { None }
    }

    /// The peer has what `job` encoded.
    pub(super) fn acknowledged(&mut self, by: (Rank, JobId)) {
        self.records.acknowledged(by);
    }

    /// The peer has decoded what `job` encoded.
    pub(super) fn decoded(&mut self, by: (Rank, JobId), took: Duration) {
        self.records.decoded(by, took, self.policy.as_mut());
    }

    /// Nothing more will come of what was sent to `peer`.
    pub(super) fn forget(&mut self, peer: Rank) {
        self.records.forget(peer);
        for under_way in self.under_way.values_mut().filter(|under_way| under_way.peer == peer) {
            if let Stage::Sampling { transfer, .. } | Stage::Encoding(Encoding { transfer, .. }) =
                &mut under_way.stage
            {
                transfer.forgotten = true;
            }
        }
        for Follower { encoding, .. } in self.followers.values_mut().flatten().filter(|one| one.by.0 == peer)
        {
            encoding.transfer.forgotten = true;
        }
    }

    /// Takes in what the executor did.
    pub(super) fn done(&mut self, done: Done) {
        if let Some(under_way) = self.under_way.remove(&done.ticket) {
            self.end(under_way, done);
        }
    }

    fn end(&mut self, UnderWay { peer, job, stage }: UnderWay, done: Done) {
        let result = match (stage, done.result) {
            (Stage::Sampling { source, transfer }, Ok(Output::Estimates(estimates))) => {
                self.learn();
                let decision = self.policy.choose(&transfer.facts, &estimates);
                let how = (decision, Some(done.took), None);
                return self.start_encoding((peer, job), source, transfer, how);
            }
            (Stage::Looking { facts }, result) => {
                return self.end_look(done.ticket, &facts, result, done.took);
            }
            (Stage::Encoding(mut encoding), result) => {
                let encoded = match result {
                    Ok(Output::Encoded(sent, payload)) => Ok((sent, payload)),
                    Ok(_) => Err(Status::Internal),
                    Err(status) => Err(status),
                };
                if let Some(fanout) = encoding.fanout.take() {
                    let made = encoded.as_ref().ok().map(|(sent, payload)| (*sent, payload));
                    fanout.led(encoding.decision.algorithm, made, &self.kept_frames);
                    for Follower { by, encoding } in self.followers.remove(&done.ticket).unwrap_or_default() {
                        self.end_encoding(by, encoding, encoded.clone(), (Duration::ZERO, None));
                    }
                }
                return self.end_encoding((peer, job), encoding, encoded, (done.took, done.lost));
            }
            (Stage::Decoding { raw_bytes, coded_bytes }, Ok(Output::Decoded)) => {
                self.records.count_decoded(peer, (raw_bytes, coded_bytes), done.took);
                JobResult::Decoded(Ok(()), done.took)
            }
            (stage, result) => {
                self.records.count_failed(peer);
                let status = result.err().unwrap_or(Status::Internal);
                match stage {
                    Stage::Decoding { .. } => JobResult::Decoded(Err(status), done.took),
                    Stage::Sampling { source, .. } => {
                        source.fanout().into_iter().for_each(|fanout| fanout.pass());
                        JobResult::Encoded(Err(status))
                    }
                    _ => JobResult::Encoded(Err(status)),
                }
            }
        };
        self.finished.push_back(Finished { peer, job, result, lost: done.lost });
    }

    /// Takes in what was made of a payload for one peer; `took` is the time that a codec worked for it.
    fn end_encoding(
        &mut self,
        (peer, job): (Rank, JobId),
        encoding: Encoding,
        encoded: Encoded,
        (took, lost): (Duration, Option<String>),
    ) {
        let look = encoding.look;
        match &encoded {
            // It never left, and counts for nothing.
            Ok(_) if encoding.transfer.forgotten => {}
            Ok((sent, payload)) => {
                self.records.count_sent((peer, job), &encoding, (*sent, payload.capacity()), took);
            }
            Err(_) => self.records.count_failed(peer),
        }
        let finished = Finished { peer, job, result: JobResult::Encoded(encoded), lost };
        match look.and_then(|look| self.looked_at.get_mut(&look)) {
            Some(waiting) => *waiting = Some(finished),
            None => self.finished.push_back(finished),
        }
    }

    /// Does some of the work that had to wait for memory; see [`Executor::resume`]. False if there was none to do.
    pub(super) fn resume(&mut self) -> bool {
        self.executor.resume().map(|done| self.done(done)).is_some()
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
    ) {
        let is_looked_at = sampling.is_some() || look.is_some();
        let facts = &transfer.facts;
        let decision = match (transfer.group, transfer.purpose) {
            (Some(group), _) => self.collectives.decide(group, facts, decision, is_looked_at),
            (None, Purpose::Write { request } | Purpose::Send { request }) => {
                self.comparisons.decide(request, facts, decision, is_looked_at)
            }
            (None, Purpose::Answer { raw: true }) => comparison::answer_raw(facts, decision),
            (None, Purpose::Answer { raw: false }) => decision,
        };
        let mut encoding = Encoding { transfer, decision, sampling, look, fanout: None, is_timed: true };
        let mut algorithm = decision.algorithm;
        let ticket = self.ticket();
        if let Some(fanout) = source.fanout() {
            match claim(fanout, &source, &decision) {
                Some(Claim::Lead) => {
                    fanout.lead(algorithm, ticket);
                    encoding.fanout = Some(fanout.clone());
                }
                Some(Claim::Follow(leader)) => {
                    encoding.is_timed = false;
                    self.followers.entry(leader).or_default().push(Follower { by: (peer, job), encoding });
                    return;
                }
                Some(Claim::Take(sent, payload)) => {
                    encoding.is_timed = false;
                    let nothing_new = (Duration::ZERO, None);
                    return self.end_encoding((peer, job), encoding, Ok((sent, payload)), nothing_new);
                }
                Some(Claim::Raw) => {
                    encoding.is_timed = false;
                    algorithm = Algorithm::None;
                }
                None => {}
            }
        }
        let element = transfer.facts.element;
        let lent = !matches!(transfer.purpose, Purpose::Answer { .. });
        let work = Work::Encode { source, element, algorithm, lent, shelf: None };
        self.start_as(ticket, UnderWay { peer, job, stage: Stage::Encoding(encoding) }, work);
    }

    /// Starts encoding `source`, and looking at it at the same time.
    fn start_looking(
        &mut self,
        (peer, job): (Rank, JobId),
        source: Payload,
        transfer: Transfer,
        decision: Decision,
        (algorithms, sample): Look,
    ) {
        let facts = transfer.facts;
        let look = self.ticket();
        self.looked_at.insert(look, None);
        let work = Work::Estimate { source: source.clone(), element: facts.element, algorithms, sample };
        // Its end waits for the look.
        self.start_encoding((peer, job), source, transfer, (decision, None, Some(look)));
        self.start_as(look, UnderWay { peer, job, stage: Stage::Looking { facts } }, work);
    }

    /// Takes in what was found, if anything was.
    fn end_look(&mut self, look: Ticket, facts: &CheapFacts, found: Result<Output, Status>, took: Duration) {
        // What went wrong goes wrong with the encoding too, or it does no harm.
        let estimates = if let Ok(Output::Estimates(estimates)) = found { estimates } else { Vec::new() };
        self.learn();
        self.behind.hear(self.policy.as_mut(), facts, &estimates);
        self.records.count_look(took);
        self.finished.extend(self.looked_at.remove(&look).flatten());
    }

    fn ticket(&mut self) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        ticket
    }

    fn start(&mut self, under_way: UnderWay, work: Work) {
        let ticket = self.ticket();
        self.start_as(ticket, under_way, work);
    }

    fn start_as(&mut self, ticket: Ticket, under_way: UnderWay, work: Work) {
        match self.executor.submit(ticket, work) {
            Some(done) => self.end(under_way, done),
            // Whatever comes of it is taken in later.
            None => drop(self.under_way.insert(ticket, under_way)),
        }
    }
}

/// How `source` is got for a peer with this decision, if other peers get it too: no trial, which is there to be timed.
fn claim(fanout: &Fanout, source: &Payload, decision: &Decision) -> Option<Claim> {
    let is_tried = matches!(decision.reason, Reason::Trial { .. } | Reason::Guessed { .. });
    // Raw bytes on the host go out from where they are.
    let costs_nothing = decision.algorithm == Algorithm::None && source.memory().is_some();
    if is_tried || costs_nothing {
        fanout.pass();
        return None;
    }
    Some(fanout.claim(decision.algorithm))
}

fn stream_id(stream: Stream) -> StreamId {
    StreamId(match stream {
        Stream::Region(number) => number.into(),
        Stream::Tag(tag) => TAG_STREAM | (tag.0 ^ tag.0 >> 32) as u32,
    })
}
