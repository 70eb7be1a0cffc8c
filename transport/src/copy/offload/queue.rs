//! The calls of a queue.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use mgcomp_codecs::Element;
use mgcomp_selector::PolicySpec;

use super::store::{Place, Store};
use super::{OffloadConfig, OffloadError, OffloadStats, Ticket};
use crate::copy::check::{check_destination, check_source};
use crate::copy::copier::Copier;
use crate::copy::handle::{CopyHandle, MOMENT, handle};
use crate::copy::home::Home;
use crate::copy::job::{End, Finished, Job, Ready, Task};
use crate::copy::{CopyError, CopyReport, Direction};
use crate::memory::Shelf;
use crate::patience::{Patience, Wait};
use crate::payload::Payload;
use crate::pool::Pool;

/// Takes buffers out of device memory, keeps them compressed in host memory, and brings them back.
///
/// Dropping it ends its threads and waits for them; what it keeps is gone with it. Device memory is that of a CUDA device
/// ([`DeviceSlice`](crate::memory::DeviceSlice), coded there, by way of page-locked memory); where there is no GPU, any host
/// memory stands for it, and the links are simulated.
pub struct OffloadQueue {
    number: u64,
    policy: PolicySpec,
    copier: Copier,
    /// Host memory: fresh memory takes longer than most codecs do.
    pool: Pool,
    /// For what comes from devices, within the pool's bound.
    shelf: Shelf,
    shared: Arc<Shared>,
}

struct Shared {
    store: Mutex<Store>,
    /// Room was made, or a copy has ended.
    changed: Condvar,
    /// How often, for those that look without the lock, which they would keep from others.
    changes: AtomicU64,
}

impl Drop for OffloadQueue {
    fn drop(&mut self) {
        // What it keeps would go back to pools whose locks nobody lets go of there, and to the driver.
        if self.copier.is_forked() {
            std::mem::forget((self.shared.clone(), self.pool.clone(), self.shelf.clone()));
        }
    }
}

impl OffloadQueue {
    /// Starts a queue.
    ///
    /// # Errors
    /// As [`Copier::start`].
    pub fn start(config: OffloadConfig) -> Result<Self, OffloadError> {
        let copier = Copier::start(config.copy)?;
        Ok(Self::on(copier, config.policy, config.host_bytes))
    }

    pub(in crate::copy) fn on(copier: Copier, policy: PolicySpec, host_bytes: u64) -> Self {
        static QUEUES: AtomicU64 = AtomicU64::new(0);

        let number = QUEUES.fetch_add(1, Ordering::Relaxed);
        let store = Store::new(host_bytes);
        let shared = Shared { store: Mutex::new(store), changed: Condvar::new(), changes: AtomicU64::new(0) };
        let pool = Pool::of_blocks_within(usize::try_from(host_bytes).unwrap_or(usize::MAX));
        let shelf = Shelf::within(&pool);
        Self { number, policy, copier, pool, shelf, shared: Arc::new(shared) }
    }

    /// Begins to take `buffer`, values of `element`, out of device memory. Until [`wait`](Self::wait) returns, it is not to be
    /// changed. Waits while host memory is full and something is under way that may make room.
    ///
    /// # Errors
    /// [`OffloadError::Full`] if nothing is, [`OffloadError::TooLong`] if it never fits, [`OffloadError::Copy`] if it cannot be
    /// copied.
    pub fn offload(&self, buffer: impl Into<Payload>, element: Element) -> Result<Ticket, OffloadError> {
        self.admit(buffer.into(), element, true)
    }

    /// The same, but refused instead of waiting.
    ///
    /// # Errors
    /// As [`offload`](Self::offload).
    pub fn try_offload(&self, buffer: impl Into<Payload>, element: Element) -> Result<Ticket, OffloadError> {
        self.admit(buffer.into(), element, false)
    }

    /// Waits until what the ticket stands for is out of device memory, so that its buffer may be used again.
    ///
    /// # Errors
    /// [`OffloadError`] if that failed, or for a ticket that is not of this queue or was used.
    pub fn wait(&self, ticket: Ticket) -> Result<CopyReport, OffloadError> {
        let number = self.check_ticket(ticket)?;
        let wait = Patience::of(MOMENT).begin();
        let mut store = self.shared.lock();
        loop {
            match &store.entry(self.number, number)?.place {
                Place::Leaving(_) => {}
                Place::Kept(_, report) | Place::Returning(_, report) => return Ok(*report),
                Place::Failed(error) => return Err(error.clone().into()),
            }
            store = self.shared.wait(store, wait);
        }
    }

