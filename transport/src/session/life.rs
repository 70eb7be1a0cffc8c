//! How a session begins, how it finds out that its peer is gone, and how it ends.

use std::time::{Duration, Instant};

use mgcomp_codecs::AlgorithmSet;

use super::action::Action;
use super::config::SessionConfig;
use super::error::{SessionError, Violation};
use super::inbox::{Inbox, Posted};
use super::request::{Request, RequestId};
use super::responder::Responder;
use super::{Job, Phase, Session};
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
                self.heard.checked_add(if probes { timeout / PROBE_FRACTION } else { timeout })
            }
            Phase::Open { .. } | Phase::Over(_) => None,
        }
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
        let requests: Vec<_> = self.requester.take_all().chain(self.inbox.take_posted()).collect();
        for request in requests {
            let error = self.session_failed(error.clone());
            self.deliver((request, Err(error)));
        }
        // What the peer sent before stays good: it may have ended because it was done.
        self.jobs.retain(|_, job| matches!(job, Job::DecodeSend { .. }));
        if self.config.keeps_arrived && is_orderly(&error) {
            self.inbox.forget_offers();
        } else {
            self.inbox = Inbox::default();
        }
        self.responder = Responder::default();
        self.groups_over.clear();
        self.phase = Phase::Over(error.clone());
        self.actions.retain(|action| !matches!(action, Action::Encode { .. })); // nobody wants it any more
        self.actions.push_back(Action::Close { error });
    }

    /// Takes in a request after the end: a receive of what had come by then is answered, all else fails.
    pub(super) fn submit_late(&mut self, id: RequestId, request: Request, error: SessionError) {
        if let Request::Receive { tag, into } = request
            && let Some(arrival) = self.inbox.take_arrived(tag)
        {
            return self.receive(tag, arrival, Posted { request: id, into });
        }
        let error = self.session_failed(error);
        self.deliver((id, Err(error)));
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
            let probe = ReadRequest { id, address: Address::new(0, 0), length: 0 };
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
