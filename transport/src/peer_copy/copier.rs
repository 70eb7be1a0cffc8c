//! Copies from one device to another.

use mgcomp_codecs::device::{Device, DeviceError, KernelSource, Region, Stream};
use mgcomp_codecs::{Algorithm, AlgorithmSet, Element};
use mgcomp_selector::{Fixed, LinkFacts, Overlap, PolicySpec, Steering};

use super::choice::{Choice, Chosen};
use super::codecs::{Codecs, coded_bytes};
use super::cut::Cut;
use super::pipe::{Memory, Pipe, Segment};
use super::watch::{Shown, Watch, Watched};
use super::{CopyPath, PeerCopy, PeerCopyConfig, PeerCopyError, PeerCopyReport};
use crate::calibrate;
use crate::control::{self, Made, is_switched_off};
use crate::cuda::probe::{Probe, Question};
use crate::cuda::stopwatch::Stopwatch;
use crate::memory::{DeviceSlice, Relaxed};

/// Makes copies from one device to another, one after the other.
///
/// All that copies need is there from the start. Dropping it waits for those that are under way. Other threads may record when it
/// is made, when it [learns](Self::learn) and when it is dropped.
#[derive(Debug)]
pub struct PeerCopier {
    from: Device,
    to: Device,
    cut: Cut,
    config: PeerCopyConfig,
    choice: Choice,
    tools: Relaxed<Tools>,
}

/// What a copier has of its devices.
#[derive(Debug)]
struct Tools {
    /// Looks at copies on their way, where the policy may want that, or one that an operator may set.
    probe: Option<Probe>,
    /// Times plain copies of so many bytes.
    stopwatch: Stopwatch<u64>,
    /// Dropped before what is below: that waits for all work with it.
    pipe: Pipe,
    codecs: Codecs,
    /// Watches coded copies, where the policy or an operator may want that.
    watch: Option<Watch<Made>>,
}

impl PeerCopier {
    /// A copier of bytes in the memory of `from` to that of `to`: devices, contexts of one device, or the same twice.
    ///
    /// # Errors
    /// [`DeviceError::NoKernels`] for a policy of an algorithm that does not run on devices, unless all is switched off, and whatever the
    /// driver says. Kernels that a device cannot have are done without.
    pub fn new(from: &Device, to: &Device, config: PeerCopyConfig) -> Result<Self, DeviceError> {
        match config.policy {
            PolicySpec::Fixed(fixed)
                if fixed != Fixed::BYPASS
                    && KernelSource::of(fixed.algorithm()).is_none()
                    && !is_switched_off() =>
            {
                Err(DeviceError::NoKernels(fixed.algorithm()))
            }
            _ => from.relaxed(|| Self::make(from, to, config)),
        }
    }

    fn make(from: &Device, to: &Device, config: PeerCopyConfig) -> Result<Self, DeviceError> {
        let cut = Cut::new(from, to, config.segment_bytes)?;
        let is_direct = cut.is_direct();
        let segment = (cut.longest_bytes.min(config.most_bytes), cut.most_segments(config.most_bytes));
        let room_len = Codecs::frame_room(segment.0);
        let pipe = Pipe::new(from, to, || Memory::between(is_direct, to, room_len))?;
        let (devices, speeds) =
            ([from, to].map(|device| device.info().ordinal), calibrate::device_speeds(from.info()));
        let policy = config.policy.build(&Steering { lambda: config.lambda, speeds: speeds.clone() });
        let (policy, copies) = control::steer_copies(policy, devices, speeds);
        let may_look = copies.is_some() || !matches!(config.policy, PolicySpec::Fixed(_));
        let probe = may_look.then(|| Probe::new(from)).transpose()?;
        let may_watch = copies.is_some() || config.policy == PolicySpec::Adaptive;
        let watch =
            may_watch.then(|| Watch::new(from, to, Codecs::words_len(segment.1), is_direct)).transpose()?;
        let ends = ((from, &pipe.out), (to, &pipe.into));
        // Last, because zeros are on their way from then on.
        let wanted = config.algorithms.union(config.policy.algorithms());
        let codecs = Codecs::load(ends.0, ends.1, wanted, segment, is_direct)?;
        let can = (codecs.algorithms(), cut);
        let choice = Choice::new(&config, (policy, copies), can, devices);
        let tools = Tools { probe, stopwatch: Stopwatch::default(), pipe, codecs, watch };
        // A graph that is launched on another stream would not wait for the zeros that are on their way to workspaces.
        // Nor would anybody have waited for those of a probe that is never used.
        tools.pipe.wait()?;
        tools.probe.as_ref().map_or(Ok(()), |probe| probe.stream().wait())?;
        let tools = Relaxed::new(from, tools);
        Ok(Self { from: from.clone(), to: to.clone(), cut, config, choice, tools })
    }

