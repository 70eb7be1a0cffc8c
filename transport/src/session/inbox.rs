//! Matches tagged sends and offers of the peer with receives of the program, each in order.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

use mgcomp_codecs::Algorithm;

use super::request::{MessageNumber, RequestId};
use crate::message::{GivingUp, MessageId, OfferId, Tag};
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
    arrived: Queues<Arrival>,
    posted: Queues<Posted>,
    /// Queues that were looked at for a group.
    #[cfg(test)]
    looks: usize,
}

/// What has the same tag, in order. The peer may say again and again that it has given up operations of some group: what is here
/// of that is found without a look at all else.
type Queues<T> = BTreeMap<Key, VecDeque<T>>;

/// A tag, behind the group of whose operations it is.
type Key = (Option<u32>, Tag);

fn key(tag: Tag) -> Key {
    (GivingUp::operation_of(tag), tag)
}

impl Inbox {
    /// Takes in a send; returns the receive that it belongs to, if there is one.
    pub(super) fn arrive(&mut self, tag: Tag, arrival: Arrival) -> Option<(Arrival, Posted)> {
        match take_first(&mut self.posted, tag) {
            Some(posted) => Some((arrival, posted)),
            None => {
                self.arrived.entry(key(tag)).or_default().push_back(arrival);
                None
            }
        }
    }

    /// Takes in a receive for which nothing is there.
    pub(super) fn post(&mut self, tag: Tag, posted: Posted) {
        self.posted.entry(key(tag)).or_default().push_back(posted);
    }

    /// Takes in a receive of whose message more is to come.
    pub(super) fn post_again(&mut self, tag: Tag, posted: Posted) {
        self.posted.entry(key(tag)).or_default().push_front(posted);
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
        self.posted.get(&key(tag))?.front()
    }

    /// Whether a receive waits for the peer.
    pub(super) fn is_waiting(&self) -> bool {
        !self.posted.is_empty()
    }

    /// Removes all receives that wait.
    pub(super) fn take_posted(&mut self) -> impl Iterator<Item = Posted> + use<> {
        std::mem::take(&mut self.posted).into_values().flatten()
    }

    /// Removes the receives that wait and the arrivals of a group's operations.
    pub(super) fn take_all_of(&mut self, group: u32) -> (Vec<Posted>, Vec<Arrival>) {
        let (posted, arrived) = (keys_of(&self.posted, group), keys_of(&self.arrived, group));
        #[cfg(test)]
        {
            self.looks += posted.len() + arrived.len();
        }
        let posted = posted.into_iter().filter_map(|key| self.posted.remove(&key)).flatten();
        let arrived = arrived.into_iter().filter_map(|key| self.arrived.remove(&key)).flatten();
        (posted.collect(), arrived.collect())
    }

    #[cfg(test)]
    pub(super) fn arrived_tags(&self) -> Vec<Tag> {
        self.arrived.keys().map(|&(_, tag)| tag).collect()
    }

    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.arrived.is_empty() && self.posted.is_empty()
    }
}

/// Removes the first entry of `tag`, and the queue with its last.
fn take_first<T>(queues: &mut Queues<T>, tag: Tag) -> Option<T> {
    let Entry::Occupied(mut queue) = queues.entry(key(tag)) else { return None };
    let first = queue.get_mut().pop_front();
    if queue.get().is_empty() {
        queue.remove();
    }
    first
}

fn keys_of<T>(queues: &Queues<T>, group: u32) -> Vec<Key> {
    let of_group = (Some(group), Tag(0))..=(Some(group), Tag(u64::MAX));
    queues.range(of_group).map(|(&key, _)| key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{OperationId, Status};

    const OPERATION: u64 = 0x8000_0580_0000_0003; // of group 5

    fn offered(number: u32) -> Arrival {
        Arrival::Offered { offer: OfferId(number), length: 1, continued: false }
    }

    fn posted(number: u64) -> Posted {
        Posted { request: RequestId(number), into: Payload::empty(), begun: None }
    }

    #[test]
    fn who_gives_up_again_and_again_has_nothing_else_looked_at() {
        const MANY: u32 = 100_000;
        let mut inbox = Inbox::default();
        for number in 0..MANY {
            // Of a program, of other groups, and of no operation of this one, or it would be told of that.
            let operation = OperationId::default();
            let given_up = GivingUp { group: 5, operation, status: Status::Unknown(100) }.tag().0;
            let beside = [0, 0x8000_0480_0000_0000, 0x8000_0680_0000_0000, given_up];
            let tag = Tag(beside[number as usize % 4] + (u64::from(number) << 16));
            assert_ne!(GivingUp::operation_of(tag), Some(5));
            assert!(inbox.arrive(tag, offered(number)).is_none());
        }
        for round in 0..10_000 {
            let (receives, arrivals) = inbox.take_all_of(5);
            assert!(receives.is_empty() && arrivals.is_empty(), "{round}");
        }
        assert_eq!(inbox.looks, 0);
        // Nor where something of the group has come each time.
        for round in 0..10_000 {
            inbox.arrive(Tag(OPERATION), offered(MANY + round));
            inbox.post(Tag(OPERATION + 1), posted(1));
            let (receives, arrivals) = inbox.take_all_of(5);
            assert!(matches!(receives[..], [Posted { request: RequestId(1), .. }]));
            assert!(
                matches!(arrivals[..], [Arrival::Offered { offer: OfferId(n), .. }] if n == MANY + round)
            );
        }
        assert_eq!(inbox.looks, 20_000);
        assert_eq!(inbox.arrived_tags().len(), MANY as usize);
    }
}
