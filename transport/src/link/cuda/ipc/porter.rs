//! The thread of a rank that brings payloads to the devices of others, and looks after the windows.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use mgcomp_codecs::device::{Device, DeviceError, Event, Pinned, Stream};

use super::super::super::LinkError;
use super::super::super::rate::{Backlog, Rate, RateMeter};
use super::super::super::shm::guest::{Line, PLACE_LEN};
use super::super::super::shm::outbox::{Outbox, Reserved};
use super::notes::{By, Note};
use super::parting::Parting;
use super::shared::{Shared, Way};
use super::window::{Made, Mapped, Means, Sharing, Window};
use crate::executor::cuda::Ready;
use crate::memory::{DeviceBytes, Room, Rooms};
use crate::message::{Header, Rank};
use crate::payload::Payload;

/// Copies under way at a time.
const DEPTH: usize = 8;
/// Commands that are taken before copies have their turn.
const BATCH: usize = 64;
/// How long payloads wait to hear of a peer's window.
const OFFER_PATIENCE: Duration = Duration::from_secs(5);
/// How long they wait for room in it while the peer takes messages in: it may wait for one of those behind.
const ROOM_PATIENCE: Duration = Duration::from_millis(10);
/// How often is looked for room, and for peers that let go.
const POLLING: Duration = Duration::from_micros(100);
const PARTING_POLLING: Duration = Duration::from_millis(2);

/// What the porter is told.
pub(super) enum Command {
    Send(Rank, Parcel),
    Met(Rank, Line),
    Heard(Rank, Note, Option<OwnedFd>),
    Gone(Rank),
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
    ends: Vec<Option<End>>,
    /// The oldest first.
    flights: VecDeque<Flight>,
    partings: Vec<Parting>,
    tools: Option<Tools>,
    window_bytes: u64,
    ended: bool,
}

/// What copies take.
struct Tools {
    device: Device,
    stream: Stream,
    /// That are not in use.
    events: Vec<Event>,
    staging: Arc<Rooms<Pinned>>,
}

/// The porter's side of a peer.
struct End {
    outbox: Outbox,
    line: Option<Line>,
    /// How its window may be offered yet, the next one last.
    means: Vec<Means>,
    road: Road,
    /// Whether it has let go of its window.
    has_dropped: bool,
    queue: VecDeque<Parcel>,
    /// Since when the first of them waits.
    waits_since: Option<Instant>,
    /// Of copies to its window.
    meter: RateMeter<Arc<Rate>>,
}

/// How payloads get to a peer's device.
enum Road {
    /// The peer has not said.
    Unknown,
    Window(Mapped),
    /// By way of the host.
    None,
}

/// A message that goes out when its copy has ended.
struct Flight {
    to: Rank,
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
        to: Room<Pinned>,
        done: Event,
    },
}

/// What may be done with the first message in a queue.
enum Next {
    Nothing,
    Take(Load),
    /// It cannot be brought anywhere.
    Lost(DeviceError),
}

impl Porter {
    pub(super) fn new(
        shared: &Arc<Shared>,
        outboxes: &[Option<Outbox>],
        sharing: Sharing,
        window_bytes: u64,
    ) -> Self {
        let tools = shared.device.as_ref().and_then(|device| {
            let tools = Tools::new(device);
            tools
                .inspect_err(|error| tracing::warn!(%error, "payloads of a device go by way of the host"))
                .ok()
        });
        let means = if tools.is_some() { sharing.means() } else { Vec::new() };
        let end = |(outbox, way): (&Option<Outbox>, &Way)| {
            outbox.clone().map(|outbox| End::new(outbox, means.clone(), way.rate.clone()))
        };
        let ends = outboxes.iter().zip(&shared.ways).map(end).collect();
        let (flights, partings) = (VecDeque::new(), Vec::new());
        Self { shared: shared.clone(), ends, flights, partings, tools, window_bytes, ended: false }
    }