    /// Whether bytes go straight from device to device.
    #[must_use]
    pub const fn is_direct(&self) -> bool {
        self.cut.is_direct()
    }

    /// When kernels of copies from `from` to `to`, in segments of up to so many bytes, work beside the link between the two: to be
    /// stated with its rate.
    ///
    /// # Errors
    /// Whatever the driver says.
    pub fn overlap(from: &Device, to: &Device, segment_bytes: u64) -> Result<Overlap, DeviceError> {
        let cut = Cut::new(from, to, segment_bytes)?;
        Ok(cut.overlap(cut.longest_bytes))
    }

    /// What copies can be coded with.
    #[must_use]
    pub fn algorithms(&self) -> AlgorithmSet {
        self.tools.codecs.algorithms()
    }

    /// What is known of the link: what the program has said, else what plain copies have shown by now.
    #[must_use]
    pub fn link(&self) -> Option<LinkFacts> {
        self.choice.link()
    }

    /// Enqueues a copy of `from`, in the memory of the first device, to the front of `to`, in that of the second: after
    /// what is on `stream`, which may be a stream of any device, and before what comes there next. `element` says what the
    /// bytes are.
    ///
    /// While `stream` records, the copy is recorded with it, as it is chosen now, whatever is set later. Recordings with copies of
    /// one copier come one after another; from the first copy in one until it ends, copies of this copier that are not recorded
    /// spoil it, but for those within one context. Whoever launches the graph sees to it that no other copy of this
    /// copier is under way then, and that the copier is still there.
    ///
    /// # Errors
    /// [`DeviceError::TooLong`] for more than the configured bytes, [`DeviceError::TooShort`] if `to` is shorter than
    /// `from`, and whatever the driver says, also where it cannot tell whether `stream` records. Nothing of the copy is under
    /// way then.
    pub fn copy(
        &mut self,
        stream: &Stream,
        element: Element,
        from: Region<'_>,
        to: Region<'_>,
    ) -> Result<PeerCopy, DeviceError> {
        let raw_bytes = from.len();
        self.check(from, to)?;
        let to = to.slice(0..raw_bytes);
        self.choice.look();
        if self.choice.is_short(raw_bytes) {
            stream.copy_between((&self.from, from), (&self.to, to))?;
            return Ok(PeerCopy { path: CopyPath::Plain, raw_bytes, segments: 1 });
        }
        let recording = self.tools.probe.is_some().then(|| stream.recording());
        let can_watch = recording.as_ref().is_some_and(can_watch);
        if can_watch {
            self.hear();
        }
        let can_time = can_watch && self.tools.stopwatch.is_free();
        let can_watch_kernels =
            can_watch && raw_bytes > 0 && self.tools.watch.as_ref().is_some_and(Watch::is_free);
        let chosen = self.choice.choose((element, raw_bytes), can_time, can_watch_kernels);
        let Chosen { algorithm, made, question, is_timed, is_watched } = chosen;
        let question = question.filter(|_| can_watch);
        let looks = question.is_some_and(|question| self.look(stream, question, from));
        let times = is_timed
            && self.has_the_way_for_itself()
            && done(self.tools.stopwatch.start(stream), "the link is not timed");
        let watched = is_watched.then_some(made);
        let copied = self.enqueue((stream, recording), (element, algorithm), (from, to), watched);
        if times && copied.is_ok() {
            done(self.tools.stopwatch.stop(stream, raw_bytes), "the link is not timed");
        }
        if looks {
            self.end_look(stream, copied.is_ok());
        }
        // What is recorded is not on its way.
        if can_watch {
            self.choice.enqueued(&chosen, copied.as_ref().ok().map(|(path, _)| *path));
        }
        let (path, segments) = copied?;
        Ok(PeerCopy { path, raw_bytes, segments })
    }

