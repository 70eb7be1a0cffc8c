//! Windows: memory of a device that a rank lets a peer write to, as its owner sees it and as the peer does.
#![allow(unsafe_code)] // memory of other processes, and parts of windows as buffers

use std::mem;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;

use mgcomp_codecs::device::{Buffer, Device, DeviceError, Imported, Region, Shareable};

use super::super::super::shm::guest::Words;
use super::notes::By;
use super::porter::Command;
use super::slots::{COUNT, Slots};
use crate::memory::{DeviceBuffer, DeviceBytes, Relaxed};
use crate::payload::Payload;

/// How a rank shares its windows. Ranks may differ in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Sharing {
    /// By handles of the driver where that works, else by files.
    #[default]
    Any,
    /// By handles alone (`cuIpcGetMemHandle`).
    Handles,
    /// By files alone (`cuMemExportToShareableHandle`).
    Files,
    /// Not at all: what peers send comes by way of the host.
    Nothing,
}

/// One way to share memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Means {
    Handle,
    File,
}

impl Sharing {
    /// What to try, the first one last.
    pub(super) fn means(self) -> Vec<Means> {
        match self {
            Self::Any => vec![Means::File, Means::Handle],
            Self::Handles => vec![Means::Handle],
            Self::Files => vec![Means::File],
            Self::Nothing => Vec::new(),
        }
    }
}

/// A window of this rank's. Payloads that lie there keep it, also when the link is gone; whoever drops the last one does not
/// wait for the device, as to free memory may, but leaves that to the porter.
pub(super) struct Window {
    /// There until it is dropped.
    memory: Option<Memory>,
    address: u64,
    /// Whether the driver minds if it is freed while a peer has it mapped.
    must_be_let_go: bool,
    /// Whether it is not to be freed.
    is_given_up: AtomicBool,
    /// To whom it goes when it is dropped: that stays for as long.
    keeper: Sender<Command>,
    window_bytes: u64,
    /// How often something that began at a slot was done with.
    done: [AtomicU64; COUNT],
    /// Where the peer finds that.
    words: Words,
}

/// What a window is made of, which is given back when dropped. Whoever has it has all that a window has of the device.
pub(super) struct Memory {
    _shape: Relaxed<Shape>,
    /// Goes last: with the last of these goes the context.
    device: Device,
}

#[derive(Debug)]
enum Shape {
    Own(#[expect(dead_code, reason = "it is freed when it is dropped")] Buffer),
    Shared(#[expect(dead_code, reason = "as above")] Shareable),
}

/// A window that was made, and how to offer it.
pub(super) struct Made {
    pub(super) window: Arc<Window>,
    pub(super) by: By,
    pub(super) file: Option<OwnedFd>,
}

impl Window {
    /// Makes a window for the peer that sees `words`. Its memory goes to `keeper` in the end.
    pub(super) fn make(
        device: &Device,
        means: Means,
        window_bytes: u64,
        (words, keeper): (Words, Sender<Command>),
    ) -> Result<Made, DeviceError> {
        let (shape, address, by, file) = match means {
            Means::Handle => {
                let buffer = device.alloc(window_bytes)?;
                let handle = buffer.export()?;
                let address = buffer.region().address();
                (Shape::Own(buffer), address, By::Handle(handle), None)
            }
            Means::File => {
                // SAFETY: payloads that lie in the window keep it until all work with them has ended.
                let memory = unsafe { device.alloc_shareable(window_bytes)?.unwaited() };
                let file = memory.export()?;
                let address = memory.region().address();
                (Shape::Shared(memory), address, By::File, Some(file))
            }
        };
        let must_be_let_go = matches!(shape, Shape::Own(_));
        let memory = Some(Memory { _shape: Relaxed::new(device, shape), device: device.clone() });
        let (is_given_up, done) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; COUNT]);
        let window = Self { memory, address, must_be_let_go, is_given_up, keeper, window_bytes, done, words };
        Ok(Made { window: Arc::new(window), by, file })
    }

    pub(super) fn window_bytes(&self) -> u64 {
        self.window_bytes
    }

