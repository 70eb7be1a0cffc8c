//! `mgcomp perf-rank`: one rank of `mgcomp perf`, a process that has the same flags and is told line by line who it is.

use std::io::{self, Write};
use std::net::TcpListener;
use std::thread;

use mgcomp_transport::link::tcp::{RankFile, Tcp};
use mgcomp_transport::message::Rank;
use serde::{Deserialize, Serialize};

use super::super::error::PerfError;
use super::super::options;
use super::{processes, take_part};
use crate::error::{CliError, with_causes};

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
    /// First of all: open a socket and say where.
    Listen { rank: u32 },
    /// Join the ranks of this rank file.
    Join { rank_file: String },
}

/// What a rank answers, a line of JSON each.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    Listening {
        address: String,
    },
    /// The last line. It is no cause if it came of what another rank did.
    Failed {
        text: String,
        is_cause: bool,
    },
}

pub(crate) fn run(args: &Args) -> Result<(), CliError> {
    Ok(take_orders(&args.perf)?)
}

fn take_orders(args: &options::Args) -> Result<(), PerfError> {
    let mut lines = io::stdin().lines().map_while(Result::ok);
    let first = lines.next().unwrap_or_default();
    let Order::Listen { rank } = parse(&first)? else { return Err(PerfError::Input(first)) };
    let failed = |source| PerfError::Process { rank, source };
    let listener = Tcp::bind("127.0.0.1:0").map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?.to_string();
    answer(&Answer::Listening { address }).map_err(failed)?;

    let second = lines.next().unwrap_or_default();
    let Order::Join { rank_file } = parse(&second)? else { return Err(PerfError::Input(second)) };
    end_with_parent();
    if let Err(error) = join(args, listener, Rank(rank), &rank_file) {
        let (text, is_cause) = (with_causes(&error), !error.is_of_connection());
        // Nobody hears it if the parent has gone, which is why it failed then.
        let _ = answer(&Answer::Failed { text, is_cause });
        std::process::exit(1);
    }
    Ok(())
}

fn join(args: &options::Args, listener: TcpListener, rank: Rank, rank_file: &str) -> Result<(), PerfError> {
    let rank_file = RankFile::parse(rank_file)?;
    let (ranks, secret) = (rank_file.ranks(), rank_file.secret);
    let data = args.load(ranks as usize)?;
    let link = Tcp::new(listener, rank_file, rank, processes::tcp_config(args)?)?;
    take_part(args, &data, Box::new(link), secret, ranks, &mut |_| Ok(())).map(drop)
}

fn answer(answer: &Answer) -> io::Result<()> {
    let line = serde_json::to_string(answer)?;
    writeln!(io::stdout(), "{line}")
}

fn parse(line: &str) -> Result<Order, PerfError> {
    serde_json::from_str(line).map_err(|_| PerfError::Input(line.to_owned()))
}

/// Standard input stays open for as long as the parent lives, whatever becomes of it.
fn end_with_parent() {
    thread::spawn(|| {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        std::process::exit(1);
    });
}
