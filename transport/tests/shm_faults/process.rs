//! A peer in a process of its own, as the tests see it.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{HANGS, wait_until};
use crate::peer::{JOB, MARK, STAGE};

/// A process, which ends with this.
pub(crate) struct Process {
    child: Child,
    /// Its end is the process's.
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    reader: Option<JoinHandle<()>>,
}

impl Process {
    /// Starts a peer in `job` and waits until it says that it is at that stage.
    pub(crate) fn at(stage: &str, job: &str) -> Self {
        let process = Self::start(stage, job);
        process.expect("there");
        process
    }

    pub(crate) fn start(stage: &str, job: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "a_peer", "--nocapture", "--test-threads=1"])
            .envs([(STAGE, stage), (JOB, job)])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (report, lines) = mpsc::channel();
        let reader = thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                // The test runner says things too, some of them in the same line.
                let said = line.split_once(MARK).map(|(_, said)| said.to_owned());
                said.into_iter().for_each(|said| drop(report.send(said)));
            }
        });
        Self { stdin: child.stdin.take(), child, lines, reader: Some(reader) }
    }

    /// Waits until it says this; returns what it says more.
    #[track_caller]
    pub(crate) fn expect(&self, word: &str) -> String {
        let line = self.lines.recv_timeout(HANGS);
        let line = line.unwrap_or_else(|error| panic!("hangs: the peer does not say {word:?}: {error}"));
        let rest = line.strip_prefix(word);
        rest.unwrap_or_else(|| panic!("the peer says {line:?} instead of {word:?}")).trim().to_owned()
    }

    /// Tells it to go on.
    pub(crate) fn nod(&mut self) {
        self.stdin.as_mut().unwrap().write_all(&[1]).unwrap();
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGSTOP; returns when it has come to a stop.
    pub(crate) fn stop(&self) {
        self.signal(Signal::STOP);
        let stat = format!("/proc/{}/stat", self.child.id());
        wait_until("the process has stopped", || {
            let stat = fs::read_to_string(&stat).unwrap();
            stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T'))
        });
    }

    /// SIGCONT.
    pub(crate) fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.kill(); // has ended already, if all went well
        let _ = self.child.wait();
        let _ = self.reader.take().map(JoinHandle::join);
    }
}
