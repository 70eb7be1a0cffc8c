//! Buffers that a program lends for longer than the library looks at a pointer: to requests, regions and collectives.
//!
//! A buffer is the program's again when nothing in the library uses it any more, which its count of users tells: not when a
//! handle says that a transfer is over, for what carried it may still be at the end of a queue. What a transfer that failed
//! has left behind is kept in a [`Lot`] until its owner is destroyed, which waits for the requests of that lot too.
#![allow(unsafe_code)] // memory of the program

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{process, ptr, thread};

use mgcomp_codecs::device::Device;
use mgcomp_transport::memory::{DeviceBuffer, DeviceSlice, HostBuffer, HostSlice, Slice};

use crate::device::holder_of;
use crate::error::{Failure, mgcompResult};
use crate::memory::Span;

/// How long buffers of a transfer that failed are waited for before they are left to the lot.
const PATIENCE: Duration = Duration::from_millis(200);
/// How long an owner waits for the buffers of its lot when it is destroyed.
const LAST_PATIENCE: Duration = Duration::from_secs(20);
/// Looks at a buffer before the thread sleeps in between.
const EAGER_LOOKS: u32 = 100;
const SLEEP: Duration = Duration::from_micros(50);

/// The buffers of one request: at most two.
#[derive(Debug, Default)]
pub(crate) struct Lent(Vec<Buffer>);

#[derive(Debug)]
enum Buffer {
    Host(HostBuffer),
    /// Of a device: what the library keeps as its owner.
    Device(Arc<()>),
}

impl Lent {
    /// Takes a buffer, wherever it is. Memory of a device is used after all that its default stream has to do by now.
    ///
    /// # Safety
    /// It must be there, and left alone as the header says, until this value [is free](Self::is_free).
    pub(crate) unsafe fn take(&mut self, span: &Span) -> Result<Slice, Failure> {
        let Some(device) = holder_of(span)? else {
            // SAFETY: as for this one.
            return Ok(unsafe { self.take_host(span) }.into());
        };
        // SAFETY: as for this one; null is a stream of any device.
        let (slice, stream) = unsafe { (self.take_of(&device, span), device.adopt_stream(ptr::null_mut())) };
        Ok(slice.after(&stream)?.into())
    }

    /// Takes two buffers, which may have bytes in common: then they become slices of one, so that whoever uses them sees it.
    ///
    /// # Safety
    /// As for [`take`](Self::take).
    pub(crate) unsafe fn take_both(&mut self, a: &Span, b: &Span) -> Result<(Slice, Slice), Failure> {
        if a.common(b) == 0 {
            // SAFETY: as for this one.
            return unsafe { Ok((self.take(a)?, self.take(b)?)) };
        }
        let both = a.joined(b);
        // SAFETY: as for this one: they leave no gap between them.
        let all = unsafe { self.take(&both) }?;
        let slice = |span: &Span| {
            let offset = span.range().start - both.range().start;
            all.part(offset, span.len()).unwrap_or_else(|| all.clone())
        };
        Ok((slice(a), slice(b)))
    }

    /// Takes a buffer in host memory.
    ///
    /// # Safety
    /// As for [`take`](Self::take).
    pub(crate) unsafe fn take_host(&mut self, span: &Span) -> HostSlice {
        // SAFETY: `Span` has checked the length; the rest is the caller's promise.
        let buffer = unsafe { HostBuffer::lent(span.start(), span.len()) };
        let all = buffer.all();
        self.0.push(Buffer::Host(buffer));
        all
    }

    /// Takes a buffer in the memory of `device`, or in memory that it reaches.
    ///
    /// # Safety
    /// As for [`take`](Self::take).
    pub(crate) unsafe fn take_of(&mut self, device: &Device, span: &Span) -> DeviceSlice {
        let owner = Arc::new(());
        let (address, len) = (span.start().addr().get() as u64, span.len());
        // SAFETY: as for this one; the owner is dropped when nothing uses the memory.
        let buffer = unsafe { DeviceBuffer::adopt(device, address, len, owner.clone()) };
        self.0.push(Buffer::Device(owner));
        buffer.all()
    }

    /// Whether nothing in the library uses the buffers any more.
    pub(crate) fn is_free(&mut self) -> bool {
        self.used() == 0
    }

    /// How many of the buffers something in the library still uses.
    pub(crate) fn used(&mut self) -> usize {
        self.0.retain_mut(|buffer| !buffer.is_free());
        self.0.len()
    }

    /// Waits until it is, or the time is up.
    fn wait(&mut self, until: Option<Instant>) -> bool {
        wait(until, || self.is_free())
    }
}

/// Looks again and again whether something `holds`, until it does or the time is up.
fn wait(until: Option<Instant>, mut holds: impl FnMut() -> bool) -> bool {
    let mut looks = 0;
    while !holds() {
        if until.is_some_and(|until| Instant::now() >= until) {
            return false;
        }
        looks += 1;
        if looks < EAGER_LOOKS { thread::yield_now() } else { thread::sleep(SLEEP) }
    }
    true
}

