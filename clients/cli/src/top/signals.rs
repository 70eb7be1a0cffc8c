//! Signals that end a program, for one that has something to put right first.

use std::io;

use signal_hook::low_level::emulate_default_handler;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Those that people and systems end programs with.
#[derive(Debug)]
pub(super) struct Signals {
    hangup: Signal,
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// From now on none of them ends the program by itself.
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// The next one that comes.
    pub(super) async fn next(&mut self) -> SignalKind {
        tokio::select! {
            _ = self.hangup.recv() => SignalKind::hangup(),
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
        }
    }
}

/// Ends the program as the signal would have done.
pub(super) fn end_by(kind: SignalKind) {
    // Does not return but for a signal that there is not.
    let _ = emulate_default_handler(kind.as_raw_value());
}