    pub(super) fn run(mut self, commands: &Receiver<Command>) {
        while !self.is_over() {
            match self.wait(commands) {
                Ok(command) => self.obey(command),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => self.ended = true,
            }
            commands.try_iter().take(BATCH).for_each(|command| self.obey(command));
            (0..self.ends.len()).for_each(|rank| self.begin(Rank(rank as u32)));
            if let Some(flight) = self.flights.pop_front() {
                self.land(flight);
            }
            self.partings.retain(|parting| !parting.is_due());
        }
    }

    fn is_over(&self) -> bool {
        self.ended && self.flights.is_empty() && self.partings.is_empty()
    }

    /// The next command, if there is one before something else is to be done.
    fn wait(&self, commands: &Receiver<Command>) -> Result<Command, RecvTimeoutError> {
        let (mut waiting, mut fresh) = (false, false);
        for end in self.ends.iter().flatten().filter(|end| !end.queue.is_empty()) {
            waiting |= end.waits_since.is_some();
            fresh |= end.waits_since.is_none();
        }
        if fresh || !self.flights.is_empty() {
            return Err(RecvTimeoutError::Timeout);
        }
        if waiting {
            return commands.recv_timeout(POLLING);
        }
        if !self.partings.is_empty() {
            return commands.recv_timeout(PARTING_POLLING);
        }
        commands.recv().map_err(|_| RecvTimeoutError::Disconnected)
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Send(to, parcel) => match self.end(to) {
                Some(end) => end.queue.push_back(parcel),
                None => self.settle(to),
            },
            Command::Met(peer, line) => {
                if let Some(end) = self.end(peer) {
                    end.line = Some(line);
                }
                self.offer(peer);
            }
            Command::Heard(from, note, file) => self.hear(from, note, file),
            Command::Gone(peer) => self.part(peer),
            Command::End => self.ended = true,
        }
    }

    fn hear(&mut self, from: Rank, note: Note, file: Option<OwnedFd>) {
        match note {
            Note::Offer { window_bytes, by } => self.map(from, window_bytes, by, file),
            Note::NoWindow => {
                if let Some(end) = self.end(from).filter(|end| matches!(end.road, Road::Unknown)) {
                    end.road = Road::None;
                }
            }
            Note::Declined => {
                self.take_window(from);
                self.offer(from);
            }
            // What the peer put into the window before may still lie in the ring, so the window stays until its end.
            Note::Dropped => {
                if let Some(end) = self.end(from) {
                    end.has_dropped = true;
                }
            }
            Note::Lost(_) => {} // heard before
        }
    }

    /// Offers a peer a window by the means that is next, or says that there is none.
    fn offer(&mut self, peer: Rank) {
        let window_bytes = self.window_bytes;
        let Some(end) = self.ends[peer.0 as usize].as_mut() else { return };
        let Some(line) = end.line.clone() else { return };
        while let (Some(tools), Some(means)) = (&self.tools, end.means.pop()) {
            match Window::make(&tools.device, means, window_bytes, line.own.clone()) {
                Ok(Made { window, by, file }) => {
                    *self.shared.ways[peer.0 as usize].window() = Some(window);
                    let offer = Note::Offer { window_bytes, by };
                    return say(peer, &line, &offer, file.as_ref());
                }
                Err(error) => tracing::debug!(%peer, ?means, %error, "no window for a peer"),
            }
        }
        say(peer, &line, &Note::NoWindow, None);
    }

    /// Maps a peer's window, or says that it cannot.
    fn map(&mut self, peer: Rank, window_bytes: u64, by: By, file: Option<OwnedFd>) {
        let Some(end) = self.ends[peer.0 as usize].as_mut() else { return };
        let Some(line) = &end.line else { return };
        let mapped = match (&self.tools, &end.road) {
            (Some(tools), Road::Unknown) => {
                let mapped = Mapped::map(&tools.device, window_bytes, by, file);
                mapped.inspect_err(|error| tracing::debug!(%peer, %error, "a window is not mapped")).ok()
            }
            _ => None,
        };
        match mapped {
            Some(mapped) => end.road = Road::Window(mapped),
            None => say(peer, line, &Note::Declined, None),
        }
    }

    /// Ends all that there is with a peer, of which nothing more comes.
    fn part(&mut self, peer: Rank) {
        // What is on its way to its window ends first.
        while self.flights.iter().any(|flight| flight.to == peer)
            && let Some(flight) = self.flights.pop_front()
        {
            self.land(flight);
        }
        let window = self.take_window(peer);
        let Some(end) = self.end(peer) else { return };
        let unsent = std::mem::take(&mut end.queue).len();
        end.road = Road::None;
        let (line, has_dropped) = (end.line.take(), end.has_dropped);
        (0..unsent).for_each(|_| self.settle(peer));
        let Some(line) = line else { return };
        say(peer, &line, &Note::Dropped, None);
        line.hang_up();
        if let Some(window) = window.filter(|window| window.must_be_let_go() && !has_dropped) {
            self.partings.push(Parting::new(window, line));
        }
    }

    /// Begins what can be begun of what goes to a peer.
    fn begin(&mut self, to: Rank) {
        if self.way(to).is_lost() {
            self.call_off(to);
        }
        while self.flights.len() < DEPTH {
            let (Some(end), tools) = (self.ends[to.0 as usize].as_mut(), self.tools.as_mut()) else { return };
            let Some(parcel) = end.queue.front() else { return };
            let now = Instant::now();
            let since = *end.waits_since.get_or_insert(now);
            let next = match (parcel.payload.on_device().cloned(), tools) {
                (Some(from), Some(tools)) => next(&from, end, tools, now - since),
                (Some(from), None) => {
                    from.fetch().map_or_else(Next::Lost, |bytes| Next::Take(Load::Host(bytes)))
                }
                (None, _) => Next::Take(Load::Host(parcel.payload.bytes().cloned().unwrap_or_default())),
            };
            if matches!(next, Next::Nothing) {
                return;
            }
            end.waits_since = None;
            let Some(Parcel { header, room, .. }) = end.queue.pop_front() else { return };
            match next {
                Next::Take(load) => {
                    self.flights.push_back(Flight { to, header, room, started: now, load });
                }
                Next::Lost(error) => {
                    drop(room);
                    self.lose(to, &error);
                    self.settle(to);
                    return self.call_off(to);
                }
                Next::Nothing => {}
            }
        }
    }

    /// Ends the wait of all that goes to a peer to which nothing gets any more.
    fn call_off(&mut self, to: Rank) {
        let queue = self.end(to).map(|end| std::mem::take(&mut end.queue)).unwrap_or_default();
        queue.into_iter().for_each(|parcel| {
            drop(parcel);
            self.settle(to);
        });
    }

    /// Waits for a copy, and sends the message.
    fn land(&mut self, flight: Flight) {
        let Flight { to, header, room, started, load } = flight;
        let landed = match load {
            // What comes behind a message that is lost would be taken for it.
            load if self.way(to).is_lost() => {
                self.forget(load);
                drop(room);
                Ok(())
            }
            Load::Host(bytes) => {
                room.send(&header, bytes);
                Ok(())
            }
            Load::Window { from, slot, done } => match self.finish(to, done) {
                Ok(()) => {
                    self.meter(to, from.len(), started);
                    self.shared.carried.by_window.fetch_add(from.len(), Ordering::Relaxed);
                    let place = self.place(to, slot, from.len());
                    room.send_placed(&header, place);
                    Ok(())
                }
                Err(error) => {
                    if let Some(End { road: Road::Window(mapped), .. }) = self.end(to) {
                        mapped.give_back(slot);
                    }
                    self.by_host(&from, &header, room, error)
                }
            },
            Load::Pinned { from, to: staged, done } => match self.finish(to, done) {
                Ok(()) => {
                    self.shared.carried.by_host.fetch_add(from.len(), Ordering::Relaxed);
                    // SAFETY: the copy has ended, and the room is nobody else's.
                    #[allow(unsafe_code)]
                    let staged = unsafe { Ready::new(staged) };
                    room.send(&header, Bytes::from_owner(staged));
                    Ok(())
                }
                Err(error) => self.by_host(&from, &header, room, error),
            },
        };
        if let Err(error) = landed {
            self.lose(to, &error);
        }
        self.settle(to);
    }

    /// Waits for a copy of which nothing comes.
    fn forget(&self, load: Load) {
        let (Load::Window { done, .. } | Load::Pinned { done, .. }) = &load else { return };
        if let (Err(_), Some(tools)) = (done.wait(), &self.tools) {
            let _ = tools.stream.wait(); // nothing may be under way; a lost context runs nothing any more
        }
    }

    /// Waits for the end of a copy.
    fn finish(&mut self, to: Rank, done: Event) -> Result<(), DeviceError> {
        let Some(tools) = &mut self.tools else { return Ok(()) };
        if let Err(error) = done.wait() {
            let _ = tools.stream.wait(); // nothing may be under way; a lost context runs nothing any more
            return Err(error);
        }
        tools.events.push(done);
        self.way(to).moved.note(Instant::now());
        Ok(())
    }

    /// Tells how fast a copy of `len` bytes to a window was, which has ended.
    fn meter(&mut self, to: Rank, len: u64, started: Instant) {
        // What goes to others says nothing of this peer.
        let is_last = self.way(to).queued.load(Ordering::SeqCst) == 1;
        let backlog = if is_last { Backlog::None } else { Backlog::Some };
        if let Some(end) = self.end(to) {
            end.meter.wrote(len, started, Instant::now(), backlog);
        }
    }

    /// Sends what could not be copied as it should, unless the device is lost.
    fn by_host(
        &self,
        from: &DeviceBytes,
        header: &Header,
        room: Reserved,
        error: DeviceError,
    ) -> Result<(), DeviceError> {
        if error.is_sticky() {
            return Err(error);
        }
        tracing::warn!(%error, "a payload goes by way of the host");
        let bytes = from.fetch()?;
        self.shared.carried.by_host.fetch_add(from.len(), Ordering::Relaxed);
        room.send(header, bytes);
        Ok(())
    }

    /// Where in its window a peer finds what was put there.
    fn place(&mut self, to: Rank, slot: usize, len: u64) -> [u8; PLACE_LEN] {
        let offset = match self.end(to).map(|end| &end.road) {
            Some(Road::Window(mapped)) => mapped.offset(slot),
            _ => 0, // there is a window while something is on its way there
        };
        let mut place = [0; PLACE_LEN];
        place[..8].copy_from_slice(&offset.to_le_bytes());
        place[8..].copy_from_slice(&len.to_le_bytes());
        place
    }

    /// Ends the way to a peer whose bytes do not get there, and tells it why.
    fn lose(&mut self, to: Rank, error: &DeviceError) {
        tracing::warn!(peer = %to, %error, "a payload does not get to another device");
        // First: before it is settled, so that nothing goes past it.
        self.way(to).set_lost();
        let (own, text) = (self.shared.position.rank, error.to_string());
        let Some(end) = self.end(to) else { return };
        // Before the peer hears of it, which hangs up then: that is not to be taken for the reason.
        end.outbox.break_off(LinkError::Device { peer: own, text: text.clone() });
        if let Some(line) = &end.line {
            say(to, line, &Note::Lost(text), None);
        }
    }

    /// A message is not the porter's any more: others may go past the queue.
    fn settle(&self, to: Rank) {
        self.way(to).queued.fetch_sub(1, Ordering::SeqCst);
    }

    fn take_window(&self, peer: Rank) -> Option<Arc<Window>> {
        self.shared.ways[peer.0 as usize].window().take()
    }

    fn way(&self, peer: Rank) -> &Way {
        &self.shared.ways[peer.0 as usize]
    }

    fn end(&mut self, peer: Rank) -> Option<&mut End> {
        self.ends[peer.0 as usize].as_mut()
    }
}