    /// Returns how the copy goes, and in how many segments. `recording` is what was found out of that, if it was asked.
    fn enqueue(
        &mut self,
        (stream, recording): (&Stream, Option<Result<Option<u64>, DeviceError>>),
        (element, algorithm): (Element, Algorithm),
        (from, to): (Region<'_>, Region<'_>),
        watched: Option<Made>,
    ) -> Result<(CopyPath, u64), DeviceError> {
        let segments = Segment::all(from.len(), self.cut.segment_bytes(from.len()));
        let (path, count) = (self.path(algorithm), segments.len() as u64);
        if path == CopyPath::Plain {
            stream.copy_between((&self.from, from), (&self.to, to))?;
            return Ok((path, 1));
        }
        if count == 0 {
            // Its end would be behind nothing, so what comes next would not wait for the copies before.
            return Ok((path, 0));
        }
        let on = (stream, recording.unwrap_or_else(|| stream.recording())?);
        if path == CopyPath::PlainThroughHost {
            self.tools.pipe.run(
                on,
                segments,
                |out, segment, room| out.copy(segment.of(from), room.slice(0..segment.len)),
                |into, segment, room| into.copy(room.slice(0..segment.len), segment.of(to)),
            )?;
        } else {
            self.enqueue_coded(on, (element, algorithm), (from, to), watched)?;
        }
        Ok((path, count))
    }

    fn enqueue_coded(
        &mut self,
        on: (&Stream, Option<u64>),
        (element, algorithm): (Element, Algorithm),
        (from, to): (Region<'_>, Region<'_>),
        watched: Option<Made>,
    ) -> Result<(), DeviceError> {
        let (raw_bytes, segment_bytes) = (from.len(), self.cut.segment_bytes(from.len()));
        let segments = Segment::all(raw_bytes, segment_bytes);
        let count = segments.len() as u64;
        let Tools { pipe, codecs, watch: watches, .. } = &mut *self.tools;
        let Some((mut encoding, mut decoding)) = codecs.both(algorithm) else {
            return Err(DeviceError::NoKernels(algorithm));
        };
        let (watch, words) = (watches.as_ref().filter(|_| watched.is_some()), encoding.words(count));
        let timed = Watch::<Made>::timed(raw_bytes, segment_bytes);
        let timed_bytes = segment_bytes.min(raw_bytes - timed * segment_bytes);
        pipe.run(
            on,
            segments,
            |out, segment, room| {
                let mut work = || encoding.enqueue(out, (element, from), segment, room);
                match watch.filter(|_| segment.number == timed) {
                    Some(watch) => watch.encode(out, work),
                    None => work(),
                }
            },
            |into, segment, room| {
                let mut work = || decoding.enqueue(into, to, segment, room);
                match watch.filter(|_| segment.number == timed) {
                    Some(watch) => watch.decode(into, work)?,
                    None => work()?,
                }
                match watch.filter(|_| segment.number + 1 == count) {
                    Some(watch) => watch.fetch(into, words),
                    None => Ok(()),
                }
            },
        )?;
        if let (Some(what), Some(watch)) = (watched, watches) {
            watch.begin(Watched { what, raw_bytes, segment_bytes: timed_bytes, words_len: words.len() });
        }
        Ok(())
    }

    /// What came of `copy`, the last one or the last that a graph made. Waits for it, and for all that is on `stream`; the one that a
    /// graph made must be there.
    ///
    /// # Errors
    /// [`PeerCopyError`], also of work that was enqueued before.
    pub fn report(&self, stream: &Stream, copy: &PeerCopy) -> Result<PeerCopyReport, PeerCopyError> {
        let PeerCopy { path, raw_bytes, segments } = *copy;
        let coded_bytes = if path.is_coded() {
            // Threads that share a copier do not know whose copy is the last one.
            self.tools.pipe.let_follow(stream)?;
            self.tools.codecs.read(stream, segments)?
        } else {
            stream.wait()?;
            raw_bytes
        };
        Ok(PeerCopyReport { path, raw_bytes, coded_bytes })
    }

    /// Lets the policy look at data like that of the copies to come, if it wants to see some: the way of later copies is
    /// chosen by what it finds. Waits for that. Copies that are not recorded are looked at as well, when the policy wants that,
    /// and nobody waits: the first ones are plain, and later ones go by what was found by then.
    pub fn learn(&mut self, element: Element, data: &DeviceSlice) {
        self.choice.learn(element, data);
    }

