//! Links whose ends are in processes under mpirun.

use std::collections::HashMap;
use std::io::{BufReader, Read};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Instant, SystemTime};

use mgcomp_selector::LinkFacts;
use mgcomp_transport::link::{
    Credit, Link, LinkError, LinkEvent, LinkSink, Message, Position, SendError, Sent,
};
use mgcomp_transport::message::{Limits, Rank};

use super::control::{self, Making, Order, Report};
use super::launch::Launched;
use super::{agent, launch};
use crate::common::{HANGS, wait_until};

/// Processes under one mpirun; links have so many ranks at most.
const AGENTS: u32 = 8;

/// Processes under mpirun, which serve all links of this test program.
struct Job {
    agents: Vec<Arc<Agent>>,
    /// All of them make links in the same order. The number of the next.
    next_link: Mutex<u64>,
    /// Ends when all agents do, which is when this process is gone.
    _mpirun: Launched,
}

/// A process as the test process sees it.
struct Agent {
    stream: Mutex<TcpStream>,
    /// What is known of each link.
    links: Mutex<HashMap<u64, End>>,
}

struct End {
    sink: Option<LinkSink>,
    answers: Sender<Report>,
}

/// The ends of a link over MPI of processes that may call it from any thread, or from one.
pub(crate) fn links(multiple: bool, ranks: u32, queue_bytes: u64, limits: Limits) -> Vec<Box<dyn Link>> {
    static JOBS: [OnceLock<Job>; 2] = [const { OnceLock::new() }; 2];
    let job = JOBS[usize::from(multiple)].get_or_init(|| Job::start(multiple));
    let making = Making { ranks, queue_bytes, max_transfer_bytes: limits.max_transfer_bytes };
    job.links(making).into_iter().map(|link| Box::new(link) as _).collect()
}

impl Job {
    fn start(multiple: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let multiple = if multiple { "1" } else { "0" };
        let variables = [(agent::ADDRESS, &*address), (agent::MULTIPLE, multiple)];
        let mut mpirun = launch::start(AGENTS, "mpi_agent", &variables);
        let mut agents: Vec<Option<Arc<Agent>>> = (0..AGENTS).map(|_| None).collect();
        listener.set_nonblocking(true).unwrap();
        wait_until("all agents are there", || {
            mpirun.expect_running();
            if let Ok((mut stream, _)) = listener.accept() {
                stream.set_nonblocking(false).unwrap();
                stream.set_nodelay(true).unwrap();
                let mut rank = [0; 4];
                stream.read_exact(&mut rank).unwrap();
                let writing = Mutex::new(stream.try_clone().unwrap());
                let agent = Arc::new(Agent { stream: writing, links: Mutex::default() });
                agents[u32::from_le_bytes(rank) as usize] = Some(agent.clone());
                thread::spawn(move || agent.listen(stream));
            }
            agents.iter().all(Option::is_some)
        });
        let agents = agents.into_iter().flatten().collect();
        Self { agents, next_link: Mutex::new(0), _mpirun: mpirun }
    }

    fn links(&self, making: Making) -> Vec<Remote> {
        let ranks = making.ranks;
        assert!(ranks <= AGENTS);
        let mut next_link = self.next_link.lock().unwrap();
        let link = *next_link;
        *next_link += 1;
        let remote = |(rank, agent): (u32, &Arc<Agent>)| {
            let (answer, answers) = mpsc::channel();
            agent.links.lock().unwrap().insert(link, End { sink: None, answers: answer });
            let remote = Remote {
                position: Position { rank: Rank(rank), ranks },
                agent: agent.clone(),
                link,
                answers: Mutex::new(answers),
            };
            remote.order(&Order::Make(making), None);
            remote
        };
        let mut remotes: Vec<_> = (0..).zip(&self.agents).map(remote).collect();
        remotes.iter().for_each(|remote| assert!(matches!(remote.answer(), Report::Done)));
        remotes.truncate(ranks as usize);
        remotes
    }
}

