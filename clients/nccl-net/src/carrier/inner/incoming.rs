//! Receives messages by the inner plugin.

use std::collections::VecDeque;
use std::sync::Arc;

use mgcomp_transport::attach::OpenError;
use mgcomp_transport::attach::envelope::{EnvelopeError, HEADER_LEN};

use super::hello::{self, HELLO_LEN};
use super::staging::{Staging, Way};
use super::{Shared, Theirs};
use crate::carrier::Incoming;
use crate::comm::{Arrived, Receiving, Ring, Stage};
use crate::error::NetError;

pub(super) struct InnerIncoming {
    staging: Staging,
    greeting: Greeting,
    /// The message that it receives next, and the oldest that is under way.
    next: u64,
    oldest: u64,
    /// Where those are that are under way.
    under_way: VecDeque<usize>,
}

/// How far the first message is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Greeting {
    Wanted,
    Coming,
    /// The other side's rank.
    Known(u32),
}

impl InnerIncoming {
    pub(super) fn new(shared: Arc<Shared>, end: Theirs) -> Self {
        let (staging, under_way) = (Staging::new(shared, end), VecDeque::new());
        Self { staging, greeting: Greeting::Wanted, next: 0, oldest: 0, under_way }
    }

    fn greet(&mut self) -> Result<(), NetError> {
        if self.greeting == Greeting::Wanted {
            // Whoever runs without this plugin says something longer first.
            self.staging.room(Staging::HELLO, HELLO_LEN)?;
            if self.staging.start(Way::In, Staging::HELLO, HELLO_LEN)? {
                self.greeting = Greeting::Coming;
            }
        }
        if self.greeting == Greeting::Coming
            && let Some(len) = self.staging.test(Staging::HELLO)?
        {
            let said = self.staging.bytes(Staging::HELLO, len.min(HELLO_LEN));
            self.greeting = Greeting::Known(hello::check(said)?);
        }
        Ok(())
    }

    /// Asks for what there is room for. Receives match sends in their order, so the first message need not be there.
    fn post(&mut self, ring: &Ring<Receiving>) -> Result<(), NetError> {
        while self.next < ring.posted() && ring.stage(self.next) == Stage::Carrier {
            let Some(place) = self.staging.next_place() else { return Ok(()) };
            // A frame is shorter than the raw bytes.
            let len = HEADER_LEN + ring.content(self.next).capacity();
            self.staging.room(place, len)?;
            if !self.staging.start(Way::In, place, len)? {
                return Ok(());
            }
            self.under_way.push_back(place);
            self.next += 1;
        }
        Ok(())
    }

    /// Takes over what has come; says who has it next.
    fn take(
        &mut self,
        slot: &mut Receiving,
        place: usize,
        len: usize,
        arrived: &mut Arrived,
    ) -> Result<Stage, NetError> {
        let message = self.oldest;
        let wrong = |why: OpenError| NetError::Message { message, why };
        let len = len.min(HEADER_LEN + slot.capacity());
        let bytes = self.staging.bytes(place, len);
        let (envelope, rest) = bytes
            .split_first_chunk::<HEADER_LEN>()
            .ok_or_else(|| wrong(EnvelopeError::Short { len }.into()))?;
        let stored_len = slot.begin(message, envelope)?;
        if stored_len != rest.len() {
            let (expected, found) = (stored_len as u64, rest.len() as u64);
            return Err(wrong(OpenError::Length { expected, found }));
        }
        slot.fill(rest);
        slot.end(message, arrived)
    }
}

impl Incoming for InnerIncoming {
    fn peer(&self) -> u32 {
        match self.greeting {
            Greeting::Known(rank) => rank,
            Greeting::Wanted | Greeting::Coming => 0,
        }
    }

    fn drive(&mut self, ring: &Ring<Receiving>, arrived: &mut Arrived) -> Result<(), NetError> {
        self.greet()?;
        if self.greeting == Greeting::Wanted {
            return Ok(());
        }
        self.post(ring)?;
        while let (Greeting::Known(_), Some(&place)) = (self.greeting, self.under_way.front()) {
            let Some(len) = self.staging.test(place)? else { break };
            self.under_way.pop_front();
            let stage = self.take(&mut ring.content(self.oldest), place, len, arrived)?;
            ring.set(self.oldest, stage);
            self.oldest += 1;
        }
        Ok(())
    }
}

impl Drop for InnerIncoming {
    fn drop(&mut self) {
        self.staging.close(Way::In);
    }
}
