//! A daemon in a folder of its own, programs that exchange data, and the command line.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::program::program;

/// How long anything is waited for. Far more than it takes, since machines can be busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder with a daemon in it.
pub(crate) struct Rig {
    folder: TempDir,
    daemon: Option<Child>,
    args: Vec<String>,
}

fn found(cell: &'static OnceLock<PathBuf>, package: &str, name: &str) -> &'static Path {
    cell.get_or_init(|| program(package, name))
}

impl Rig {
    /// Starts a daemon with more arguments and waits until it answers.
    pub(crate) fn start(args: &[&str]) -> Self {
        let mut rig = Self::empty();
        rig.args = args.iter().map(|arg| (*arg).to_owned()).collect();
        rig.start_daemon();
        rig
    }

    /// Without a daemon.
    pub(crate) fn empty() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), daemon: None, args: Vec::new() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.path("socket")
    }

    /// What starts a daemon here.
    pub(crate) fn daemon_command(&self) -> Command {
        static DAEMON: OnceLock<PathBuf> = OnceLock::new();
        let mut command = Command::new(found(&DAEMON, "mgcomp-daemon", "mgcomp-daemon"));
        command.arg("--socket").arg(self.socket()).arg("--state-dir").arg(self.path("state"));
        command.args(&self.args).stdin(Stdio::null());
        command.env("MGCOMP_CACHE", self.path("cache"));
        command
    }

    pub(crate) fn start_daemon(&mut self) {
        self.daemon = Some(self.daemon_command().stderr(Stdio::null()).spawn().unwrap());
        until("the daemon answers", || self.mgcomp(&["jobs"]).status.success());
    }

    /// Takes in a daemon that was started otherwise.
    pub(crate) fn adopt(&mut self, daemon: Child) {
        self.daemon = Some(daemon);
    }

    /// The daemon's process id.
    pub(crate) fn pid(&self) -> u32 {
        self.daemon.as_ref().unwrap().id()
    }

    /// Ends the daemon at once.
    pub(crate) fn kill_daemon(&mut self) {
        let mut daemon = self.daemon.take().unwrap();
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }

    /// Sends the daemon a signal by name.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.pid().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits until the daemon has ended by itself; returns its exit code.
    pub(crate) fn wait_daemon(&mut self) -> Option<i32> {
        let mut daemon = self.daemon.take().unwrap();
        let mut code = None;
        until("the daemon ends", || {
            code = daemon.try_wait().unwrap();
            code.is_some()
        });
        code.unwrap().code()
    }

    /// Runs the command line against this daemon.
    pub(crate) fn mgcomp(&self, args: &[&str]) -> Output {
        self.mgcomp_command(args).arg("--socket").arg(self.socket()).output().unwrap()
    }

    /// The command line, with the daemon still to be named.
    pub(crate) fn mgcomp_command(&self, args: &[&str]) -> Command {
        static MGCOMP: OnceLock<PathBuf> = OnceLock::new();
        let mut command = Command::new(found(&MGCOMP, "mgcomp-cli", "mgcomp"));
        command.args(args).stdin(Stdio::null());
        command
    }

    /// Runs what must succeed; returns the objects that it prints.
    #[track_caller]
    pub(crate) fn json(&self, args: &[&str]) -> Vec<Value> {
        let output = self.mgcomp(&[args, &["--json"]].concat());
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Runs what must succeed.
    #[track_caller]
    pub(crate) fn succeed(&self, args: &[&str]) -> String {
        let output = self.mgcomp(args);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// Runs what must fail with exit code 1 and say each of `words`.
    #[track_caller]
    pub(crate) fn fail(&self, args: &[&str], words: &[&str]) {
        let output = self.mgcomp(args);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {message}");
        for word in words {
            assert!(message.contains(word), "{args:?}: {message:?} does not say {word:?}");
        }
    }

    /// A program that exchanges data under `policy` as `job`.
    pub(crate) fn exchange(&self, job: &str, policy: &str) -> Exchange {
        let mut command = Command::new(env!("CARGO_BIN_EXE_exchange"));
        command
            .arg(policy)
            .env("MGCOMP_SOCKET", self.socket())
            .env("MGCOMP_JOB", job)
            .env("MGCOMP_CACHE", "");
        Exchange::start(command.env_remove("MGCOMP"))
    }

    /// The stream of an exchange that carries its data, as the daemon tells it.
    pub(crate) fn stream(&self, job: &str) -> Option<Value> {
        let streams = self.mgcomp(&["jobs", "--job", job, "--json"]);
        let lines = text(&streams.stdout);
        let streams = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        streams.max_by_key(|stream| stream["traffic"]["raw_bytes"].as_u64())
    }

    /// Waits until an exchange goes by what `holds` says of its stream, last decision included.
    #[track_caller]
    pub(crate) fn until_stream(&self, what: &str, job: &str, holds: impl Fn(&Value) -> bool) {
        let mut last = None;
        let seen = wait(|| {
            last = self.stream(job);
            last.as_ref().is_some_and(&holds)
        });
        assert!(seen, "{what}: {last:#?}");
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if let Some(daemon) = &mut self.daemon {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// A program that exchanges data; ends when dropped.
pub(crate) struct Exchange {
    pub(crate) child: Child,
    input: Option<ChildStdin>,
    rounds: Arc<AtomicU64>,
}

impl Exchange {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let rounds = Arc::new(AtomicU64::new(0));
        let (output, told) = (child.stdout.take().unwrap(), rounds.clone());
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                told.store(line.parse().unwrap(), Ordering::Relaxed);
            }
        });
        Self { input: child.stdin.take(), child, rounds }
    }

    /// Waits until it has made some more rounds.
    #[track_caller]
    pub(crate) fn until_more(&self) {
        let before = self.rounds.load(Ordering::Relaxed);
        until("the exchange goes on", || self.rounds.load(Ordering::Relaxed) > before + 5);
    }

    /// Lets it end by itself; it must have been content.
    #[track_caller]
    pub(crate) fn finish(mut self) {
        drop(self.input.take());
        let mut code = None;
        until("the exchange ends", || {
            code = self.child.try_wait().unwrap();
            code.is_some()
        });
        assert!(code.unwrap().success());
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until something holds.
#[track_caller]
pub(crate) fn until(what: &str, holds: impl FnMut() -> bool) {
    assert!(wait(holds), "{what}: not within {PATIENCE:?}");
}

fn wait(mut holds: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    loop {
        if holds() {
            return true;
        }
        if started.elapsed() > PATIENCE {
            return false;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
