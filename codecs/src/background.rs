//! Threads in programs of others.

use std::io;
use std::thread::{Builder, JoinHandle};

use nix::sys::signal::{SigSet, SigmaskHow, Signal};

/// What a thread gets for what it does itself. To block these would end the process without a word to whom the program has told
/// to hear of them.
const OWN: [Signal; 6] =
    [Signal::SIGBUS, Signal::SIGFPE, Signal::SIGILL, Signal::SIGSEGV, Signal::SIGSYS, Signal::SIGTRAP];

/// Starts a thread on which no signal arrives that is for the whole process: the program has threads of its own for these, or
/// waits for them, and may be ended by one that a thread takes which it does not know. Profilers that go by `SIGPROF` see it. What
/// it starts in turn takes none either, be it a thread or a child process made by `fork`.
///
/// # Errors
/// As [`Builder::spawn`]; or the signals of this thread cannot be changed, and nothing is started.
pub fn spawn<T: Send + 'static>(
    name: impl Into<String>,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    // A thread begins with the mask of the one that starts it, so there is no moment in which it could take one.
    let _before = Restored(of_the_program().thread_swap_mask(SigmaskHow::SIG_BLOCK)?);
    Builder::new().name(name.into()).spawn(work)
}

/// Makes the calling thread one as [`spawn`] starts them: for those that others start for a library.
pub fn enter() {
    // Where that cannot be, it takes what any thread does.
    let _ = of_the_program().thread_block();
}

/// Signals that are the program's.
fn of_the_program() -> SigSet {
    let mut signals = SigSet::all();
    OWN.into_iter().chain([Signal::SIGPROF]).for_each(|signal| signals.remove(signal));
    signals
}

/// The mask of this thread, which it has again when this is dropped.
struct Restored(SigSet);

impl Drop for Restored {
    fn drop(&mut self) {
        let _ = self.0.thread_set_mask(); // fails for no mask that a thread had
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_for_the_process_arrive_elsewhere() {
        let before = SigSet::thread_get_mask().unwrap();
        let own = spawn("guest", || SigSet::thread_get_mask().unwrap()).unwrap().join().unwrap();
        for signal in [Signal::SIGTERM, Signal::SIGCHLD, Signal::SIGUSR1, Signal::SIGALRM] {
            assert!(own.contains(signal), "{signal}");
        }
        for signal in [Signal::SIGSEGV, Signal::SIGBUS, Signal::SIGPROF] {
            assert!(!own.contains(signal), "{signal}");
        }
        assert_eq!(SigSet::thread_get_mask().unwrap(), before, "this thread takes what it took");
    }

    #[test]
    fn a_thread_can_become_one() {
        let masks = || (SigSet::thread_get_mask().unwrap(), enter(), SigSet::thread_get_mask().unwrap());
        let (before, (), after) = std::thread::spawn(masks).join().unwrap();
        assert!(!before.contains(Signal::SIGUSR1) && after.contains(Signal::SIGUSR1));
        assert!(!after.contains(Signal::SIGSEGV));
    }

    #[test]
    fn threads_have_their_names() {
        let name = || std::thread::current().name().map(str::to_owned);
        assert_eq!(spawn("guest", name).unwrap().join().unwrap().as_deref(), Some("guest"));
    }
}
