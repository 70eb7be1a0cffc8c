//! Running programs under mpirun, and what they find there.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use mgcomp_selector::{PolicySpec, Steering};
use mgcomp_transport::communicator::Communicator;
use mgcomp_transport::link::mpi::{Mpi, MpiConfig, MpiError};
use mgcomp_transport::message::Rank;
use mgcomp_transport::node::{Node, NodeConfig, PeerState};
use mpi::Threading;
use mpi::environment::Universe;
use mpi::topology::SimpleCommunicator;

use crate::common::mpi::launch;
use crate::common::{HANGS, LIMITS, watched};

const PROGRAM: &str = "MGCOMP_PROGRAM";
const LEVEL: &str = "MGCOMP_LEVEL";

/// Runs `program` on so many ranks, where MPI is initialized for that level of threads.
pub(super) fn run(program: &'static str, ranks: u32, level: &'static str) {
    end(program, ranks, level, true);
}

/// The same for a program that cannot go well: that the job ends.
pub(super) fn ruin(program: &'static str, ranks: u32, level: &'static str) {
    end(program, ranks, level, false);
}

/// The same for a program that finalizes MPI while links live: MPICH (4.0) may end the process where a thread of theirs is in a
/// call just then, and nothing can keep them out of MPI before it is too late.
pub(super) fn finalize(program: &'static str, ranks: u32, level: &'static str) {
    let is_mpich = mpi::environment::library_version().is_ok_and(|version| version.contains("MPICH"));
    if is_mpich && level == "multiple" {
        println!("SKIPPED: finalizing MPICH while threads of links call it, which it may not survive");
        return;
    }
    run(program, ranks, level);
}

fn end(program: &'static str, ranks: u32, level: &'static str, well: bool) {
    watched(move || {
        if launch::is_possible() {
            let processes = launch::start(ranks, "mpi_program", &[(PROGRAM, program), (LEVEL, level)]);
            assert_eq!(processes.end(), well, "see what they said");
        }
    });
}

/// Runs an example on so many ranks.
pub(super) fn run_example(name: &'static str, ranks: u32) {
    if !launch::is_possible() {
        return;
    }
    let example = built_example(name);
    watched(move || {
        let processes = launch::start_program(ranks, &example, &["mpi"], &[]);
        assert!(processes.end(), "{name} on {ranks} ranks");
    });
}

/// The example `name`, built in the profile of this test.
fn built_example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    // target/profile/deps/test
    let profile = test.ancestors().nth(2).unwrap();
    // Started by hand, whatever is there has to do.
    if let Some(cargo) = std::env::var_os("CARGO") {
        let mut build = Command::new(cargo);
        // As tests/run selects packages and features: of another selection, all would be built anew.
        build.args(["build", "--quiet", "--workspace", "--features", "mgcomp-transport/mpi,mgcomp-cli/mpi"]);
        build.args(["--example", name, "--test", "mpi"]);
        // What Cargo tells this test of itself would count as another environment for build scripts that look at it.
        for (name, _) in std::env::vars_os() {
            let is_own = |name: &str| {
                name == "OUT_DIR" || name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
            };
            if name.to_str().is_some_and(is_own) {
                build.env_remove(name);
            }
        }
        build.current_dir(env!("CARGO_MANIFEST_DIR")).arg("--target-dir").arg(profile.parent().unwrap());
        if profile.ends_with("release") {
            build.arg("--release");
        }
        assert!(build.status().unwrap().success(), "{name} does not build");
    }
    profile.join("examples").join(name)
}

/// A process of it.
pub(super) fn serve() {
    let name = std::env::var(PROGRAM).expect("the tests start this under mpirun");
    if std::env::var(LEVEL).unwrap() == "single" {
        return one_thread();
    }
    assert_eq!(
        Mpi::new(&SimpleCommunicator::world(), MpiConfig::default()).err(),
        Some(MpiError::NotInitialized)
    );
    let multiple = std::env::var(LEVEL).unwrap() == "multiple";
    let level = if multiple { Threading::Multiple } else { Threading::Funneled };
    let (universe, got) = mpi::initialize_with_threading(level).unwrap();
    assert_eq!(got, level, "what MPI provides");
    let world = universe.world();
    let job = Job { world, multiple, universe: Mutex::new(Some(universe)) };
    crate::program(&name)(&job);
    drop(job);
    assert_eq!(Mpi::new(&SimpleCommunicator::world(), MpiConfig::default()).err(), Some(MpiError::Finalized));
}

fn one_thread() {
    let universe = mpi::initialize().unwrap();
    let error = Mpi::new(&universe.world(), MpiConfig::default()).err();
    assert_eq!(error, Some(MpiError::SingleThread));
}

/// An MPI job, of which this process is a rank.
pub(super) struct Job {
    pub(super) world: SimpleCommunicator,
    pub(super) multiple: bool,
    universe: Mutex<Option<Universe>>,
}

impl Job {
    pub(super) fn link(&self) -> Mpi {
        self.link_with(MpiConfig::default())
    }

    pub(super) fn link_with(&self, config: MpiConfig) -> Mpi {
        let link = Mpi::new(&self.world, MpiConfig { limits: LIMITS, ..config }).unwrap();
        assert_eq!(link.needs_driving(), !self.multiple);
        link
    }

    /// A node on a link over MPI, which has met its peers.
    pub(super) fn node(&self, policy: &str, silence_timeout: Duration) -> Node {
        node(self.link(), policy, silence_timeout)
    }

    pub(super) fn communicator(&self, policy: &str) -> Communicator {
        Communicator::world(self.node(policy, HANGS))
    }

    /// Finalizes MPI.
    pub(super) fn finalize(&self) {
        drop(self.universe.lock().unwrap().take());
    }
}

pub(super) fn node(link: Mpi, policy: &str, silence_timeout: Duration) -> Node {
    let policy = policy.parse::<PolicySpec>().unwrap().build(&Steering::default());
    let secret = link.secret();
    let config = NodeConfig {
        secret,
        limits: LIMITS,
        greeting_timeout: HANGS,
        silence_timeout,
        ..NodeConfig::default()
    };
    let node = Node::start(Box::new(link), policy, config).unwrap();
    for (peer, state) in node.wait_for_peers(HANGS) {
        assert_eq!(state, PeerState::Open, "rank {peer}");
    }
    node
}

/// The only peer of a rank in a job of two.
pub(super) fn other(node: &Node) -> Rank {
    Rank(1 - node.position().rank.0)
}
