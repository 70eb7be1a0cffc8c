//! What the library has to say, on standard error.

use std::io;

use tracing::Level;

/// The environment variable that says how much is logged: error, warn, info, debug or trace.
const VARIABLE: &str = "MGCOMP_LOG";

/// Logs what `MGCOMP_LOG` asks for; errors alone where it asks for nothing, or for something unknown. Where something logs
/// already, that goes on, and this does nothing.
pub fn log() {
    let asked = std::env::var(VARIABLE).unwrap_or_default();
    let level = asked.parse().unwrap_or(Level::ERROR);
    let log = tracing_subscriber::fmt().with_max_level(level).with_writer(io::stderr).without_time();
    // A program whose standard error is closed must not notice.
    let started = log.log_internal_errors(false).try_init();
    if started.is_ok() && !asked.is_empty() && asked.parse::<Level>().is_err() {
        tracing::error!("{VARIABLE}={asked:?} is no level; known: error warn info debug trace");
    }
}
