//! What the library has to say, on standard error.

use std::io;

use tracing::Level;

/// The environment variable that says how much is logged: error, warn, info, debug or trace.
const VARIABLE: &str = "MGCOMP_LOG";

/// Logs what `MGCOMP_LOG` asks for; errors alone where it asks for nothing, or for something unknown.
pub(crate) fn start() {
    let asked = std::env::var(VARIABLE).unwrap_or_default();
    let level = asked.parse().unwrap_or(Level::ERROR);
    tracing_subscriber::fmt().with_max_level(level).with_writer(io::stderr).without_time().init();
    if !asked.is_empty() && asked.parse::<Level>().is_err() {
        tracing::error!("{VARIABLE}={asked:?} is no level; known: error warn info debug trace");
    }
}
