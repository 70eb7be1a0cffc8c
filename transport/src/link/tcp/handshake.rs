//! Letting in the connections of higher ranks, each of which shows first that it belongs to the job.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::AbortHandle;
use tokio::time::{sleep, sleep_until, timeout};

use super::connections::Connections;
use super::join::{Join, Joined};
use super::lane::{Connection, discard};
use super::record::{Received, Record, first_record};
use crate::link::movement::Movement;
use crate::link::{LinkError, LinkEvent, LinkSink, Message, Position};
use crate::message::{Expected, Header, Hello, MAX_HELLO_LEN, Rank, Status, VERSION};
use crate::payload::Payload;

/// How long a stranger may take for its hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a stranger that was refused may take to read why.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);
/// How long it may take while others wait to be let in.
const CROWDED_HELLO_TIMEOUT: Duration = Duration::from_millis(500);
/// Strangers whose hello is awaited at once.
const STRANGERS: usize = 64;
/// Pause after an attempt to accept that failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Receives the connections of the ranks above this one.
pub(super) struct Acceptor {
    pub(super) expected: Expected,
    /// One for each rank above this one, taken once all its connections have come; the first says how many.
    pub(super) seats: Seats,
}

/// The ranks that may still connect, in their places among all ranks.
pub(super) type Seats = Mutex<Vec<Option<Seat>>>;

/// A rank that may still connect.
pub(super) struct Seat {
    /// Where to hand its connections, or why there are none.
    to: mpsc::Sender<Result<Arrival, LinkError>>,
    /// Where its hello is reported, if that is what its connection begins with.
    sink: LinkSink,
    /// Those that have come, if there are to be several.
    joined: Option<Joined>,
}

impl Seat {
    /// A seat, and where its connections arrive.
    pub(super) fn new(sink: LinkSink) -> (Self, mpsc::Receiver<Result<Arrival, LinkError>>) {
        let (to, arrivals) = mpsc::channel(Connections::MOST.count());
        (Self { to, sink, joined: None }, arrivals)
    }
}

/// A connection of a peer that was let in.
pub(super) struct Arrival {
    pub(super) connection: Connection,
    /// Its place among so many.
    pub(super) place: usize,
    pub(super) connections: usize,
}

/// What a connection of a rank that may connect begins with, and what its seat has for it.
type Admitted = (First, mpsc::Sender<Result<Arrival, LinkError>>, LinkSink);

/// What a connection begins with.
enum First {
    /// A hello; it is the only one.
    Hello(Rank, Message),
    Join(Join),
}

impl First {
    /// What the first record says, if it is of a rank that may connect.
    fn read(record: Bytes, expected: &Expected) -> Result<Self, Status> {
        if let Some(join) = Join::parse(&record) {
            let join = join?;
            join.verify(expected.secret, Position { rank: expected.own, ranks: expected.ranks })?;
            return Ok(Self::Join(join));
        }
        let message = match Received::of(record, None) {
            Received::Message(message) => message,
            Received::Malformed(error) => return Err(error.refusal_status().unwrap_or(Status::Protocol)),
        };
        let Header::Hello(Hello::Greeting(greeting)) = message.header else {
            return Err(Status::Protocol);
        };
        greeting.verify(expected)?;
        Ok(Self::Hello(greeting.rank, message))
    }

    fn rank(&self) -> Rank {
        match self {
            Self::Hello(rank, _) => *rank,
            Self::Join(join) => join.position.rank,
        }
    }

    /// Which of how many connections of its rank it is.
    fn place(&self) -> (usize, usize) {
        match self {
            Self::Hello(..) => (0, 1),
            Self::Join(join) => (join.connection.into(), join.connections.into()),
        }
    }
}

