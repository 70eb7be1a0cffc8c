//! What the examples share: how the ranks of a job come together.
//!
//! ```text
//! EXAMPLE                  four ranks, threads of this process
//! EXAMPLE RANK_FILE RANK   one rank of a job over TCP, started once for each (transport/README.md shows a rank file)
//! mpirun -n 4 EXAMPLE mpi  the ranks of an MPI job, with the feature `mpi`
//! ```

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use mgcomp_selector::{PolicySpec, Steering};
use mgcomp_transport::calibrate;
use mgcomp_transport::communicator::Communicator;
use mgcomp_transport::link::Link;
use mgcomp_transport::link::loopback::Loopback;
use mgcomp_transport::link::tcp::{RankFile, Tcp, TcpConfig};
use mgcomp_transport::message::{Rank, Secret};
use mgcomp_transport::node::{Node, NodeConfig, PeerState};

/// How long ranks may take to find each other.
const MEETING: Duration = Duration::from_secs(20);

pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// What a rank does; it returns what it has to say, or why it is not right.
pub(crate) type Work = fn(&Communicator) -> Result<String, Failure>;

/// Does `work` on all ranks that this process has. The exit code tells whether all went well.
pub(crate) fn run(work: Work) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        [] => in_threads(4, work),
        #[cfg(feature = "mpi")]
        ["mpi"] => under_mpi(work),
        [rank_file, rank] => over_tcp(Path::new(rank_file), rank, work),
        _ => Err("usage: EXAMPLE [RANK_FILE RANK], or under mpirun, built with the feature mpi: EXAMPLE mpi"
            .into()),
    };
    done.map_or_else(
        |error| {
            eprintln!("{error}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}

fn in_threads(ranks: u32, work: Work) -> Result<(), Failure> {
    let links = Loopback::fabric(ranks, None)?;
    thread::scope(|scope| {
        let secret = NodeConfig::default().secret;
        let start = |link| scope.spawn(move || as_rank(Box::new(link), secret, work));
        let threads: Vec<_> = links.into_iter().map(start).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a rank panicked")?)
    })
}

fn over_tcp(rank_file: &Path, rank: &str, work: Work) -> Result<(), Failure> {
    let rank_file = RankFile::read(rank_file)?;
    let secret = rank_file.secret;
    let config = TcpConfig { connect_timeout: MEETING, ..TcpConfig::new(NodeConfig::default().limits) };
    let link = Tcp::listen(rank_file, Rank(rank.parse()?), config)?;
    as_rank(Box::new(link), secret, work)
}

#[cfg(feature = "mpi")]
fn under_mpi(work: Work) -> Result<(), Failure> {
    use mgcomp_transport::link::mpi::{Mpi, MpiConfig};

    // The library calls MPI only while this thread waits in one of its calls.
    let (universe, _) = mpi::initialize_with_threading(mpi::Threading::Funneled).ok_or("MPI runs already")?;
    let link = Mpi::new(&universe.world(), MpiConfig::default())?;
    let secret = link.secret();
    as_rank(Box::new(link), secret, work)
}

fn as_rank(link: Box<dyn Link>, secret: Secret, work: Work) -> Result<(), Failure> {
    let rank = link.position().rank;
    // The policy that predicts, from what `mgcomp calibrate` measured on this machine if it was run.
    let steering = Steering { lambda: None, speeds: calibrate::speeds() };
    let policy = PolicySpec::Adaptive.build(&steering);
    let node = Node::start(link, policy, NodeConfig { secret, ..NodeConfig::default() })?;
    for (peer, state) in node.wait_for_peers(MEETING) {
        if let PeerState::Over(error) = state {
            return Err(format!("rank {peer}, as rank {rank} sees it: {error}").into());
        }
    }
    let world = Communicator::world(node);
    let said = work(&world).map_err(|error| format!("rank {rank}: {error}"))?;
    // Nobody leaves before all are done.
    world.barrier()?;
    let sent = world.node().stats().total();
    println!("rank {rank}: {said}; sent {} bytes as {}", sent.raw_bytes, sent.coded_bytes);
    Ok(())
}
