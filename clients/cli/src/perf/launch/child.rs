//! `mgcomp perf-rank`: one rank of `mgcomp perf`, a process that has the same flags and is told line by line who it is.

use std::io;
use std::thread;

use mgcomp_transport::message::Secret;
use serde::{Deserialize, Serialize};

use super::super::error::PerfError;
use super::super::options;
use super::{End, LinkKind, nccl, take_part, tcp};
#[cfg(target_os = "linux")]
use super::{ipc, shm};
use crate::error::{CliError, with_causes};
use crate::ranks;

/// Be one rank of `mgcomp perf`. Not for use by hand.
#[derive(clap::Args, Debug)]
#[command(hide = true)]
#[group(skip)] // both structs have the same name
pub(crate) struct Args {
    #[command(flatten)]
    perf: options::Args,
}

/// What a rank is told, a line of JSON each.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Order {
    /// First of all: who it is.
    Begin {
        rank: u32,
        ranks: u32,
        secret: String,
        /// What they meet by over NCCL, if they do.
        #[serde(default)]
        nccl: Vec<String>,
    },
    /// Where all ranks listen, if the link needs that.
    Join { addresses: Vec<String> },
}

/// What a rank answers, a line of JSON each.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    /// Where it listens, if the link needs that.
    Listening { address: String },
    /// The last line. It is no cause if it came of what another rank did.
    Failed { text: String, is_cause: bool },
}

pub(crate) fn run(args: &Args) -> Result<(), CliError> {
    Ok(take_orders(&args.perf)?)
}

fn take_orders(args: &options::Args) -> Result<(), PerfError> {
    let mut lines = io::stdin().lines().map_while(Result::ok);
    let first = lines.next().unwrap_or_default();
    let bad = || PerfError::Input(first.clone());
    let Order::Begin { rank, ranks, secret, nccl } = parse(&first)? else { return Err(bad()) };
    let secret: Secret = secret.parse().map_err(|_| bad())?;
    let is_nccl = args.link == LinkKind::Nccl;
    let ids = is_nccl.then(|| nccl::of_text(&nccl).ok_or_else(bad)).transpose()?;
    let meeting = match args.link {
        LinkKind::Tcp | LinkKind::Nccl => {
            let waiting = tcp::Waiting::start(rank)?;
            let answered = answer(&Answer::Listening { address: waiting.address.clone() });
            answered.map_err(|source| PerfError::Process { rank, source })?;
            let line = lines.next().unwrap_or_default();
            let Order::Join { addresses } = parse(&line)? else { return Err(PerfError::Input(line)) };
            Meeting::Tcp(waiting, addresses)
        }
        #[cfg(target_os = "linux")]
        LinkKind::Shm => Meeting::Shm,
        #[cfg(target_os = "linux")]
        LinkKind::Cuda => Meeting::Devices,
        other => return Err(PerfError::NoProcesses { link: other.name() }),
    };
    // It has standard input locked.
    drop(lines);
    end_with_parent();
    let join = || {
        let data = args.load(ranks as usize)?;
        let room = args.room(rank)?;
        let (link, ways) = match meeting {
            Meeting::Tcp(waiting, addresses) => (waiting.link(addresses, secret, args)?, None),
            #[cfg(target_os = "linux")]
            Meeting::Shm => (shm::link(rank, ranks, secret, args)?, None),
            #[cfg(target_os = "linux")]
            Meeting::Devices => {
                let (link, ways) = ipc::link(rank, ranks, secret, &room, args)?;
                (link, Some(ways))
            }
        };
        let end = End { link, secret, room, local_ranks: ranks, nccl: ids, ways };
        take_part(args, &data, end, &mut |_| Ok(()))
    };
    if let Err(error) = join() {
        let (text, is_cause) = (with_causes(&error), !error.is_of_connection());
        // Nobody hears it if the parent has gone, which is why it failed then.
        let _ = answer(&Answer::Failed { text, is_cause });
        std::process::exit(1);
    }
    Ok(())
}

/// What a rank knows of the others.
enum Meeting {
    Tcp(tcp::Waiting, Vec<String>),
    #[cfg(target_os = "linux")]
    Shm,
    #[cfg(target_os = "linux")]
    Devices,
}

fn answer(answer: &Answer) -> io::Result<()> {
    ranks::say(answer, &mut io::stdout().lock())
}

fn parse(line: &str) -> Result<Order, PerfError> {
    ranks::heard(line).ok_or_else(|| PerfError::Input(line.to_owned()))
}

/// Standard input stays open for as long as the parent lives, whatever becomes of it.
fn end_with_parent() {
    thread::spawn(|| {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        std::process::exit(1);
    });
}
