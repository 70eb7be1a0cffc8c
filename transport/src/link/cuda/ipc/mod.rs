//! Ranks on one node, as processes with a device each, from the memory of one device to that of another.
//!
//! [`CudaIpc`] is a link over [shared memory](crate::link::shm) whose payloads need not go through it. Of each two ranks, each
//! has a *window* for the other: a part of its device's memory, which the other one has mapped. A payload that was made on a
//! device is copied into the window of whom it goes to, by the device and in one step; when that has ended, the message
//! goes through shared memory with the place in the window, where the kernels of the receiver find it. When nobody
//! uses it there any more, the place is the sender's again. Several copies are under way at a time.
//!
//! Nothing of the program's memory is shared, so it may come from anywhere: pools, mapped memory, other libraries.
//!
//! # How windows are shared
//! By a handle of the driver, or where it gives none, or the peer cannot open it, by a file. Where neither will do, as
//! without access from device to device, between ranks of which one has no device, for payloads longer than the window,
//! and while the window is full of what the receiver has taken in and keeps, payloads go through page-locked memory and
//! shared memory as on any other link.
//!
//! # Ends
//! As of [shared memory](crate::link::shm). What is copied is there before word of it is sent, so the end of a process leaves nothing
//! half done. A device that is lost ends the way to whom its bytes were for, and both sides hear why. A window is freed
//! once the peer has let go of it, or its process has ended, by a thread that no other peer waits for; one that a peer of a
//! stopped process, or with a device that is busy for long, still has is kept, if the driver minds, until this process ends. To drop the link takes a few seconds
//! at most: what the device holds up longer than that is freed when it ends, by threads that stay until then. So is a window
//! of which the program keeps a payload: to let go of that does not wait for the device. Ranks of which only some use this link,
//! or another version of it, hear so when they meet.

mod copies;
mod notes;
mod parting;
mod porter;
mod shared;
mod slots;
mod window;
mod windows;

use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use mgcomp_codecs::background;
use mgcomp_codecs::device::Device;
use mgcomp_selector::{LinkFacts, Overlap};

use self::porter::{Command, Parcel, Porter, free_what_is_kept};
use self::shared::Shared;
use self::slots::COUNT;
use super::super::shm::outbox::Outbox;
use super::super::shm::{Shm, ShmConfig, ShmJob};
use super::super::{Drive, Link, LinkError, LinkSink, Message, Position, SendError, Sent};
use crate::executor::Outlet;
use crate::memory::Rooms;
use crate::message::{Limits, Rank};

pub use self::shared::Carried;
pub use self::window::Sharing;

/// Bytes of all windows of a rank, where nobody says how long one is.
const ALL_WINDOWS_BYTES: u64 = 256 << 20;
/// And of one of them.
const LEAST_WINDOW_BYTES: u64 = 4 << 20;
const MOST_WINDOW_BYTES: u64 = 64 << 20;
/// How long the end of a link waits for its porters: longer than they wait for peers, so only for the device.
const ENDING: Duration = Duration::from_secs(5);
/// Slots begin at multiples of this, as memory of devices does.
const SLOT_ALIGN: u64 = 256;
/// What a window may have.
const WINDOW_BYTES: std::ops::RangeInclusive<u64> = COUNT as u64 * SLOT_ALIGN..=4 << 30;

/// Settings of a link between the devices of processes.
#[derive(Clone, Copy, Debug)]
pub struct CudaIpcConfig {
    /// Settings of the shared memory that headers go through, and payloads of the host. It cannot be made slower than it is.
    pub shm: ShmConfig,
    /// Bytes of device memory that each other rank sends to: a power of two from 32 KiB to 4 GiB, or `None` for 64 MiB, and
    /// less, to 4 MiB, where a rank's windows would have more than 256 MiB in all.
    pub window_bytes: Option<u64>,
    /// How windows of this rank are shared.
    pub sharing: Sharing,
}

impl CudaIpcConfig {
    /// Settings for ranks that take what `limits` allow.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { shm: ShmConfig::new(limits), window_bytes: None, sharing: Sharing::default() }
    }
}

/// One rank's end of a link between the devices of processes.
pub struct CudaIpc {
    /// Goes first: it hears of ends.
    shm: Option<Shm>,
    outboxes: Vec<Option<Outbox>>,
    shared: Arc<Shared>,
    /// Nothing comes here; it is over when all porters are.
    porters: Receiver<Never>,
}

/// What nobody says.
enum Never {}

