//! Matches tagged sends and offers of the peer with receives of the program, each in order.

use std::collections::{HashMap, VecDeque};

use mgcomp_codecs::Algorithm;

use super::request::{MessageNumber, RequestId};
use crate::message::{MessageId, OfferId, Tag};
use crate::payload::Payload;

/// A send that has arrived, or was offered.
#[derive(Debug)]
pub(super) enum Arrival {
    Sent(Sent),
    Offered { offer: OfferId, length: u64, continued: bool },
}

/// A send with its bytes.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) id: MessageId,
    pub(super) unawaited: bool,
    pub(super) algorithm: Algorithm,
    /// Whether the next arrival is for the same receive.
    pub(super) continued: bool,
    pub(super) length: u32,
    pub(super) payload: Payload,
}

/// A receive that waits, for a message or for more of one.
#[derive(Debug)]
pub(super) struct Posted {
    pub(super) request: RequestId,
    pub(super) into: Payload,
    pub(super) begun: Option<Begun>,
}

/// A message of which a part has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    pub(super) number: MessageNumber,
    /// Where the next part goes.
    pub(super) filled: u64,
}

impl Arrival {
    /// How long it is, and whether the next one is for the same receive.
    pub(super) const fn extent(&self) -> (u64, bool) {
        match *self {
            Self::Sent(Sent { length, continued, .. }) => (length as u64, continued),
            Self::Offered { length, continued, .. } => (length, continued),
        }
    }
}

/// Arrivals without a receive and receives without an arrival; never both for one tag.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    arrived: HashMap<Tag, VecDeque<Arrival>>,
    posted: HashMap<Tag, VecDeque<Posted>>,
}

impl Inbox {
    /// Takes in a send; returns the receive that it belongs to, if there is one.
    pub(super) fn arrive(&mut self, tag: Tag, arrival: Arrival) -> Option<(Arrival, Posted)> {
        match take_first(&mut self.posted, tag) {
            Some(posted) => Some((arrival, posted)),
            None => {
                self.arrived.entry(tag).or_default().push_back(arrival);
                None
            }
        }
    }

    /// Takes in a receive for which nothing is there.
    pub(super) fn post(&mut self, tag: Tag, posted: Posted) {
        self.posted.entry(tag).or_default().push_back(posted);
    }

    /// Takes in a receive of whose message more is to come.
    pub(super) fn post_again(&mut self, tag: Tag, posted: Posted) {
        self.posted.entry(tag).or_default().push_front(posted);
    }

    /// Takes the send that a receive with `tag` gets.
    pub(super) fn take_arrived(&mut self, tag: Tag) -> Option<Arrival> {
        take_first(&mut self.arrived, tag)
    }

    /// Forgets offers, which nobody can fetch any more, and what came behind them: it is not to be received in their place.
    pub(super) fn forget_offers(&mut self) {
        for queue in self.arrived.values_mut() {
            let good = queue.iter().take_while(|arrival| matches!(arrival, Arrival::Sent(_))).count();
            queue.truncate(good);
        }
        self.arrived.retain(|_, queue| !queue.is_empty());
    }

    /// The receive that the next send with `tag` belongs to.
    pub(super) fn next_receive(&self, tag: Tag) -> Option<&Posted> {
        self.posted.get(&tag)?.front()
    }

    /// Whether a receive waits for the peer.
    pub(super) fn is_waiting(&self) -> bool {
        !self.posted.is_empty()
    }

    /// Removes all receives that wait.
    pub(super) fn take_posted(&mut self) -> impl Iterator<Item = Posted> + use<> {
        std::mem::take(&mut self.posted).into_values().flatten()
    }

    /// Removes the receives that wait and the arrivals whose tag `is_one`.
    pub(super) fn take_all_of(&mut self, is_one: impl Fn(Tag) -> bool) -> (Vec<Posted>, Vec<Arrival>) {
        let posted = self.posted.extract_if(|&tag, _| is_one(tag)).flat_map(|(_, queue)| queue);
        let arrived = self.arrived.extract_if(|&tag, _| is_one(tag)).flat_map(|(_, queue)| queue);
        (posted.collect(), arrived.collect())
    }

    #[cfg(test)]
    pub(super) fn arrived_tags(&self) -> Vec<Tag> {
        self.arrived.keys().copied().collect()
    }

    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.arrived.is_empty() && self.posted.is_empty()
    }
}

/// Removes the first entry of `tag`, and the queue with its last.
fn take_first<T>(queues: &mut HashMap<Tag, VecDeque<T>>, tag: Tag) -> Option<T> {
    let queue = queues.get_mut(&tag)?;
    let first = queue.pop_front();
    if queue.is_empty() {
        queues.remove(&tag);
    }
    first
}
