//! A rank as the controller sees it.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use super::RANK_ARGUMENT;
use super::controller::SoakError;
use super::way::Way;

/// How long a rank may take to leave when it is told to.
const LEAVING: Duration = Duration::from_secs(60);

/// A rank in a process, which ends with this.
pub(super) struct Process {
    pub(super) rank: usize,
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<(Instant, String)>,
}

impl Process {
    pub(super) fn start(rank: usize, way: Way) -> io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args([RANK_ARGUMENT, &rank.to_string(), way.name()])
            // What each arena of the allocator keeps goes up and down, and there are more the busier the machine is.
            .env("MALLOC_ARENA_MAX", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = BufReader::new(child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?);
        let (report, lines) = mpsc::channel();
        thread::spawn(move || {
            stdout.lines().map_while(Result::ok).try_for_each(|line| report.send((Instant::now(), line)))
        });
        Ok(Self { rank, stdin: child.stdin.take(), child, lines })
    }

    /// The next line that starts with `start`, and when it came; steps are counted and passed over.
    pub(super) fn line(
        &self,
        start: &'static str,
        until: Instant,
        steps: &mut u64,
    ) -> Result<(Instant, String), SoakError> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left);
            let (at, line) = line.map_err(|_| SoakError::Silent { rank: self.rank, awaited: start })?;
            if let Some(rest) = line.strip_prefix(start) {
                return Ok((at, rest.trim_start().to_owned()));
            }
            self.pass(&line, steps)?;
        }
    }

    /// Counts the steps that it has told. Nothing else is expected while all ranks live.
    pub(super) fn count_steps(&self, steps: &mut u64) -> Result<(), SoakError> {
        self.lines.try_iter().try_for_each(|(_, line)| self.pass(&line, steps))
    }

    fn pass(&self, line: &str, steps: &mut u64) -> Result<(), SoakError> {
        if line.starts_with("STEP ") {
            *steps += super::member::STEPS;
            return Ok(());
        }
        Err(SoakError::Unexpected { rank: self.rank, line: line.to_owned() })
    }

    pub(super) fn tell(&mut self, lines: &str) -> io::Result<()> {
        self.stdin
            .as_mut()
            .map_or(Err(io::ErrorKind::BrokenPipe.into()), |stdin| stdin.write_all(lines.as_bytes()))
    }

    /// SIGKILL.
    pub(super) fn kill(mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    /// Tells the rank to leave, and waits until it has.
    pub(super) fn leave(mut self) -> Result<(), SoakError> {
        drop(self.stdin.take());
        let until = Instant::now() + LEAVING;
        while Instant::now() < until {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => {
                    return Err(SoakError::Unexpected { rank: self.rank, line: status.to_string() });
                }
                None => thread::sleep(Duration::from_millis(5)),
            }
        }
        Err(SoakError::Silent { rank: self.rank, awaited: "its end" })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill(); // has ended already, if all went well
        let _ = self.child.wait();
    }
}
