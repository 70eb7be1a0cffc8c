//! Two ranks on a link, and what the second hears of the first.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use bytes::Bytes;
use mgcomp_codecs::{Algorithm, AlgorithmSet, ElementSet};
use mgcomp_transport::link::loopback::Loopback;
#[cfg(target_os = "linux")]
use mgcomp_transport::link::shm::{Shm, ShmConfig, ShmJob};
use mgcomp_transport::link::tcp::{RankFile, Tcp, TcpConfig};
use mgcomp_transport::link::{Link, LinkError, LinkEvent, Message, Position, SendError};
use mgcomp_transport::message::{
    Greeting, Header, Hello, Limits, MAX_IN_FLIGHT, MessageId, Rank, Secret, Tag, TaggedSend,
};
use mgcomp_transport::payload::Payload;

use super::{Kind, LinkBenchError};

/// Nothing takes this long.
const HANGS: Duration = Duration::from_secs(100);
/// For so long whoever waits does nothing else.
const EAGER: Duration = Duration::from_micros(100);
/// Who sends, and who receives.
const SENDER: Rank = Rank(1);
const RECEIVER: Rank = Rank(0);

/// Two ranks that have met.
pub(super) struct Pair {
    sender: Box<dyn Link>,
    /// Lives as long as the other.
    _receiver: Box<dyn Link>,
    heard: Arc<Heard>,
    /// Messages sent.
    sent: u64,
}

/// What the receiver hears.
struct Heard {
    base: Instant,
    /// What each message is to be, and whether to look.
    expected: Bytes,
    checks: AtomicBool,
    wrong: AtomicU64,
    count: AtomicU64,
    /// When the last one came, since `base`.
    latest_ns: AtomicU64,
    over: AtomicBool,
    /// Who waits until there are so many.
    waiter: Thread,
    awaited: AtomicU64,
}