impl Agent {
    /// Hands out what the process says, until it is gone.
    fn listen(self: &Arc<Self>, stream: TcpStream) {
        // Whoever hears of something may ask for something at once, so that is not this thread's.
        let (report, events) = mpsc::channel();
        let agent = self.clone();
        thread::spawn(move || events.into_iter().for_each(|(link, event)| agent.hear(link, event)));
        let mut stream = BufReader::new(stream);
        while let Ok((link, said, bytes)) = control::read(&mut stream) {
            let event = match said {
                Report::Message { from, credit } => {
                    let credit = Credit::holding(Held { agent: self.clone(), credit });
                    LinkEvent::Message { from: Rank(from), message: control::message(bytes), credit }
                }
                Report::Malformed { from, text } => panic!("rank {from} sent no message: {text}"),
                Report::Closed { peer, error } => LinkEvent::Closed { peer: Rank(peer), error: error.into() },
                answer => {
                    if let Some(end) = self.links.lock().unwrap().get(&link) {
                        let _ = end.answers.send(answer);
                    }
                    continue;
                }
            };
            let _ = report.send((link, event)); // fails only if that thread has panicked
        }
        // The process is gone, and nobody must wait for it.
        self.links.lock().unwrap().clear();
    }

    fn hear(&self, link: u64, event: LinkEvent) {
        let sink = self.links.lock().unwrap().get(&link).and_then(|end| end.sink.clone());
        if let Some(sink) = sink {
            sink(event);
        }
    }
}

/// What a process holds back until a message was looked at.
struct Held {
    agent: Arc<Agent>,
    credit: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        let order = Order::Release { credit: self.credit };
        let _ = control::write(&self.agent.stream, 0, &order, None); // the process may be gone
    }
}

/// An end in another process.
struct Remote {
    position: Position,
    agent: Arc<Agent>,
    link: u64,
    /// Held by whoever waits for an answer.
    answers: Mutex<Receiver<Report>>,
}

impl Remote {
    fn order(&self, order: &Order, message: Option<&Message>) {
        control::write(&self.agent.stream, self.link, order, message).unwrap();
    }

    fn answer(&self) -> Report {
        self.answers.lock().unwrap().recv_timeout(HANGS).expect("an agent answers")
    }

    fn ask(&self, order: &Order, message: Option<&Message>) -> Report {
        let answers = self.answers.lock().unwrap();
        self.order(order, message);
        answers.recv_timeout(HANGS).expect("an agent answers")
    }
}

impl Link for Remote {
    fn position(&self) -> Position {
        self.position
    }

    fn start(&mut self, sink: LinkSink) -> Result<(), LinkError> {
        if let Some(end) = self.agent.links.lock().unwrap().get_mut(&self.link) {
            end.sink.get_or_insert(sink);
        }
        match self.ask(&Order::Start, None) {
            Report::Started(started) => started.map_err(Into::into),
            other => panic!("{other:?}"),
        }
    }

    fn send(&self, to: Rank, message: Message) -> Result<Sent, SendError> {
        match self.ask(&Order::Send { to: to.0 }, Some(&message)) {
            Report::Sent(sent) => sent.map(|()| Sent::Queued).map_err(Into::into),
            other => panic!("{other:?}"),
        }
    }

    fn moved_since(&self, peer: Rank, since: Instant) -> bool {
        let now = SystemTime::now(); // first: if time passes in between, it is asked of a little more
        match self.ask(&Order::HasMoved { peer: peer.0, since: now - since.elapsed() }, None) {
            Report::HasMoved(moved) => moved,
            other => panic!("{other:?}"),
        }
    }

    fn facts(&self, _peer: Rank) -> Option<LinkFacts> {
        None
    }

    fn close(&self, peer: Rank) {
        self.ask(&Order::Close { peer: peer.0 }, None);
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // A second panic would hide what a test has failed for, such as that the process is gone.
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let told = control::write(&self.agent.stream, self.link, &Order::Drop, None);
        let answer = told.ok().and_then(|()| answers.recv_timeout(HANGS).ok());
        assert!(answer.is_some() || thread::panicking(), "an agent answers");
        self.agent.links.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.link);
    }
}
