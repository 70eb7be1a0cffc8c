//! Threads in programs of others.

use std::io;
use std::thread::{Builder, JoinHandle};

use nix::sys::signal::{SigSet, SigmaskHow, Signal};

/// What a thread gets for what it does itself. To block these would end the process without a word to whom the program has told
/// to hear of them.
const OWN: [Signal; 6] =
    [Signal::SIGBUS, Signal::SIGFPE, Signal::SIGILL, Signal::SIGSEGV, Signal::SIGSYS, Signal::SIGTRAP];

/// Starts a thread on which no signal arrives that is for the whole process: the program has threads of its own for these, or
/// waits for them, and may be ended by one that a thread takes which it does not know. Profilers see the thread (`SIGPROF`).
///
/// # Errors
/// As [`Builder::spawn`]; or the signals of this thread cannot be changed, and nothing is started.
pub fn spawn<T: Send + 'static>(
    name: impl Into<String>,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let mut others = SigSet::all();
    OWN.into_iter().chain([Signal::SIGPROF]).for_each(|signal| others.remove(signal));
    // A thread begins with the mask of the one that starts it, so there is no moment in which it could take one.
    let before = others.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let thread = Builder::new().name(name.into()).spawn(work);
    before.thread_set_mask()?;
    thread
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
    fn threads_have_their_names() {
        let name = || std::thread::current().name().map(str::to_owned);
        assert_eq!(spawn("guest", name).unwrap().join().unwrap().as_deref(), Some("guest"));
    }
}
