//! The thread of a rank that brings payloads to the devices of others.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use mgcomp_codecs::background;
use mgcomp_codecs::device::{Buffer, Device, DeviceError, Event, Stream};
use mgcomp_selector::{LinkFacts, Overlap};

use super::super::loopback::Loopback;
use super::super::rate::{Backlog, Buffers, Rate, RateMeter};
use super::super::{Credit, Link as _, LinkError, Message};
use crate::memory::{DeviceBytes, Room, Rooms};
use crate::message::Rank;
use crate::payload::Payload;

/// What goes to a peer.
enum Parcel {
    Message(Message, Credit),
    Close,
}

/// Sends what can be sent at once, and leaves the rest, and all that must come behind it, to a thread.
pub(super) struct Mover {
    ends: Arc<Loopback>,
    ways: Arc<[Way]>,
    queue: Mutex<Option<Sender<(Rank, Parcel)>>>,
    thread: Option<JoinHandle<()>>,
}

/// The way to one peer.
#[derive(Default)]
struct Way {
    /// Parcels that the thread has not sent yet.
    queued: AtomicUsize,
    rate: Arc<Rate>,
}

impl Mover {
    /// Starts the thread of the rank whose end is `ends`.
    pub(super) fn start(ends: &Arc<Loopback>, devices: &Arc<[Option<Device>]>) -> Result<Self, LinkError> {
        let ways: Arc<[Way]> = devices.iter().map(|_| Way::default()).collect();
        let (queue, parcels) = mpsc::channel();
        let rank = ends.position().rank;
        let (porter, devices) = (Porter::new(ends.clone(), devices.clone(), ways.clone()), devices.clone());
        let work = move || match devices.iter().flatten().next().cloned() {
            // It allocates and waits, also while other threads record graphs.
            Some(any) => any.relaxed(|| porter.run(&parcels)),
            None => porter.run(&parcels),
        };
        let thread = background::spawn(format!("mgcomp-mover-{rank}"), work)
            .map_err(|error| LinkError::io("starting the mover of", "a device", &error))?;
        Ok(Self { ends: ends.clone(), ways, queue: Mutex::new(Some(queue)), thread: Some(thread) })
    }

    /// Sends a message that was admitted.
    pub(super) fn send(&self, to: Rank, message: Message, credit: Credit) {
        if message.payload.on_device().is_none() && self.is_clear(to) {
            return self.ends.forward(to, message, credit);
        }
        self.enqueue(to, Parcel::Message(message, credit));
    }

    /// Tells `to` that it was given up, behind what goes there.
    pub(super) fn say_closed(&self, to: Rank) {
        if self.is_clear(to) {
            return self.ends.say_closed(to);
        }
        self.enqueue(to, Parcel::Close);
    }

    /// What was seen of the way to `peer`.
    pub(super) fn facts(&self, peer: Rank) -> Option<LinkFacts> {
        let gbps = self.ways.get(peer.0 as usize)?.rate.gbps()?;
        LinkFacts::try_new(gbps, 0, Overlap::None).ok()
    }

    fn is_clear(&self, to: Rank) -> bool {
        self.ways[to.0 as usize].queued.load(Ordering::SeqCst) == 0
    }

    fn enqueue(&self, to: Rank, parcel: Parcel) {
        self.ways[to.0 as usize].queued.fetch_add(1, Ordering::SeqCst);
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = &*queue {
            let _ = queue.send((to, parcel)); // the thread lives as long as the queue
        }
    }
}

impl Drop for Mover {
    fn drop(&mut self) {
        *self.queue.lock().unwrap_or_else(PoisonError::into_inner) = None;
        if let Some(thread) =
            self.thread.take().filter(|thread| thread.thread().id() != thread::current().id())
        {
            let _ = thread.join();
        }
    }
}

/// Why bytes do not get to another device.
struct Stuck {
    /// Those that are lost.
    lost: Vec<Device>,
    error: DeviceError,
}

impl Stuck {
    /// For what the driver says of one device.
    fn at(device: &Device) -> impl Fn(DeviceError) -> Self {
        |error| Self { lost: error.is_sticky().then(|| device.clone()).into_iter().collect(), error }
    }

    /// For what it says of a copy, which may be about either end: each is asked by itself.
    fn between<'a>(ends: [&'a Device; 2]) -> impl Fn(DeviceError) -> Self + 'a {
        move |error| {
            let lost = ends.into_iter().filter(|device| error.is_sticky() && is_lost(device));
            Self { lost: lost.cloned().collect(), error }
        }
    }
}

/// Whether the driver says so of any call, whatever it is for.
fn is_lost(device: &Device) -> bool {
    let asked = device.milestone().and_then(|event| event.is_over());
    asked.is_err_and(|error| error.is_sticky())
}

