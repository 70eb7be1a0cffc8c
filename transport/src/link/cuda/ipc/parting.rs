//! The end of a window: it is freed when the peer has let go of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::super::shm::guest::Line;
use super::notes::{MOST_NOTES, Note};
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

    /// The same, or it has taken too long.
    pub(super) fn is_due(&self) -> bool {
        if is_over(&self.line) {
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

/// Whether the peer has let go, or is no more. Not to be asked again then.
fn is_over(line: &Line) -> bool {
    // Not to the end: a peer that never stops talking is waited for no longer than others.
    for _ in 0..MOST_NOTES {
        let Some(note) = line.hear() else { break };
        if Note::parse(&note) == Some(Note::Dropped) {
            return true;
        }
    }
    line.has_ended()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_talks_on_and_on_is_not_listened_to_for_ever() {
        let [line, peer] = Line::pair();
        let said = (0..).take_while(|_| peer.say(&Note::NoWindow.encode(), None).is_ok()).count();
        assert!(said > MOST_NOTES && !is_over(&line));
        let left = (0..).take_while(|_| line.hear().is_some()).count();
        assert_eq!(left, said - MOST_NOTES);
        // And what it says after much else is heard in the end.
        (0..MOST_NOTES + 1).for_each(|_| peer.say(&Note::NoWindow.encode(), None).unwrap());
        peer.say(&Note::Dropped.encode(), None).unwrap();
        assert!(!is_over(&line) && is_over(&line));
    }
}
