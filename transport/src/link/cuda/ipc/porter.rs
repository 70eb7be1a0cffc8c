//! The thread that brings payloads to the device of one peer, and owns what there is of the windows between the two.
//!
//! All that may wait for the device is done here: copies, and to map memory, unmap and free it. It is the matter of one peer,
//! so other peers' threads go on meanwhile.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use mgcomp_codecs::device::{DeviceError, Event, Pinned};

use super::super::super::LinkError;
use super::super::super::rate::{Backlog, Buffers, Rate, RateMeter};
use super::super::super::shm::guest::Line;
use super::super::super::shm::outbox::{Outbox, Reserved};
use super::copies::{Copies, Staged};
use super::notes::Note;
use super::parting::Parting;
use super::shared::{Shared, Way};
use super::window::{Memory, Sharing};
use super::windows::{Spot, Windows};
use crate::memory::{DeviceBytes, Rooms};
use crate::message::{Header, Rank};
use crate::payload::Payload;

/// Copies under way at a time.
const DEPTH: usize = 8;
/// Commands that are taken before copies have their turn.
const BATCH: usize = 64;
/// How often is looked for room, and whether the peer has let go.
const POLLING: Duration = Duration::from_micros(100);
const PARTING_POLLING: Duration = Duration::from_millis(2);

/// What a porter is told.
pub(super) enum Command {
    Send(Parcel),
    Met(Line),
    Heard(Note, Option<OwnedFd>),
    /// Nothing more comes from the peer, and nothing more goes there.
    Gone,
    /// Nobody uses this memory any more, which was a window.
    Free(Memory),
    /// Another porter of the rank has found the device lost.
    Lost(DeviceError),
    /// The last one.
    End,
}

/// A message, and its place in the queue.
pub(super) struct Parcel {
    pub(super) header: Header,
    pub(super) payload: Payload,
    pub(super) room: Reserved,
}

pub(super) struct Porter {
    shared: Arc<Shared>,
    peer: Rank,
    outbox: Outbox,
    queue: VecDeque<Parcel>,
    /// Since when the first of them waits.
    waits_since: Option<Instant>,
    /// The oldest first.
    flights: VecDeque<Flight>,
    /// `None` where there is no device, or it has no stream.
    copies: Option<Copies>,
    windows: Windows,
    parting: Option<Parting>,
    /// Of copies to the peer's window.
    meter: RateMeter<Arc<Rate>>,
    ended: bool,
}

/// A message that goes out when its copy has ended.
struct Flight {
    header: Header,
    room: Reserved,
    started: Instant,
    load: Load,
}

enum Load {
    /// There is no copy.
    Host(Bytes),
    Window {
        from: DeviceBytes,
        slot: usize,
        done: Event,
    },
    Pinned {
        from: DeviceBytes,
        staged: Staged,
    },
}

/// What may be done with the first message in the queue.
enum Next {
    Nothing,
    Take(Load),
    /// It cannot be brought anywhere.
    Lost(DeviceError),
}

/// Frees what was kept of windows until then, on the thread of a porter that has ended: whoever lets go of it at last, a thread
/// of the program's perhaps, does not wait for the device. It is over when the link is gone and nobody keeps a window.
pub(super) fn free_what_is_kept(commands: &Receiver<Command>) {
    commands.iter().for_each(drop);
}

impl Porter {
    pub(super) fn new(
        shared: &Arc<Shared>,
        (peer, outbox): (Rank, Outbox),
        staging: Option<&Arc<Rooms<Pinned>>>,
        sharing: (Sharing, u64),
    ) -> Self {
        let copies = shared.device.as_ref().zip(staging).and_then(|(device, staging)| {
            let copies = Copies::new(device, staging);
            copies
                .inspect_err(
                    |error| tracing::warn!(%peer, %error, "payloads of a device go by way of the host"),
                )
                .ok()
        });
        let device = shared.device.clone().filter(|_| copies.is_some());
        Self {
            shared: shared.clone(),
            peer,
            outbox,
            queue: VecDeque::new(),
            waits_since: None,
            flights: VecDeque::new(),
            copies,
            windows: Windows::new(shared, peer, device, sharing),
            parting: None,
            meter: RateMeter::new(shared.ways[peer.0 as usize].rate.clone(), Buffers::Some),
            ended: false,
        }
    }

