//! A link of which a test hears what a rank sends.

use std::time::Instant;

use mgcomp_selector::LinkFacts;
use mgcomp_transport::link::loopback::Loopback;
use mgcomp_transport::link::{Link, LinkError, LinkSink, Message, Position, SendError, Sent};
use mgcomp_transport::message::Rank;

/// Hears each message before it is sent.
pub(super) struct Overheard<H> {
    pub(super) link: Loopback,
    pub(super) hear: H,
}

impl<H: Fn(&Message) + Send + Sync> Link for Overheard<H> {
    fn position(&self) -> Position {
        self.link.position()
    }

    fn start(&mut self, sink: LinkSink) -> Result<(), LinkError> {
        self.link.start(sink)
    }

    fn send(&self, to: Rank, message: Message) -> Result<Sent, SendError> {
        (self.hear)(&message);
        self.link.send(to, message)
    }

    fn moved_since(&self, peer: Rank, since: Instant) -> bool {
        self.link.moved_since(peer, since)
    }

    fn facts(&self, peer: Rank) -> Option<LinkFacts> {
        self.link.facts(peer)
    }

    fn owns_arrived(&self) -> bool {
        self.link.owns_arrived()
    }

    fn close(&self, peer: Rank) {
        self.link.close(peer);
    }
}
