//! Ranks as processes of their own on this machine: this one is rank 0 and starts the others.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use mgcomp_transport::message::Secret;

use super::super::error::PerfError;
use super::super::measure::Sink;
use super::super::nccl::{Ids, ids};
use super::super::options::Args;
use super::child::{Answer, Order};
use super::{End, LinkKind, memory, nccl, take_part_with, tcp};
#[cfg(target_os = "linux")]
use super::{ipc, shm};
use crate::ranks;

/// How long the others may take to end once all is done, or one has failed: also the one that failed first, for which others are
/// not to be blamed.
const PARTING: Duration = Duration::from_secs(10);
const POLLING: Duration = Duration::from_millis(2);

pub(super) fn run(args: &Args, sink: &mut Sink<'_>) -> Result<u64, PerfError> {
    let ranks = args.ranks();
    memory::check(args, ranks as usize, ranks)?;
    let data = args.load(ranks as usize)?;
    let text = ranks::random_secret().map_err(PerfError::Random)?;
    let secret: Secret = text.parse().map_err(|_| PerfError::Random(io::ErrorKind::InvalidData.into()))?;
    let room = args.room(0)?;
    let ids = (args.link == LinkKind::Nccl).then(ids).transpose()?;
    let mut children = Children::start(args, &text, ids)?;
    let (link, ways) = match args.link {
        LinkKind::Tcp | LinkKind::Nccl => {
            let waiting = tcp::Waiting::start(0)?;
            let addresses = children.addresses(waiting.address.clone())?;
            (waiting.link(addresses, secret, args)?, None)
        }
        #[cfg(target_os = "linux")]
        LinkKind::Shm => (shm::link(0, ranks, secret, args)?, None),
        #[cfg(target_os = "linux")]
        LinkKind::Cuda => {
            let (link, ways) = ipc::link(0, ranks, secret, &room, args)?;
            (link, Some(ways))
        }
        other => return Err(PerfError::NoProcesses { link: other.name() }),
    };
    let end = End { link, secret, room, local_ranks: ranks, nccl: ids, ways };
    match take_part_with(args, &data, end, &mut || children.look(), sink) {
        Ok(wrong) => children.wait().map(|()| wrong),
        // What became of the connections does not say why.
        Err(error) if error.is_of_connection() => Err(children.find_cause().unwrap_or(error)),
        Err(error) => Err(error),
    }
}

/// Ranks 1 and up; ends them when dropped.
struct Children {
    children: Vec<Other>,
}

/// One of them.
struct Other {
    rank: u32,
    process: Child,
    orders: ChildStdin,
    answers: mpsc::Receiver<Answer>,
    /// Its last answer, once it has ended.
    last: Option<Answer>,
}

impl Children {
    fn start(args: &Args, secret: &str, ids: Option<Ids>) -> Result<Self, PerfError> {
        let (mut started, ranks) = (Self { children: Vec::new() }, args.ranks());
        for rank in 1..ranks {
            let host = if ids.is_some() { nccl::host(args, rank)? } else { None };
            let mut other = Other::start(rank, host)?;
            let nccl = ids.map(nccl::to_text).unwrap_or_default();
            other.order(&Order::Begin { rank, ranks, secret: secret.to_owned(), nccl })?;
            started.children.push(other);
        }
        Ok(started)
    }

    /// Hears where all listen, and tells them, with this process's own address in front.
    fn addresses(&mut self, own: String) -> Result<Vec<String>, PerfError> {
        let mut addresses = vec![own];
        for other in &mut self.children {
            addresses.push(other.address().map_err(|error| other.why_ended().unwrap_or(error))?);
        }
        for other in &mut self.children {
            other.order(&Order::Join { addresses: addresses.clone() })?;
        }
        Ok(addresses)
    }

    /// Whether all of them live, or have ended well.
    fn check(&mut self) -> Result<(), PerfError> {
        self.children.iter_mut().find_map(Other::failure).map_or(Ok(()), |failure| Err(failure.error))
    }

