//! Payloads as descriptors: where bytes are or will be, not the bytes themselves.
//!
//! A session moves descriptors around and never looks behind them; executors fill them and links carry what
//! they stand for. So bytes may lie in the memory of a device.

use std::sync::Arc;

use bytes::Bytes;
#[cfg(feature = "cuda")]
use mgcomp_codecs::device::DeviceError;

use crate::fanout::Fanout;
#[cfg(feature = "cuda")]
use crate::memory::{DeviceBytes, DeviceSlice};
use crate::memory::{HostSlice, Slice};

/// What kind of memory a payload lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemoryKind {
    /// Ordinary host memory.
    Host,
    /// Page-locked host memory that a device can reach.
    Pinned,
    /// Memory of the device with this number.
    Device(u32),
}

/// Why a payload has no bytes in host memory.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum FetchError {
    #[error("the payload is a piece of a buffer")]
    Buffer,
    #[cfg(feature = "cuda")]
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Memory behind a payload. Known to executors and links only.
#[derive(Clone, Debug)]
enum Storage {
    Wire(Bytes),
    Memory(Slice),
    #[cfg(feature = "cuda")]
    Device(DeviceBytes),
}

/// Describes a payload: where it is, and how long. It is ready when there is one, since who fills memory says so by handing on a
/// payload.
#[derive(Clone, Debug)]
pub struct Payload {
    kind: MemoryKind,
    capacity: u64,
    storage: Storage,
    /// Whether the memory is that of a [`Shelf`](crate::memory::Shelf).
    is_shelved: bool,
    /// Where it goes to several peers.
    fanout: Option<Arc<Fanout>>,
}

impl Payload {
    /// A payload of no bytes.
    #[must_use]
    pub fn empty() -> Self {
        Self::from_bytes(Bytes::new())
    }

    /// Bytes in host memory that are ready: what a link received or an executor wrote.
    #[must_use]
    pub fn from_bytes(bytes: Bytes) -> Self {
        let len = bytes.len() as u64;
        Self::new(MemoryKind::Host, len, Storage::Wire(bytes))
    }

    /// A piece of a buffer: the source of an encoding, or the destination of a decoding.
    #[must_use]
    pub fn from_memory(slice: impl Into<Slice>) -> Self {
        let slice = slice.into();
        Self::new(slice.memory_kind(), slice.len() as u64, Storage::Memory(slice))
    }

    /// A piece of a buffer of which each of so many peers is sent a clone of this: it is encoded once for all of them.
    pub(crate) fn for_several(slice: impl Into<Slice>, peers: usize) -> Self {
        let payload = Self::from_memory(slice);
        Self { fanout: Fanout::new(payload.capacity, peers), ..payload }
    }

    /// Bytes in page-locked memory that are ready: what an executor brought from a device. Devices read them where they are.
    #[cfg(feature = "cuda")]
    pub(crate) fn from_pinned(bytes: Bytes) -> Self {
        Self { kind: MemoryKind::Pinned, ..Self::from_bytes(bytes) }
    }

    /// Bytes in the memory of a device that are ready: what an executor has left there, or a link has brought there.
    #[cfg(feature = "cuda")]
    pub(crate) fn from_device(bytes: DeviceBytes) -> Self {
        let (kind, len) = (MemoryKind::Device(bytes.device().info().ordinal), bytes.len());
        Self::new(kind, len, Storage::Device(bytes))
    }

    /// The same on a shelf, where they may stay.
    #[cfg(feature = "cuda")]
    pub(crate) fn shelved(self) -> Self {
        Self { is_shelved: true, ..self }
    }

    fn new(kind: MemoryKind, len: u64, storage: Storage) -> Self {
        Self { kind, capacity: len, storage, is_shelved: false, fanout: None }
    }

    /// Whether the bytes are where what is kept stays.
    pub(crate) fn is_shelved(&self) -> bool {
        self.is_shelved
    }

    /// What others are sent of it.
    pub(crate) fn fanout(&self) -> Option<&Arc<Fanout>> {
        self.fanout.as_ref()
    }

    /// Where the memory is.
    #[must_use]
    pub fn memory_kind(&self) -> MemoryKind {
        self.kind
    }

    /// Its length in bytes: of a frame or raw bytes, or what the memory has room for that is to be filled.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The bytes, if they are in host memory of their own.
    #[must_use]
    pub fn bytes(&self) -> Option<&Bytes> {
        match &self.storage {
            Storage::Wire(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The bytes, if they are in page-locked memory.
    #[cfg(feature = "cuda")]
    pub(crate) fn pinned(&self) -> Option<&Bytes> {
        self.bytes().filter(|_| self.kind == MemoryKind::Pinned)
    }

    /// The bytes, if they are in the memory of a device.
    #[cfg(feature = "cuda")]
    pub(crate) fn on_device(&self) -> Option<&DeviceBytes> {
        match &self.storage {
            Storage::Device(bytes) => Some(bytes),
            Storage::Wire(_) | Storage::Memory(_) => None,
        }
    }

    /// The bytes in host memory: those that are there, or a copy of those of a device, which is waited for.
    pub(crate) fn fetch(&self) -> Result<Bytes, FetchError> {
        #[cfg(feature = "cuda")]
        if let Some(bytes) = self.on_device() {
            let fetched = bytes.fetch().inspect_err(|error| {
                tracing::warn!(%error, "a payload stays on a device");
            });
            return Ok(fetched?);
        }
        self.bytes().cloned().ok_or(FetchError::Buffer)
    }

    /// The piece of a host buffer, if the payload is one.
    #[must_use]
    pub fn memory(&self) -> Option<&HostSlice> {
        self.slice()?.as_host()
    }

    /// The piece of a buffer, if the payload is one.
    #[must_use]
    pub fn slice(&self) -> Option<&Slice> {
        match &self.storage {
            Storage::Memory(slice) => Some(slice),
            _ => None,
        }
    }

    /// The part of `len` bytes from `offset` on; `None` if the payload is no buffer or has no such part. All of it goes to whom the
    /// payload goes to.
    #[must_use]
    pub fn part(&self, offset: u64, len: u64) -> Option<Self> {
        let slice = self.slice()?.part(usize::try_from(offset).ok()?, usize::try_from(len).ok()?)?;
        let fanout = self.fanout.clone().filter(|_| len == self.capacity);
        Some(Self { fanout, ..Self::from_memory(slice) })
    }
}

impl From<HostSlice> for Payload {
    fn from(slice: HostSlice) -> Self {
        Self::from_memory(slice)
    }
}

#[cfg(feature = "cuda")]
impl From<DeviceSlice> for Payload {
    fn from(slice: DeviceSlice) -> Self {
        Self::from_memory(slice)
    }
}

impl From<Slice> for Payload {
    fn from(slice: Slice) -> Self {
        Self::from_memory(slice)
    }
}
