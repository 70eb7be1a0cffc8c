//! The way in from a peer: what comes is read by each connection's task, or by a thread that waits for it.
//!
//! Asking the system which of all sockets have something, and then the task of one of them, takes longer than reading what is
//! there. So a thread that waits reads by itself.

use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use tokio::sync::Notify;

use super::reader::{RecordReader, Taken};
use super::record::Received;
use super::turn::Place;
use crate::link::flow::ReceiveWindow;
use crate::link::{LinkError, LinkEvent, LinkSink, Message, landing};
use crate::message::{Header, MessageError, Rank};

/// Steps that are made for a connection before others have their turn.
const MOST_STEPS: usize = 16;

/// Where messages from a peer come in.
#[derive(Default)]
pub(super) struct Inbox {
    /// By connection, while it is up. Held while messages are reported, one after the other: nobody asks for it who may be
    /// called from there.
    lanes: Mutex<Vec<Option<Incoming>>>,
}

/// The way in over one connection.
pub(super) struct Incoming {
    peer: Rank,
    socket: Arc<TcpStream>,
    reader: RecordReader,
    place: Place,
    window: Arc<ReceiveWindow>,
    sink: LinkSink,
    /// What was read and is yet to be handed on.
    next: Option<Next>,
    /// Tells the connection's task that something is left to it that the socket says nothing of.
    left: Arc<Notify>,
}

/// What was read.
enum Next {
    /// A message, and its length in bytes.
    Message(Message, u64),
    End(End),
}

/// How the way in over a connection ends.
pub(super) enum End {
    /// Bytes came that are no message.
    Malformed(MessageError),
    /// The connection is over.
    Over(LinkError),
}

/// How far the way in over a connection has come.
pub(super) enum Step {
    /// Something came, and more may be there.
    Made,
    /// No more is there at the moment.
    Dry,
    /// Something is there whose turn it is not; perhaps it is the connection's end.
    NotDue { is_over: bool },
    /// There is a message, and too much is unseen.
    NoRoom,
    /// It has come to its end.
    Ended,
}

impl Incoming {
    pub(super) fn new(
        peer: Rank,
        (socket, reader): (Arc<TcpStream>, RecordReader),
        place: Place,
        window: Arc<ReceiveWindow>,
        sink: LinkSink,
    ) -> Self {
        Self { peer, socket, reader, place, window, sink, next: None, left: Arc::default() }
    }

    /// Makes steps for a thread that waits, and leaves to the task what only that can do.
    fn receive(&mut self) {
        let mut is_told = self.next.is_some();
        for _ in 0..MOST_STEPS {
            match self.step() {
                Step::Made if self.reader.has_ahead() => is_told = false,
                // If more is there, the socket says so.
                Step::Made | Step::Dry => return,
                Step::NotDue { .. } | Step::NoRoom | Step::Ended if is_told => return,
                Step::NotDue { .. } | Step::NoRoom | Step::Ended => break,
            }
        }
        self.left.notify_one();
    }

    /// Whether something is here that the socket says nothing of.
    fn has_more(&self) -> bool {
        self.next.is_some() || self.reader.has_ahead()
    }

    /// Reads something, and hands it on if all of it is there.
    fn step(&mut self) -> Step {
        let next = match self.next.take() {
            Some(next) => next,
            None => {
                let (sink, peer, due) = (&self.sink, self.peer, self.place.due());
                // Only who has read all that came before knows where a payload goes.
                let land =
                    |header: &Header, len| if due.is_now() { landing(sink, peer, header, len) } else { None };
                match self.reader.take(&mut &*self.socket, land) {
                    Ok(Taken::Nothing) => return Step::Dry,
                    Ok(Taken::Part) => return Step::Made,
                    Ok(Taken::Record(Received::Message(message), len)) => Next::Message(message, len),
                    Ok(Taken::Record(Received::Malformed(error), _)) => Next::End(End::Malformed(error)),
                    Err(error) => Next::End(End::Over(error)),
                }
            }
        };
        if !self.place.due().is_now() {
            let is_over = matches!(next, Next::End(End::Over(_)));
            self.next = Some(next);
            return Step::NotDue { is_over };
        }
        match next {
            Next::Message(message, len) => {
                if !self.window.is_open() {
                    self.next = Some(Next::Message(message, len));
                    return Step::NoRoom;
                }
                let credit = self.window.credit(len);
                (self.sink)(LinkEvent::Message { from: self.peer, message, credit });
                self.place.hand_on(len);
                Step::Made
            }
            end @ Next::End(_) => {
                self.next = Some(end);
                Step::Ended
            }
        }
    }
}

