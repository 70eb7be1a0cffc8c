//! One connection with a peer: a queue in, records out, and the other way round.

use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Wake;
use std::time::{Duration, Instant};

use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, watch};
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use super::inbox::{End, Inbox, Incoming, Opened, Step};
use super::outbox::{Lent, Outbox, Queue, lock};
use super::reader::RecordReader;
use super::turn::{Due, Place};
use crate::link::flow::{FLUSH_TIMEOUT, Flow, ReceiveWindow};
use crate::link::rate::{Backlog, Buffers, Rate, RateMeter};
use crate::link::{LinkError, LinkEvent, LinkSink};
use crate::message::{MessageId, Rank};
use crate::pool::Pool;

/// How long a message that may wait for the next one does.
const HELD: Duration = Duration::from_millis(50);
/// How long nothing must come, twice, before a connection that has ended out of its turn is taken for lost.
const QUIET: Duration = Duration::from_secs(1);

/// A connection that is up.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    /// Records that were read while it was set up.
    pub(super) records: u64,
}

/// Room for messages that nobody has looked at yet.
#[derive(Clone)]
pub(super) struct Room {
    pub(super) window: Arc<ReceiveWindow>,
    reopened: Arc<Reopened>,
}

/// Tells all who wait for it that the window is open again.
#[derive(Default)]
struct Reopened(Notify);

impl Wake for Reopened {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.notify_waiters();
    }
}

impl Room {
    pub(super) fn new() -> Self {
        let reopened = Arc::<Reopened>::default();
        Self { window: ReceiveWindow::new(reopened.clone().into()), reopened }
    }

    /// Waits until there is any. Another connection may have used it by then.
    async fn made(&self) {
        // Before the look: what happens between both counts.
        let reopened = self.reopened.0.notified();
        if !self.window.is_open() {
            reopened.await;
        }
    }
}