impl Pair {
    /// Two ranks of which one will send `message` to the other over and over.
    pub(super) fn meet(kind: Kind, message: &Bytes, ring_bytes: Option<u64>) -> Result<Self, LinkBenchError> {
        let limits = Limits {
            max_transfer_bytes: message.len() as u32,
            window_bytes: u64::MAX,
            max_in_flight: MAX_IN_FLIGHT,
        };
        let (mut receiver, mut sender) = links(kind, limits, ring_bytes)?;
        let heard = Arc::new(Heard::new(message.clone()));
        let listening = heard.clone();
        receiver.start(Arc::new(move |event| listening.hear(&event)))?;
        let greeted = Arc::new(AtomicBool::new(false));
        let greeting = greeted.clone();
        sender.start(Arc::new(move |event| {
            greeting.fetch_or(matches!(event, LinkEvent::Message { .. }), Ordering::SeqCst);
        }))?;
        receiver.send(SENDER, hello(receiver.position(), limits))?;
        sender.send(RECEIVER, hello(sender.position(), limits))?;
        let pair = Self { sender, _receiver: receiver, heard, sent: 1 };
        pair.wait()?;
        let started = Instant::now();
        while !greeted.load(Ordering::SeqCst) {
            if started.elapsed() > HANGS {
                return Err(LinkBenchError::Hangs);
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(pair)
    }

    /// Sends one message; returns how long it took to be heard.
    pub(super) fn one_way(&mut self) -> Result<Duration, LinkBenchError> {
        let message = numbered(self.sent, self.heard.expected.clone());
        let sent_ns = self.heard.now_ns();
        self.send(message)?;
        self.wait()?;
        Ok(Duration::from_nanos(self.heard.latest_ns.load(Ordering::Relaxed).saturating_sub(sent_ns)))
    }

    /// Sends `count` messages one behind the other; returns how long it took until the last was heard.
    pub(super) fn stream(&mut self, count: usize) -> Result<Duration, LinkBenchError> {
        let started_ns = self.heard.now_ns();
        for _ in 0..count {
            self.send(numbered(self.sent, self.heard.expected.clone()))?;
        }
        self.wait()?;
        Ok(Duration::from_nanos(self.heard.latest_ns.load(Ordering::Relaxed).saturating_sub(started_ns)))
    }

    /// Sends `count` messages and looks at what comes.
    pub(super) fn check(&mut self, count: usize) -> Result<(), LinkBenchError> {
        self.heard.checks.store(true, Ordering::SeqCst);
        let checked = self.stream(count);
        self.heard.checks.store(false, Ordering::SeqCst);
        checked?;
        match self.heard.wrong.load(Ordering::SeqCst) {
            0 => Ok(()),
            wrong => Err(LinkBenchError::Wrong { wrong, of: count }),
        }
    }

    fn send(&mut self, message: Message) -> Result<(), LinkBenchError> {
        let started = Instant::now();
        loop {
            match self.sender.send(RECEIVER, message.clone()) {
                Ok(_) => break,
                Err(SendError::Full { .. }) if started.elapsed() < HANGS => thread::yield_now(),
                Err(error) => return Err(error.into()),
            }
        }
        self.sent += 1;
        Ok(())
    }

    /// Waits until all that was sent is heard.
    fn wait(&self) -> Result<(), LinkBenchError> {
        let (heard, sent) = (&self.heard, self.sent);
        let is_heard = || heard.count.load(Ordering::Acquire) >= sent || heard.over.load(Ordering::SeqCst);
        let started = Instant::now();
        while !is_heard() && started.elapsed() < EAGER {
            // The thread that receives may have to run on this very core.
            thread::yield_now();
        }
        // What takes long does not need a core for waiting.
        heard.awaited.store(sent, Ordering::SeqCst);
        while !is_heard() {
            if started.elapsed() > HANGS {
                return Err(LinkBenchError::Hangs);
            }
            thread::park_timeout(HANGS);
        }
        if heard.over.load(Ordering::SeqCst) { Err(LinkBenchError::Over) } else { Ok(()) }
    }
}

impl Heard {
    fn new(expected: Bytes) -> Self {
        Self {
            base: Instant::now(),
            expected,
            checks: AtomicBool::new(false),
            wrong: AtomicU64::new(0),
            count: AtomicU64::new(0),
            latest_ns: AtomicU64::new(0),
            over: AtomicBool::new(false),
            waiter: thread::current(),
            awaited: AtomicU64::new(u64::MAX),
        }
    }

    fn now_ns(&self) -> u64 {
        self.base.elapsed().as_nanos() as u64
    }

    fn hear(&self, event: &LinkEvent) {
        let message = match event {
            LinkEvent::Message { message, .. } => message,
            LinkEvent::Coming { .. } | LinkEvent::Written { .. } => return, // comes to nowhere else
            _ => {
                self.over.store(true, Ordering::SeqCst);
                return self.waiter.unpark();
            }
        };
        self.latest_ns.store(self.now_ns(), Ordering::Relaxed);
        if self.checks.load(Ordering::Relaxed) {
            let number = self.count.load(Ordering::Relaxed);
            let right = numbered(number, Bytes::new()).header;
            let expected = Header::TaggedSend(TaggedSend {
                length: self.expected.len() as u32,
                ..match right {
                    Header::TaggedSend(send) => send,
                    _ => return,
                }
            });
            let same = message.header == expected && message.payload.bytes() == Some(&self.expected);
            self.wrong.fetch_add(u64::from(!same), Ordering::SeqCst);
        }
        let count = 1 + self.count.fetch_add(1, Ordering::SeqCst);
        if count == self.awaited.load(Ordering::SeqCst) {
            self.waiter.unpark();
        }
    }
}

fn numbered(number: u64, payload: Bytes) -> Message {
    let header = Header::TaggedSend(TaggedSend {
        id: MessageId(number as u16),
        algorithm: Algorithm::None,
        continued: false,
        unawaited: false,
        tag: Tag(number),
        length: payload.len() as u32,
    });
    Message { header, payload: Payload::from_bytes(payload) }
}

fn hello(position: Position, limits: Limits) -> Message {
    let greeting = Greeting {
        secret: secret(),
        rank: position.rank,
        ranks: position.ranks,
        limits,
        algorithms: AlgorithmSet::supported(),
        elements: ElementSet::all(),
    };
    Message { header: Header::Hello(Hello::Greeting(greeting)), payload: Payload::empty() }
}

/// Another in each process: what is measured side by side must not meet.
fn secret() -> Secret {
    Secret::new(u128::from(std::process::id()).to_le_bytes())
}

/// The receiver's end and the sender's.
type Ends = (Box<dyn Link>, Box<dyn Link>);

fn links(kind: Kind, limits: Limits, ring_bytes: Option<u64>) -> Result<Ends, LinkBenchError> {
    match kind {
        Kind::Loopback => {
            // A queue without bound, as those of the other links are under these limits: no message is too long for it.
            let mut ends = Loopback::fabric_for(2, None, limits)?.into_iter();
            let mut end =
                || ends.next().map(|end| Box::new(end) as Box<dyn Link>).ok_or(LinkBenchError::Over);
            Ok((end()?, end()?))
        }
        Kind::Shm => shm(limits, ring_bytes),
        Kind::Tcp => {
            let listen =
                || Tcp::bind("127.0.0.1:0").map_err(|e| LinkError::io("listening on", "127.0.0.1", &e));
            let listeners = [listen()?, listen()?];
            let address = |listener: &TcpListener| listener.local_addr().map(|address| address.to_string());
            let addresses = listeners.iter().map(address).collect::<Result<_, _>>();
            let addresses = addresses.map_err(|e| LinkError::io("listening on", "127.0.0.1", &e))?;
            let rank_file = RankFile { secret: secret(), addresses };
            let config = TcpConfig { connect_timeout: HANGS, ..TcpConfig::new(limits) };
            let [receives, sends] = listeners;
            let end = |listener, rank| Tcp::new(listener, rank_file.clone(), rank, config);
            Ok((Box::new(end(receives, RECEIVER)?), Box::new(end(sends, SENDER)?)))
        }
    }
}

#[cfg(target_os = "linux")]
fn shm(limits: Limits, ring_bytes: Option<u64>) -> Result<Ends, LinkBenchError> {
    let job = ShmJob::new(secret(), 2);
    let mut config = ShmConfig::new(limits);
    config.ring_bytes = ring_bytes;
    let end = |rank| Shm::new(job.clone(), rank, config);
    Ok((Box::new(end(RECEIVER)?), Box::new(end(SENDER)?)))
}

#[cfg(not(target_os = "linux"))]
fn shm(_: Limits, _: Option<u64>) -> Result<Ends, LinkBenchError> {
    Err(LinkBenchError::NoShm)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_message_is_too_long_for_the_queue_of_loopback() {
        // Zeros that nobody looks at take no memory.
        let message = Bytes::from(vec![0; 1 << 30]);
        let mut pair = Pair::meet(Kind::Loopback, &message, None).unwrap();
        pair.one_way().unwrap();
    }
}
