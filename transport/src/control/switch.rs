//! `MGCOMP`: whether this process compresses at all.

use std::env;
use std::ffi::OsStr;
use std::sync::atomic::{AtomicBool, Ordering};

/// The variable that turns everything off: no page, no thread, no compression.
const SWITCH: &str = "MGCOMP";

/// Whether `MGCOMP` says that nothing is to be compressed.
pub(crate) fn is_switched_off() -> bool {
    static WAS_REPORTED: AtomicBool = AtomicBool::new(false);

    let value = env::var_os(SWITCH).unwrap_or_default();
    let said = meaning(&value);
    // Every node and copier asks, and one line is enough.
    if said.is_none() && !WAS_REPORTED.swap(true, Ordering::Relaxed) {
        tracing::error!("{SWITCH}={value:?} is neither on nor off: nothing is compressed");
    }
    // Whoever sets it to something that makes no sense most likely wanted to be rid of compression.
    said != Some(true)
}

/// Whether a value says on, as an empty one does, in any case and with blanks around it; `None` if it makes no sense.
fn meaning(value: &OsStr) -> Option<bool> {
    match value.to_string_lossy().trim().to_ascii_lowercase().as_str() {
        "" | "on" | "1" | "true" | "yes" => Some(true),
        "off" | "0" | "false" | "no" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_on_and_off_are_taken_as_people_write_them() {
        for off in ["off", "OFF", "Off", "0", "false", "False", "no", "NO", " off\n", "\toff "] {
            assert_eq!(meaning(off.as_ref()), Some(false), "{off:?}");
        }
        for on in ["on", "ON", "1", "true", "yes", " Yes ", "", "  "] {
            assert_eq!(meaning(on.as_ref()), Some(true), "{on:?}");
        }
        for nonsense in ["of", "offf", "2", "-1", "none", "o n", "\u{fffd}"] {
            assert_eq!(meaning(nonsense.as_ref()), None, "{nonsense:?}");
        }
    }
}