impl Inbox {
    /// Takes what comes over a connection, until what this returns is dropped.
    pub(super) fn open(&self, connection: usize, incoming: Incoming) -> Opened<'_> {
        let mut lanes = self.lock();
        let left = incoming.left.clone();
        if lanes.len() <= connection {
            lanes.resize_with(connection + 1, || None);
        }
        lanes[connection] = Some(incoming);
        Opened { inbox: self, connection, left }
    }

    /// How many connections there are.
    pub(super) fn connections(&self) -> usize {
        self.lock().iter().flatten().count()
    }

    /// Hands on what has come over all connections, unless somebody does already. What needs to be waited for is left to the
    /// connections' tasks.
    pub(super) fn receive(&self) {
        let mut lanes = match self.lanes.try_lock() {
            Ok(lanes) => lanes,
            Err(TryLockError::Poisoned(lanes)) => lanes.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        lanes.iter_mut().flatten().for_each(Incoming::receive);
    }

    /// Whether anything was read that is yet to be handed on.
    pub(super) fn has_more(&self) -> bool {
        self.lock().iter().flatten().any(Incoming::has_more)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<Incoming>>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection whose messages are taken for as long as this lives.
pub(super) struct Opened<'a> {
    inbox: &'a Inbox,
    connection: usize,
    left: Arc<Notify>,
}

impl Opened<'_> {
    /// Hands on what has come, and says why it goes no further. [`Step::Made`] is for others to have their turn.
    pub(super) fn receive(&self) -> Step {
        self.with(|lane| {
            for _ in 0..MOST_STEPS {
                match lane.step() {
                    Step::Made => {}
                    step => return step,
                }
            }
            Step::Made
        })
        .unwrap_or(Step::Dry)
    }

    /// Waits until a thread that waits has left something to this one.
    pub(super) async fn left(&self) {
        self.left.notified().await;
    }

    /// How it has ended, if it has. Then nothing is read any more.
    pub(super) fn end(&self) -> Option<End> {
        let mut lanes = self.inbox.lock();
        let lane = lanes.get_mut(self.connection)?;
        let Some(Incoming { next: Some(Next::End(_)), .. }) = lane else { return None };
        let ended = lane.take();
        drop(lanes);
        match ended?.next? {
            Next::End(end) => Some(end),
            Next::Message(..) => None,
        }
    }

    fn with<R>(&self, work: impl FnOnce(&mut Incoming) -> R) -> Option<R> {
        self.inbox.lock().get_mut(self.connection)?.as_mut().map(work)
    }
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        let closed = self.inbox.lock().get_mut(self.connection).and_then(Option::take);
        drop(closed); // after the lock
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;
    use std::sync::mpsc::{Receiver, channel};
    use std::task::Waker;

    use bytes::Bytes;
    use mgcomp_codecs::Algorithm;

    use super::super::record::Record;
    use super::*;
    use crate::link::movement::Movement;
    use crate::message::{MessageId, Tag, TaggedSend};
    use crate::pool::Pool;

    const PEER: Rank = Rank(1);
    /// Messages of this length end a turn.
    const LONG: usize = 64 << 10;

    /// The other ends of so many connections, an inbox that is to take what they bring, and what it reports.
    fn joined(connections: usize, unseen_bytes: u64) -> (Vec<TcpStream>, Vec<Incoming>, Receiver<LinkEvent>) {
        let listener = TcpListener::bind("localhost:0").unwrap();
        let (report, reported) = channel();
        let sink: LinkSink = Arc::new(move |event| match event {
            LinkEvent::Coming { .. } => {} // nobody says where it goes
            event => report.send(event).unwrap(),
        });
        let window = ReceiveWindow::of(unseen_bytes, Waker::noop().clone());
        let pair = |place| {
            let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (socket, _) = listener.accept().unwrap();
            socket.set_nonblocking(true).unwrap();
            let reader = RecordReader::new((PEER, 0), 1 << 20, Arc::new(Movement::new()), Pool::default());
            (peer, Incoming::new(PEER, (Arc::new(socket), reader), place, window.clone(), sink.clone()))
        };
        let (peers, lanes) = Place::all(connections).map(pair).unzip();
        (peers, lanes, reported)
    }

    fn send(mut peer: &TcpStream, id: u16, len: usize) {
        let header = TaggedSend {
            id: MessageId(id),
            algorithm: Algorithm::None,
            continued: false,
            unawaited: false,
            tag: Tag(0),
            length: len as u32,
        };
        let record = Record::new(&Header::TaggedSend(header), Bytes::from(vec![7; len]));
        peer.write_all(&record.short(usize::MAX).unwrap()).unwrap();
    }

    /// The numbers of the messages that were reported.
    fn ids(reported: &Receiver<LinkEvent>) -> Vec<u16> {
        let id = |event| match event {
            LinkEvent::Message { message: Message { header: Header::TaggedSend(send), .. }, .. } => {
                Some(send.id.0)
            }
            _ => None,
        };
        reported.try_iter().filter_map(id).collect()
    }

    /// Asks until what has come says so.
    fn until(mut done: impl FnMut() -> bool) {
        while !done() {
            std::thread::yield_now();
        }
    }

    /// The numbers of at least so many messages that a thread that waits takes.
    fn take(inbox: &Inbox, reported: &Receiver<LinkEvent>, count: usize) -> Vec<u16> {
        let mut came = Vec::new();
        until(|| {
            inbox.receive();
            came.extend(ids(reported));
            came.len() >= count
        });
        came
    }

    #[test]
    fn who_waits_takes_what_comes_in_turn_over_all_connections() {
        let (peers, lanes, reported) = joined(2, 1 << 20);
        let inbox = Inbox::default();
        let opened: Vec<_> =
            lanes.into_iter().enumerate().map(|(place, lane)| inbox.open(place, lane)).collect();
        assert_eq!(inbox.connections(), 2);
        send(&peers[1], 2, 10);
        // It is there, and has to wait for the one before it.
        until(|| matches!(opened[1].receive(), Step::NotDue { is_over: false }));
        inbox.receive();
        assert!(ids(&reported).is_empty());
        send(&peers[0], 1, LONG);
        assert_eq!(take(&inbox, &reported, 2), [1, 2]);
        drop(opened);
        assert_eq!(inbox.connections(), 0);
        inbox.receive();
    }

    /// Whether the task of a connection would be woken, which is asleep while nothing is left to it.
    fn is_woken(opened: &Opened<'_>) -> bool {
        let mut left = std::pin::pin!(opened.left());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        std::future::Future::poll(left.as_mut(), &mut context).is_ready()
    }

    #[test]
    fn what_a_waiting_thread_has_read_and_cannot_hand_on_is_left_to_the_task() {
        let (peers, lanes, reported) = joined(2, 1 << 20);
        let inbox = Inbox::default();
        let opened: Vec<_> =
            lanes.into_iter().enumerate().map(|(place, lane)| inbox.open(place, lane)).collect();
        send(&peers[1], 2, 10);
        // The socket has nothing any more then, and says nothing.
        until(|| {
            inbox.receive();
            inbox.has_more()
        });
        assert!(is_woken(&opened[1]) && !is_woken(&opened[1]) && !is_woken(&opened[0]));
        inbox.receive();
        assert!(!is_woken(&opened[1]), "it was told");
        send(&peers[0], 1, LONG);
        assert_eq!(take(&inbox, &reported, 2), [1, 2]);
        assert!(!inbox.has_more() && !is_woken(&opened[0]) && !is_woken(&opened[1]));
        // Bytes that are no message are all read, and there are no others.
        (&peers[1]).write_all(&Record::of(&[0xff; 30], Bytes::new()).short(usize::MAX).unwrap()).unwrap();
        until(|| {
            inbox.receive();
            inbox.has_more()
        });
        assert!(is_woken(&opened[1]));
        assert!(matches!(opened[1].receive(), Step::Ended));
        send(&peers[1], 3, 10);
        assert!(matches!(opened[1].end(), Some(End::Malformed(_))));
        assert_eq!(inbox.connections(), 1, "nothing is read behind that");
        assert!(opened[1].end().is_none() && matches!(opened[1].receive(), Step::Dry));
    }

    #[test]
    fn a_thread_that_waits_does_not_read_for_ever() {
        let (peers, lanes, reported) = joined(1, 1 << 20);
        let inbox = Inbox::default();
        let opened: Vec<_> = lanes.into_iter().map(|lane| inbox.open(0, lane)).collect();
        let count = 3 * MOST_STEPS as u16;
        (0..count).for_each(|id| send(&peers[0], id, 50));
        // All of them are there, unless the first call that finds any came too early.
        let mut came = take(&inbox, &reported, 1);
        assert!((1..=MOST_STEPS).contains(&came.len()), "{} at once", came.len());
        if inbox.has_more() {
            assert!(is_woken(&opened[0]), "or nobody would look at the rest");
        }
        until(|| {
            opened[0].receive();
            came.extend(ids(&reported));
            came.len() == usize::from(count)
        });
        assert!(came.into_iter().eq(0..count));
    }

    #[test]
    fn messages_that_were_read_together_are_handed_on_together() {
        let (peers, lanes, reported) = joined(1, 1 << 20);
        let inbox = Inbox::default();
        let opened: Vec<_> = lanes.into_iter().map(|lane| inbox.open(0, lane)).collect();
        (1..=5).for_each(|id| send(&peers[0], id, 100));
        let wait = peers[0].try_clone().unwrap();
        wait.shutdown(std::net::Shutdown::Write).unwrap();
        let mut came = Vec::new();
        until(|| {
            inbox.receive();
            came.extend(ids(&reported));
            matches!(opened[0].receive(), Step::Ended)
        });
        came.extend(ids(&reported));
        assert_eq!(came, [1, 2, 3, 4, 5]);
        // Its end is for the connection's task.
        inbox.receive();
        assert!(matches!(opened[0].end(), Some(End::Over(LinkError::PeerClosed(PEER)))));
        assert!(opened[0].end().is_none());
    }

    #[test]
    fn without_room_a_message_waits() {
        // A message counts 256 bytes more than it has, and a header has 16.
        let (peers, lanes, reported) = joined(1, 100 + 16 + 256);
        let window = lanes[0].window.clone();
        let inbox = Inbox::default();
        let opened: Vec<_> = lanes.into_iter().map(|lane| inbox.open(0, lane)).collect();
        send(&peers[0], 1, 100);
        let first = loop {
            inbox.receive();
            if let Ok(first) = reported.try_recv() {
                break first;
            }
        };
        assert!(!window.is_open());
        send(&peers[0], 2, 100);
        until(|| matches!(opened[0].receive(), Step::NoRoom));
        inbox.receive();
        assert!(ids(&reported).is_empty());
        drop(first);
        inbox.receive();
        assert_eq!(ids(&reported), [2]);
        assert!(window.is_idle());
        send(&peers[0], 3, 100);
        assert_eq!(take(&inbox, &reported, 1), [3]);
    }
}
