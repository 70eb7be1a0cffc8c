//! How long the codecs of one side take, as the other side hears of it.

use std::collections::VecDeque;
use std::time::Duration;

use mgcomp_codecs::Algorithm;
use rustc_hash::FxHashSet;

use super::action::{Action, JobId};
use super::requester::Stage;
use super::{Phase, Session};
use crate::message::{DecodeTime, Header, MessageId};
use crate::payload::Payload;

/// Answers of which it is remembered what encoded them: as many as a window of long reads has, and more.
pub(super) const ANSWERS: usize = 512;
/// Of so many payloads, the time of one is told. A prime, so that streams that take turns are all told of.
const ONE_IN: u64 = 17;
/// Times of an algorithm that may be told one after the other.
const IN_A_ROW: u64 = 16;

/// Which of a side's times are told: the first ones of each algorithm, then few.
///
/// ```
/// use mgcomp_codecs::Algorithm;
/// use mgcomp_transport::session::ToldTimes;
///
/// let mut told = ToldTimes::default();
/// let of_zvc: Vec<bool> = (0..40).map(|_| told.is_told(Algorithm::Zvc)).collect();
/// assert_eq!(of_zvc.iter().filter(|&&told| told).count(), 18);
/// assert!(!told.is_told(Algorithm::None));
/// ```
#[derive(Debug, Default)]
pub struct ToldTimes {
    /// Payloads that have come.
    payloads: u64,
    /// By number of the algorithm.
    credits: [Credit; 16],
}

/// Payloads for which a time may be told: grows with each that comes, also of other algorithms.
#[derive(Clone, Copy, Debug)]
struct Credit {
    payloads: u64,
    /// How many had come when that was reckoned.
    at: u64,
}

impl Default for Credit {
    fn default() -> Self {
        Self { payloads: IN_A_ROW * ONE_IN, at: 0 }
    }
}

impl ToldTimes {
    /// A payload has come that is coded by `algorithm`: whether its time is told. Of raw bytes there is none.
    pub fn is_told(&mut self, algorithm: Algorithm) -> bool {
        self.payloads += 1;
        if algorithm == Algorithm::None {
            return false;
        }
        let credit = &mut self.credits[usize::from(algorithm.number())];
        let earned = self.payloads - std::mem::replace(&mut credit.at, self.payloads);
        credit.payloads = credit.payloads.saturating_add(earned).min(IN_A_ROW * ONE_IN);
        let is_told = credit.payloads >= ONE_IN;
        if is_told {
            credit.payloads -= ONE_IN;
        }
        is_told
    }
}

/// What is told and heard.
#[derive(Debug, Default)]
pub(super) struct DecodeTimes {
    told: ToldTimes,
    /// Decodings whose time is to be told.
    timed: FxHashSet<JobId>,
    /// The last answers of ours that were frames, and what encoded them.
    answers: VecDeque<(MessageId, JobId)>,
}

impl DecodeTimes {
    /// A payload is to be decoded: notes whether its time is to be told.
    pub(super) fn begin(&mut self, job: JobId, algorithm: Algorithm) {
        if self.told.is_told(algorithm) {
            self.timed.insert(job);
        }
    }

    /// A payload is decoded: whether its time is to be told.
    pub(super) fn end(&mut self, job: JobId) -> bool {
        self.timed.remove(&job)
    }

    /// A frame has gone out as the answer to request `id`.
    pub(super) fn answered(&mut self, id: MessageId, job: JobId) {
        if self.answers.len() == ANSWERS {
            self.answers.pop_front();
        }
        self.answers.push_back((id, job));
    }

    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.timed.is_empty()
    }

    /// What has encoded the last answer to request `id`, if that is remembered. It is no longer.
    fn take_answer(&mut self, id: MessageId) -> Option<JobId> {
        let at = self.answers.iter().rposition(|(answered, _)| *answered == id)?;
        self.answers.remove(at).map(|(_, job)| job)
    }
}

impl Session {
    /// Tells the peer how long the payload of message `id` took to decode, if it is to know: before that is acknowledged, and before
    /// an id of ours is used again.
    pub(super) fn tell_decode_time(&mut self, id: MessageId, answer: bool, took: Option<Duration>) {
        if let (Some(took), Phase::Open { .. }) = (took, &self.phase) {
            let header = Header::DecodeTime(DecodeTime::new(id, answer, took));
            self.actions.push(Action::Send { header, payload: Payload::empty(), with_next: true });
        }
    }

    pub(super) fn on_decode_time(&mut self, time: DecodeTime) {
        let DecodeTime { id, answer, .. } = time;
        let job = if answer {
            self.decode_times.take_answer(id)
        } else {
            let piece = self.requester.piece(id).filter(|piece| matches!(piece.stage, Stage::AwaitingAck));
            piece.and_then(|piece| piece.encoded_by)
        };
        if let Some(job) = job {
            self.actions.push(Action::Decoded { job, took: time.took() });
        }
    }
}