    /// Whether a plain copy would wait for nothing but what is on its own stream.
    fn has_the_way_for_itself(&self) -> bool {
        let through_host = self.path(Algorithm::None) == CopyPath::PlainThroughHost;
        !through_host || matches!(self.tools.pipe.is_idle(), Ok(true))
    }

    /// Hears what was found by now. Without it copies go on as before.
    fn hear(&mut self) {
        let Self { from, choice, tools, .. } = self;
        let Tools { probe, stopwatch, watch, .. } = &mut **tools;
        let knows_all =
            probe.as_ref().is_none_or(Probe::is_free) && watch.as_ref().is_none_or(Watch::is_free);
        if stopwatch.is_free() && knows_all {
            return;
        }
        // Other streams may record.
        let (timed, answers, shown) = from.relaxed(|| {
            (stopwatch.read(), probe.as_mut().map(Probe::answers), watch.as_mut().map(Watch::read))
        });
        match timed {
            Ok(Some((raw_bytes, took))) => choice.timed(raw_bytes, took),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "nothing is known of the link"),
        }
        match answers {
            Some(Ok(answers)) => choice.hear(answers),
            None => {}
            Some(Err(error)) => tracing::warn!(%error, "nothing is known of copies"),
        }
        match shown {
            Some(Ok(Some(Shown { what, times, words }))) => match coded_bytes(&words) {
                Ok(coded_bytes) => choice.observe(&what, coded_bytes, times),
                Err(error) => {
                    tracing::warn!(%error, "nothing is learned from a copy");
                    choice.failed();
                }
            },
            Some(Ok(None)) | None => {}
            Some(Err(error)) => {
                tracing::warn!(%error, "nothing is learned from a copy");
                choice.failed();
            }
        }
    }

    /// Has the bytes of a copy looked at while they are on their way, unless others are.
    fn look(&mut self, stream: &Stream, question: Question, data: Region<'_>) -> bool {
        let Tools { probe, codecs, .. } = &mut *self.tools;
        let Some(probe) = probe.as_mut().filter(|probe| probe.is_free()) else { return false };
        let looked = probe.ask(|algorithm, _| codecs.encoder(algorithm), stream, &[(question, data)]);
        if looked.is_err() {
            probe.settle();
        }
        let looks = done(looked, "a copy is not looked at");
        if looks {
            self.choice.asked();
        }
        looks
    }

    /// Lets what comes next on `stream` wait for the look at a copy that was enqueued. Else nothing is under way when this
    /// returns.
    fn end_look(&self, stream: &Stream, is_enqueued: bool) {
        let Some(probe) = &self.tools.probe else { return };
        if is_enqueued {
            match probe.release(stream) {
                Ok(()) => return,
                Err(error) => tracing::warn!(%error, "a stream cannot wait for another one"),
            }
        }
        probe.settle();
    }

    fn path(&self, algorithm: Algorithm) -> CopyPath {
        match (self.tools.codecs.algorithms().contains(algorithm), self.is_direct()) {
            (true, true) => CopyPath::Coded(algorithm),
            (true, false) => CopyPath::CodedThroughHost(algorithm),
            // Between contexts of a device the driver copies within its memory.
            (false, _) if !self.cut.is_relayed => CopyPath::Plain,
            (false, _) => CopyPath::PlainThroughHost,
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

impl Drop for PeerCopier {
    /// Counts what is watched, which is over when copies are.
    fn drop(&mut self) {
        let is_watched = self.tools.watch.as_ref().is_some_and(|watch| !watch.is_free());
        if is_watched && self.choice.counts() && self.from.relaxed(|| self.tools.pipe.wait()).is_ok() {
            self.hear();
        }
    }
}

/// Whether what becomes of a copy can be found out: to ask how far others are would spoil a recording, and what is recorded
/// happens later.
fn can_watch(recording: &Result<Option<u64>, DeviceError>) -> bool {
    recording
        .as_ref()
        .inspect_err(|error| tracing::warn!(%error, "nothing is found out about a copy"))
        .is_ok_and(Option::is_none)
}

/// Whether something was done that copies can do without; if not, says so.
fn done(result: Result<(), DeviceError>, what: &'static str) -> bool {
    result.inspect_err(|error| tracing::warn!(%error, "{what}")).is_ok()
}
