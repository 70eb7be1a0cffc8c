//! Where subjects are timed: buffers in device memory that take turns.

use mgcomp_codecs::device::{Buffer, Device, DeviceCodebook, DeviceError, Region, Stream};
use mgcomp_codecs::ibp::CodebookSection;
use mgcomp_codecs::{Algorithm, Element, codec};

use super::TimeError;
use super::contest::NODES;
use crate::data::tile;
use crate::gpu::data::Dataset;
use crate::gpu::report::Method;

/// Buffers start on multiples of this.
const ALIGN: u64 = 256;
/// Larger buffers are not timed in graphs: launches do not count there.
const GRAPH_BYTES: usize = 4 << 20;
/// Buffers together have so many times the bytes of the second-level cache, in copies and decoding twice that.
const CACHES: usize = 2;

/// The same data from other offsets in several buffers, and as many to write to.
pub(in crate::gpu) struct Place {
    pub(in crate::gpu) element: Element,
    pub(in crate::gpu) bytes: usize,
    /// How many buffers take turns.
    pub(in crate::gpu) sets: usize,
    /// What they hold.
    host: Vec<u8>,
    raw: Buffer,
    back: Buffer,
    stride: u64,
}

impl Place {
    pub(super) fn new(device: &Device, dataset: &Dataset, bytes: usize) -> Result<Self, TimeError> {
        let sets = set_count(bytes, device.info().l2_bytes as usize);
        let stride = (bytes as u64).next_multiple_of(ALIGN);
        let needed = 3 * sets as u64 * stride;
        let has = device.info().memory_bytes;
        if needed > has {
            return Err(TimeError::Memory { needed, has });
        }
        let mut host = vec![0; sets * bytes];
        tile(&dataset.sample, dataset.element.width_bytes(), &mut host);
        let alloc = || device.alloc(sets as u64 * stride);
        let place =
            Self { element: dataset.element, bytes, sets, host, raw: alloc()?, back: alloc()?, stride };
        let stream = device.stream()?;
        for set in 0..sets {
            stream.upload(place.content(set), place.raw(set))?;
        }
        Ok(place)
    }

    /// How buffers of this size are timed.
    pub(super) const fn method(&self) -> Method {
        if self.bytes <= GRAPH_BYTES { Method::Graph } else { Method::Stream }
    }

    /// What buffer `set` holds.
    pub(super) fn content(&self, set: usize) -> &[u8] {
        &self.host[set * self.bytes..][..self.bytes]
    }

    /// The codebook that the CPU fits to buffer 0, which the others resemble, if the codec wants one.
    pub(super) fn codebook(
        &self,
        device: &Device,
        stream: &Stream,
        algorithm: Algorithm,
    ) -> Result<Option<DeviceCodebook>, DeviceError> {
        let fitted =
            codec(algorithm).and_then(|codec| codec.fitted(self.element, self.content(0), usize::MAX));
        let section = fitted.and_then(|codec| codec.codebook());
        let codebook = section.as_ref().and_then(CodebookSection::carried);
        codebook.map(|codebook| device.codebook(stream, codebook)).transpose()
    }

    /// The raw bytes of a buffer.
    pub(in crate::gpu) fn raw(&self, set: usize) -> Region<'_> {
        self.part(&self.raw, set)
    }

    /// The place to copy or decode them to.
    pub(in crate::gpu) fn back(&self, set: usize) -> Region<'_> {
        self.part(&self.back, set)
    }

    fn part<'a>(&self, buffer: &'a Buffer, set: usize) -> Region<'a> {
        let start = set as u64 * self.stride;
        buffer.slice(start..start + self.bytes as u64)
    }

    /// Makes sure that what is compared later was written.
    pub(super) fn poison(&self, stream: &Stream) -> Result<(), DeviceError> {
        stream.zero(self.back.region())
    }

    /// Fails unless each of the first `sets` buffers has come back.
    pub(super) fn compare(&self, stream: &Stream, sets: usize) -> Result<(), TimeError> {
        let mut bytes = vec![0; self.bytes];
        (0..sets).try_for_each(|set| self.compare_set(stream, set, &mut bytes))
    }

    /// Fails unless the first buffer has come back.
    pub(super) fn compare_first(&self, stream: &Stream) -> Result<(), TimeError> {
        self.compare_set(stream, 0, &mut vec![0; self.bytes])
    }

    fn compare_set(&self, stream: &Stream, set: usize, bytes: &mut [u8]) -> Result<(), TimeError> {
        stream.download(self.back(set), bytes)?;
        let content = self.content(set);
        if bytes == content {
            return Ok(());
        }
        let offset = bytes.iter().zip(content).position(|(got, wanted)| got != wanted);
        Err(TimeError::RoundTrip { set, offset: offset.unwrap_or_default() })
    }
}

/// So many that a buffer has left the cache when its turn comes again, and whole graphs of them where graphs are
/// timed.
fn set_count(bytes: usize, l2_bytes: usize) -> usize {
    let sets = (CACHES * l2_bytes).div_ceil(bytes).max(1);
    if bytes <= GRAPH_BYTES { sets.next_multiple_of(NODES) } else { sets }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_more_than_the_cache_holds() {
        let l2 = 50 << 20;
        assert_eq!(set_count(64 << 10, l2), 1600);
        assert_eq!(set_count(1 << 20, l2), 100);
        assert_eq!(set_count(16 << 20, l2), 7);
        assert_eq!(set_count(1 << 30, l2), 1);
        assert_eq!(set_count(1 << 30, 0), 1);
    }
}