impl Buffer {
    fn is_free(&mut self) -> bool {
        match self {
            Self::Host(buffer) => buffer.is_only(),
            Self::Device(owner) => Arc::get_mut(owner).is_some(),
        }
    }
}

/// Buffers that are used for longer than the request that they were lent to.
#[derive(Debug)]
pub(crate) struct Lot {
    left: Mutex<Left>,
    /// Buffers that calls have now, which they will settle.
    held: AtomicUsize,
    /// In a child made by `fork`, nothing ever frees a buffer of its parent's, and nothing uses it.
    process: u32,
}

#[derive(Debug, Default)]
struct Left {
    lent: Lent,
    /// Whether the owner is destroyed, so that nobody will wait for them any more.
    is_closed: bool,
}

impl Default for Lot {
    fn default() -> Self {
        Self { left: Mutex::default(), held: AtomicUsize::new(0), process: process::id() }
    }
}

impl Lot {
    /// Gives the buffers of a request back that is over. Those of one that went well are about to be free.
    pub(crate) fn settle<T>(&self, result: Result<T, Failure>, mut lent: Lent) -> Result<T, Failure> {
        if lent.is_free() || process::id() != self.process {
            return result;
        }
        let until = result.is_err().then(|| Instant::now() + PATIENCE);
        if !lent.wait(until) {
            self.keep(lent)?;
        }
        result
    }

    /// Says that a call has a buffer that whoever closes the lot cannot see: it is waited for until what is returned is dropped.
    pub(crate) fn hold(&self) -> Holding<'_> {
        self.held.fetch_add(1, Ordering::SeqCst);
        Holding(&self.held)
    }

    /// Leaves buffers to whoever closes the lot, or waits for them if that was done.
    pub(crate) fn keep(&self, lent: Lent) -> Result<(), Failure> {
        let mut left = self.lock();
        if left.is_closed {
            drop(left);
            return wait_at_last(lent, || 0);
        }
        left.lent.0.extend(lent.0);
        Ok(())
    }

    /// Waits until all of them are free, those that calls have, and those of requests that nobody has finished:
    /// `used_by_requests` counts them.
    pub(crate) fn close(&self, mut used_by_requests: impl FnMut() -> usize) -> Result<(), Failure> {
        if process::id() != self.process {
            return Ok(());
        }
        let mut left = self.lock();
        left.is_closed = true;
        let lent = std::mem::take(&mut left.lent);
        drop(left);
        wait_at_last(lent, || self.held.load(Ordering::SeqCst) + used_by_requests())
    }

    fn lock(&self) -> MutexGuard<'_, Left> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A buffer that a call has.
pub(crate) struct Holding<'a>(&'a AtomicUsize);

impl Drop for Holding<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Waits for buffers whose owner has ended all that uses them, and for those `elsewhere`.
fn wait_at_last(mut lent: Lent, mut elsewhere: impl FnMut() -> usize) -> Result<(), Failure> {
    let mut left = 0;
    let free = wait(Some(Instant::now() + LAST_PATIENCE), || {
        left = lent.used() + elsewhere();
        left == 0
    });
    if free {
        return Ok(());
    }
    let text = format!("{left} buffers are still used {LAST_PATIENCE:?} after all was ended: leave them be");
    Err(Failure::new(mgcompResult::Busy, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_that_overlap_are_one() {
        let memory = [0u8; 64];
        let span = |start: usize, len| Span::new("it", memory[start..].as_ptr().cast(), len).unwrap();
        let mut lent = Lent::default();
        // SAFETY: `memory` outlives `lent`, and nobody looks into it.
        let (block, all) = unsafe { lent.take_both(&span(16, 16), &span(0, 64)) }.unwrap();
        assert!(block.overlaps(&all) && all.part(16, 16).unwrap().is_same(&block));
        // SAFETY: as above.
        let (a, b) = unsafe { lent.take_both(&span(0, 40), &span(32, 32)) }.unwrap();
        assert!(a.overlaps(&b) && (a.len(), b.len()) == (40, 32));
        assert!(a.part(32, 8).unwrap().is_same(&b.part(0, 8).unwrap()));
        // SAFETY: as above.
        let (c, d) = unsafe { lent.take_both(&span(0, 32), &span(32, 32)) }.unwrap();
        assert!(!c.overlaps(&d));
        assert!(!lent.is_free());
        drop((block, all, a, b, c, d));
        assert!(lent.is_free());
    }

    #[test]
    fn what_a_failed_request_leaves_is_kept() {
        let memory = [0u8; 8];
        let lot = Lot::default();
        let mut lent = Lent::default();
        // SAFETY: `memory` outlives all that uses it here.
        let used = unsafe { lent.take_host(&Span::new("it", memory.as_ptr().cast(), 8).unwrap()) };
        assert!(lot.settle(Err::<(), _>(Failure::argument("no")), lent).is_err());
        assert_eq!(lot.lock().lent.0.len(), 1);
        drop(used);
        assert!(lot.close(|| 0).is_ok());
    }
}
