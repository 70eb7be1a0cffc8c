//! The end of a window: it is freed when the peer has let go of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::super::shm::guest::Line;
use super::notes::Note;
use super::window::Window;

/// How long a peer may take to let go.
const PATIENCE: Duration = Duration::from_secs(2);

/// A window that a peer may still have mapped.
pub(super) struct Parting {
    window: Arc<Window>,
    line: Line,
    until: Instant,
}

impl Parting {
    pub(super) fn new(window: Arc<Window>, line: Line) -> Self {
        Self { window, line, until: Instant::now() + PATIENCE }
    }

    /// Whether the peer has let go, or is no more. Not to be asked again then.
    fn is_over(&self) -> bool {
        while let Some(note) = self.line.hear() {
            if Note::parse(&note) == Some(Note::Dropped) {
                return true;
            }
        }
        self.line.has_ended()
    }

    /// The same, or it has taken too long.
    pub(super) fn is_due(&self) -> bool {
        if self.is_over() {
            return true;
        }
        let late = Instant::now() >= self.until;
        if late {
            tracing::warn!("a peer does not let go of memory of this rank's device, which stays allocated");
            // The driver does not say what becomes of memory that is freed while another process has it.
            self.window.give_up();
        }
        late
    }
}
