//! How a session begins, how it finds out that its peer is gone, and how it ends.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use mgcomp_codecs::AlgorithmSet;

use super::action::Action;
use super::config::SessionConfig;
use super::decode_times::DecodeTimes;
use super::error::{SessionError, TransferError, Violation};
use super::inbox::{Begun, Inbox, Posted};
use super::request::{Request, RequestId};
use super::responder::Responder;
use super::{Ending, Job, Phase, Session};
use crate::message::{Address, Expected, Header, Hello, Limits, ReadRequest, Status};
use crate::payload::Payload;

/// A probe is sent when this part of the silence timeout has passed without a word.
const PROBE_FRACTION: u32 = 3;

impl Session {
    /// When [`on_time`](Self::on_time) should be called next, if nothing else happens before.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Greeting { until } => until,
            Phase::Open { limits, .. } if self.waits_for_peer() => {
                let timeout = self.config.silence_timeout;
                let probes = self.requester.may_probe(limits);
                let silent = self.heard.checked_add(if probes { timeout / PROBE_FRACTION } else { timeout });
                silent.into_iter().chain(self.patience_ends()).min()
            }
            Phase::Open { .. } | Phase::Over(_) => None,
        }
    }

    /// When [`on_time`](Self::on_time) should be called for what waits in its [`Window`](super::Window), which is sooner than anything else.
    #[must_use]
    pub fn patience_ends(&self) -> Option<Instant> {
        self.requester.pace.deadline()
    }

    /// Bytes to or from the peer have moved, though no whole message came.
    pub fn on_activity(&mut self, now: Instant) {
        self.heard = now;
    }

    /// For so long until now this side could not hear its peers: that does not count as silence.
    pub fn on_pause(&mut self, lasted: Duration, now: Instant) {
        self.heard = self.heard.checked_add(lasted).map_or(now, |heard| heard.min(now)).max(self.heard);
        if let Phase::Greeting { until } = &mut self.phase {
            *until = until.and_then(|until| until.checked_add(lasted));
        }
    }

    /// Time has passed: probes a silent peer, and gives it up in the end.
    pub fn on_time(&mut self, now: Instant) {
        self.now = now;
        if self.requester.pace.on_time(now) {
            self.start_pieces();
        }
        match self.phase {
            Phase::Greeting { until: Some(until) } if now >= until => {
                self.close(SessionError::GreetingTimeout(self.config.greeting_timeout));
            }
            Phase::Open { limits, .. } if self.waits_for_peer() => self.check_silence(limits, now),
            _ => {}
        }
    }

    /// Ends the session: every request fails, the peer is told why where that helps it.
    pub fn close(&mut self, error: SessionError) {
        if matches!(self.phase, Phase::Over(_)) {
            return;
        }
        if let Some(status) = error.farewell() {
            self.send(Header::Hello(Hello::refusal(status)), Payload::empty());
        }
        self.end_requests(&error);
        if self.config.keeps_arrived && is_orderly(&error) {
            self.inbox.forget_offers();
        } else {
            self.inbox = Inbox::default();
        }
        self.responder = Responder::default();
        self.groups_over.clear();
        self.decode_times = DecodeTimes::default();
        self.phase = Phase::Over(error.clone());
        self.actions.encode_nothing(); // nobody wants it any more
        self.actions.push(Action::Close { error });
    }

    /// Every request fails, but one with bytes that are being decoded only once these are: its memory is in use until then.
    fn end_requests(&mut self, error: &SessionError) {
        let error = self.session_failed(error.clone());
        let mut late = HashMap::new();
        for (owner, decoding) in self.requester.take_all() {
            if decoding.is_empty() {
                self.deliver((owner, Err(error.clone())));
                continue;
            }
            let number = self.ending.len();
            self.ending.push(Ending { owner, decoding: decoding.len(), error: error.clone() });
            late.extend(decoding.into_iter().map(|id| (id, number)));
        }
        let posted: Vec<_> = self.inbox.take_posted().collect();
        for posted in posted {
            self.fail(posted, error.clone());
        }
        self.jobs.retain(|_, job| match job {
            // What the peer sent before stays good: it may have ended because it was done.
            Job::DecodeSend { .. } => true,
            Job::DecodePiece(id) => match late.get(id) {
                Some(&number) => {
                    *job = Job::DecodeLate(number);
                    true
                }
                None => false,
            },
            _ => false,
        });
    }

    /// A piece of a request that the end of the session has ended is decoded, well or not.
    pub(super) fn late_decoded(&mut self, number: usize) {
        let Some(ending) = self.ending.get_mut(number) else { return };
        ending.decoding -= 1;
        if ending.decoding == 0 {
            let (owner, error) = (ending.owner, ending.error.clone());
            self.deliver((owner, Err(error)));
        }
    }

    /// A receive for which nothing comes any more fails.
    pub(super) fn fail(&mut self, posted: Posted, error: TransferError) {
        match posted.begun {
            None => self.deliver((posted.request, Err(error))),
            Some(Begun { number, .. }) => {
                let ended = self.messages.cut_off(number, error);
                ended.into_iter().for_each(|ended| self.deliver(ended));
            }
        }
    }

    /// Takes in a request after the end: a receive of what had come by then is answered, all else fails.
    pub(super) fn submit_late(&mut self, id: RequestId, request: Request, error: SessionError) {
        let error = self.session_failed(error);
        let Request::Receive { tag, into } = request else { return self.deliver((id, Err(error))) };
        if let Some(posted) = self.receive_arrived(tag, Posted { request: id, into, begun: None }) {
            self.fail(posted, error);
        }
    }

    pub(super) fn on_hello(&mut self, hello: Hello) -> Result<(), SessionError> {
        let greeting = match (hello, &self.phase) {
            (Hello::Refusal(refusal), _) => return Err(SessionError::Refused(refusal.status())),
            (Hello::Greeting(_), Phase::Open { .. }) => return Err(Violation::SecondHello.into()),
            (Hello::Greeting(greeting), _) => greeting,
        };
        let SessionConfig { secret, ranks, local: own, peer, .. } = self.config;
        let expected = Expected { secret, ranks, own, peer: Some(peer) };
        greeting.verify(&expected).map_err(SessionError::PeerRefused)?;
        let algorithms = AlgorithmSet::supported().intersection(greeting.algorithms);
        // A peer with a huge window must not make this side queue more than it takes itself.
        let window_bytes = greeting.limits.window_bytes.min(self.config.limits.window_bytes);
        let limits = Limits { window_bytes, ..greeting.limits };
        self.phase = Phase::Open { limits, algorithms, elements: greeting.elements };
        Ok(())
    }

    fn check_silence(&mut self, limits: Limits, now: Instant) {
        let silent_for = now.saturating_duration_since(self.heard);
        let timeout = self.config.silence_timeout;
        if silent_for >= timeout {
            self.close(SessionError::Silent(timeout));
        } else if silent_for >= timeout / PROBE_FRACTION
            && self.requester.may_probe(limits)
            && let Some(id) = self.requester.start_probe()
        {
            let probe = ReadRequest { id, address: Address::new(0, 0), length: 0, raw: false };
            self.send(Header::ReadRequest(probe), Payload::empty());
        }
    }

    pub(super) fn waits_for_peer(&self) -> bool {
        self.requester.is_busy() || self.inbox.is_waiting()
    }
}

/// Whether a peer with which a session ended so may have been done: what it sent is to be received all the same.
fn is_orderly(error: &SessionError) -> bool {
    matches!(error, SessionError::Closed | SessionError::Link(_) | SessionError::Refused(Status::Closing))
}
