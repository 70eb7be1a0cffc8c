//! One rank's end of a link under test, and the messages that it sends.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use mgcomp_codecs::{Algorithm, AlgorithmSet, ElementSet};
use mgcomp_transport::executor::{self, DoneSink, Ticket, Work};
use mgcomp_transport::link::{Credit, Link, LinkError, LinkEvent, Message, Position, SendError};
use mgcomp_transport::memory::HostBuffer;
use mgcomp_transport::message::{Greeting, Header, Hello, MessageId, Rank, Tag, TaggedSend};
use mgcomp_transport::payload::Payload;

use super::{HANGS, LIMITS, SECRET, noise};

/// A link that was started, and what it reports.
pub(crate) struct End {
    pub(crate) link: Box<dyn Link>,
    events: Receiver<LinkEvent>,
    /// Events of each peer that nobody has asked for yet.
    unread: Vec<VecDeque<LinkEvent>>,
}

impl End {
    /// Starts `link` and greets all peers: a hello is the first message to each.
    pub(crate) fn start(mut link: Box<dyn Link>) -> Self {
        let (report, events) = mpsc::channel();
        let sink = move |event| match event {
            LinkEvent::Coming { .. } | LinkEvent::Written { .. } => {} // nothing to say about it
            event => drop(report.send(event)),
        };
        link.start(Arc::new(sink)).unwrap();
        let position = link.position();
        let unread = (0..position.ranks).map(|_| VecDeque::new()).collect();
        let end = Self { link, events, unread };
        for peer in position.peers() {
            // The time to reach it may be over already: whoever waits for it hears of that.
            let sent = end.try_send(peer, &hello(position));
            assert!(matches!(sent, Ok(()) | Err(SendError::Closed(_))), "{sent:?}");
        }
        end
    }

    /// Starts all links and waits until every one has heard every hello.
    pub(crate) fn start_all(links: Vec<Box<dyn Link>>) -> Vec<Self> {
        let mut ends: Vec<_> = links.into_iter().map(Self::start).collect();
        ends.iter_mut().for_each(Self::meet);
        ends
    }

    /// Waits for the hello of each peer.
    pub(crate) fn meet(&mut self) {
        for peer in self.link.position().peers() {
            let (message, _) = self.message(peer);
            assert_eq!(message.header, hello(Position { rank: peer, ..self.link.position() }).header);
        }
    }

    /// Sends, and tries again for as long as the queue is full.
    #[track_caller]
    pub(crate) fn send(&self, to: Rank, message: &Message) {
        if let Err(error) = self.try_send(to, message) {
            panic!("rank {} to rank {to}: {error}", self.link.position().rank);
        }
    }

    /// The same to who may be gone.
    fn try_send(&self, to: Rank, message: &Message) -> Result<(), SendError> {
        loop {
            match self.link.send(to, message.clone()) {
                Err(SendError::Full { .. }) => thread::sleep(Duration::from_millis(1)),
                other => return other.map(drop),
            }
        }
    }

    /// The next event of `peer`.
    #[track_caller]
    pub(crate) fn event(&mut self, peer: Rank) -> LinkEvent {
        loop {
            if let Some(event) = self.unread[peer.0 as usize].pop_front() {
                return event;
            }
            let event = self.events.recv_timeout(HANGS);
            let event = event.unwrap_or_else(|error| panic!("no event of rank {peer}: {error}"));
            self.unread[subject(&event).0 as usize].push_back(event);
        }
    }

    /// The next event of `peer`, which must be a message.
    #[track_caller]
    pub(crate) fn message(&mut self, peer: Rank) -> (Message, Credit) {
        match self.event(peer) {
            LinkEvent::Message { from, message, credit } if from == peer => (message, credit),
            other => panic!("expected a message of rank {peer}, got {other:?}"),
        }
    }

