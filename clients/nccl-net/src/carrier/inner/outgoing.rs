//! Sends messages by the inner plugin.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use mgcomp_selector::{LinkFacts, Overlap};
use mgcomp_transport::link::rate::{Backlog, Buffers, Rate, RateMeter};

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
    /// Where the next lies already and how long it is, if the inner plugin could not take it yet.
    staged: Option<(usize, usize)>,
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
            staged: None,
            under_way: VecDeque::new(),
            meter: RateMeter::new(Arc::clone(&rate), Buffers::Some),
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
            let Some((place, len)) = self.stage(ring)? else { return Ok(()) };
            if self.oldest == self.next {
                self.since = Instant::now();
            }
            if !self.staging.start(Way::Out, place, len)? {
                return Ok(());
            }
            self.staged = None;
            self.under_way.push_back(place);
            self.next += 1;
        }
        Ok(())
    }

    /// Puts the next message where it is sent from, if there is a place; returns that and the length. Some plugins take nothing
    /// before the other side asks for it, so it is not copied each time it is tried.
    fn stage(&mut self, ring: &Ring<Sending>) -> Result<Option<(usize, usize)>, NetError> {
        if self.staged.is_none()
            && let Some(place) = self.staging.next_place()
        {
            let message = ring.content(self.next);
            let [envelope, rest] = message.pieces();
            let len = envelope.len() + rest.len();
            let room = self.staging.room(place, len)?;
            room[..envelope.len()].copy_from_slice(envelope);
            room[envelope.len()..].copy_from_slice(rest);
            self.staged = Some((place, len));
        }
        Ok(self.staged)
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

#[cfg(test)]
mod tests {
    use super::super::stub::Stub;
    use super::*;

    #[test]
    fn what_is_not_taken_at_once_is_not_copied_again() {
        let (shared, end, stub) = Stub::end(0, 11);
        let mut outgoing = InnerOutgoing::new(shared, end, 0);
        assert!(outgoing.greet().unwrap());
        // SAFETY: it stays, and nothing calls the plugin meanwhile.
        let tell = |busy| unsafe { ((*stub).busy, (*stub).asked) = (busy, Vec::new()) };
        let ring: Ring<Sending> = Ring::new();
        for message in 0..2 {
            tell(3);
            ring.post(|slot| {
                *slot = Sending::staged(&[10 + message; 8]);
                Stage::Carrier
            });
            for _ in 0..4 {
                outgoing.post(&ring).unwrap();
            }
            // What the plugin has left there is still there.
            // SAFETY: as above.
            let asked = unsafe { &(*stub).asked };
            assert_eq!(*asked, [0, 1, 2, 3].map(|more| 10 + message + more));
        }
        assert_eq!((outgoing.next, outgoing.under_way.len()), (2, 2));
    }
}
