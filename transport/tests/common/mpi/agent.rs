//! A process under mpirun, which has ends of links and does with them what it is told.

use std::collections::HashMap;
use std::io::BufReader;
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use mgcomp_transport::link::mpi::{Mpi, MpiConfig};
use mgcomp_transport::link::{self, Credit, Link, LinkEvent, LinkSink, Message};
use mgcomp_transport::message::{Limits, Rank};
use mpi::Threading;
use mpi::topology::{Color, Communicator, SimpleCommunicator};

use super::control::{self, Making, Order, Report};
use crate::common::LIMITS;

/// Where the test process listens.
pub(super) const ADDRESS: &str = "MGCOMP_AGENT_ADDRESS";
/// Set if any thread may call MPI.
pub(super) const MULTIPLE: &str = "MGCOMP_AGENT_MULTIPLE";
/// An agent that is left takes no longer to go.
const LEAVING: Duration = Duration::from_secs(10);

/// Does what the test process says, until that is gone.
pub(crate) fn serve() {
    let address = std::env::var(ADDRESS).expect("the tests start this under mpirun");
    let multiple = std::env::var_os(MULTIPLE).is_some_and(|value| value == "1");
    let level = if multiple { Threading::Multiple } else { Threading::Funneled };
    let (universe, got) = mpi::initialize_with_threading(level).unwrap();
    assert_eq!(got, level, "what MPI provides");
    let world = universe.world();

    let stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    let own = world.rank().to_le_bytes();
    std::io::Write::write_all(&mut &stream, &own).unwrap();
    let (make, making) = mpsc::channel();
    let agent = Agent { saying: saying(&stream), links: Mutex::default(), credits: Arc::default() };
    let agent = Arc::new(agent);
    let listening = agent.clone();
    thread::spawn(move || listening.listen(stream, &make));
    // This is the thread that may call MPI.
    while let Some((link, making)) = next(&making, multiple) {
        agent.make(&world, link, making);
    }
    thread::spawn(|| {
        thread::sleep(LEAVING);
        eprintln!("an agent does not get MPI to end");
        std::process::abort();
    });
    agent.links.lock().unwrap().clear();
}

/// The next link to make, with its number. Meanwhile, this thread lets links go on if no other may.
fn next(making: &Receiver<(u64, Making)>, multiple: bool) -> Option<(u64, Making)> {
    if multiple {
        return making.recv().ok();
    }
    loop {
        match making.try_recv() {
            Ok(order) => return Some(order),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) if link::drive() => {}
            Err(TryRecvError::Empty) => thread::sleep(Duration::from_micros(200)),
        }
    }
}

/// What is said of a link, and the message that came.
type Said = (u64, Report, Option<Message>);

/// Where to say something to the test process. A thread of its own writes that: one that lets links go on must not wait until the
/// test process has read a gibibyte of one of them, for closing another has a time limit.
fn saying(stream: &TcpStream) -> Sender<Said> {
    let stream = Mutex::new(stream.try_clone().unwrap());
    // What is not written yet is bounded by the credits that go with it.
    let (say, said) = mpsc::channel::<Said>();
    let write = move |(link, report, message): Said| {
        let _ = control::write(&stream, link, &report, message.as_ref()); // nobody may be there any more
    };
    thread::spawn(move || said.into_iter().for_each(write));
    say
}

struct Agent {
    saying: Sender<Said>,
    links: Mutex<HashMap<u64, Mpi>>,
    credits: Arc<Credits>,
}

/// Credits that the test process has not released.
#[derive(Default)]
struct Credits {
    held: Mutex<HashMap<u64, Credit>>,
    next: AtomicU64,
}

impl Agent {
    fn make(&self, world: &SimpleCommunicator, link: u64, making: Making) {
        let Making { ranks, queue_bytes, max_transfer_bytes } = making;
        let takes_part = (world.rank() as u32) < ranks;
        let color = if takes_part { Color::with_value(0) } else { Color::undefined() };
        if let Some(part) = world.split_by_color(color) {
            let limits = Limits { max_transfer_bytes, ..LIMITS };
            let config = MpiConfig { limits, queue_bytes, ..MpiConfig::default() };
            let made = Mpi::new(&part, config).unwrap();
            self.links.lock().unwrap().insert(link, made);
        }
        self.report(link, Report::Done);
    }

    /// Takes orders until the test process is gone.
    fn listen(&self, stream: TcpStream, make: &Sender<(u64, Making)>) {
        let mut stream = BufReader::new(stream);
        while let Ok((link, order, bytes)) = control::read(&mut stream) {
            let mut links = self.links.lock().unwrap();
            let mut subject = links.get_mut(&link);
            let report = match order {
                Order::Make(making) => {
                    drop(links);
                    make.send((link, making)).unwrap();
                    continue;
                }
                Order::Release { credit } => {
                    self.credits.held.lock().unwrap().remove(&credit);
                    continue;
                }
                Order::Drop => {
                    let dropped = links.remove(&link);
                    drop(links);
                    drop(dropped);
                    Report::Done
                }
                Order::Start => {
                    let started = subject.as_mut().unwrap().start(self.sink(link));
                    Report::Started(started.map_err(Into::into))
                }
                Order::Send { to } => {
                    let sent = subject.unwrap().send(Rank(to), control::message(bytes));
                    Report::Sent(sent.map(|_| ()).map_err(Into::into))
                }
                Order::HasMoved { peer, since } => {
                    let now = Instant::now();
                    let since = now.checked_sub(since.elapsed().unwrap_or_default()).unwrap();
                    Report::HasMoved(subject.unwrap().moved_since(Rank(peer), since))
                }
                Order::Close { peer } => {
                    subject.unwrap().close(Rank(peer));
                    Report::Done
                }
            };
            self.report(link, report);
        }
    }

    fn sink(&self, link: u64) -> LinkSink {
        let (saying, credits) = (self.saying.clone(), self.credits.clone());
        Arc::new(move |event| {
            let (report, message) = match event {
                LinkEvent::Coming { .. } | LinkEvent::Written { .. } => return,
                LinkEvent::Message { from, message, credit } => {
                    let number = credits.next.fetch_add(1, Ordering::SeqCst);
                    credits.held.lock().unwrap().insert(number, credit);
                    (Report::Message { from: from.0, credit: number }, Some(message))
                }
                LinkEvent::Malformed { from, error } => {
                    (Report::Malformed { from: from.0, text: error.to_string() }, None)
                }
                LinkEvent::Closed { peer, error } => {
                    (Report::Closed { peer: peer.0, error: error.into() }, None)
                }
            };
            let _ = saying.send((link, report, message)); // fails only if that thread has panicked
        })
    }

    fn report(&self, link: u64, report: Report) {
        let _ = self.saying.send((link, report, None));
    }
}
