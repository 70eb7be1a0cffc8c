//! The connection with one peer: a queue in, records out, and the other way round.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mgcomp_selector::{LinkFacts, Overlap};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{sleep, timeout};

use super::counters::Counters;
use super::gauge::Gauge;
use super::record::{Received, Record, RecordReader};
use crate::link::movement::Movement;
use crate::link::rate::{Backlog, Rate, RateMeter};
use crate::link::{Credit, LinkError, LinkEvent, LinkSink, QUEUED_MESSAGE_BYTES, landing};
use crate::message::Rank;
use crate::pool::Pool;

/// Bytes of messages that were received and not looked at yet; the connection is not read beyond them.
const UNSEEN_BYTES: u32 = 64 << 20;
/// Bytes that are read at once beyond what is asked for: many short messages, or the start of a long one, whose rest is
/// read to where it goes.
const READ_AHEAD_BYTES: usize = 8 << 10;
/// How long a peer may take for what is still queued when the connection is closed.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);
/// How long to wait for a peer's last words when writing to it fails.
const FAREWELL_TIMEOUT: Duration = Duration::from_millis(200);

/// A message that is to be written.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) record: Record,
    /// Length of the message in bytes.
    pub(super) len: u64,
}

impl Outgoing {
    /// What it counts for in a queue.
    pub(super) fn queued_len(&self) -> u64 {
        self.len + QUEUED_MESSAGE_BYTES
    }
}

/// The way out to a peer.
#[derive(Debug)]
pub(super) struct Outbox {
    /// For what the socket does not take at once; taken when the peer is given up.
    pub(super) queue: Option<mpsc::UnboundedSender<Outgoing>>,
    /// The socket, while there is a connection: whoever sends may write to it while nothing is queued.
    socket: Option<std::net::TcpStream>,
}

impl Outbox {
    pub(super) fn new(queue: mpsc::UnboundedSender<Outgoing>) -> Self {
        Self { queue: Some(queue), socket: None }
    }

    /// What the kernel counts of the connection, while there is one.
    fn counters(&self) -> Option<Counters> {
        Counters::of(self.socket.as_ref()?)
    }

    /// Writes to the socket what it takes; returns whether that was all. Only while nothing is queued.
    pub(super) fn write_at_once(&self, message: &mut Outgoing, movement: &Movement) -> bool {
        // An error is left to the link's thread, which will meet it again and report it.
        self.socket.as_ref().is_some_and(|socket| message.record.try_write(socket, movement).unwrap_or(false))
    }
}

/// What goes on between this rank and a peer.
#[derive(Debug)]
pub(super) struct Traffic {
    /// Bytes of messages that are not written yet, or not to the end.
    pub(super) queued_bytes: AtomicU64,
    pub(super) written: Movement,
    pub(super) read: Movement,
    gauge: Gauge,
    /// How fast the peer takes what is written, where the kernel does not say.
    rate: Rate,
}

impl Traffic {
    pub(super) fn new() -> Self {
        Self {
            queued_bytes: AtomicU64::new(0),
            written: Movement::new(),
            read: Movement::new(),
            gauge: Gauge::default(),
            rate: Rate::default(),
        }
    }

    /// A message of `bytes` bytes is handed over, before which so much is queued.
    pub(super) fn sending(&self, bytes: u64, queued_bytes: u64) {
        self.gauge.sending(bytes, queued_bytes);
    }

    /// What is known of the way out, which is looked at again if enough was sent since the last time.
    pub(super) fn facts(&self, outbox: &Mutex<Outbox>) -> Option<LinkFacts> {
        // The latency is not known then; it is the same for raw and coded bytes.
        let slower = || LinkFacts::try_new(self.rate.gbps()?, 0, Overlap::None).ok();
        self.gauge.facts_by(|| lock(outbox).counters()).or_else(slower)
    }

    /// Whether the link's thread has something to write.
    pub(super) fn has_backlog(&self) -> bool {
        self.queued_bytes.load(Ordering::SeqCst) > 0
    }

    /// When bytes last moved.
    pub(super) fn last_moved(&self) -> Instant {
        self.read.latest().max(self.written.latest())
    }

    /// What was written may still lie in a buffer of this machine's while the peer hangs. So writing counts only
    /// while there is more to write: then those buffers are full, and headway is the peer's.
    pub(super) fn moved_since(&self, since: Instant) -> bool {
        self.read.since(since) || self.has_backlog() && self.written.since(since)
    }
}

/// A connection that is up.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    /// Records that were read while it was set up.
    pub(super) records: u64,
}

/// Serves one peer from the first attempt to connect to the end.
pub(super) struct PeerTask {
    pub(super) peer: Rank,
    /// Ends when this side closes.
    pub(super) queue: mpsc::UnboundedReceiver<Outgoing>,
    pub(super) outbox: Arc<Mutex<Outbox>>,
    /// Turns true when this side closes.
    pub(super) closed: watch::Receiver<bool>,
    pub(super) traffic: Arc<Traffic>,
    pub(super) record_limit: u64,
    pub(super) sink: LinkSink,
}