/// Serves one connection to its end.
pub(super) struct LaneTask {
    pub(super) peer: Rank,
    pub(super) place: Place,
    /// Ends when this side closes.
    pub(super) queue: Queue,
    pub(super) outbox: Arc<Mutex<Outbox>>,
    pub(super) inbox: Arc<Inbox>,
    /// Turns true when this side closes.
    pub(super) closed: watch::Receiver<bool>,
    pub(super) flow: Arc<Flow>,
    /// For all connections together.
    pub(super) room: Room,
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
        keep_alive(&stream);
        let (peer, outbox, inbox) = (self.peer, self.outbox.clone(), self.inbox.clone());
        let (connection, due) = (self.place.connection(), self.place.due().clone());
        let (stream, socket) = match lend(stream) {
            Ok(both) => both,
            Err(error) => {
                let error = LinkError::io("using the connection to rank", peer, &error);
                return Some(LinkEvent::Closed { peer, error });
            }
        };
        let (rate, holds, _lent) = Lent::new(socket.clone(), &outbox, connection);
        let (incoming, outgoing) = stream.into_split();
        let (flow, closed, sink) = (self.flow.clone(), self.closed.clone(), self.sink.clone());
        let (room, movement) = (self.room, flow.read.clone());
        let reader = RecordReader::new((peer, records), self.record_limit, movement, self.pool);
        let lane = Incoming::new(peer, (socket, reader), self.place, room.window.clone(), self.sink);
        let receiving = Receiving {
            peer,
            opened: inbox.open(connection, lane),
            stream: incoming,
            due,
            closed: closed.clone(),
            room,
            flow: &flow,
            sink: &sink,
        };
        let mut receiving = pin!(receiving.run());
        let transmitted = tokio::select! {
            event = &mut receiving => return event,
            transmitted = transmit(&mut self.queue, outgoing, &flow, &rate, |send| {
                sink(LinkEvent::Written { to: peer, send });
            }) => transmitted,
            () = release_late(&holds, || lock(&outbox).release(connection, &flow)) => return None,
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
    flow: &Flow,
    rate: &Rate,
    written: impl Fn(MessageId),
) -> io::Result<()> {
    let mut meter = RateMeter::new(rate, Buffers::Some);
    while let Some(message) = queue.recv().await {
        let (held_bytes, send) = (message.held_bytes(), message.send);
        let (left, started) = (message.record.remaining(), Instant::now());
        message.record.write(stream.as_ref(), &flow.written).await?;
        let backlog = if flow.queued.remove(held_bytes) { Backlog::Some } else { Backlog::None };
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
    peer: Rank,
    opened: Opened<'a>,
    stream: OwnedReadHalf,
    due: Due,
    closed: watch::Receiver<bool>,
    room: Room,
    flow: &'a Flow,
    sink: &'a LinkSink,
}

impl Receiving<'_> {
    /// Hands messages up in turn until the stream ends; returns how it did, unless that is of no more interest.
    async fn run(mut self) -> Option<LinkEvent> {
        let from = self.peer;
        loop {
            match self.receive().await {
                Step::Made | Step::Dry => yield_now().await,
                Step::NoRoom => self.room.made().await,
                Step::NotDue { is_over } => {
                    if !self.wait_for_turn(is_over).await {
                        // Nothing that comes is of interest any more, but the peer may have to be rid of it.
                        discard(&mut self.stream).await;
                        return None;
                    }
                    // Its turn may never come: then that was waited for.
                    if is_over && let Some(End::Over(error)) = self.opened.end() {
                        return Some(LinkEvent::Closed { peer: from, error });
                    }
                }
                Step::Ended => match self.opened.end()? {
                    End::Over(error) => return Some(LinkEvent::Closed { peer: from, error }),
                    End::Malformed(error) => {
                        (self.sink)(LinkEvent::Malformed { from, error });
                        // Not the end of the connection: the peer may still be told what was wrong.
                        discard(&mut self.stream).await;
                        return None;
                    }
                },
            }
        }
    }

    /// Hands on what comes for as long as it can, and says why it goes no further.
    async fn receive(&self) -> Step {
        match self.opened.receive() {
            Step::Dry => {}
            step => return step,
        }
        let receive = || match self.opened.receive() {
            Step::Dry => Err(io::ErrorKind::WouldBlock.into()),
            step => Ok(step),
        };
        tokio::select! {
            biased;
            // An error would mean that the runtime is gone, and this with it.
            step = self.stream.as_ref().async_io(Interest::READABLE, receive) => step.unwrap_or(Step::Dry),
            () = self.opened.left() => Step::Made,
        }
    }

    /// Waits until what came, or the end of the connection, has its turn; returns whether anybody is still interested.
    async fn wait_for_turn(&mut self, is_end: bool) -> bool {
        if self.due.is_now() {
            return true;
        }
        tokio::select! {
            biased;
            () = self.due.reached() => true,
            () = is_closed(&mut self.closed) => false,
            () = silence(&self.room.window, self.flow), if is_end => true,
        }
    }
}

/// A connection, and the same for whoever sends or waits.
fn lend(stream: TcpStream) -> io::Result<(TcpStream, Arc<std::net::TcpStream>)> {
    let stream = stream.into_std()?;
    let second = Arc::new(stream.try_clone()?);
    Ok((TcpStream::from_std(stream)?, second))
}

/// Where nothing is owed, nobody would hear of a machine that is gone, or of a flow that something between has forgotten: the
/// kernel asks after a minute, and gives up after two. Where it cannot, that is merely found out later.
fn keep_alive(stream: &TcpStream) {
    let _ = sockopt::set_socket_keepalive(stream, true)
        .and_then(|()| sockopt::set_tcp_keepidle(stream, Duration::from_secs(60)))
        .and_then(|()| sockopt::set_tcp_keepintvl(stream, Duration::from_secs(10)))
        .and_then(|()| sockopt::set_tcp_keepcnt(stream, 6));
}

/// Resolves when nothing has come over any connection for a while, and all that had come was looked at. A connection that
/// ends in good order does so behind others, on which more may be on the way; if nothing is, the others have not ended.
async fn silence(window: &ReceiveWindow, flow: &Flow) {
    let mut quiet = 0;
    while quiet < 2 {
        let since = Instant::now();
        sleep(QUIET).await;
        let is_quiet = window.is_idle() && !flow.read.since(since);
        quiet = if is_quiet { quiet + 1 } else { 0 };
    }
}

/// Reads a stream to its end for nothing.
pub(super) async fn discard(stream: &mut (impl AsyncRead + Unpin)) {
    let mut ignored = [0; 4096];
    while stream.read(&mut ignored).await.is_ok_and(|read| read > 0) {}
}