impl End {
    fn new(outbox: Outbox, means: Vec<Means>, rate: Arc<Rate>) -> Self {
        Self {
            outbox,
            line: None,
            means,
            road: Road::Unknown,
            has_dropped: false,
            queue: VecDeque::new(),
            waits_since: None,
            meter: RateMeter::new(rate),
        }
    }
}

impl Tools {
    fn new(device: &Device) -> Result<Self, DeviceError> {
        let (stream, staging) = (device.stream()?, Rooms::new(device));
        Ok(Self { device: device.clone(), stream, events: Vec::new(), staging })
    }

    fn event(&mut self) -> Result<Event, DeviceError> {
        self.events.pop().map_or_else(|| self.device.milestone(), Ok)
    }

    /// Begins a copy to a peer's window.
    fn copy_to(&mut self, mapped: &Mapped, slot: usize, from: &DeviceBytes) -> Result<Event, DeviceError> {
        let done = self.event()?;
        let to = mapped.region(slot, from.len());
        self.enqueued(self.stream.copy(from.region(), to).and_then(|()| self.stream.record(&done)))?;
        Ok(done)
    }

    /// Begins a copy to page-locked memory.
    fn stage(&mut self, from: &DeviceBytes) -> Result<(Room<Pinned>, Event), DeviceError> {
        let done = self.event()?;
        self.staging.trim();
        let room = self.staging.take(from.len() as usize)?;
        let copied = self.stream.copy(from.region(), room.region());
        self.enqueued(copied.and_then(|()| self.stream.record(&done)))?;
        Ok((room, done))
    }