    /// The next event of `peer`, which must be the message with this number.
    #[track_caller]
    pub(crate) fn expect(&mut self, peer: Rank, number: u64, len: usize) {
        if let Some(error) = self.expect_or_end(peer, number, len) {
            panic!("expected message {number} of rank {peer}, got {error:?}");
        }
    }

    /// The same, or that there is an end of `peer` instead: why.
    #[track_caller]
    pub(crate) fn expect_or_end(&mut self, peer: Rank, number: u64, len: usize) -> Option<LinkError> {
        let message = match self.event(peer) {
            LinkEvent::Message { from, message, .. } if from == peer => message,
            LinkEvent::Closed { peer: closed, error } if closed == peer => return Some(error),
            other => panic!("expected message {number} of rank {peer}, got {other:?}"),
        };
        let expected = numbered(number, len);
        assert_eq!(message.header, expected.header);
        // Not compared by assert_eq: nobody wants to read megabytes.
        let expected = expected.payload.bytes();
        assert!(Some(&bytes_of(&message.payload)) == expected, "payload of message {number} differs");
        None
    }

    /// The next event of `peer`, which must be that it has closed.
    #[track_caller]
    pub(crate) fn expect_closed(&mut self, peer: Rank) {
        assert_eq!(self.end_of(peer), LinkError::PeerClosed(peer));
    }

    /// The next event of `peer`, which must be its end: why.
    #[track_caller]
    pub(crate) fn end_of(&mut self, peer: Rank) -> LinkError {
        match self.event(peer) {
            LinkEvent::Closed { peer: closed, error } if closed == peer => error,
            other => panic!("expected the end of rank {peer}, got {other:?}"),
        }
    }

    /// Drops the link; returns what it reported and nobody has asked for. Hangs if it keeps its sink.
    pub(crate) fn drop_link(self) -> Vec<LinkEvent> {
        let Self { link, events, unread } = self;
        drop(link);
        unread.into_iter().flatten().chain(events).collect()
    }
}

/// The bytes of a payload, in whatever memory it lies.
fn bytes_of(payload: &Payload) -> Bytes {
    if let Some(bytes) = payload.bytes() {
        return bytes.clone();
    }
    let into = HostBuffer::zeroed(payload.capacity() as usize);
    let (payload, destination) = (payload.clone(), Payload::from_memory(into.all()));
    let work = Work::Decode { payload, algorithm: Algorithm::None, destination, all_or_nothing: false };
    let hear: DoneSink = Arc::new(|_| {});
    // Without threads of its own it is done at once.
    let done = executor::start(0, false, &hear).unwrap().submit(Ticket(0), work);
    done.expect("nobody else has the buffer").result.expect("a payload that can be fetched");
    into.all().to_vec().into()
}

/// Which peer an event is about.
pub(crate) fn subject(event: &LinkEvent) -> Rank {
    match *event {
        LinkEvent::Coming { from, .. }
        | LinkEvent::Message { from, .. }
        | LinkEvent::Malformed { from, .. } => from,
        LinkEvent::Closed { peer, .. } | LinkEvent::Written { to: peer, .. } => peer,
    }
}

/// The first message of a rank.
pub(crate) fn hello(position: Position) -> Message {
    let greeting = Greeting {
        secret: SECRET,
        rank: position.rank,
        ranks: position.ranks,
        limits: LIMITS,
        algorithms: AlgorithmSet::supported(),
        elements: ElementSet::all(),
    };
    Message { header: Header::Hello(Hello::Greeting(greeting)), payload: Payload::empty() }
}

/// A message of `len` bytes of payload that tells where it stands in a sequence.
pub(crate) fn numbered(number: u64, len: usize) -> Message {
    let header = Header::TaggedSend(TaggedSend {
        id: MessageId(number as u16),
        algorithm: Algorithm::None,
        continued: false,
        unawaited: false,
        tag: Tag(number),
        length: len as u32,
    });
    Message { header, payload: Payload::from_bytes(noise(number, len).into()) }
}
