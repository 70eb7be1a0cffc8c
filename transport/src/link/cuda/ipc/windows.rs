//! What two ranks have of each other's windows, as one of them knows it: what was offered, what is mapped, and how that ends.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use mgcomp_codecs::device::{Device, Region};

use super::super::super::shm::guest::{Line, PLACE_LEN};
use super::notes::{By, Note};
use super::parting::Parting;
use super::shared::Shared;
use super::window::{Made, Mapped, Means, Sharing, Window};
use crate::message::Rank;

/// How long payloads wait to hear of a peer's window.
const OFFER_PATIENCE: Duration = Duration::from_secs(5);
/// How long they wait for room in it while the peer takes messages in: it may wait for one of those behind.
const ROOM_PATIENCE: Duration = Duration::from_millis(10);

/// The window of a peer, and this rank's for it.
pub(super) struct Windows {
    shared: Arc<Shared>,
    peer: Rank,
    /// That makes windows and maps them; `None` if payloads go by way of the host.
    device: Option<Device>,
    window_bytes: u64,
    /// How this rank's may be offered yet, the next one last.
    means: Vec<Means>,
    line: Option<Line>,
    road: Road,
    /// Whether the peer has let go of this rank's.
    has_dropped: bool,
}

/// How payloads get to the peer's device.
enum Road {
    /// The peer has not said.
    Unknown,
    Window(Mapped),
    /// By way of the host.
    None,
}

/// Where a payload goes.
pub(super) enum Spot {
    /// That is not known yet.
    Later,
    /// Into the window, from this slot on.
    Slot(usize),
    Host,
}

impl Windows {
    pub(super) fn new(
        shared: &Arc<Shared>,
        peer: Rank,
        device: Option<Device>,
        (sharing, window_bytes): (Sharing, u64),
    ) -> Self {
        let means = if device.is_some() { sharing.means() } else { Vec::new() };
        let (shared, line, road) = (shared.clone(), None, Road::Unknown);
        Self { shared, peer, device, window_bytes, means, line, road, has_dropped: false }
    }

    /// The peer is there.
    pub(super) fn meet(&mut self, line: Line) {
        self.line = Some(line);
        self.offer();
    }

    /// The peer says something.
    pub(super) fn hear(&mut self, note: Note, file: Option<OwnedFd>) {
        match note {
            Note::Offer { window_bytes, by } => self.map(window_bytes, by, file),
            Note::NoWindow => {
                if matches!(self.road, Road::Unknown) {
                    self.road = Road::None;
                }
            }
            Note::Declined => {
                drop(self.take_own());
                self.offer();
            }
            // What the peer put into the window before may still lie in the ring, so the window stays until its end.
            Note::Dropped => self.has_dropped = true,
            Note::Lost(_) => {} // heard before
        }
    }

    /// Where a payload of `len` bytes goes that has waited for so long. `is_drained` says whether the peer has all before it.
    pub(super) fn spot(&mut self, len: u64, waited: Duration, is_drained: impl FnOnce() -> bool) -> Spot {
        if matches!(self.road, Road::Unknown) {
            if waited < OFFER_PATIENCE {
                return Spot::Later;
            }
            // For good: an offer that comes later is declined, and what comes next need not wait as well.
            self.road = Road::None;
        }
        match (&mut self.road, &self.line) {
            (Road::Window(mapped), Some(line)) if len <= mapped.window_bytes() => {
                match mapped.take(len, &line.theirs) {
                    Some(slot) => Spot::Slot(slot),
                    None if waited < ROOM_PATIENCE || !is_drained() => Spot::Later,
                    None => Spot::Host,
                }
            }
            _ => Spot::Host,
        }
    }

    /// The peer's memory from a slot on that was [found](Self::spot).
    pub(super) fn region(&self, slot: usize, len: u64) -> Option<Region<'_>> {
        match &self.road {
            Road::Window(mapped) => Some(mapped.region(slot, len)),
            Road::Unknown | Road::None => None,
        }
    }

    /// Nothing was sent to a slot.
    pub(super) fn give_back(&mut self, slot: usize) {
        if let Road::Window(mapped) = &mut self.road {
            mapped.give_back(slot);
        }
    }

    /// Where in its window the peer finds what was put there.
    pub(super) fn place(&self, slot: usize, len: u64) -> [u8; PLACE_LEN] {
        let offset = match &self.road {
            Road::Window(mapped) => mapped.offset(slot),
            Road::Unknown | Road::None => 0, // there is a window while something is on its way there
        };
        let mut place = [0; PLACE_LEN];
        place[..8].copy_from_slice(&offset.to_le_bytes());
        place[8..].copy_from_slice(&len.to_le_bytes());
        place
    }

    /// Tells the peer why the way ends.
    pub(super) fn say_lost(&self, text: String) {
        if let Some(line) = &self.line {
            self.say(line, &Note::Lost(text), None);
        }
    }

    /// Lets go of the peer's window. Nothing may be on its way there. What is left of this rank's is to be looked after.
    pub(super) fn part(&mut self) -> Option<Parting> {
        let window = self.take_own();
        self.road = Road::None;
        let line = self.line.take()?;
        self.say(&line, &Note::Dropped, None);
        line.hang_up();
        let window = window.filter(|window| window.must_be_let_go() && !self.has_dropped)?;
        Some(Parting::new(window, line))
    }

    /// Offers the peer a window by the means that is next, or says that there is none.
    fn offer(&mut self) {
        let Some(line) = self.line.clone() else { return };
        let (peer, window_bytes) = (self.peer, self.window_bytes);
        while let (Some(device), Some(keeper), Some(means)) =
            (&self.device, self.shared.keeper(peer), self.means.pop())
        {
            match Window::make(device, means, window_bytes, (line.own.clone(), keeper)) {
                Ok(Made { window, by, file }) => {
                    *self.shared.ways[peer.0 as usize].window() = Some(window);
                    return self.say(&line, &Note::Offer { window_bytes, by }, file.as_ref());
                }
                Err(error) => tracing::debug!(%peer, ?means, %error, "no window for a peer"),
            }
        }
        self.say(&line, &Note::NoWindow, None);
    }

    /// Maps the peer's window, or says that it cannot.
    fn map(&mut self, window_bytes: u64, by: By, file: Option<OwnedFd>) {
        let Some(line) = &self.line else { return };
        let mapped = match (&self.device, &self.road) {
            (Some(device), Road::Unknown) => {
                let (peer, mapped) = (self.peer, Mapped::map(device, window_bytes, by, file));
                mapped.inspect_err(|error| tracing::debug!(%peer, %error, "a window is not mapped")).ok()
            }
            _ => None,
        };
        match mapped {
            Some(mapped) => self.road = Road::Window(mapped),
            None => self.say(line, &Note::Declined, None),
        }
    }

    /// The window that the peer was offered, for which nothing more comes.
    fn take_own(&self) -> Option<Arc<Window>> {
        self.shared.ways[self.peer.0 as usize].window().take()
    }

    /// Says something to the peer. If that fails it has gone, or goes without: payloads do not wait for ever.
    fn say(&self, line: &Line, note: &Note, file: Option<&OwnedFd>) {
        if let Err(error) = line.say(&note.encode(), file) {
            tracing::debug!(peer = %self.peer, %error, "a note does not get to a peer");
        }
    }
}
