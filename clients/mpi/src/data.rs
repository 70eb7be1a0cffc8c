//! What a call names as data: address, count and datatype; and the same as bytes.
//!
//! Unsafe because only the program knows what lies there. It lends the data to its call, and what is made here does not
//! outlive that.
#![allow(unsafe_code)]

use std::ops::Range;
use std::slice;
use std::sync::Once;

use mgcomp_codecs::device;

use crate::failure::Failure;
use crate::layer::Layer;
use crate::mpi::Shape;
use crate::types::{Address, Type};

/// What a call names as data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Data {
    address: Address,
    count: i64,
    datatype: Type,
}

/// Data as bytes, in the order in which they are sent.
#[derive(Debug)]
pub(crate) enum Bytes<'a> {
    /// They lie there like that.
    There(&'a [u8]),
    /// They have been brought together.
    Packed(Vec<u8>),
    /// They are in the memory of a device.
    OnDevice,
}

impl Data {
    /// `count` values of a datatype at an address.
    pub(crate) fn new(address: Address, count: i64, datatype: Type) -> Self {
        Self { address, count, datatype }
    }

    pub(crate) fn address(&self) -> Address {
        self.address
    }

    pub(crate) fn count(&self) -> i64 {
        self.count
    }

    pub(crate) fn datatype(&self) -> Type {
        self.datatype
    }

    /// Some of the values, where one has that shape.
    pub(crate) fn part(&self, values: &Range<i64>, shape: &Shape) -> Self {
        let offset = values.start.wrapping_mul(shape.extent) as isize;
        Self { address: self.address.wrapping_byte_offset(offset), count: values.end - values.start, ..*self }
    }

    /// Whether the values lie in host memory one behind the other.
    fn is_plain(&self, shape: &Shape) -> bool {
        shape.is_dense && !is_on_device(self.address)
    }

    /// Bytes of all values.
    pub(crate) fn len(&self, shape: &Shape) -> usize {
        self.count as usize * shape.size as usize
    }

    /// The bytes to send.
    pub(crate) fn bytes(&self, shape: &Shape, layer: &Layer) -> Result<Bytes<'_>, Failure> {
        if self.count > 0 && is_on_device(self.address) {
            return Ok(Bytes::OnDevice);
        }
        self.host_bytes(shape, layer)
    }

    /// The same, brought to host memory if they are elsewhere.
    pub(crate) fn host_bytes(&self, shape: &Shape, layer: &Layer) -> Result<Bytes<'_>, Failure> {
        if self.len(shape) == 0 {
            return Ok(Bytes::There(&[]));
        }
        if self.is_plain(shape) {
            // SAFETY: the program has as many bytes there, and lends them.
            return Ok(Bytes::There(unsafe { slice::from_raw_parts(self.address.cast(), self.len(shape)) }));
        }
        Ok(Bytes::Packed(self.packed(shape, layer)?))
    }

    /// A copy of the bytes.
    pub(crate) fn packed(&self, shape: &Shape, layer: &Layer) -> Result<Vec<u8>, Failure> {
        let mut bytes = vec![0; self.len(shape)];
        layer.pack(self, &mut bytes)?;
        Ok(bytes)
    }
}

impl Bytes<'_> {
    /// The bytes in host memory.
    pub(crate) fn as_slice(&self) -> Option<&[u8]> {
        match self {
            Self::There(bytes) => Some(bytes),
            Self::Packed(bytes) => Some(bytes),
            Self::OnDevice => None,
        }
    }
}

/// Receives data in the order in which it is sent.
#[derive(Debug)]
pub(crate) struct Landing<'a> {
    data: &'a Data,
    /// Where bytes wait that must be brought to where they belong; none where that is one piece of host memory.
    staged: Option<Vec<u8>>,
    shape: Shape,
}

impl<'a> Landing<'a> {
    pub(crate) fn new(data: &'a Data, shape: Shape) -> Self {
        let is_plain = data.len(&shape) == 0 || data.is_plain(&shape);
        let staged = (!is_plain).then(|| vec![0; data.len(&shape)]);
        Self { data, staged, shape }
    }

    /// Bytes that are to come.
    pub(crate) fn len(&self) -> usize {
        self.data.len(&self.shape)
    }

    /// Where all the bytes go.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        let len = self.len();
        match &mut self.staged {
            Some(staged) => staged,
            None if len == 0 => &mut [],
            // SAFETY: it is one piece of host memory, where the program has as many bytes, and lends them to be written.
            None => unsafe { slice::from_raw_parts_mut(self.data.address.cast(), len) },
        }
    }

    /// All have come.
    pub(crate) fn finish(self, layer: &Layer) -> Result<(), Failure> {
        match self.staged {
            Some(staged) => layer.unpack(&staged, self.data),
            None => Ok(()),
        }
    }
}

/// Whether an address is in the memory of a device, also where the host has it too, or may be: the driver might not say, and nobody
/// does where the program has loaded a runtime of other devices. MPI takes it where it was built for that.
fn is_on_device(address: Address) -> bool {
    if device::are_others_loaded() {
        static SAID: Once = Once::new();
        SAID.call_once(|| {
            tracing::warn!(
                "nothing is compressed but what MPI brings to the host (reductions, if they are asked for, and all-to-alls in place): \
                 the program has loaded HIP or Level Zero, so that any data may be in the memory of their devices"
            );
        });
        return true;
    }
    !matches!(device::holder(address as u64), Ok(None))
}
