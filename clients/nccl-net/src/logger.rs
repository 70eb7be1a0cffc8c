//! NCCL's log, and our own.
#![allow(unsafe_code)] // a call of a function that NCCL gave

use std::ffi::{CString, c_int};
use std::sync::{PoisonError, RwLock};

use crate::abi::{LOG_INIT_NET, Logger, level};

static LOGGER: RwLock<Logger> = RwLock::new(None);

/// Takes NCCL's log, for all that follows.
pub(crate) fn set(logger: Logger) {
    if logger.is_some() {
        *LOGGER.write().unwrap_or_else(PoisonError::into_inner) = logger;
    }
}

/// NCCL's log, for plugins below this one.
pub(crate) fn current() -> Logger {
    *LOGGER.read().unwrap_or_else(PoisonError::into_inner)
}

/// Says what somebody has to mend, to whoever has asked for no log as well.
pub(crate) fn error(text: &str) {
    tracing::error!("{text}");
    say(level::WARN, text);
}

/// Says what the user must see.
pub(crate) fn warn(text: &str) {
    tracing::warn!("{text}");
    say(level::WARN, text);
}

/// Says what helps to see what goes on.
pub(crate) fn info(text: &str) {
    tracing::info!("{text}");
    say(level::INFO, text);
}

fn say(level: c_int, text: &str) {
    let Some(log) = current() else { return };
    // A text with a zero in it ends there.
    let bytes = text.bytes().take_while(|&byte| byte != 0).collect::<Vec<u8>>();
    let Ok(text) = CString::new(bytes) else { return };
    // SAFETY: the function is the one that NCCL gave for this, and the format takes one text.
    unsafe { log(level, LOG_INIT_NET, c"mgcomp".as_ptr(), 0, c"NET/mgcomp : %s".as_ptr(), text.as_ptr()) }
}
