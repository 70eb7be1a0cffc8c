//! Making connections: the higher rank connects to the lower one, and shows first that it belongs to the job.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::AbortHandle;
use tokio::time::{sleep, sleep_until, timeout};

use super::peer::{Connection, discard};
use super::record::{Received, Record, RecordReader};
use crate::link::movement::Movement;
use crate::link::{LinkError, LinkEvent, LinkSink, Message};
use crate::message::{Expected, Header, Hello, MAX_HELLO_LEN, Rank, Status};
use crate::payload::Payload;
use crate::pool::Pool;

/// How long a stranger may take for its hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a stranger that was refused may take to read why.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);
/// How long it may take while others wait to be let in.
const CROWDED_HELLO_TIMEOUT: Duration = Duration::from_millis(500);
/// Strangers whose hello is awaited at once.
const STRANGERS: usize = 64;
/// How long one attempt to connect may take.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(3);
/// Pause between attempts to connect.
const ATTEMPT_PAUSE: Duration = Duration::from_millis(50);

/// Connects to `peer`, trying again until `limit` has passed: ranks do not start at the same moment.
pub(super) async fn connect(peer: Rank, address: String, limit: Duration) -> Result<Connection, LinkError> {
    let started = Instant::now();
    loop {
        let attempt = timeout(ATTEMPT_TIMEOUT, TcpStream::connect(&address)).await;
        let text = match attempt {
            // Where nobody listens on this machine, a socket can get the very port that it asks for.
            Ok(Ok(stream)) if is_own(&stream) => "it does not listen yet".to_owned(),
            Ok(Ok(stream)) => return Ok(Connection { stream, records: 0 }),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer".to_owned(),
        };
        if started.elapsed() + ATTEMPT_PAUSE >= limit {
            return Err(LinkError::Unreachable { peer, address, seconds: limit.as_secs(), text });
        }
        sleep(ATTEMPT_PAUSE).await;
    }
}

/// Whether both ends of a connection are the same socket.
fn is_own(stream: &TcpStream) -> bool {
    stream.local_addr().is_ok_and(|local| stream.peer_addr().is_ok_and(|peer| local == peer))
}

/// Receives the connections of the ranks above this one.
pub(super) struct Acceptor {
    pub(super) expected: Expected,
    /// One for each rank above this one, taken by its first good connection.
    pub(super) seats: Seats,
    /// Where the hello of an accepted peer is reported.
    pub(super) sink: LinkSink,
}

/// The ranks that may still connect: for each rank of the job where to hand its connection, if it has not come.
pub(super) type Seats = std::sync::Mutex<Vec<Option<mpsc::Sender<Connection>>>>;

impl Acceptor {
    /// Accepts connections until the link ends.
    pub(super) async fn run(self: Arc<Self>, listener: TcpListener) {
        let (mut strangers, room) = (VecDeque::new(), Arc::new(Semaphore::new(STRANGERS)));
        loop {
            match listener.accept().await {
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
                    sleep(ATTEMPT_PAUSE).await;
                }
            }
        }
    }

    /// Reads the hello and hands the connection to whom it belongs, or says why not.
    async fn welcome(&self, mut stream: TcpStream) {
        let movement = Movement::new();
        let mut reader = RecordReader {
            stream: &mut stream,
            peer: self.expected.own, // not known yet
            record: 0,
            limit: MAX_HELLO_LEN as u64,
            movement: &movement,
            pool: Pool::default(),
        };
        let received = match reader.next(|_, _| None).await {
            Ok(received) => received,
            Err(error) => {
                tracing::warn!(%error, "a connection brought no hello");
                return;
            }
        };
        match self.admit(received) {
            Ok((from, message, seat)) => {
                let credit = crate::link::Credit::none();
                (self.sink)(LinkEvent::Message { from, message, credit });
                // The seat has room for the one connection that takes it.
                let _ = seat.try_send(Connection { stream, records: 1 });
            }
            Err(status) => {
                tracing::warn!(%status, "a connection was refused");
                let _ = timeout(REFUSAL_TIMEOUT, refuse(stream, status)).await;
            }
        }
    }

    /// Checks a first record; takes the seat of the rank that it names.
    fn admit(&self, received: Received) -> Result<(Rank, Message, mpsc::Sender<Connection>), Status> {
        let message = match received {
            Received::Message(message) => message,
            Received::Malformed(error) => return Err(error.refusal_status().unwrap_or(Status::Protocol)),
        };
        let Header::Hello(Hello::Greeting(greeting)) = message.header else {
            return Err(Status::Protocol);
        };
        greeting.verify(&self.expected)?;
        let mut seats = self.seats.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let seat = seats.get_mut(greeting.rank.0 as usize).and_then(Option::take).ok_or(Status::WrongRank)?;
        if seat.is_closed() {
            return Err(Status::Closing); // this side has given the rank up in the meantime
        }
        Ok((greeting.rank, message, seat))
    }
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
