//! Copies from one device to another.

use mgcomp_codecs::device::{Device, DeviceError, Region, Stream};
use mgcomp_codecs::{Algorithm, AlgorithmSet, Element};

use super::choice::Choice;
use super::codecs::Codecs;
use super::pipe::{Memory, Pipe, Segment};
use super::{PeerCopy, PeerCopyConfig, PeerCopyError, PeerCopyReport, Way};
use crate::memory::DeviceSlice;

/// Makes copies from one device to another, one after the other.
///
/// All that copies need is there from the start. Dropping it waits for those that are under way.
#[derive(Debug)]
pub struct PeerCopier {
    from: Device,
    to: Device,
    /// Whether kernels of the first device reach the memory of the second.
    is_direct: bool,
    config: PeerCopyConfig,
    choice: Choice,
    /// Dropped first: that waits for all work with the rest.
    pipe: Pipe,
    codecs: Codecs,
}

impl PeerCopier {
    /// A copier of bytes in the memory of `from` to that of `to`: devices, contexts of one device, or the same twice.
    ///
    /// # Errors
    /// Whatever the driver says. Kernels that a device cannot have are done without.
    pub fn new(from: &Device, to: &Device, config: PeerCopyConfig) -> Result<Self, DeviceError> {
        let config = PeerCopyConfig { segment_bytes: config.segment_bytes.max(1), ..config };
        let is_direct = from.reach(to)?;
        let room_len = Codecs::frame_room(config.segment_bytes.min(config.most_bytes));
        let pipe = Pipe::new(from, to, || Memory::between(is_direct, to, room_len))?;
        let segments = config.most_bytes.div_ceil(config.segment_bytes);
        let segment = (config.segment_bytes.min(config.most_bytes), segments);
        let ends = ((from, &pipe.out), (to, &pipe.into));
        let codecs = Codecs::load(ends.0, ends.1, config.algorithms, segment, is_direct)?;
        let choice = Choice::new(&config, codecs.algorithms());
        let copier = Self { from: from.clone(), to: to.clone(), is_direct, config, choice, pipe, codecs };
        // A graph that is launched on another stream would not wait for the zeros that are on their way to workspaces.
        copier.pipe.wait()?;
        Ok(copier)
    }

    /// Whether bytes go straight from device to device.
    #[must_use]
    pub const fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// What copies can be coded with.
    #[must_use]
    pub fn algorithms(&self) -> AlgorithmSet {
        self.codecs.algorithms()
    }

    /// Enqueues a copy of `from`, in the memory of the first device, to the front of `to`, in that of the second: after
    /// what is on `stream`, which may be a stream of any device, and before what comes there next. `element` says what the
    /// bytes are.
    ///
    /// While `stream` records, the copy is recorded with it. Whoever launches the graph sees to it that no other copy of this
    /// copier is under way then, and that the copier is still there.
    ///
    /// # Errors
    /// [`DeviceError::TooLong`] for more than the configured bytes, [`DeviceError::TooShort`] if `to` is shorter than
    /// `from`, and whatever the driver says. Nothing of the copy is under way then.
    pub fn copy(
        &mut self,
        stream: &Stream,
        element: Element,
        from: Region<'_>,
        to: Region<'_>,
    ) -> Result<PeerCopy, DeviceError> {
        let raw_bytes = from.len();
        self.check(from, to)?;
        let segments = Segment::all(raw_bytes, self.config.segment_bytes);
        let (to, count) = (to.slice(0..raw_bytes), segments.len() as u64);
        let algorithm = self.choice.algorithm(element, raw_bytes);
        let way = self.way(algorithm);
        match way {
            Way::Plain => stream.copy_between((&self.from, from), (&self.to, to))?,
            Way::PlainThroughHost => self.pipe.run(
                stream,
                segments,
                |out, segment, room| out.copy(segment.of(from), room.slice(0..segment.len)),
                |into, segment, room| into.copy(room.slice(0..segment.len), segment.of(to)),
            )?,
            Way::Coded(_) | Way::CodedThroughHost(_) => {
                let Some((mut encoding, mut decoding)) = self.codecs.both(algorithm) else {
                    return Err(DeviceError::NoKernels(algorithm));
                };
                self.pipe.run(
                    stream,
                    segments,
                    |out, segment, room| encoding.enqueue(out, (element, from), segment, room),
                    |into, segment, room| decoding.enqueue(into, to, segment, room),
                )?;
            }
        }
        Ok(PeerCopy { way, raw_bytes, segments: count })
    }

    /// What came of `copy`, the last one or the last that a graph made. Waits for all that is on `stream`, behind which the
    /// copy must be.
    ///
    /// # Errors
    /// [`PeerCopyError`], also of work that was enqueued before.
    pub fn report(&self, stream: &Stream, copy: &PeerCopy) -> Result<PeerCopyReport, PeerCopyError> {
        let PeerCopy { way, raw_bytes, segments } = *copy;
        let coded_bytes = if way.is_coded() {
            self.codecs.read(stream, segments)?
        } else {
            stream.wait()?;
            raw_bytes
        };
        Ok(PeerCopyReport { way, raw_bytes, coded_bytes })
    }

    /// Lets the policy look at data like that of the copies to come, if it wants to see some: the way of later copies is
    /// chosen by what it finds. Waits for that. Until then such copies are plain.
    pub fn learn(&mut self, element: Element, data: &DeviceSlice) {
        self.choice.learn(element, data);
    }

    fn way(&self, algorithm: Algorithm) -> Way {
        match (self.codecs.algorithms().contains(algorithm), self.is_direct) {
            (true, true) => Way::Coded(algorithm),
            (true, false) => Way::CodedThroughHost(algorithm),
            (false, true) => Way::Plain,
            (false, false) => Way::PlainThroughHost,
        }
    }

    fn check(&self, from: Region<'_>, to: Region<'_>) -> Result<(), DeviceError> {
        let (got, limit) = (from.len(), self.config.most_bytes);
        if got > limit {
            return Err(DeviceError::TooLong { what: "the source of a copy", limit, got });
        }
        if to.len() < got {
            let what = "the destination of a copy";
            return Err(DeviceError::TooShort { what, needed: got, got: to.len() });
        }
        Ok(())
    }
}
