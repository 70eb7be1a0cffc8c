//! A progress bar on standard error for what takes long.

use std::io::{self, IsTerminal};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// How long a command runs before a bar appears.
const PATIENCE: Duration = Duration::from_secs(2);

/// The progress of one command through its stages. A bar appears two seconds after
/// [`start`](Progress::start), only on a terminal, and goes away with the value.
#[derive(Debug)]
pub(crate) struct Progress {
    started: Instant,
    is_terminal: bool,
    label: String,
    total_bytes: u64,
    bar: OnceLock<ProgressBar>,
}

impl Progress {
    /// Starts the clock.
    pub(crate) fn start() -> Self {
        let is_terminal = io::stderr().is_terminal();
        Self {
            started: Instant::now(),
            is_terminal,
            label: String::new(),
            total_bytes: 0,
            bar: OnceLock::new(),
        }
    }

    /// Goes on to a stage of `total_bytes`, or 0 where nobody knows.
    pub(crate) fn stage(&mut self, label: String, total_bytes: u64) {
        self.clear();
        (self.label, self.total_bytes) = (label, total_bytes);
        self.set(0);
    }

    /// Says how much of the stage is done; from any thread.
    pub(crate) fn set(&self, done_bytes: u64) {
        if self.bar.get().is_none() && !self.is_due() {
            return;
        }
        self.bar.get_or_init(|| bar(&self.label, self.total_bytes)).set_position(done_bytes);
    }

    /// Lets `print` write to the terminal without the bar in its way.
    pub(crate) fn pause<R>(&mut self, print: impl FnOnce() -> R) -> R {
        match self.bar.get() {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    fn is_due(&self) -> bool {
        self.is_terminal && self.started.elapsed() >= PATIENCE
    }

    fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

const KNOWN_TOTAL: &str = "{msg}  {bar:30}  {binary_bytes} of {binary_total_bytes}, {eta} left";
const UNKNOWN_TOTAL: &str = "{msg}  {binary_bytes}";

fn bar(label: &str, total_bytes: u64) -> ProgressBar {
    let (bar, template) = match total_bytes {
        0 => (ProgressBar::new_spinner(), UNKNOWN_TOTAL),
        _ => (ProgressBar::new(total_bytes), KNOWN_TOTAL),
    };
    // A test says that the templates are valid; were one not, the bar would only look different.
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.with_style(style).with_message(label.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_appears_on_a_terminal_when_patience_ends() {
        let mut progress = Progress::start();
        progress.is_terminal = true;
        // However long a busy machine takes from here on, no time has passed.
        progress.started += Duration::from_secs(3600);
        progress.stage("copying".into(), 100);
        progress.set(10);
        assert!(progress.bar.get().is_none());

        let Some(earlier) = Instant::now().checked_sub(PATIENCE) else {
            println!("SKIPPED: the clock of this machine started less than two seconds ago");
            return;
        };
        progress.started = earlier;
        progress.set(20);
        let bar = progress.bar.get().unwrap().clone();
        assert_eq!((bar.position(), bar.length(), bar.message()), (20, Some(100), "copying".into()));

        progress.stage("writing".into(), 50);
        assert!(bar.is_finished());
        assert_eq!(progress.bar.get().map(ProgressBar::message), Some("writing".into()));
    }

    #[test]
    fn no_bar_without_a_terminal() {
        let mut progress = Progress::start();
        progress.is_terminal = false;
        if let Some(earlier) = progress.started.checked_sub(PATIENCE) {
            progress.started = earlier;
        }
        progress.stage("copying".into(), 100);
        progress.set(50);
        assert!(progress.bar.get().is_none());
    }

    #[test]
    fn templates_are_valid() {
        assert!(ProgressStyle::with_template(KNOWN_TOTAL).is_ok());
        assert!(ProgressStyle::with_template(UNKNOWN_TOTAL).is_ok());
    }
}