    pub(super) fn run(mut self, commands: &Receiver<Command>) {
        while !self.is_over() {
            match self.wait(commands) {
                Ok(command) => self.obey(command),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => self.ended = true,
            }
            commands.try_iter().take(BATCH).for_each(|command| self.obey(command));
            self.begin();
            if let Some(flight) = self.flights.pop_front() {
                self.land(flight);
            }
            if self.parting.as_ref().is_some_and(Parting::is_due) {
                self.parting = None;
            }
        }
    }

    fn is_over(&self) -> bool {
        self.ended && self.flights.is_empty() && self.parting.is_none()
    }

    /// The next command, if there is one before something else is to be done.
    fn wait(&self, commands: &Receiver<Command>) -> Result<Command, RecvTimeoutError> {
        let is_fresh = !self.queue.is_empty() && self.waits_since.is_none();
        if is_fresh || !self.flights.is_empty() {
            Err(RecvTimeoutError::Timeout)
        } else if !self.queue.is_empty() {
            commands.recv_timeout(POLLING)
        } else if self.parting.is_some() {
            commands.recv_timeout(PARTING_POLLING)
        } else {
            commands.recv().map_err(|_| RecvTimeoutError::Disconnected)
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Send(parcel) => self.queue.push_back(parcel),
            Command::Met(line) => self.windows.meet(line),
            Command::Heard(note, file) => self.windows.hear(note, file),
            Command::Gone => self.part(),
            Command::Free(memory) => drop(memory),
            Command::Lost(error) => self.lose(&error),
            Command::End => self.ended = true,
        }
    }

    /// Ends all that there is with the peer, of which nothing more comes.
    fn part(&mut self) {
        // What is on its way to its window ends first.
        while let Some(flight) = self.flights.pop_front() {
            self.land(flight);
        }
        self.call_off();
        self.parting = self.windows.part();
    }

    /// Begins what can be begun.
    fn begin(&mut self) {
        if self.way().is_lost() {
            self.call_off();
        }
        while self.flights.len() < DEPTH {
            let Some(parcel) = self.queue.front() else { return };
            let (from, bytes) = (parcel.payload.on_device().cloned(), parcel.payload.bytes().cloned());
            let now = Instant::now();
            let since = *self.waits_since.get_or_insert(now);
            let next = match from {
                Some(from) => self.next(from, now - since),
                None => Next::Take(Load::Host(bytes.unwrap_or_default())),
            };
            if matches!(next, Next::Nothing) {
                return;
            }
            self.waits_since = None;
            let Some(Parcel { header, room, .. }) = self.queue.pop_front() else { return };
            match next {
                Next::Take(load) => {
                    self.flights.push_back(Flight { header, room, started: now, load });
                }
                Next::Lost(error) => {
                    drop(room);
                    self.lose(&error);
                    self.settle();
                    return self.call_off();
                }
                Next::Nothing => {}
            }
        }
    }

    /// What may be done with `from`, which has waited for so long.
    fn next(&mut self, from: DeviceBytes, waited: Duration) -> Next {
        let len = from.len();
        if len == 0 {
            return Next::Take(Load::Host(Bytes::new()));
        }
        let Some(copies) = &mut self.copies else { return self.fetch(&from) };
        let slot = match self.windows.spot(len, waited, || self.outbox.is_drained()) {
            Spot::Later => return Next::Nothing,
            Spot::Slot(slot) => Some(slot),
            Spot::Host => None,
        };
        if let Some((slot, to)) = slot.and_then(|slot| Some((slot, self.windows.region(slot, len)?))) {
            match copies.begin(&from, to) {
                Ok(done) => return Next::Take(Load::Window { from, slot, done }),
                Err(error) if error.is_sticky() => return Next::Lost(error),
                Err(error) => {
                    self.windows.give_back(slot);
                    tracing::warn!(%error, "a payload goes by way of the host");
                }
            }
        }
        match copies.stage(&from) {
            Ok(staged) => Next::Take(Load::Pinned { from, staged }),
            Err(error) if error.is_sticky() => Next::Lost(error),
            Err(_) => self.fetch(&from),
        }
    }

    /// Brings what cannot be copied as it should to ordinary memory, which is waited for.
    fn fetch(&self, from: &DeviceBytes) -> Next {
        self.fetched(from).map_or_else(Next::Lost, |bytes| Next::Take(Load::Host(bytes)))
    }