/// The thread's side.
struct Porter {
    ends: Arc<Loopback>,
    devices: Arc<[Option<Device>]>,
    ways: Arc<[Way]>,
    /// By context of the device that they come from.
    streams: HashMap<u64, (Stream, Event)>,
    /// By context of the device that they are on.
    rooms: HashMap<u64, Arc<Rooms<Buffer>>>,
    /// By peer.
    meters: HashMap<u32, RateMeter<Arc<Rate>>>,
}

impl Porter {
    fn new(ends: Arc<Loopback>, devices: Arc<[Option<Device>]>, ways: Arc<[Way]>) -> Self {
        let (streams, rooms, meters) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { ends, devices, ways, streams, rooms, meters }
    }

    fn run(mut self, parcels: &Receiver<(Rank, Parcel)>) {
        while let Ok((to, parcel)) = parcels.recv() {
            match parcel {
                Parcel::Message(message, credit) => self.bring(to, message, credit),
                Parcel::Close => self.ends.say_closed(to),
            }
            // Only now may others go past the queue.
            self.ways[to.0 as usize].queued.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Brings a payload to where the peer takes it, and sends the message.
    fn bring(&mut self, to: Rank, mut message: Message, credit: Credit) {
        if let Some(from) = message.payload.on_device().cloned() {
            match self.payload_at(to, &from) {
                Ok(payload) => message.payload = payload,
                Err(stuck) => return self.give_up(to, &from, &stuck),
            }
        }
        self.ends.forward(to, message, credit);
    }

    /// Ends the way to `to`. Where a device is lost, its ranks have no way any more to anybody, nor has this one if it is its
    /// memory: peers may only wait for them, and would never hear of it.
    fn give_up(&self, to: Rank, from: &DeviceBytes, Stuck { lost, error }: &Stuck) {
        tracing::warn!(peer = %to, %error, "a payload does not get to another device");
        let (own, text) = (self.ends.position().rank, error.to_string());
        let failing = |peer| LinkError::Device { peer, text: text.clone() };
        for device in lost {
            for (rank, of_rank) in (0..).map(Rank).zip(&*self.devices) {
                let is_own = rank == own && device.is_same(from.device());
                if is_own || of_rank.as_ref().is_some_and(|of_rank| of_rank.is_same(device)) {
                    self.ends.cut_off(rank, &failing(rank));
                }
            }
        }
        self.ends.cut(to, &failing(own));
    }

    /// The same bytes where `to` has its device; or on the host, if it has none or does not get them there.
    fn payload_at(&mut self, to: Rank, from: &DeviceBytes) -> Result<Payload, Stuck> {
        if let Some(device) = self.devices[to.0 as usize].clone() {
            if device.is_same(from.device()) {
                return Ok(Payload::from_device(from.clone()));
            }
            self.ends.note_movement(to);
            match self.copy(to, from, &device) {
                Ok(there) => return Ok(Payload::from_device(there)),
                Err(stuck) if stuck.error.is_sticky() => return Err(stuck),
                Err(Stuck { error, .. }) => {
                    tracing::warn!(peer = %to, %error, "a payload goes by way of the host");
                }
            }
        }
        from.fetch().map(Payload::from_bytes).map_err(Stuck::at(from.device()))
    }

    fn copy(&mut self, to: Rank, from: &DeviceBytes, device: &Device) -> Result<DeviceBytes, Stuck> {
        let rooms = self.rooms.entry(device.context_id()).or_insert_with(|| Rooms::new(device)).clone();
        let room = rooms.take(from.len() as usize).map_err(Stuck::at(device))?;
        let started = Instant::now();
        self.copy_to(&room, from, device).map_err(Stuck::between([from.device(), device]))?;
        let way = &self.ways[to.0 as usize];
        let is_last = way.queued.load(Ordering::SeqCst) == 1;
        let backlog = if is_last { Backlog::None } else { Backlog::Some };
        let meter =
            self.meters.entry(to.0).or_insert_with(|| RateMeter::new(way.rate.clone(), Buffers::Some));
        meter.wrote(from.len(), started, Instant::now(), backlog);
        Ok(DeviceBytes::new(room, from.len()))
    }

    /// Copies on a stream of the device that the bytes are on, and waits for that.
    fn copy_to(
        &mut self,
        room: &Room<Buffer>,
        from: &DeviceBytes,
        device: &Device,
    ) -> Result<(), DeviceError> {
        let (stream, done) = match self.streams.entry(from.device().context_id()) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert((from.device().stream()?, from.device().milestone()?)),
        };
        let copied = stream.copy_between((from.device(), from.region()), (device, room.region()));
        let ended = copied.and_then(|()| stream.record(done)).and_then(|()| done.wait());
        // Nothing may be under way to the room; a lost context runs nothing any more.
        ended.inspect_err(|_| drop(stream.wait()))
    }
}