    /// After an error, nothing may be under way.
    fn enqueued(&self, result: Result<(), DeviceError>) -> Result<(), DeviceError> {
        result.inspect_err(|_| drop(self.stream.wait()))
    }
}

/// What may be done with `from`, which has waited for so long to go to a peer.
fn next(from: &DeviceBytes, end: &mut End, tools: &mut Tools, waited: Duration) -> Next {
    if from.len() == 0 {
        return Next::Take(Load::Host(Bytes::new()));
    }
    if matches!(end.road, Road::Unknown) {
        if waited < OFFER_PATIENCE {
            return Next::Nothing;
        }
        // For good: an offer that comes later is declined, and what comes next need not wait as well.
        end.road = Road::None;
    }
    let found = match (&mut end.road, &end.line) {
        (Road::Window(mapped), Some(line)) if from.len() <= mapped.window_bytes() => {
            match mapped.take(from.len(), &line.theirs) {
                Some(slot) => Some((mapped, slot)),
                None if waited < ROOM_PATIENCE || !end.outbox.is_drained() => return Next::Nothing,
                None => None,
            }
        }
        _ => None,
    };
    if let Some((mapped, slot)) = found {
        match tools.copy_to(mapped, slot, from) {
            Ok(done) => return Next::Take(Load::Window { from: from.clone(), slot, done }),
            Err(error) if error.is_sticky() => return Next::Lost(error),
            Err(error) => {
                mapped.give_back(slot);
                tracing::warn!(%error, "a payload goes by way of the host");
            }
        }
    }
    let staged = tools.stage(from).map(|(to, done)| Load::Pinned { from: from.clone(), to, done });
    let load =
        staged.or_else(|error| if error.is_sticky() { Err(error) } else { from.fetch().map(Load::Host) });
    load.map_or_else(Next::Lost, Next::Take)
}

/// Says something to a peer. If that fails it has gone, or goes without: payloads do not wait for ever.
fn say(peer: Rank, line: &Line, note: &Note, file: Option<&OwnedFd>) {
    if let Err(error) = line.say(&note.encode(), file) {
        tracing::debug!(%peer, %error, "a note does not get to a peer");
    }
}