impl Acceptor {
    /// Accepts connections until the link ends.
    pub(super) async fn run(self: Arc<Self>, listeners: Vec<TcpListener>) {
        let (mut strangers, room) = (VecDeque::new(), Arc::new(Semaphore::new(STRANGERS)));
        let mut next = 0;
        loop {
            match accept_from(&listeners, &mut next).await {
                Ok((stream, address)) => {
                    let acceptor = self.clone();
                    let place = make_room(&room, &mut strangers).await;
                    let welcome = async move {
                        let _place = place;
                        if timeout(HELLO_TIMEOUT, acceptor.welcome(stream)).await.is_err() {
                            tracing::warn!(%address, "no hello in time");
                        }
                    };
                    let task = tokio::spawn(welcome).abort_handle();
                    strangers.push_back(Stranger { task, since: Instant::now() });
                }
                Err(error) => {
                    // Out of file descriptors, say: others may close some.
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Reads the hello and hands the connection to whom it belongs, or says why not.
    async fn welcome(&self, mut stream: TcpStream) {
        // Who it is from is not known yet.
        let record = match first_record(&mut stream, self.expected.own, MAX_HELLO_LEN as u64).await {
            Ok(record) => record,
            Err(error) => {
                tracing::warn!(%error, "a connection brought no hello");
                return;
            }
        };
        match self.admit(record) {
            Ok((first, to, sink)) => {
                let (place, connections) = first.place();
                if let First::Hello(from, message) = first {
                    let credit = crate::link::Credit::none();
                    sink(LinkEvent::Message { from, message, credit });
                }
                let connection = Connection { stream, records: 1 };
                // The seat has room for all that are let in.
                let _ = to.try_send(Ok(Arrival { connection, place, connections }));
            }
            Err(status) => {
                tracing::warn!(%status, "a connection was refused");
                let _ = timeout(REFUSAL_TIMEOUT, refuse(stream, status)).await;
            }
        }
    }

    /// Checks a first record; finds the seat of the rank that it names.
    fn admit(&self, record: Bytes) -> Result<Admitted, Status> {
        let first = First::read(record.clone(), &self.expected)
            .inspect_err(|_| self.turn_other_version_away(&record))?;
        let mut seats = self.seats();
        let place = seats.get_mut(first.rank().0 as usize).ok_or(Status::WrongRank)?;
        let seat = place.as_mut().ok_or(Status::WrongRank)?;
        let is_taken = match &first {
            First::Join(join) => {
                let joined = seat.joined.get_or_insert_with(|| Joined::expecting(join));
                joined.add(join)?;
                joined.is_complete()
            }
            First::Hello(..) if seat.joined.is_some() => return Err(Status::WrongRank),
            First::Hello(..) => true,
        };
        let (to, sink) = (seat.to.clone(), seat.sink.clone());
        if is_taken {
            *place = None;
        }
        if to.is_closed() {
            return Err(Status::Closing); // this side has given the rank up in the meantime
        }
        Ok((first, to, sink))
    }

    /// A member of the job that speaks another version will not come again.
    fn turn_other_version_away(&self, record: &[u8]) {
        let Expected { secret, ranks, own, .. } = self.expected;
        let joining = Join::of_other_version(record, secret, Position { rank: own, ranks });
        let Some((peer, theirs)) = joining.or_else(|| Hello::of_other_version(record, &self.expected)) else {
            return;
        };
        let mut seats = self.seats();
        let Some(place) = seats.get_mut(peer.0 as usize) else { return };
        if let Some(seat) = place.take_if(|seat| seat.joined.is_none()) {
            // The seat has room: nothing has come there.
            let _ = seat.to.try_send(Err(LinkError::OtherVersion { peer, theirs, own: VERSION }));
        }
    }

    fn seats(&self) -> MutexGuard<'_, Vec<Option<Seat>>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The next connection to any of them. Who was last comes last: strangers on one address do not keep members off another.
async fn accept_from(listeners: &[TcpListener], next: &mut usize) -> io::Result<(TcpStream, SocketAddr)> {
    poll_fn(|context| {
        let (before, from) = listeners.split_at(*next % listeners.len().max(1));
        for (waited, listener) in (1..).zip(from.iter().chain(before)) {
            if let Poll::Ready(accepted) = listener.poll_accept(context) {
                *next = (*next + waited) % listeners.len();
                return Poll::Ready(accepted);
            }
        }
        Poll::Pending
    })
    .await
}

/// A connection whose hello is awaited.
struct Stranger {
    task: AbortHandle,
    since: Instant,
}

/// Waits until one more stranger can be let in. Members say hello at once, so whoever has waited longest is none, and
/// has to go if nobody goes by itself.
async fn make_room(
    room: &Arc<Semaphore>,
    strangers: &mut VecDeque<Stranger>,
) -> Option<OwnedSemaphorePermit> {
    strangers.retain(|stranger| !stranger.task.is_finished());
    if let Some(oldest) = strangers.front() {
        tokio::select! {
            biased;
            place = room.clone().acquire_owned() => return place.ok(),
            () = sleep_until((oldest.since + CROWDED_HELLO_TIMEOUT).into()) => oldest.task.abort(),
        }
    }
    // The semaphore is never closed, so this only waits for whoever goes.
    room.clone().acquire_owned().await.ok()
}

/// Tells a stranger why it is not let in, and waits until it has read it.
async fn refuse(mut stream: TcpStream, status: Status) -> io::Result<()> {
    let refusal = Header::Hello(Hello::refusal(status));
    let payload = Payload::empty().bytes().cloned().unwrap_or_default();
    Record::new(&refusal, payload).write(&stream, &Movement::new()).await?;
    stream.shutdown().await?;
    discard(&mut stream).await;
    Ok(())
}