    /// Whether the driver minds if it is freed while a peer has it mapped.
    pub(super) fn must_be_let_go(&self) -> bool {
        self.must_be_let_go
    }

    /// Leaves its memory allocated, whenever it is dropped.
    pub(super) fn give_up(&self) {
        self.is_given_up.store(true, Ordering::SeqCst);
    }

    /// What a peer has put into the window; `None` if it cannot lie there.
    pub(super) fn payload(self: &Arc<Self>, offset: u64, len: u64) -> Option<Payload> {
        let slot_bytes = self.window_bytes / COUNT as u64;
        let end = offset.checked_add(len)?;
        if end > self.window_bytes || !offset.is_multiple_of(slot_bytes) || len == 0 {
            return None;
        }
        let device = &self.memory.as_ref()?.device;
        let part = Part { window: self.clone(), slot: (offset / slot_bytes) as usize };
        let address = self.address + offset;
        // SAFETY: the memory is there as long as the window, which the part keeps.
        let buffer = unsafe { DeviceBuffer::adopt(device, address, len as usize, part) };
        Some(Payload::from_device(DeviceBytes::whole(buffer.all())))
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        let Some(memory) = self.memory.take() else { return };
        if *self.is_given_up.get_mut() {
            mem::forget(memory);
        } else {
            // The porter outlives all windows unless it has panicked. Then the memory comes back, and is freed here.
            let _ = self.keeper.send(Command::Free(memory));
        }
    }
}

/// A part of a window that holds a payload. The peer is told when it is dropped.
struct Part {
    window: Arc<Window>,
    slot: usize,
}

impl Drop for Part {
    fn drop(&mut self) {
        let done = self.window.done[self.slot].fetch_add(1, Ordering::SeqCst) + 1;
        self.window.words.store(self.slot, done);
    }
}

/// A window of a peer's, mapped.
pub(super) struct Mapped {
    memory: Theirs,
    window_bytes: u64,
    slots: Slots,
}

enum Theirs {
    Imported(Imported),
    Shared(Shareable),
}

impl Mapped {
    /// Maps what a peer offers.
    pub(super) fn map(
        device: &Device,
        window_bytes: u64,
        by: By,
        file: Option<OwnedFd>,
    ) -> Result<Self, DeviceError> {
        let memory = match (by, file) {
            // SAFETY: the peer keeps a window until it hears that it is not mapped any more, and the porter waits for its
            // copies before it lets go.
            (By::Handle(handle), _) => Theirs::Imported(unsafe { device.import(&handle, window_bytes) }?),
            (By::File, Some(file)) => {
                let memory = device.map_shareable(file, window_bytes)?;
                // SAFETY: as above, of the porter.
                Theirs::Shared(unsafe { memory.unwaited() })
            }
            (By::File, None) => {
                let (what, needed, got) = ("a window without its file", window_bytes, 0);
                return Err(DeviceError::TooShort { what, needed, got });
            }
        };
        Ok(Self { memory, window_bytes, slots: Slots::new() })
    }

    pub(super) fn window_bytes(&self) -> u64 {
        self.window_bytes
    }

    /// Takes room for `len` bytes; returns the first slot.
    pub(super) fn take(&mut self, len: u64, words: &Words) -> Option<usize> {
        let count = len.div_ceil(self.slot_bytes()) as usize;
        self.slots.take(count, |slot| words.load(slot))
    }

    pub(super) fn give_back(&mut self, slot: usize) {
        self.slots.give_back(slot);
    }

    /// Where a slot begins in the window.
    pub(super) fn offset(&self, slot: usize) -> u64 {
        slot as u64 * self.slot_bytes()
    }

    /// The memory from a slot on.
    pub(super) fn region(&self, slot: usize, len: u64) -> Region<'_> {
        let whole = match &self.memory {
            Theirs::Imported(memory) => memory.region(),
            Theirs::Shared(memory) => memory.region(),
        };
        let offset = self.offset(slot);
        whole.slice(offset..offset + len)
    }

    fn slot_bytes(&self) -> u64 {
        self.window_bytes / COUNT as u64
    }
}
