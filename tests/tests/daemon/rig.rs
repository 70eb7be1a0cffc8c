//! A daemon in a folder of its own, programs that exchange data, and the command line.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Output, Stdio};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mgcomp_tests::stub::{Libraries, finds};
use serde_json::Value;
use tempfile::TempDir;

use crate::program::program;

/// How long anything is waited for. Far more than it takes, since machines can be busy.
const PATIENCE: Duration = Duration::from_secs(120);

/// A folder with a daemon in it.
pub(crate) struct Rig {
    daemon: Option<Daemon>,
    args: Vec<String>,
    folder: TempDir,
}

/// A daemon that runs.
struct Daemon {
    process: Ended,
    /// Where it listens over TCP, if it does.
    address: Option<SocketAddr>,
}

fn found(cell: &'static OnceLock<PathBuf>, name: &str) -> &'static Path {
    cell.get_or_init(|| program(name))
}

impl Rig {
    /// Starts a daemon with more arguments, in a new folder.
    pub(crate) fn start(args: &[&str]) -> Self {
        let mut rig = Self::empty();
        rig.start_with(args);
        rig
    }

    /// Without a daemon.
    pub(crate) fn empty() -> Self {
        Self { daemon: None, args: Vec::new(), folder: tempfile::tempdir().unwrap() }
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
        let mut command = Command::new(found(&DAEMON, "mgcomp-daemon"));
        command.arg("--socket").arg(self.socket()).arg("--state-dir").arg(self.path("state"));
        command.args(&self.args).stdin(Stdio::null());
        command.env("MGCOMP_CACHE", self.path("cache"));
        command
    }

    /// Starts a daemon with more arguments, which the next one gets too.
    pub(crate) fn start_with(&mut self, args: &[&str]) {
        self.args = args.iter().map(|arg| (*arg).to_owned()).collect();
        self.start_daemon();
    }

    /// Starts a daemon and waits until it says that it is ready.
    pub(crate) fn start_daemon(&mut self) {
        let mut process = Ended(self.daemon_command().stderr(Stdio::piped()).spawn().unwrap());
        let mut log = BufReader::new(process.0.stderr.take().unwrap());
        let mut told = String::new();
        while !told.contains(" ready ") {
            assert!(log.read_line(&mut told).unwrap() > 0, "the daemon does not start: {told}");
        }
        // The rest is nobody's, but the daemon must be able to tell it.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        let address = told.split_once("tcp=Some(").and_then(|(_, rest)| rest.split(')').next());
        let address = address.map(|address| address.parse().unwrap());
        self.daemon = Some(Daemon { process, address });
    }

    /// Where the daemon listens over TCP.
    pub(crate) fn address(&self) -> SocketAddr {
        self.daemon.as_ref().unwrap().address.unwrap()
    }

    /// The daemon's process id.
    pub(crate) fn pid(&self) -> u32 {
        self.daemon.as_ref().unwrap().process.0.id()
    }

    /// A connection of another user; `None` if this test may not be another.
    #[allow(unsafe_code)] // the system call for one thread, which libraries make for all of them
    pub(crate) fn connect_as(&self, uid: u32, test: &str) -> Option<UnixStream> {
        // So that others get to the socket.
        std::fs::set_permissions(self.folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let socket = self.socket();
        let connect = move || {
            // SAFETY: numbers are given, and the thread ends here.
            let set = unsafe { libc::syscall(libc::SYS_setresuid, uid, uid, uid) };
            (set == 0).then(|| UnixStream::connect(socket).unwrap())
        };
        let stream = std::thread::spawn(connect).join().unwrap();
        match &stream {
            Some(stream) => stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap(),
            None => println!("SKIPPED: {test}: only root can be another user"),
        }
        stream
    }

    /// Ends the daemon at once.
    pub(crate) fn kill_daemon(&mut self) {
        self.daemon = None;
    }

    /// Sends the daemon a signal by name.
    pub(crate) fn signal(&self, name: &str) {
        send_signal(name, self.pid());
    }

    /// Waits until the daemon has ended by itself; returns its exit code.
    pub(crate) fn wait_daemon(&mut self) -> Option<i32> {
        self.daemon.take().unwrap().process.wait().code()
    }

    /// Runs the command line against this daemon.
    pub(crate) fn mgcomp(&self, args: &[&str]) -> Output {
        // A setting that is to be on disk waits for a disk that others write to as well.
        self.mgcomp_command(args).args(["--timeout", "100", "--socket"]).arg(self.socket()).output().unwrap()
    }

    /// The command line, with the daemon still to be named.
    pub(crate) fn mgcomp_command(&self, args: &[&str]) -> Command {
        static MGCOMP: OnceLock<PathBuf> = OnceLock::new();
        let mut command = Command::new(found(&MGCOMP, "mgcomp"));
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

    /// A watcher that has its place, which is kept until it is dropped. It has told one line and is not read from since.
    ///
    /// The places of watchers that have ended are free a moment later, so it may be sent away first.
    #[track_caller]
    pub(crate) fn watcher(&self) -> Ended {
        let mut place = None;
        until("there is room for a watcher", || {
            let mut command = self.mgcomp_command(&["watch", "--level", "stream", "--interval-ms", "100"]);
            command.arg("--socket").arg(self.socket()).stdout(Stdio::piped()).stderr(Stdio::null());
            let mut watcher = Ended(command.spawn().unwrap());
            let told = watcher.0.stdout.as_mut().unwrap().read(&mut [0]).unwrap();
            place = (told > 0).then_some(watcher);
            place.is_some()
        });
        place.unwrap()
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

    /// A program that copies from device 0 to itself as `job`, as rank 5, on the stub of the driver; `None` without that.
    pub(crate) fn copies(&self, job: &str, test: &str) -> Option<Exchange> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_exchange"));
        command
            .arg("copies")
            .env("MGCOMP_SOCKET", self.socket())
            .env("MGCOMP_JOB", job)
            .env("MGCOMP_RANK", "5");
        let found = finds(&mut command, Libraries::DriverAndCompiler, test);
        found.then(|| Exchange::start(command.env_remove("MGCOMP")))
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

/// A process that ends when dropped.
pub(crate) struct Ended(pub(crate) Child);

impl Ended {
    /// Waits until it has ended by itself.
    #[track_caller]
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        until("the process ends", || {
            status = self.0.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A program that exchanges data; ends when dropped.
pub(crate) struct Exchange {
    process: Ended,
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
        Self { input: child.stdin.take(), process: Ended(child), rounds }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.0.id()
    }

    /// Waits until it has made some more rounds.
    #[track_caller]
    pub(crate) fn until_more(&self) {
        let before = self.rounds.load(Ordering::Relaxed);
        until("the exchange goes on", || self.rounds.load(Ordering::Relaxed) > before + 5);
    }

    /// Whether it makes no rounds for a while.
    pub(crate) fn is_held_up(&self) -> bool {
        let before = self.rounds.load(Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(300));
        self.rounds.load(Ordering::Relaxed) == before
    }

    /// Lets it end by itself; it must have been content.
    #[track_caller]
    pub(crate) fn finish(mut self) {
        drop(self.input.take());
        assert!(self.process.wait().success());
    }
}

/// Sends a process a signal by name. One that is to stop takes nothing any more when this returns: its threads stop one by one.
pub(crate) fn send_signal(name: &str, pid: u32) {
    let sent = Command::new("kill").args(["-s", name, &pid.to_string()]).status().unwrap();
    assert!(sent.success());
    if name == "STOP" {
        until("all threads have stopped", || is_stopped(pid));
    }
}

fn is_stopped(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    threads
        .map(|thread| std::fs::read_to_string(thread.unwrap().path().join("status")))
        .all(|status| status.is_ok_and(|status| status.contains("State:\tT")))
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
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
