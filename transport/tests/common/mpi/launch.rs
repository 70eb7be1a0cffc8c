//! Starting processes under the mpirun that belongs to the MPI that this program is built with.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

use crate::common::wait_until;

/// Whether there is an mpirun; says SKIPPED otherwise.
pub(crate) fn is_possible() -> bool {
    if mpirun().is_some() {
        return true;
    }
    let required = std::env::var_os("MGCOMP_REQUIRE_MPI").is_some_and(|value| value == "1");
    assert!(!required, "there is no mpirun for {:?}", version());
    println!("SKIPPED: there is no mpirun for {:?}", version());
    false
}

/// Processes under mpirun, which end with this.
pub(crate) struct Launched {
    mpirun: Child,
    /// Where it keeps what its processes share: runs of one user disturb each other in a place of all.
    _folder: TempDir,
}

impl Launched {
    /// Waits until all have ended; returns whether they say that all went well.
    pub(crate) fn end(mut self) -> bool {
        let mut well = false;
        wait_until("all processes have ended", || {
            let status = self.mpirun.try_wait().unwrap();
            well = status.is_some_and(|status| status.success());
            status.is_some()
        });
        well
    }

    /// Fails if they have ended.
    pub(crate) fn expect_running(&mut self) {
        if let Some(status) = self.mpirun.try_wait().unwrap() {
            panic!("mpirun: {status}");
        }
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        let _ = self.mpirun.kill(); // has ended already, if all went well
        let _ = self.mpirun.wait();
    }
}

/// Runs the ignored test `name` of this program in `ranks` processes, which find `variables` in their environment.
pub(crate) fn start(ranks: u32, name: &str, variables: &[(&str, &str)]) -> Launched {
    let arguments = ["--ignored", "--exact", name, "--nocapture", "--test-threads=1"];
    start_program(ranks, &std::env::current_exe().unwrap(), &arguments, variables)
}

/// Runs `executable` in `ranks` processes.
pub(crate) fn start_program(
    ranks: u32,
    executable: &Path,
    arguments: &[&str],
    variables: &[(&str, &str)],
) -> Launched {
    let (program, is_open_mpi) = mpirun().expect("there is an mpirun");
    let mut command = Command::new(program);
    if *is_open_mpi {
        // More processes than cores, in a container, perhaps as root.
        command.args(["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]);
        command.args(["--mca", "mpi_yield_when_idle", "1"]);
        command.args(["--mca", "btl_vader_single_copy_mechanism", "none"]);
    }
    command.args(["-n", &ranks.to_string()]).arg(executable).args(arguments);
    let folder = tempfile::tempdir().unwrap();
    command.envs(variables.iter().copied()).env("TMPDIR", folder.path());
    command.stdin(Stdio::null()).stdout(Stdio::null());
    Launched { mpirun: command.spawn().unwrap(), _folder: folder }
}

fn version() -> String {
    mpi::environment::library_version().unwrap_or_default()
}

/// The program, and whether it is Open MPI's.
fn mpirun() -> Option<&'static (&'static str, bool)> {
    static FOUND: OnceLock<Option<(&str, bool)>> = OnceLock::new();
    let find = || {
        let is_open_mpi = version().starts_with("Open MPI");
        let names = if is_open_mpi { ["mpirun.openmpi", "mpirun"] } else { ["mpirun.mpich", "mpirun"] };
        let is_there = |name: &&str| {
            let path = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&path).any(|folder| Path::new(&folder).join(name).exists())
        };
        names.into_iter().find(is_there).map(|name| (name, is_open_mpi))
    };
    FOUND.get_or_init(find).as_ref()
}
