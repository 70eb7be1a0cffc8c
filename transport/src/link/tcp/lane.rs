//! One connection with a peer: a queue in, records out, and the other way round.

use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{sleep, timeout};

use super::outbox::{Lent, Outbox, Queue, lock};
use super::peer::{Traffic, UNSEEN_BYTES};
use super::record::{Received, RecordReader};
use super::turn::Place;
use crate::link::rate::{Backlog, Rate, RateMeter};
use crate::link::{Credit, LinkError, LinkEvent, LinkSink, QUEUED_MESSAGE_BYTES, landing};
use crate::message::{Header, MessageId, Rank};
use crate::pool::Pool;

/// Bytes that are read at once beyond what is asked for: many short messages, or the start of a long one, whose rest is
/// read to where it goes.
const READ_AHEAD_BYTES: usize = 8 << 10;
/// How long a message that may wait for the next one does.
const HELD: Duration = Duration::from_millis(50);
/// How long a peer may take for what is still queued when the connection is closed, and the consumer for what the peer had
/// written when writing to it fails.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);
/// How long nothing must come, twice, before a connection that has ended out of its turn is taken for lost.
const QUIET: Duration = Duration::from_secs(1);

/// A connection that is up.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    /// Records that were read while it was set up.
    pub(super) records: u64,
}

/// Serves one connection to its end.
pub(super) struct LaneTask {
    pub(super) peer: Rank,
    pub(super) place: Place,
    /// Ends when this side closes.
    pub(super) queue: Queue,
    pub(super) outbox: Arc<Mutex<Outbox>>,
    /// Turns true when this side closes.
    pub(super) closed: watch::Receiver<bool>,
    pub(super) traffic: Arc<Traffic>,
    /// Room for messages that nobody has looked at yet, for all connections together.
    pub(super) unseen: Arc<Semaphore>,
    /// For what comes, over any of them.
    pub(super) pool: Pool,
    pub(super) record_limit: u64,
    pub(super) sink: LinkSink,
}

impl LaneTask {
    /// Reads and writes until the end; returns what is to be reported of it.
    pub(super) async fn run(mut self, up: Connection) -> Option<LinkEvent> {
        // Small messages are not to wait for more; where the option is missing they are merely slower.
        let Connection { stream, records } = up;
        let _ = stream.set_nodelay(true);
        let (peer, outbox, connection) = (self.peer, self.outbox.clone(), self.place.connection());
        let sink = self.sink.clone();
        let (stream, rate, holds, _lent) = match Lent::new(stream, &outbox, connection) {
            Ok(lent) => lent,
            Err(error) => {
                let error = LinkError::io("using the connection to rank", peer, &error);
                return Some(LinkEvent::Closed { peer, error });
            }
        };
        let (incoming, outgoing) = stream.into_split();
        let (traffic, closed) = (self.traffic.clone(), self.closed.clone());
        let reader = RecordReader {
            stream: BufReader::with_capacity(READ_AHEAD_BYTES, incoming),
            peer,
            record: records,
            limit: self.record_limit,
            movement: &traffic.read,
            pool: self.pool.clone(),
        };
        let receiving = Receiving {
            reader,
            place: &mut self.place,
            closed: closed.clone(),
            unseen: self.unseen.clone(),
            sink: &self.sink,
        };
        let mut receiving = pin!(receiving.run());
        let transmitted = tokio::select! {
            event = &mut receiving => return event,
            transmitted = transmit(&mut self.queue, outgoing, &traffic, &rate, |send| {
                sink(LinkEvent::Written { to: peer, send });
            }) => transmitted,
            () = release_late(&holds, || lock(&outbox).release(connection, &traffic)) => return None,
            () = flush_deadline(closed) => return None,
        };
        match transmitted {
            // Read on until the peer is done too: closing earlier could destroy what it has not read yet.
            Ok(()) => {
                let _ = timeout(FLUSH_TIMEOUT, receiving).await;
                None
            }
            Err(error) => {
                let error = LinkError::io("writing to rank", peer, &error);
                let farewell = timeout(FLUSH_TIMEOUT, receiving).await;
                farewell.unwrap_or(Some(LinkEvent::Closed { peer, error }))
            }
        }
    }
}

