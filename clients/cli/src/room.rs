//! Memory for the buffers of a rank, on the host or on a device, that a command fills and looks at.

use std::ops::Range;
use std::sync::Arc;

use mgcomp_codecs::device::{Device, DeviceError, Region, Stream};
use mgcomp_transport::memory::{DeviceBuffer, HostBuffer, HostSlice, Slice};

/// What is brought to or from a device at once.
const STEP_BYTES: usize = 4 << 20;

/// Where the buffers of a rank lie.
#[derive(Clone, Debug)]
pub(crate) enum Room {
    Host,
    Device {
        device: Device,
        /// For what the command itself does with them.
        stream: Arc<Stream>,
    },
}

impl Room {
    pub(crate) fn on(device: Device) -> Result<Self, DeviceError> {
        let stream = Arc::new(device.stream()?);
        Ok(Self::Device { device, stream })
    }

    /// A buffer of zeros.
    pub(crate) fn zeroed(&self, len: usize) -> Result<Span, DeviceError> {
        match self {
            Self::Host => Ok(Span { slice: HostBuffer::zeroed(len).all().into(), stream: None }),
            Self::Device { device, stream } => {
                let slice = DeviceBuffer::alloc(device, len)?.all();
                if len > 0 {
                    stream.zero(slice.region())?;
                    stream.wait()?;
                }
                Ok(Span { slice: slice.into(), stream: Some(Arc::clone(stream)) })
            }
        }
    }

    pub(crate) fn device(&self) -> Option<&Device> {
        match self {
            Self::Host => None,
            Self::Device { device, .. } => Some(device),
        }
    }

    /// What the device is called.
    pub(crate) fn device_name(&self) -> Option<&str> {
        self.device().map(|device| device.info().name.as_str())
    }
}

/// A range of a buffer. Nobody else uses it while the command fills it or looks at it.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    slice: Slice,
    /// Where it is in the memory of a device.
    stream: Option<Arc<Stream>>,
}

impl Span {
    pub(crate) fn len(&self) -> usize {
        self.slice.len()
    }

    /// The bytes of `range`, which must be inside.
    pub(crate) fn part(&self, range: Range<usize>) -> Self {
        let slice = self.slice.part(range.start, range.len()).expect("a range inside of the buffer");
        Self { slice, stream: self.stream.clone() }
    }

    /// It in parts of up to `len` bytes that follow each other, each with its offset.
    pub(crate) fn parts(&self, len: usize) -> impl Iterator<Item = (usize, Self)> {
        let end = move |start: usize| self.len().min(start + len);
        (0..self.len()).step_by(len).map(move |start| (start, self.part(start..end(start))))
    }

    /// For the calls that take any memory.
    pub(crate) fn slice(&self) -> &Slice {
        &self.slice
    }

    /// It, where it is in host memory.
    pub(crate) fn as_host(&self) -> Option<&HostSlice> {
        self.slice.as_host()
    }

    /// For the calls that take device memory alone, where it is that.
    pub(crate) fn region(&self) -> Option<Region<'_>> {
        match &self.slice {
            Slice::Device(slice) => Some(slice.region()),
            _ => None,
        }
    }

    /// Gives all bytes a value. `fill` is called for parts that follow each other, each with its offset.
    pub(crate) fn fill(&self, mut fill: impl FnMut(usize, &mut [u8])) -> Result<(), DeviceError> {
        match (&self.slice, &self.stream) {
            (Slice::Device(slice), Some(stream)) => {
                let mut bytes = vec![0; STEP_BYTES.min(slice.len())];
                for offset in (0..slice.len()).step_by(STEP_BYTES) {
                    let bytes = &mut bytes[..STEP_BYTES.min(slice.len() - offset)];
                    fill(offset, bytes);
                    let range = offset as u64..(offset + bytes.len()) as u64;
                    stream.upload(bytes, slice.region().slice(range))?;
                }
                Ok(())
            }
            _ => {
                if let Some(slice) = self.as_host() {
                    slice.write(|bytes| fill(0, bytes));
                }
                Ok(())
            }
        }
    }

    /// Shows all bytes, in parts that follow each other, each with its offset.
    pub(crate) fn look(&self, mut look: impl FnMut(usize, &[u8])) -> Result<(), DeviceError> {
        match (&self.slice, &self.stream) {
            (Slice::Device(slice), Some(stream)) => {
                let mut bytes = vec![0; STEP_BYTES.min(slice.len())];
                for offset in (0..slice.len()).step_by(STEP_BYTES) {
                    let bytes = &mut bytes[..STEP_BYTES.min(slice.len() - offset)];
                    let range = offset as u64..(offset + bytes.len()) as u64;
                    stream.download(slice.region().slice(range), bytes)?;
                    look(offset, bytes);
                }
                Ok(())
            }
            _ => {
                if let Some(slice) = self.as_host() {
                    slice.read(|bytes| look(0, bytes));
                }
                Ok(())
            }
        }
    }

    /// A copy of all bytes.
    pub(crate) fn to_vec(&self) -> Result<Vec<u8>, DeviceError> {
        let mut bytes = Vec::with_capacity(self.len());
        self.look(|_, part| bytes.extend_from_slice(part))?;
        Ok(bytes)
    }

    /// Changes a bit of the first byte, if there is one.
    pub(crate) fn change_a_bit(&self) -> Result<(), DeviceError> {
        if self.len() == 0 {
            return Ok(());
        }
        let (first, mut byte) = (self.part(0..1), 0);
        first.look(|_, bytes| byte = bytes[0])?;
        first.fill(|_, bytes| bytes[0] = byte ^ 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_memory_is_filled_and_looked_at() {
        let span = Room::Host.zeroed(10).unwrap();
        span.part(2..5).fill(|offset, bytes| bytes.fill(7 + offset as u8)).unwrap();
        span.part(4..10).change_a_bit().unwrap();
        let mut bytes = Vec::new();
        span.look(|_, part| bytes.extend_from_slice(part)).unwrap();
        assert_eq!(bytes, [0, 0, 7, 7, 6, 0, 0, 0, 0, 0]);
        span.part(3..3).change_a_bit().unwrap();
        let parts: Vec<_> = span.parts(4).map(|(at, part)| (at, part.to_vec().unwrap())).collect();
        assert_eq!(parts, [(0, vec![0, 0, 7, 7]), (4, vec![6, 0, 0, 0]), (8, vec![0, 0])]);
        assert_eq!(span.part(3..3).parts(4).count(), 0);
        assert!(Room::Host.device_name().is_none() && span.as_host().is_some());
    }
}
