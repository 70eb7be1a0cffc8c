//! The process that counts.

use std::process::{Child, Command};

use nix::sched::{CpuSet, sched_getcpu, sched_setaffinity};
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

use super::CountError;

/// A process of this program with the same arguments, stopped before each of its operations.
pub(super) struct Tracer {
    child: Child,
    pid: Pid,
    /// Instructions that an operation has which does nothing.
    overhead: u64,
    has_ended: bool,
}

impl Tracer {
    pub(super) fn start() -> Result<Self, CountError> {
        share_a_processor();
        let program = std::env::current_exe().map_err(CountError::Start)?;
        let child = Command::new(program)
            .args(std::env::args_os().skip(1))
            .arg("--traced")
            .spawn()
            .map_err(CountError::Start)?;
        let pid = Pid::from_raw(child.id().cast_signed());
        let mut tracer = Self { child, pid, overhead: 0, has_ended: false };
        tracer.overhead = tracer.next_count()?;
        Ok(tracer)
    }

    /// The instructions of the next operation.
    pub(super) fn next_count(&mut self) -> Result<u64, CountError> {
        self.run_to_stop()?;
        let mut count = 0;
        let mut last = ptrace::getregs(self.pid)?.rip;
        loop {
            ptrace::step(self.pid, None)?;
            match waitpid(self.pid, None)? {
                WaitStatus::Stopped(_, Signal::SIGTRAP) => {
                    // An instruction that repeats itself stops each time, and is one.
                    let rip = ptrace::getregs(self.pid)?.rip;
                    count += u64::from(rip != last);
                    last = rip;
                }
                WaitStatus::Stopped(_, Signal::SIGSTOP) => return Ok(count.saturating_sub(self.overhead)),
                other => return Err(self.ended(other)),
            }
        }
    }

    /// Lets the process run to its end.
    pub(super) fn finish(mut self) -> Result<(), CountError> {
        ptrace::cont(self.pid, None)?;
        match waitpid(self.pid, None)? {
            WaitStatus::Exited(_, code) => {
                self.has_ended = true;
                if code == 0 { Ok(()) } else { Err(CountError::Ended(format!("exit code {code}"))) }
            }
            other => Err(self.ended(other)),
        }
    }

    /// What it means that the process is in a state that it should not be in.
    fn ended(&mut self, status: WaitStatus) -> CountError {
        self.has_ended = matches!(status, WaitStatus::Exited(..) | WaitStatus::Signaled(..));
        CountError::Ended(format!("{status:?}"))
    }

    fn run_to_stop(&mut self) -> Result<(), CountError> {
        // The first stop comes without being asked for.
        if self.overhead > 0 {
            ptrace::cont(self.pid, None)?;
        }
        match waitpid(self.pid, None)? {
            WaitStatus::Stopped(_, Signal::SIGSTOP) => Ok(()),
            other => Err(self.ended(other)),
        }
    }
}

/// Keeps this thread, and the process that it starts, on one processor: where each instruction wakes up another one, counting takes
/// several times as long. Where that is not to be had, it does.
fn share_a_processor() {
    let here = sched_getcpu().and_then(|cpu| {
        let mut one = CpuSet::new();
        one.set(cpu).map(|()| one)
    });
    let _ = here.and_then(|one| sched_setaffinity(Pid::from_raw(0), &one));
}

impl Drop for Tracer {
    fn drop(&mut self) {
        if !self.has_ended {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
