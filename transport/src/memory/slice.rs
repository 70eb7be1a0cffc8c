//! Slices of memory wherever it is.

use std::ops::Range;

#[cfg(feature = "cuda")]
use super::DeviceSlice;
use super::HostSlice;
use crate::payload::MemoryKind;

/// A range of a buffer, of the host or of a device. Calls that only move bytes take any.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Slice {
    /// Of a buffer in host memory.
    Host(HostSlice),
    /// Of a buffer in the memory of a CUDA device.
    #[cfg(feature = "cuda")]
    Device(DeviceSlice),
}

impl Slice {
    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Host(slice) => slice.len(),
            #[cfg(feature = "cuda")]
            Self::Device(slice) => slice.len(),
        }
    }

    /// Whether the slice has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The part of `len` bytes from `offset` on, or `None` if the slice does not have it.
    #[must_use]
    pub fn part(&self, offset: usize, len: usize) -> Option<Self> {
        match self {
            Self::Host(slice) => slice.part(offset, len).map(Self::Host),
            #[cfg(feature = "cuda")]
            Self::Device(slice) => slice.part(offset, len).map(Self::Device),
        }
    }

    /// Whether these are the same bytes as those of `other`, not only equal ones.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Host(slice), Self::Host(other)) => slice.is_same(other),
            #[cfg(feature = "cuda")]
            (Self::Device(slice), Self::Device(other)) => slice.is_same(other),
            #[cfg(feature = "cuda")]
            _ => false,
        }
    }

    /// A number for memory that it shares with no slice of another number, and which part of that it is. Slices of one number
    /// overlap if their parts do.
    pub(crate) fn place(&self) -> (usize, Range<usize>) {
        match self {
            Self::Host(slice) => slice.place(),
            // No buffer of the host has this number.
            #[cfg(feature = "cuda")]
            Self::Device(slice) => (0, slice.addresses()),
        }
    }

    /// Whether some bytes are also those of `other`.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Host(slice), Self::Host(other)) => slice.overlaps(other),
            #[cfg(feature = "cuda")]
            (Self::Device(slice), Self::Device(other)) => slice.overlaps(other),
            #[cfg(feature = "cuda")]
            _ => false,
        }
    }

    /// Which memory it is in.
    #[must_use]
    pub fn memory_kind(&self) -> MemoryKind {
        match self {
            Self::Host(_) => MemoryKind::Host,
            #[cfg(feature = "cuda")]
            Self::Device(slice) => MemoryKind::Device(slice.device().info().ordinal),
        }
    }

    /// It, if it is in host memory.
    #[must_use]
    pub fn as_host(&self) -> Option<&HostSlice> {
        match self {
            Self::Host(slice) => Some(slice),
            #[cfg(feature = "cuda")]
            Self::Device(_) => None,
        }
    }
}

impl From<HostSlice> for Slice {
    fn from(slice: HostSlice) -> Self {
        Self::Host(slice)
    }
}

#[cfg(feature = "cuda")]
impl From<DeviceSlice> for Slice {
    fn from(slice: DeviceSlice) -> Self {
        Self::Device(slice)
    }
}

/// Slices of one kind of memory, or of any.
pub trait AnySlice: Clone + Into<Slice> {}

impl<S: Clone + Into<Slice>> AnySlice for S {}

/// What is cut into parts: slices of some memory, or of any.
pub(crate) trait Stretch: AnySlice {
    /// Length in bytes.
    fn len(&self) -> usize;

    /// The part of `len` bytes from `offset` on, or `None` if there is none.
    fn part(&self, offset: usize, len: usize) -> Option<Self>;
}

impl Stretch for HostSlice {
    fn len(&self) -> usize {
        self.len()
    }

    fn part(&self, offset: usize, len: usize) -> Option<Self> {
        self.part(offset, len)
    }
}

impl Stretch for Slice {
    fn len(&self) -> usize {
        self.len()
    }

    fn part(&self, offset: usize, len: usize) -> Option<Self> {
        self.part(offset, len)
    }
}