/// Writes what is queued until this side closes and all of it is out. Tells which sends are.
async fn transmit(
    queue: &mut Queue,
    mut stream: OwnedWriteHalf,
    traffic: &Traffic,
    rate: &Rate,
    written: impl Fn(MessageId),
) -> io::Result<()> {
    let mut meter = RateMeter::new(rate);
    while let Some(message) = queue.recv().await {
        let (len, send) = (message.queued_len(), message.send);
        let (left, started) = (message.record.remaining(), Instant::now());
        message.record.write(stream.as_ref(), &traffic.written).await?;
        let backlog = if traffic.unqueued(len) { Backlog::Some } else { Backlog::None };
        meter.wrote(left, started, Instant::now(), backlog);
        send.into_iter().for_each(&written);
    }
    stream.shutdown().await
}

/// Lets what is held back go, some time after it is.
async fn release_late(holds: &Notify, release: impl Fn()) {
    loop {
        holds.notified().await;
        sleep(HELD).await;
        release();
    }
}

/// Resolves when this side has closed.
async fn is_closed(closed: &mut watch::Receiver<bool>) {
    // An error means that the link is gone altogether, which is as good as closed.
    let _ = closed.wait_for(|&closed| closed).await;
}

/// Resolves some time after this side has closed.
async fn flush_deadline(mut closed: watch::Receiver<bool>) {
    is_closed(&mut closed).await;
    sleep(FLUSH_TIMEOUT).await;
}

/// What comes over a connection.
struct Receiving<'a> {
    reader: RecordReader<'a, BufReader<OwnedReadHalf>>,
    place: &'a mut Place,
    closed: watch::Receiver<bool>,
    unseen: Arc<Semaphore>,
    sink: &'a LinkSink,
}

impl Receiving<'_> {
    /// Hands messages up in turn until the stream ends; returns how it did, unless that is of no more interest.
    async fn run(mut self) -> Option<LinkEvent> {
        let from = self.reader.peer;
        loop {
            // Only who has read all that came before knows where a payload goes.
            let land = |header: &Header, len| {
                if self.place.is_due() { landing(self.sink, from, header, len) } else { None }
            };
            let received = self.reader.next(land).await;
            if !self.wait_for_turn(received.is_err()).await {
                // Nothing that comes is of interest any more, but the peer may have to be rid of it.
                discard(&mut self.reader.stream).await;
                return None;
            }
            let message = match received {
                Ok(Received::Message(message)) => message,
                Ok(Received::Malformed(error)) => {
                    (self.sink)(LinkEvent::Malformed { from, error });
                    // Not the end of the connection: the peer may still be told what was wrong.
                    discard(&mut self.reader.stream).await;
                    return None;
                }
                Err(error) => return Some(LinkEvent::Closed { peer: from, error }),
            };
            let len = message.wire_len();
            let held_bytes = (len + QUEUED_MESSAGE_BYTES).min(UNSEEN_BYTES.into()) as u32;
            // The semaphore is never closed, so this only waits.
            let credit = self
                .unseen
                .clone()
                .acquire_many_owned(held_bytes)
                .await
                .map_or(Credit::none(), Credit::holding);
            (self.sink)(LinkEvent::Message { from, message, credit });
            self.place.hand_on(len);
        }
    }

    /// Waits until what came, or the end of the connection, has its turn; returns whether anybody is still interested.
    async fn wait_for_turn(&mut self, is_end: bool) -> bool {
        if self.place.is_due() {
            return true;
        }
        tokio::select! {
            biased;
            () = self.place.due() => true,
            () = is_closed(&mut self.closed) => false,
            () = silence(&self.unseen, &self.reader), if is_end => true,
        }
    }
}

/// Resolves when nothing has come over any connection for a while, and all that had come was looked at. A connection that
/// ends in good order does so behind others, on which more may be on the way; if nothing is, the others have not ended.
async fn silence<R>(unseen: &Semaphore, reader: &RecordReader<'_, R>) {
    let mut quiet = 0;
    while quiet < 2 {
        let since = Instant::now();
        sleep(QUIET).await;
        let is_quiet = unseen.available_permits() == UNSEEN_BYTES as usize && !reader.movement.since(since);
        quiet = if is_quiet { quiet + 1 } else { 0 };
    }
}

/// Reads a stream to its end for nothing.
pub(super) async fn discard(stream: &mut (impl AsyncRead + Unpin)) {
    let mut ignored = [0; 4096];
    while stream.read(&mut ignored).await.is_ok_and(|read| read > 0) {}
}