impl PeerTask {
    /// Waits for the connection that `connecting` makes and serves it until either end closes it.
    pub(super) async fn run(self, connecting: impl Future<Output = Result<Connection, LinkError>>) {
        let (peer, sink, mut closed) = (self.peer, self.sink.clone(), self.closed.clone());
        let connection = tokio::select! {
            connection = connecting => connection,
            _ = closed.wait_for(|&closed| closed) => return,
        };
        let end = match connection {
            Ok(connection) => self.serve(connection).await,
            Err(error) => Some(LinkEvent::Closed { peer, error }),
        };
        if let Some(event) = end {
            sink(event);
        }
    }

    /// Reads and writes until the end; returns what is to be reported of it.
    async fn serve(mut self, connection: Connection) -> Option<LinkEvent> {
        // Small messages are not to wait for more; where the option is missing they are merely slower.
        let _ = connection.stream.set_nodelay(true);
        let outbox = self.outbox.clone();
        let (stream, _lent) = match lend(connection.stream, &outbox) {
            Ok(lent) => lent,
            Err(error) => {
                let error = LinkError::io("using the connection to rank", self.peer, &error);
                return Some(LinkEvent::Closed { peer: self.peer, error });
            }
        };
        let (incoming, outgoing) = stream.into_split();
        let traffic = self.traffic.clone();
        let reader = RecordReader {
            stream: BufReader::with_capacity(READ_AHEAD_BYTES, incoming),
            peer: self.peer,
            record: connection.records,
            limit: self.record_limit,
            movement: &traffic.read,
            pool: Pool::default(),
        };
        let (peer, sink, closed) = (self.peer, self.sink.clone(), self.closed.clone());
        let mut receiving = pin!(receive(reader, &sink));
        let transmitted = tokio::select! {
            event = &mut receiving => return event,
            transmitted = self.transmit(outgoing) => transmitted,
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
                let farewell = timeout(FAREWELL_TIMEOUT, receiving).await;
                farewell.unwrap_or(Some(LinkEvent::Closed { peer, error }))
            }
        }
    }

    /// Writes what is queued until this side closes and all of it is out.
    async fn transmit(&mut self, mut stream: OwnedWriteHalf) -> io::Result<()> {
        let mut meter = RateMeter::new(&self.traffic.rate);
        while let Some(message) = self.queue.recv().await {
            let (len, left, started) = (message.queued_len(), message.record.remaining(), Instant::now());
            message.record.write(stream.as_ref(), &self.traffic.written).await?;
            let queued_bytes = self.traffic.queued_bytes.fetch_sub(len, Ordering::SeqCst);
            let backlog = if queued_bytes > len { Backlog::Some } else { Backlog::None };
            meter.wrote(left, started, Instant::now(), backlog);
        }
        stream.shutdown().await
    }
}

/// Lets whoever sends write to the connection, for as long as the second value lives.
fn lend(stream: TcpStream, outbox: &Mutex<Outbox>) -> io::Result<(TcpStream, Lent<'_>)> {
    let stream = stream.into_std()?;
    let second = stream.try_clone()?;
    lock(outbox).socket = Some(second);
    Ok((TcpStream::from_std(stream)?, Lent(outbox)))
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Lent<'a>(&'a Mutex<Outbox>);

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        lock(self.0).socket = None;
    }
}

/// Resolves some time after this side has closed.
async fn flush_deadline(mut closed: watch::Receiver<bool>) {
    // An error means that the link is gone altogether, which is as good as closed.
    let _ = closed.wait_for(|&closed| closed).await;
    sleep(FLUSH_TIMEOUT).await;
}

/// Hands messages up until the stream ends; returns how it did, unless that is of no more interest.
async fn receive(
    mut reader: RecordReader<'_, BufReader<OwnedReadHalf>>,
    sink: &LinkSink,
) -> Option<LinkEvent> {
    let from = reader.peer;
    let unseen = Arc::new(Semaphore::new(UNSEEN_BYTES as usize));
    loop {
        let received = reader.next(|header, len| landing(sink, from, header, len)).await;
        let message = match received {
            Ok(Received::Message(message)) => message,
            Ok(Received::Malformed(error)) => {
                sink(LinkEvent::Malformed { from, error });
                // Not the end of the connection: the peer may still be told what was wrong.
                discard(&mut reader.stream).await;
                return None;
            }
            Err(error) => return Some(LinkEvent::Closed { peer: from, error }),
        };
        let held_bytes = (message.wire_len() + QUEUED_MESSAGE_BYTES).min(UNSEEN_BYTES.into()) as u32;
        // The semaphore is never closed, so this only waits.
        let credit =
            unseen.clone().acquire_many_owned(held_bytes).await.map_or(Credit::none(), Credit::holding);
        sink(LinkEvent::Message { from, message, credit });
    }
}

/// Reads a stream to its end for nothing.
pub(super) async fn discard(stream: &mut (impl AsyncRead + Unpin)) {
    let mut ignored = [0; 4096];
    while stream.read(&mut ignored).await.is_ok_and(|read| read > 0) {}
}
