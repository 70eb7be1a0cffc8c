//! What the callers of a link, the thread of its shared memory and its porters know alike.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mgcomp_codecs::device::Device;

use super::super::super::movement::Movement;
use super::super::super::rate::Rate;
use super::super::super::shm::guest::{Guest, Line, PLACE_LEN};
use super::super::super::{LinkError, Position};
use super::notes::{By, MOST_NOTES, Note};
use super::porter::Command;
use super::window::Window;
use crate::message::Rank;
use crate::payload::Payload;

pub(super) struct Shared {
    pub(super) position: Position,
    pub(super) device: Option<Device>,
    /// By rank.
    pub(super) ways: Vec<Way>,
    pub(super) carried: Arc<Carried>,
    /// To the porters, by rank.
    commands: Vec<Option<Sender<Command>>>,
}

/// The way to one peer, and back.
pub(super) struct Way {
    /// Messages that its porter has not sent yet.
    pub(super) queued: AtomicUsize,
    /// Of copies to the peer's window.
    pub(super) rate: Arc<Rate>,
    /// Of copies to the peer.
    pub(super) moved: Movement,
    /// Whether a message for the peer was lost: then no other may come there.
    lost: AtomicBool,
    /// Notes that came from the peer.
    notes: AtomicUsize,
    /// The window that the peer was offered.
    window: Mutex<Option<Arc<Window>>>,
}

/// Bytes of payloads that were made on devices, by the way they have gone.
#[derive(Debug, Default)]
pub struct Carried {
    pub(super) by_window: AtomicU64,
    pub(super) by_host: AtomicU64,
}

impl Carried {
    /// Bytes that were copied into windows, from device to device.
    #[must_use]
    pub fn window_bytes(&self) -> u64 {
        self.by_window.load(Ordering::Relaxed)
    }

    /// Bytes that went through the memory of the host.
    #[must_use]
    pub fn host_bytes(&self) -> u64 {
        self.by_host.load(Ordering::Relaxed)
    }
}

impl Way {
    pub(super) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::SeqCst)
    }

    pub(super) fn set_lost(&self) {
        self.lost.store(true, Ordering::SeqCst);
    }

    /// The place of the window that the peer was offered.
    pub(super) fn window(&self) -> MutexGuard<'_, Option<Arc<Window>>> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    pub(super) fn new(
        position: Position,
        device: Option<Device>,
        commands: Vec<Option<Sender<Command>>>,
    ) -> Self {
        let way = |_| Way {
            queued: AtomicUsize::new(0),
            rate: Arc::default(),
            moved: Movement::new(),
            lost: AtomicBool::new(false),
            notes: AtomicUsize::new(0),
            window: Mutex::new(None),
        };
        let ways = (0..position.ranks).map(way).collect();
        Self { position, device, ways, carried: Arc::default(), commands }
    }

    /// Tells the porter to a peer something.
    pub(super) fn tell(&self, peer: Rank, command: Command) {
        if let Some(Some(commands)) = self.commands.get(peer.0 as usize) {
            let _ = commands.send(command); // the porter lives as long as the link
        }
    }

    /// Who looks after the memory of the window for a peer.
    pub(super) fn keeper(&self, peer: Rank) -> Option<Sender<Command>> {
        self.commands.get(peer.0 as usize)?.clone()
    }
}

impl Guest for Shared {
    fn met(&self, peer: Rank, line: Line) {
        self.tell(peer, Command::Met(line));
    }

    fn heard(&self, from: Rank, note: &[u8], file: Option<OwnedFd>) -> Result<(), LinkError> {
        let nonsense = || LinkError::Note { peer: from, got: note.len(), first: note[0] };
        // The porter may be held up, and what waits for it there, files among it, is not to grow without an end.
        if self.ways[from.0 as usize].notes.fetch_add(1, Ordering::SeqCst) >= MOST_NOTES {
            return Err(nonsense());
        }
        match Note::parse(note).ok_or_else(nonsense)? {
            Note::Lost(text) => Err(LinkError::Device { peer: from, text }),
            note => {
                // Any other file is closed here.
                let file = file.filter(|_| matches!(note, Note::Offer { by: By::File, .. }));
                self.tell(from, Command::Heard(note, file));
                Ok(())
            }
        }
    }

    fn payload_at(&self, from: Rank, place: [u8; PLACE_LEN]) -> Result<Payload, LinkError> {
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| place[at + i]));
        let (offset, len) = (number(0), number(8));
        let window = self.ways[from.0 as usize].window().clone();
        let payload = window.as_ref().and_then(|window| window.payload(offset, len));
        payload.ok_or_else(|| {
            let window_bytes = window.map_or(0, |window| window.window_bytes());
            LinkError::WindowPlace { peer: from, offset, len, window_bytes }
        })
    }

    fn gone(&self, peer: Rank) {
        self.tell(peer, Command::Gone);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::mpsc;

    use super::*;

    /// A porter that is held up takes nothing in.
    #[test]
    fn what_waits_for_a_porter_has_an_end() {
        let (commands, held_up) = mpsc::channel();
        let position = Position { rank: Rank(0), ranks: 2 };
        let shared = Shared::new(position, None, vec![None, Some(commands)]);
        let hear = |note: &Note| {
            let file = File::open("/dev/null").unwrap().into();
            shared.heard(Rank(1), &note.encode(), Some(file))
        };
        let offer = Note::Offer { window_bytes: 65_536, by: By::File };
        let heard = [Note::NoWindow, offer].iter().cycle().take(10_000).map(hear).collect::<Vec<_>>();
        assert!(heard[..MOST_NOTES].iter().all(Result::is_ok));
        let refused = |heard: &_| matches!(heard, Err(LinkError::Note { peer: Rank(1), .. }));
        assert!(heard[MOST_NOTES..].iter().all(refused));
        let waiting: Vec<_> = held_up.try_iter().collect();
        let file = |command: &_| matches!(command, Command::Heard(_, Some(_)));
        assert_eq!(waiting.len(), MOST_NOTES);
        assert_eq!(
            waiting.iter().filter(|command| file(command)).count(),
            MOST_NOTES / 2,
            "only with offers"
        );
    }
}