    /// The same while ranks meet, where one that fails takes others with it.
    fn look(&mut self) -> Result<(), PerfError> {
        self.check().map_err(|error| self.find_cause().unwrap_or(error))
    }

    /// Waits until all have ended, which they do by themselves now.
    fn wait(&mut self) -> Result<(), PerfError> {
        let until = Instant::now() + PARTING;
        while Instant::now() < until && !self.children.iter_mut().all(Other::has_ended) {
            thread::sleep(POLLING);
        }
        self.check()
    }

    /// Which of them has failed by itself, and not because another one did. Waits for a while until all have ended.
    fn find_cause(&mut self) -> Option<PerfError> {
        let until = Instant::now() + PARTING;
        loop {
            let mut failures = self.children.iter_mut().filter_map(Other::failure);
            let cause = failures.find(|failure| failure.is_cause);
            if cause.is_some() || Instant::now() >= until || self.children.iter_mut().all(Other::has_ended) {
                return cause.map(|failure| failure.error);
            }
            thread::sleep(POLLING);
        }
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        for Other { process, .. } in &mut self.children {
            // It may have ended by itself; either way it is gone afterwards.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Why a rank has ended.
struct Failure {
    error: PerfError,
    is_cause: bool,
}

impl Other {
    /// On a machine that NCCL takes for `host`, if that is said.
    fn start(rank: u32, host: Option<String>) -> Result<Self, PerfError> {
        let failed = |source| PerfError::Process { rank, source };
        let mut command = ranks::command("perf-rank").map_err(failed)?;
        // The same flags: the first word was this command.
        command.args(std::env::args_os().skip(2));
        command.envs(host.map(|host| (nccl::HOST_VARIABLE, host)));
        let (process, orders, answers) = ranks::start(&mut command).map_err(failed)?;
        Ok(Self { rank, process, orders, answers: hear(answers), last: None })
    }

    fn order(&mut self, order: &Order) -> Result<(), PerfError> {
        let (told, rank) = (ranks::say(order, &mut self.orders), self.rank);
        told.map_err(|source| self.why_ended().unwrap_or(PerfError::Process { rank, source }))
    }

    /// What it says next; nothing if it has ended.
    fn answer(&mut self) -> Result<Answer, PerfError> {
        self.answers.recv().map_err(|_| PerfError::Answer { rank: self.rank, line: String::new() })
    }

    /// Where it listens.
    fn address(&mut self) -> Result<String, PerfError> {
        match self.answer()? {
            Answer::Listening { address } => Ok(address),
            Answer::Failed { text, .. } => Err(PerfError::Rank { rank: self.rank, text }),
        }
    }

    /// Why it says nothing more, if that is because it has ended.
    fn why_ended(&mut self) -> Option<PerfError> {
        let status = self.process.wait().ok().filter(|status| !status.success())?;
        Some(PerfError::Ended { rank: self.rank, status })
    }

    fn has_ended(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(Some(_)))
    }

    /// Why it has ended, if it has, and not well.
    fn failure(&mut self) -> Option<Failure> {
        let status = self.process.try_wait().ok().flatten().filter(|status| !status.success())?;
        // It is said once, and asked for more often.
        self.last = self.last.take().or_else(|| self.answer().ok());
        Some(match &self.last {
            Some(Answer::Failed { text, is_cause }) => {
                let error = PerfError::Rank { rank: self.rank, text: text.clone() };
                Failure { error, is_cause: *is_cause }
            }
            _ => Failure { error: PerfError::Ended { rank: self.rank, status }, is_cause: true },
        })
    }
}

/// What a rank answers. Libraries write there too, as NCCL does its log: that is passed on, for a rank whose words nobody
/// reads stops sooner or later.
fn hear(said: ChildStdout) -> mpsc::Receiver<Answer> {
    let (tell, answers) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(said).split(b'\n').map_while(Result::ok) {
            match ranks::heard(&line) {
                // Nobody waits for it if the run is over.
                Some(answer) => drop(tell.send(answer)),
                None => drop(writeln!(io::stderr(), "{}", String::from_utf8_lossy(&line))),
            }
        }
    });
    answers
}
