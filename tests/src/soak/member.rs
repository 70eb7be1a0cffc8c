//! A process that is a rank, in one generation after the other.
//!
//! It says, a line each:
//!
//! | line | meaning |
//! |---|---|
//! | `LISTENING address` | ready for a generation; its seed and the rank file, a line each, are expected on standard input |
//! | `STEP n` | so many operations of this generation went well; not all are told |
//! | `FAILED error` | an operation failed, or the ranks did not come together |
//! | `QUIET rss threads descriptors` | everything of the generation was given back; follows on `FAILED` |
//! | `WRONG what` | bytes are not what they should be; the last line |
//!
//! The end of standard input is its own.

use std::convert::Infallible;
use std::fmt::Arguments;
use std::io::{self, Write};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use mgcomp_selector::{PolicySpec, Steering};
use mgcomp_transport::communicator::Communicator;
use mgcomp_transport::link::tcp::RankFile;
use mgcomp_transport::message::Rank;
use mgcomp_transport::node::{Node, NodeConfig, PeerState};

use super::footprint::Footprint;
use super::operations::{self, Failure};
use super::way::{Start, Way};

/// How long ranks try to find each other.
const MEETING: Duration = Duration::from_secs(20);
/// How long threads may be seen that were joined.
const ENDING: Duration = Duration::from_secs(30);
/// Operations from one line to the next.
pub(super) const STEPS: u64 = 10;

/// Runs rank number `rank`, which meets the others by `way`.
#[must_use]
pub fn rank(rank: u32, way: Way) -> ExitCode {
    match generations(Rank(rank), way) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("soak, rank {rank}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn generations(rank: Rank, way: Way) -> Result<(), Box<dyn std::error::Error>> {
    let mut lines = io::stdin().lines();
    loop {
        let start = Start::by(way)?;
        tell(format_args!("LISTENING {}", start.address(rank)?));
        let Some(seed) = lines.next() else { return Ok(()) };
        let seed = seed?.parse()?;
        let rank_file = RankFile::parse(&lines.next().ok_or("a rank file is expected")??)?;
        match generation(start, rank_file, rank, seed) {
            Ok(never) => match never {},
            Err(Failure::Failed(error)) => tell(format_args!("FAILED {error}")),
            Err(Failure::Wrong(what)) => {
                tell(format_args!("WRONG {what}"));
                return Err(what.into());
            }
        }
        tell(format_args!("QUIET {}", quiet()?));
    }
}

/// Works with the others until that fails.
fn generation(start: Start, rank_file: RankFile, rank: Rank, seed: u64) -> Result<Infallible, Failure> {
    let config = NodeConfig {
        secret: rank_file.secret,
        greeting_timeout: MEETING,
        // A rank that is killed is known by its connections. One that is only slow, on a busy machine, is not to be given up.
        silence_timeout: Duration::from_secs(60),
        ..NodeConfig::default()
    };
    let link = start.link(rank_file, rank, config.limits, MEETING)?;
    let policy = ["adaptive", "paper", "fixed:none", "fixed:bdi"][(seed % 4) as usize];
    let policy = policy.parse::<PolicySpec>().map_err(Failure::from_error)?.build(&Steering::default());
    let node = Node::start(link, policy, config)?;
    for (peer, state) in node.wait_for_peers(2 * MEETING) {
        if state != PeerState::Open {
            return Err(Failure::Failed(format!("rank {peer} is not there: {state:?}")));
        }
    }
    let world = Communicator::world(node);
    let mut step = 0;
    loop {
        operations::step(&world, seed, step)?;
        step += 1;
        if step % STEPS == 0 {
            tell(format_args!("STEP {step}"));
        }
    }
}

/// What this process has. All its threads were joined with the nodes and communicators that had them.
fn quiet() -> io::Result<Footprint> {
    let started = Instant::now();
    loop {
        let footprint = Footprint::own()?;
        if footprint.threads <= 1 || started.elapsed() > ENDING {
            return Ok(footprint);
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Prints a line whole. Nobody may be there any more to read it.
fn tell(line: Arguments<'_>) {
    let _ = writeln!(io::stdout().lock(), "{line}");
}
