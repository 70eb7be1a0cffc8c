//! The daemon as a process of its own, and what the system says of it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::time::Duration;

use mgcomp_daemon::{Config, Listener, run};

use crate::error::BenchError;

/// Ticks of the times in `/proc`: 100 a second on every Linux that there is.
const TICK: Duration = Duration::from_millis(10);

/// Ends when dropped.
pub(super) struct Child {
    folder: PathBuf,
    process: process::Child,
}

impl Child {
    pub(super) fn start(folder: &Path) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["daemon", "--serve"]).arg(folder).stdin(Stdio::null());
        Ok(Self { folder: folder.to_owned(), process: command.spawn()? })
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    pub(super) fn settings_file(&self) -> PathBuf {
        self.folder.join("state").join("settings.json")
    }

    /// Memory that it has, shared pages that it has touched included.
    pub(super) fn rss_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
        kib.unwrap_or(0) * 1024
    }

    /// Time of all its threads, in the kernel too.
    pub(super) fn cpu_time(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process.id())).unwrap_or_default();
        // Behind the name, which may hold anything, come 11 fields before these two.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<u32>().ok()).unwrap_or(0);
        TICK * (ticks(11) + ticks(12))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Is the daemon until it is killed.
pub(super) fn serve(folder: &Path) -> Result<(), BenchError> {
    let config = Config::private(folder.join("socket"), folder.join("state"));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.map_err(BenchError::Daemon)?.block_on(async {
        run(Listener::open(config)?, std::future::pending()).await?;
        Ok(())
    })
}