    fn fetched(&self, from: &DeviceBytes) -> Result<Bytes, DeviceError> {
        let bytes = from.fetch()?;
        self.shared.carried.by_host.fetch_add(from.len(), Ordering::Relaxed);
        Ok(bytes)
    }

    /// Ends the wait of all that goes to the peer when nothing gets there any more.
    fn call_off(&mut self) {
        self.waits_since = None;
        for parcel in std::mem::take(&mut self.queue) {
            drop(parcel);
            self.settle();
        }
    }

    /// Waits for a copy, and sends the message.
    fn land(&mut self, flight: Flight) {
        let Flight { header, room, started, load } = flight;
        // What comes behind a message that is lost would be taken for it.
        let landed = if self.way().is_lost() {
            self.forget(load);
            drop(room);
            Ok(())
        } else {
            self.deliver((header, room), started, load)
        };
        if let Err(error) = landed {
            self.lose(&error);
        }
        self.settle();
    }

    fn deliver(
        &mut self,
        (header, room): (Header, Reserved),
        started: Instant,
        load: Load,
    ) -> Result<(), DeviceError> {
        let (from, error) = match (load, &mut self.copies) {
            (Load::Host(bytes), _) => {
                room.send(&header, bytes);
                return Ok(());
            }
            (Load::Window { from, slot, done }, Some(copies)) => match copies.finish(done) {
                Ok(()) => {
                    self.count_window(from.len(), started);
                    room.send_placed(&header, self.windows.place(slot, from.len()));
                    return Ok(());
                }
                Err(error) => {
                    self.windows.give_back(slot);
                    (from, error)
                }
            },
            (Load::Pinned { from, staged }, Some(copies)) => match copies.finish_staged(staged) {
                Ok(bytes) => {
                    self.way().moved.note(Instant::now());
                    self.shared.carried.by_host.fetch_add(from.len(), Ordering::Relaxed);
                    room.send(&header, bytes);
                    return Ok(());
                }
                Err(error) => (from, error),
            },
            (_, None) => return Ok(()), // nothing is copied without
        };
        if error.is_sticky() {
            return Err(error);
        }
        tracing::warn!(%error, "a payload goes by way of the host");
        room.send(&header, self.fetched(&from)?);
        Ok(())
    }

    /// Waits for a copy of which nothing comes.
    fn forget(&mut self, load: Load) {
        let Some(copies) = &mut self.copies else { return };
        // Nothing may be under way, and nobody is told what became of it.
        let _ = match load {
            Load::Host(_) => Ok(()),
            Load::Window { done, .. } => copies.finish(done),
            Load::Pinned { staged, .. } => copies.finish_staged(staged).map(drop),
        };
    }

    /// Counts a copy of `len` bytes to the peer's window, which has ended.
    fn count_window(&mut self, len: u64, started: Instant) {
        let (way, now) = (&self.shared.ways[self.peer.0 as usize], Instant::now());
        way.moved.note(now);
        self.shared.carried.by_window.fetch_add(len, Ordering::Relaxed);
        let is_last = way.queued.load(Ordering::SeqCst) == 1;
        self.meter.wrote(len, started, now, if is_last { Backlog::None } else { Backlog::Some });
    }

    /// Ends the way to the peer, whose bytes do not get there, and tells it why. Where the device is lost, the other
    /// porters do the same: their peers may only wait, and would never hear of it.
    fn lose(&mut self, error: &DeviceError) {
        if self.way().is_lost() {
            return;
        }
        tracing::warn!(peer = %self.peer, %error, "a payload does not get to another device");
        // First: before it is settled, so that nothing goes past it.
        self.way().set_lost();
        let (own, text) = (self.shared.position.rank, error.to_string());
        // Before the peer hears of it, which hangs up then: that is not to be taken for the reason.
        self.outbox.break_off(LinkError::Device { peer: own, text: text.clone() });
        self.windows.say_lost(text);
        if error.is_sticky() {
            let others = self.shared.position.peers().filter(|peer| *peer != self.peer);
            others.for_each(|peer| self.shared.tell(peer, Command::Lost(error.clone())));
        }
    }

    /// A message is not the porter's any more: others may go past the queue.
    fn settle(&self) {
        self.way().queued.fetch_sub(1, Ordering::SeqCst);
    }

    fn way(&self) -> &Way {
        &self.shared.ways[self.peer.0 as usize]
    }
}