    /// Begins to bring what the ticket stands for into `buffer`, which has the length of what was offloaded; if it is not out
    /// yet, as soon as it is. If the copy fails, the ticket may be used again.
    ///
    /// # Errors
    /// [`OffloadError`] for a ticket that is not of this queue or was used, for a buffer of another length, or if the way out
    /// failed; the last two leave the ticket as it was.
    pub fn prefetch(
        &self,
        ticket: Ticket,
        buffer: impl Into<Payload>,
    ) -> Result<CopyHandle<CopyReport>, OffloadError> {
        let number = self.check_ticket(ticket)?;
        let (reply, handle) = handle();
        let shared = self.shared.clone();
        let end = move |result: Result<Finished, CopyError>| {
            shared.change(|store| store.returned(number, result.is_ok()));
            // Nobody listens if the handle is gone.
            let _ = reply.send(result.map(|finished| finished.report));
        };
        let job = self.take_back(number, buffer.into(), Box::new(end))?;
        self.copier.inner().lane(Direction::HostToDevice).add(job);
        Ok(handle)
    }

    /// Drops what the ticket stands for; waits until it is out.
    ///
    /// # Errors
    /// [`OffloadError`] for a ticket that is not of this queue or was used.
    pub fn discard(&self, ticket: Ticket) -> Result<(), OffloadError> {
        let number = self.check_ticket(ticket)?;
        let wait = Patience::of(MOMENT).begin();
        let mut store = self.shared.lock();
        loop {
            match &store.entry(self.number, number)?.place {
                Place::Leaving(None) => {}
                Place::Leaving(Some(_)) | Place::Returning(..) => {
                    return Err(OffloadError::Used { number, queue: self.number });
                }
                Place::Kept(..) | Place::Failed(_) => break,
            }
            store = self.shared.wait(store, wait);
        }
        store.remove(number);
        store.stats.discarded += 1;
        self.shared.tell(store);
        Ok(())
    }

    /// Changes the rate at which device memory is read, in Gb/s; see [`Copier::set_read_cap_gbps`].
    ///
    /// # Errors
    /// [`OffloadError::Copy`] if it is not a positive number.
    pub fn set_read_cap_gbps(&self, gbps: f64) -> Result<(), OffloadError> {
        Ok(self.copier.set_read_cap_gbps(gbps)?)
    }

    /// What was done so far.
    #[must_use]
    pub fn stats(&self) -> OffloadStats {
        self.copier.check_process().map_or_else(|_| OffloadStats::default(), |()| self.shared.lock().stats)
    }

    fn admit(&self, source: Payload, element: Element, waits: bool) -> Result<Ticket, OffloadError> {
        self.copier.check_process()?;
        check_source(&source, Direction::DeviceToHost, element)?;
        let segment_bytes = self.copier.inner().segment_bytes(&source, None);
        let sizes = (source.capacity(), segment_bytes);
        let wait = Patience::of(MOMENT).begin();
        let mut store = self.shared.lock();
        let charge = store.charge(sizes)?;
        let mut has_waited = false;
        while !store.has_room(charge) {
            if !waits || store.under_way == 0 {
                return Err(store.full(charge));
            }
            store.stats.waits += u64::from(!has_waited);
            has_waited = true;
            store = self.shared.wait(store, wait);
        }
        let number = store.admit(sizes, element, charge);
        drop(store); // its end takes the lock
        self.leave(source, element, number);
        Ok(Ticket { queue: self.number, number })
    }

