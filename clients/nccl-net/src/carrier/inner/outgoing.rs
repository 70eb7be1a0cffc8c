//! Sends messages by the inner plugin.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use mgcomp_selector::{LinkFacts, Overlap};
use mgcomp_transport::link::rate::{Backlog, Rate, RateMeter};

use super::hello::hello;
use super::staging::{Staging, Way};
use super::{Shared, Theirs};
use crate::carrier::Outgoing;
use crate::comm::{Ring, Sending, Stage};
use crate::error::NetError;

pub(super) struct InnerOutgoing {
    staging: Staging,
    /// What is said first, until that is on its way.
    hello: Option<u32>,
    /// The message that it sends next, and the oldest that is under way.
    next: u64,
    oldest: u64,
    /// Where those are that are under way.
    under_way: VecDeque<usize>,
    rate: Arc<Rate>,
    meter: RateMeter<Arc<Rate>>,
    /// When the link was last seen to have taken something, or to begin.
    since: Instant,
}

impl InnerOutgoing {
    pub(super) fn new(shared: Arc<Shared>, end: Theirs, rank: u32) -> Self {
        let rate = Arc::new(Rate::default());
        Self {
            staging: Staging::new(shared, end),
            hello: Some(rank),
            next: 0,
            oldest: 0,
            under_way: VecDeque::new(),
            meter: RateMeter::new(Arc::clone(&rate)),
            rate,
            since: Instant::now(),
        }
    }

    /// Says hello, if that is not done; whether it is.
    fn greet(&mut self) -> Result<bool, NetError> {
        let Some(rank) = self.hello else { return Ok(true) };
        let hello = hello(rank);
        self.staging.room(Staging::HELLO, hello.len())?.copy_from_slice(&hello);
        if self.staging.start(Way::Out, Staging::HELLO, hello.len())? {
            self.hello = None;
        }
        Ok(self.hello.is_none())
    }

    /// Hands over what is sealed.
    fn post(&mut self, ring: &Ring<Sending>) -> Result<(), NetError> {
        while self.next < ring.posted() && ring.stage(self.next) == Stage::Carrier {
            let Some(place) = self.staging.next_place() else { return Ok(()) };
            let message = ring.content(self.next);
            let [envelope, rest] = message.pieces();
            let len = envelope.len() + rest.len();
            let room = self.staging.room(place, len)?;
            room[..envelope.len()].copy_from_slice(envelope);
            room[envelope.len()..].copy_from_slice(rest);
            drop(message);
            if self.oldest == self.next {
                self.since = Instant::now();
            }
            if !self.staging.start(Way::Out, place, len)? {
                return Ok(());
            }
            self.under_way.push_back(place);
            self.next += 1;
        }
        Ok(())
    }
}

impl Outgoing for InnerOutgoing {
    fn peer(&self) -> u32 {
        0
    }

    fn drive(&mut self, ring: &Ring<Sending>) -> Result<(), NetError> {
        if !self.greet()? {
            return Ok(());
        }
        self.staging.test(Staging::HELLO)?;
        self.post(ring)?;
        while let Some(&place) = self.under_way.front() {
            let Some(len) = self.staging.test(place)? else { break };
            self.under_way.pop_front();
            let now = Instant::now();
            let backlog = if self.under_way.is_empty() { Backlog::None } else { Backlog::Some };
            self.meter.wrote(len as u64, self.since, now, backlog);
            ring.set(self.oldest, Stage::Done);
            (self.oldest, self.since) = (self.oldest + 1, now);
        }
        Ok(())
    }

    fn facts(&self) -> Option<LinkFacts> {
        LinkFacts::try_new(self.rate.gbps()?, 0, Overlap::None).ok()
    }

    fn is_for_any_thread(&self) -> bool {
        false
    }
}

impl Drop for InnerOutgoing {
    fn drop(&mut self) {
        self.staging.close(Way::Out);
    }
}
