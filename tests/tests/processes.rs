//! Three ranks over TCP or shared memory, each a process of its own, and what the others make of it when one is gone.
#![cfg(unix)]

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// Nothing here takes this long unless it hangs.
const HANGS: Duration = Duration::from_secs(120);
/// In which time a rank must have noticed that another is gone.
const NOTICED: Duration = Duration::from_secs(60);
/// How long a rank may be silent where the test is not about that.
const PATIENT: Duration = HANGS;
/// The same where the test waits until it has been silent for too long: more than a busy machine makes of a rank that is well.
const IMPATIENT: Duration = Duration::from_secs(9);

/// A rank in a process, which ends with the test.
struct Process {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

impl Process {
    /// In the process group of that number, or in a new one for 0.
    fn start(link: &str, rank: usize, silence: Duration, group: i32) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_link_rank"))
            .args([link.to_owned(), rank.to_string(), silence.as_millis().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(group)
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (report, lines) = mpsc::channel();
        thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| report.send(line)));
        Self { stdin: child.stdin.take().unwrap(), child, lines }
    }

    /// The next line that starts with `start`; others are passed over. Fails if it does not come before `until`.
    #[track_caller]
    fn line(&self, start: &str, until: Instant) -> String {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left);
            let line = line.unwrap_or_else(|error| panic!("no line {start:?} in time: {error}"));
            if line.starts_with(start) {
                return line;
            }
            assert!(!line.starts_with("WRONG") && !line.starts_with("LOST"), "{line}");
        }
    }

    /// Waits until bytes went to and fro between this rank and `peer` three times more.
    #[track_caller]
    fn goes_on_with(&self, peer: usize) {
        (0..3).for_each(|_| drop(self.line(&format!("ROUND {peer} "), Instant::now() + HANGS)));
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.stdin, "{line}").unwrap();
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Tells the rank to leave, and waits until it has.
    #[track_caller]
    fn leave(mut self) {
        self.tell("leave");
        let until = Instant::now() + HANGS;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < until, "hangs instead of leaving");
            thread::sleep(Duration::from_millis(5));
        };
        assert!(status.success(), "{status}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill(); // has ended already, if all went well
        let _ = self.child.wait();
    }
}

/// Three ranks that are busy with each other, and lose patience with one that is silent for so long.
fn start(link: &str, silence: Duration) -> [Process; 3] {
    // A secret of its own for each job: over shared memory it is how ranks find each other.
    static JOBS: AtomicU64 = AtomicU64::new(0);
    let secret = format!("{:016x}{:016x}", std::process::id(), JOBS.fetch_add(1, Ordering::SeqCst));
    let rank_0 = Process::start(link, 0, silence, 0);
    let group = rank_0.child.id() as i32;
    let [rank_1, rank_2] = [1, 2].map(|rank| Process::start(link, rank, silence, group));
    let mut processes = [rank_0, rank_1, rank_2];
    let listening = |process: &Process| process.line("LISTENING ", Instant::now() + HANGS)[10..].to_owned();
    let addresses = processes.each_ref().map(listening);
    let rank_file = serde_json::json!({ "secret": secret, "ranks": addresses });
    processes.iter_mut().for_each(|process| process.tell(&rank_file.to_string()));
    all_go_on(&processes);
    processes
}

#[track_caller]
fn all_go_on(processes: &[Process; 3]) {
    for (rank, process) in processes.iter().enumerate() {
        (0..3).filter(|&peer| peer != rank).for_each(|peer| process.goes_on_with(peer));
    }
}

/// Checks that ranks 0 and 2 have both lost rank 1 by now or soon, and go on with each other. Returns what they
/// say of rank 1.
fn others_go_on(rank_0: &Process, rank_2: &Process, since: Instant) -> [String; 2] {
    let lost = [rank_0, rank_2].map(|process| process.line("LOST ", since + NOTICED));
    assert!(lost.iter().all(|line| line.starts_with("LOST 1 ")), "{lost:?}");
    rank_0.goes_on_with(2);
    rank_2.goes_on_with(0);
    lost
}

/// Makes a test of each function for each link.
macro_rules! on_links {
    ($($link:ident)*) => {$(
        mod $link {
            on_links! { in $link: others_go_on_when_a_process_is_killed others_go_on_when_a_process_stops others_go_on_when_a_process_leaves a_job_that_is_suspended_goes_on }
        }
    )*};
    (in $link:ident: $($test:ident)*) => {$(
        #[test]
        fn $test() {
            super::$test(stringify!($link));
        }
    )*};
}

on_links! { tcp tcp_over_4 }
#[cfg(target_os = "linux")]
on_links! { shm }

fn others_go_on_when_a_process_is_killed(link: &str) {
    let [rank_0, mut rank_1, rank_2] = start(link, PATIENT);
    let killed = Instant::now();
    rank_1.child.kill().unwrap(); // SIGKILL
    others_go_on(&rank_0, &rank_2, killed);
    rank_0.leave();
    rank_2.leave();
}

fn others_go_on_when_a_process_stops(link: &str) {
    let [rank_0, rank_1, rank_2] = start(link, IMPATIENT);
    let stopped = Instant::now();
    rank_1.signal(Signal::STOP);
    let lost = others_go_on(&rank_0, &rank_2, stopped);
    assert!(lost.iter().all(|line| line.contains("silent for 9s")), "{lost:?}");
    // Once it goes on, it finds itself alone.
    rank_1.signal(Signal::CONT);
    let lost = [(); 2].map(|()| rank_1.line("LOST ", Instant::now() + HANGS));
    assert!(lost[0][..7] != lost[1][..7], "{lost:?}");
    rank_1.leave();
    rank_0.goes_on_with(2);
    rank_0.leave();
    rank_2.leave();
}

fn others_go_on_when_a_process_leaves(link: &str) {
    let [rank_0, rank_1, rank_2] = start(link, PATIENT);
    let leaving = Instant::now();
    rank_1.leave();
    let lost = others_go_on(&rank_0, &rank_2, leaving);
    assert!(lost.iter().all(|line| line.contains("closing")), "{lost:?}");
    rank_2.leave();
    let left = rank_0.line("LOST ", Instant::now() + HANGS);
    assert!(left.starts_with("LOST 2 ") && left.contains("closing"), "{left}");
    rank_0.leave();
}

fn a_job_that_is_suspended_goes_on(link: &str) {
    let processes = start(link, IMPATIENT);
    // All at once, as a job is suspended.
    let group = Pid::from_child(&processes[0].child);
    kill_process_group(group, Signal::STOP).unwrap();
    // Longer than any rank may be silent; but nobody could have been heard.
    thread::sleep(IMPATIENT + IMPATIENT / 3);
    kill_process_group(group, Signal::CONT).unwrap();
    // What was printed before does not count.
    let before = |line: String| assert!(line.starts_with("ROUND"), "{line}");
    processes.iter().for_each(|process| process.lines.try_iter().for_each(before));
    all_go_on(&processes);
    processes.into_iter().for_each(Process::leave);
}