impl CudaIpc {
    /// The end of `rank`, whose buffers are mostly in the memory of `device`; the ranks above it can connect to it from now
    /// on. A rank without a device can take part as well.
    ///
    /// # Errors
    /// As [`Shm::new`].
    pub fn new(
        job: ShmJob,
        rank: Rank,
        device: Option<Device>,
        config: CudaIpcConfig,
    ) -> Result<Self, LinkError> {
        let ranks = job.position(rank)?.ranks;
        let refused = |what| LinkError::io(what, rank, &std::io::ErrorKind::InvalidInput.into());
        let window_bytes = config.window_bytes.unwrap_or_else(|| window_bytes_for(ranks));
        if !WINDOW_BYTES.contains(&window_bytes) || !window_bytes.is_power_of_two() {
            return Err(refused("making windows for rank"));
        }
        if config.shm.shaping.is_some() {
            return Err(refused("making windows slower than they are for rank"));
        }
        let channel = |peer| (peer != rank).then(mpsc::channel).unzip();
        let (commands, orders): (_, Vec<_>) = (0..ranks).map(Rank).map(channel).unzip();
        let staging = device.as_ref().map(Rooms::new);
        let shared = Arc::new(Shared::new(Position { rank, ranks }, device, commands));
        let shm = Shm::with_windows(job, rank, config.shm, shared.clone())?;
        let outboxes = shm.outboxes();
        let (alive, porters) = mpsc::channel();
        // From here on, what is dropped ends those that have started.
        let link = Self { shm: Some(shm), outboxes, shared, porters };
        let alive = alive; // so it goes before the link, where that waits for it
        for (peer, (outbox, orders)) in (0..).map(Rank).zip(link.outboxes.iter().zip(orders)) {
            let (Some(outbox), Some(orders)) = (outbox.clone(), orders) else { continue };
            let (shared, staging, alive) = (link.shared.clone(), staging.clone(), alive.clone());
            let porter = move || {
                let device = shared.device.clone();
                let carry = || {
                    Porter::new(&shared, (peer, outbox), staging.as_ref(), (config.sharing, window_bytes))
                        .run(&orders);
                    drop((shared, staging));
                    orders.try_iter().for_each(drop); // windows are freed that nobody keeps
                };
                // It allocates, waits and frees, also while other threads record graphs.
                match &device {
                    Some(device) => device.relaxed(carry),
                    None => carry(),
                }
                // First the device: whoever waits for the end finds that all is given back that nobody keeps.
                drop(device);
                drop::<mpsc::Sender<Never>>(alive);
                free_what_is_kept(&orders);
            };
            background::spawn(format!("mgcomp-porter-{peer}"), porter)
                .map_err(|error| LinkError::io("starting a porter of rank", rank, &error))?;
        }
        Ok(link)
    }

    /// What has gone which way, for whoever wants to know later as well.
    #[must_use]
    pub fn carried(&self) -> Arc<Carried> {
        self.shared.carried.clone()
    }

    fn shm(&self) -> &Shm {
        self.shm.as_ref().expect("there until it is dropped")
    }
}

/// Bytes of a window in a job of so many ranks.
fn window_bytes_for(ranks: u32) -> u64 {
    let peers = u64::from(ranks.max(2) - 1);
    1 << (ALL_WINDOWS_BYTES / peers).clamp(LEAST_WINDOW_BYTES, MOST_WINDOW_BYTES).ilog2()
}

impl Link for CudaIpc {
    fn position(&self) -> Position {
        self.shared.position
    }

    fn ranks_here(&self) -> u32 {
        self.shared.position.ranks
    }

    fn start(&mut self, sink: LinkSink) -> Result<(), LinkError> {
        self.shm.as_mut().expect("there until it is dropped").start(sink)
    }

    fn send(&self, to: Rank, message: Message) -> Result<Sent, SendError> {
        let way = self.shared.ways.get(to.0 as usize).ok_or(SendError::Closed(to))?;
        let on_device = message.payload.on_device().is_some();
        let is_clear = way.queued.load(Ordering::SeqCst) == 0;
        // Only now: what the porter has not sent, it has lost before it says that the way is clear.
        if way.is_lost() {
            return Err(SendError::Closed(to));
        }
        if !on_device && (is_clear || message.payload.bytes().is_none()) {
            return self.shm().send(to, message);
        }
        let outbox = self.outboxes[to.0 as usize].as_ref().ok_or(SendError::Closed(to))?;
        let room = outbox.reserve(message.wire_len())?;
        way.queued.fetch_add(1, Ordering::SeqCst);
        let Message { header, payload } = message;
        self.shared.tell(to, Command::Send(Parcel { header, payload, room }));
        Ok(Sent::Queued)
    }

    fn moved_since(&self, peer: Rank, since: Instant) -> bool {
        let copies = |way: &shared::Way| way.queued.load(Ordering::SeqCst) > 0 && way.moved.since(since);
        self.shm().moved_since(peer, since) || self.shared.ways.get(peer.0 as usize).is_some_and(copies)
    }

    fn facts(&self, peer: Rank) -> Option<LinkFacts> {
        let gbps = self.shared.ways.get(peer.0 as usize)?.rate.gbps();
        let of_windows = gbps.and_then(|gbps| LinkFacts::try_new(gbps, 0, Overlap::None).ok());
        of_windows.or_else(|| self.shm().facts(peer))
    }

    fn outlet(&self) -> Outlet {
        if self.shared.device.is_some() { Outlet::Anywhere } else { Outlet::Host }
    }

    fn driver(&self) -> Option<Weak<dyn Drive>> {
        self.shm().driver()
    }

    fn close(&self, peer: Rank) {
        self.shm().close(peer);
    }
}

impl Drop for CudaIpc {
    fn drop(&mut self) {
        // What is queued goes out as long as that takes no longer than parting may; then the porters hear of all ends.
        drop(self.shm.take());
        self.shared.position.peers().for_each(|peer| self.shared.tell(peer, Command::End));
        if matches!(self.porters.recv_timeout(ENDING), Err(RecvTimeoutError::Timeout)) {
            // Copies that do not end, or memory that is not freed before the program's own work has ended.
            tracing::warn!("the device holds the end of a link up, which goes on without being waited for");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_get_shorter_where_there_are_many() {
        let mib = |ranks| window_bytes_for(ranks) >> 20;
        assert_eq!([1, 2, 5, 6, 9, 33, 65, 1000].map(mib), [64, 64, 64, 32, 32, 8, 4, 4]);
        assert!(
            [1, 2, 5, 6, 9, 1000].into_iter().all(|ranks| WINDOW_BYTES.contains(&window_bytes_for(ranks)))
        );
    }
}