    fn leave(&self, source: Payload, element: Element, number: u64) {
        let shared = self.shared.clone();
        let lane = self.copier.inner().lane(Direction::HostToDevice).clone();
        let end = move |result: Result<Finished, CopyError>| {
            let result = result.and_then(|Finished { report, kept }| {
                Ok((kept.ok_or(CopyError::Closed { written_bytes: 0 })?, report))
            });
            let next = match &result {
                Ok((kept, _)) => Ready::expand(kept.clone()),
                Err(error) => Ready::Failed(error.clone()),
            };
            let waiting: Option<Arc<Job>> = shared.change(|store| store.left(number, result));
            if let Some(job) = waiting {
                job.make_ready(next);
                lane.look_at(&job);
            }
        };
        let task = Task::Keep { source, home: Home::Host(self.pool.clone(), Some(self.shelf.clone())) };
        let direction = Direction::DeviceToHost;
        self.copier.inner().encode(task, direction, element, self.policy, Box::new(end));
    }

    /// The copy that brings ticket `number` back: it may begin at once, or when the way out has ended.
    fn take_back(&self, number: u64, destination: Payload, end: End) -> Result<Arc<Job>, OffloadError> {
        let (queue, inner) = (self.number, self.copier.inner());
        let mut store = self.shared.lock();
        let entry = store.entry(queue, number)?;
        check_destination(&destination, Direction::HostToDevice, entry.raw_bytes, entry.element)?;
        let (element, sizes) = (entry.element, (entry.raw_bytes, entry.segment_bytes));
        let make_job = || inner.expansion(destination, element, sizes, Direction::HostToDevice, end);
        match &mut entry.place {
            Place::Leaving(waiting @ None) => Ok(waiting.insert(make_job()).clone()),
            Place::Kept(kept, report) => {
                let job = make_job();
                job.make_ready(Ready::expand(kept.clone()));
                entry.place = Place::Returning(kept.clone(), *report);
                store.under_way += 1;
                Ok(job)
            }
            Place::Leaving(Some(_)) | Place::Returning(..) => Err(OffloadError::Used { number, queue }),
            Place::Failed(error) => Err(error.clone().into()),
        }
    }

    fn check_ticket(&self, ticket: Ticket) -> Result<u64, OffloadError> {
        self.copier.check_process()?;
        let Ticket { queue: of_queue, number } = ticket;
        if of_queue == self.number {
            Ok(number)
        } else {
            Err(OffloadError::OtherQueue { number, of_queue, queue: self.number })
        }
    }
}

impl Shared {
    fn change<R>(&self, change: impl FnOnce(&mut Store) -> R) -> R {
        let mut store = self.lock();
        let changed = change(&mut store);
        self.tell(store);
        changed
    }

    /// Tells all that wait of a change of the store.
    fn tell(&self, store: MutexGuard<'_, Store>) {
        self.changes.fetch_add(1, Ordering::Relaxed); // under the lock, which orders it
        drop(store);
        self.changed.notify_all();
    }

    /// Waits for a change of the store, or for no reason at all.
    fn wait<'a>(&'a self, store: MutexGuard<'a, Store>, wait: Wait) -> MutexGuard<'a, Store> {
        let seen = self.changes.load(Ordering::Relaxed);
        let has_changed = || (self.changes.load(Ordering::Relaxed) != seen).then_some(());
        drop(store);
        let looked = wait.ask(has_changed);
        let store = self.lock();
        if looked.or_else(has_changed).is_some() {
            return store;
        }
        self.changed.wait(store).unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::copy::CopyConfig;
    use crate::memory::HostBuffer;

    #[test]
    fn a_queue_that_goes_counts_what_it_ends() {
        // 100 bytes a second: nothing of this ever ends by itself.
        let copy = CopyConfig::simulated(1e-7).unwrap();
        let config = OffloadConfig::new(copy, "fixed:zvc".parse().unwrap(), 1 << 30);
        let queue = OffloadQueue::start(config).unwrap();
        let (source, into) = (HostBuffer::from(vec![1; 100_000]), HostBuffer::zeroed(100_000));
        let ticket = queue.offload(source.all(), Element::F32).unwrap();
        let mut returning = queue.prefetch(ticket, into.all()).unwrap();
        assert!(!returning.wait_for(Duration::from_millis(20)));
        let shared = queue.shared.clone();
        drop(queue);
        // A step that panics is caught, but leaves this behind.
        assert!(!shared.store.is_poisoned(), "a step panicked");
        let store = shared.lock();
        assert_eq!((store.under_way, store.stats.failed), (0, 2));
        assert_eq!((store.stats.offloaded, store.stats.prefetched), (0, 0));
    }
}
