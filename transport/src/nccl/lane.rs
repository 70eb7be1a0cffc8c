//! The stream on which regions are encoded and decoded, with the memory that this takes.
//!
//! A call has the lane for itself: all that the call before it has enqueued has ended when it begins. Memory is allocated and
//! kernels are loaded, for which the driver might wait, before headers are exchanged or when they are there, and when
//! what was on the caller's stream has ended: never while an operation of NCCL waits for other ranks, which may have gone.
//! After that, ranks of one process wait for each other, so that no operation of theirs waits for this one while it allocates:
//! see [`neighbours`](super::neighbours). After the headers, only what these announce is looked for: nobody knows its length before.
//! Nothing is freed before the lane is: where ranks are threads of one process, the driver may wait for all devices, and those of
//! the others wait in the midst of a call for this rank.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use mgcomp_codecs::device::{
    Coder, Compress, Decompress, Device, DeviceError, Event, Region, Status, Stream, workspace_len,
};
use mgcomp_codecs::frame::{ChunkSize, MAX_RAW_LEN};
use mgcomp_codecs::{Algorithm, Element};

use super::NcclError;
use super::choices::{Decoded, Moved};
use super::entry::{Coding, ENTRY_LEN, Entry};
use super::handle::Handle;
use super::layout::{Layout, WORD, nth};
use crate::cuda::kernels::Kernels;
use crate::cuda::probe::{Probe, Question};
use crate::cuda::scratch::{GrowingWorkspace, Scratch};
use crate::cuda::stopwatch::Stopwatch;

/// Frames begin on multiples of this.
const ALIGN: u64 = 256;

/// A region that goes to other ranks.
#[derive(Debug)]
pub(super) struct Outgoing<'a> {
    pub(super) region: Region<'a>,
    pub(super) coding: Option<Coding>,
    /// What its policy wants to know.
    pub(super) question: Option<Question>,
}

/// A region that another rank fills.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incoming<'a> {
    pub(super) from: u32,
    pub(super) region: Region<'a>,
}

/// Dropped when its streams have come to their ends.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) device: Device,
    pub(super) stream: Stream,
    /// For what the host brings and takes, so that it waits for nothing else.
    side: Stream,
    /// For plain calls on a stream that only the calling thread knows. It may record.
    plain: Stream,
    /// Looks at what policies ask about. Before the kernels, which it may still use.
    pub(super) probe: Probe,
    kernels: Kernels,
    workspace: GrowingWorkspace,
    /// Recorded before and after encoding.
    marks: [Event; 2],
    /// Times what moves frames and raw bytes.
    stopwatch: Stopwatch<Moved>,
    /// Times what decodes frames that have come.
    decoder_watch: Stopwatch<Decoded>,
    words: Scratch,
    layout: Layout,
    /// Frames that leave, and where they lie.
    leaving: (Scratch, Vec<Range<u64>>),
    /// Frames that come.
    coming: (Scratch, Vec<Range<u64>>),
    is_busy: bool,
    /// Who sent the frames whose statuses nobody has looked at yet.
    decoding: Vec<u32>,
}

impl Lane {
    /// With room for so many bytes that ranks [share](Self::share): others may wait for them already.
    pub(super) fn new(device: &Device, shared_len: u64) -> Result<Self, DeviceError> {
        let mut words = Scratch::default();
        words.room(device, shared_len)?;
        Ok(Self {
            device: device.clone(),
            stream: device.stream()?,
            side: device.stream()?,
            plain: device.stream()?,
            probe: Probe::new(device)?,
            kernels: Kernels::new(device),
            workspace: GrowingWorkspace::default(),
            marks: [device.event()?, device.event()?],
            stopwatch: Stopwatch::default(),
            decoder_watch: Stopwatch::default(),
            words,
            layout: Layout::default(),
            leaving: Default::default(),
            coming: Default::default(),
            is_busy: false,
            decoding: Vec::new(),
        })
    }

    /// Gathers a few words of each rank on all, at the very beginning: `shared_len` bytes with those that all have, as when it
    /// was made.
    pub(super) fn share(
        &mut self,
        handle: &Handle,
        own: &[u8],
        shared_len: u64,
    ) -> Result<Vec<u64>, NcclError> {
        let len = own.len() as u64;
        self.is_busy = true;
        let (from, to) = (self.word_region(0..len), self.word_region(len..shared_len));
        self.side.upload(own, from)?;
        handle.group(|handle| handle.all_gather(from, to, &self.stream))?;
        handle.wait_for_bytes(&self.stream, "the comparison of settings")?;
        Ok(self.read_words(len..shared_len)?)
    }

    /// Waits until all of the last call has ended, and fails if a frame did not decode.
    pub(super) fn finish(&mut self, handle: &Handle) -> Result<(), NcclError> {
        if !self.is_busy {
            return Ok(());
        }
        handle.wait_for_bytes(&self.stream, "a compressed transfer")?;
        self.is_busy = false;
        let ranks = std::mem::take(&mut self.decoding);
        let start = self.layout.statuses().start;
        let words = self.read_words(start..start + WORD * ranks.len() as u64)?;
        for (rank, word) in ranks.into_iter().zip(words) {
            Status::from_word(word).check().map_err(|refused| NcclError::NotDecoded { rank, refused })?;
        }
        Ok(())
    }

    /// The same if it has ended; else it is not waited for.
    pub(super) fn finish_if_over(&mut self, handle: &Handle) -> Result<(), NcclError> {
        if self.is_busy && self.stream.is_idle()? { self.finish(handle) } else { Ok(()) }
    }

    /// Where something may be under way at the end of a call.
    pub(super) fn streams(&self) -> impl Iterator<Item = &Stream> {
        // One that records runs nothing of the call, and to ask it would spoil what it records.
        let plain = Some(&self.plain).filter(|_| !self.records());
        [&self.stream, self.probe.stream()].into_iter().chain(plain)
    }

    /// Whether the stream for plain calls records, as that of a caller does.
    pub(super) fn records(&self) -> bool {
        self.plain.is_capturing().is_ok_and(|records| records)
    }

    /// Makes calls of NCCL's as one group, after what is on `stream` and before what comes there next. The stream that they are
    /// to be on is handed to them.
    pub(super) fn plain_group(
        &self,
        handle: &Handle,
        stream: &Stream,
        calls: impl FnOnce(&Handle, &Stream) -> Result<(), NcclError>,
    ) -> Result<(), NcclError> {
        if !stream.is_per_thread() {
            return handle.group(|handle| calls(handle, stream));
        }
        // NCCL enqueues on a thread of its own, which has another stream by that name.
        self.plain.follow(stream)?;
        let called = handle.group(|handle| calls(handle, &self.plain));
        // Also after an error: if the stream records, the other one does too, and is to be followed before the end.
        let followed = stream.follow(&self.plain);
        called.and(followed.map_err(Into::into))
    }

    /// Begins a call with work that comes after what is on `stream`: finds room, and has `outgoing` encoded, with a header
    /// each. `expected` headers will come.
    pub(super) fn begin(
        &mut self,
        (handle, stream): (&Handle, &Stream),
        (element, call): (Element, u32),
        outgoing: &mut [Outgoing<'_>],
        expected: usize,
    ) -> Result<(), NcclError> {
        self.layout = Layout { outgoing: outgoing.len(), incoming: expected };
        // Zeros are on their way to a workspace that was just made.
        self.is_busy = true;
        self.find_rooms((handle, stream), outgoing)?;
        let header = |out: &Outgoing<'_>| Entry::new(out.region.len(), out.coding, call).to_bytes();
        let headers: Vec<u8> = outgoing.iter().flat_map(header).collect();
        if !headers.is_empty() {
            self.side.upload(&headers, self.outgoing())?;
        }
        self.stream.follow(stream)?;
        self.stream.record(&self.marks[0])?;
        for (i, out) in outgoing.iter_mut().enumerate() {
            if let Err(error) = self.encode(element, out, i) {
                if error.is_sticky() {
                    return Err(error.into());
                }
                tracing::warn!(%error, "not compressed");
                out.coding = None;
                self.side.upload(&header(out), self.own_header(i))?;
            }
        }
        self.stream.record(&self.marks[1])?;
        let questions = outgoing.iter().filter_map(|out| Some((out.question?, out.region)));
        let questions: Vec<_> = questions.collect();
        if !questions.is_empty() {
            let coder = |algorithm, chunk_size| self.kernels.coder(algorithm, chunk_size).cloned();
            self.probe.ask(coder, stream, &questions)?;
            self.probe.release(stream)?;
        }
        Ok(())
    }

    /// Finds kernels and room for all that leaves, with what is on the caller's stream out of the way if there are none yet.
    fn find_rooms(
        &mut self,
        (handle, stream): (&Handle, &Stream),
        outgoing: &mut [Outgoing<'_>],
    ) -> Result<(), NcclError> {
        let wanted = codecs_for(outgoing);
        if !wanted.iter().all(|&(algorithm, chunk_size)| self.kernels.knows(algorithm, chunk_size)) {
            self.come_after(handle, stream)?;
            // All of them now, also those that nothing comes to: later calls need not wait. One that there is no memory for
            // is tried again with every call.
            for (algorithm, chunk_size) in wanted {
                self.kernels.coder(algorithm, chunk_size);
            }
        }
        let (words, (frames, workspace)) = (self.layout.len(), self.lay_out(outgoing));
        let grows = self.words.must_grow(words)
            || self.leaving.0.must_grow(frames)
            || self.workspace.must_grow(workspace);
        if grows {
            self.come_after(handle, stream)?;
        }
        self.words.room(&self.device, words)?;
        if let Err(error) = self.find_encoders_room(frames, workspace) {
            if error.is_sticky() {
                return Err(error.into());
            }
            tracing::warn!(%error, "not compressed");
            for out in &mut *outgoing {
                out.coding = None;
            }
            // What comes is decoded all the same.
            let (_, workspace) = self.lay_out(outgoing);
            self.workspace.grown(&self.device, &self.stream, workspace)?;
        }
        Ok(())
    }

    fn find_encoders_room(&mut self, frames: u64, workspace: u64) -> Result<(), DeviceError> {
        self.leaving.0.room(&self.device, frames)?;
        self.workspace.grown(&self.device, &self.stream, workspace)?;
        Ok(())
    }

    /// Waits until what is on `stream` has ended: no longer than there is hope, unlike the driver.
    fn come_after(&self, handle: &Handle, stream: &Stream) -> Result<(), NcclError> {
        self.stream.follow(stream)?;
        handle.wait(&self.stream, "what comes before a compressed call")
    }

    /// Lays the frames of `outgoing` out. What has no kernels goes raw. Returns how long all frames and the workspace may be.
    fn lay_out(&mut self, outgoing: &mut [Outgoing<'_>]) -> (u64, u64) {
        let (mut end, mut workspace) = (0, workspace_needed(None));
        self.leaving.1.clear();
        for out in outgoing {
            let len = out.region.len();
            let coding = out.coding.filter(|_| len <= MAX_RAW_LEN);
            let coder = coding.and_then(|coding| self.kernels.coder(coding.algorithm, coding.chunk_size));
            out.coding = coding.filter(|_| coder.is_some());
            let room = coder.map_or(0, |coder| coder.max_frame_len(len));
            workspace = workspace.max(workspace_needed(coder.map(|coder| (coder, len))));
            self.leaving.1.push(end..end + room);
            end += room.next_multiple_of(ALIGN);
        }
        (end, workspace)
    }

    fn encode(&mut self, element: Element, out: &Outgoing<'_>, i: usize) -> Result<(), DeviceError> {
        let Some(Coding { algorithm, chunk_size }) = out.coding else { return Ok(()) };
        let Some(coder) = self.kernels.coder(algorithm, chunk_size) else { return Ok(()) };
        let needed = workspace_needed(Some((coder, out.region.len())));
        let workspace = self.workspace.grown(&self.device, &self.stream, needed)?;
        let header = nth(&self.layout.outgoing(), i, ENTRY_LEN).start;
        let job = Compress {
            element,
            src: out.region,
            dst: self.leaving.0.made().slice(self.leaving.1[i].clone()),
            codebook: None,
            len: self.words.made().word(header),
            status: self.words.made().word(header + WORD),
        };
        coder.compress(&self.stream, workspace, &[job])
    }

    /// Waits until headers were exchanged, and reads them: this rank's, and those that came from the ranks that `from`
    /// names.
    pub(super) fn headers(
        &self,
        handle: &Handle,
        (own, call): (u32, u32),
        from: impl Fn(usize) -> u32,
    ) -> Result<(Vec<Entry>, Vec<Entry>), NcclError> {
        handle.wait_for_bytes(&self.stream, "the exchange of lengths")?;
        let all = self.layout.outgoing().start..self.layout.incoming().end;
        let mut bytes = vec![0; all.end as usize];
        self.side.download(self.word_region(all), &mut bytes)?;
        let rank = |i: usize| i.checked_sub(self.layout.outgoing).map_or(own, &from);
        let entries = bytes.chunks_exact(ENTRY_LEN as usize).enumerate();
        let mut entries: Vec<Entry> =
            entries.map(|(i, bytes)| Entry::read(bytes, rank(i), call)).collect::<Result<_, _>>()?;
        let incoming = entries.split_off(self.layout.outgoing);
        Ok((entries, incoming))
    }

    /// How long the encoding of `outgoing[i]` has taken, when headers are there: by its length, its part of all.
    pub(super) fn encoding_time(&self, outgoing: &[Outgoing<'_>], i: usize) -> Option<Duration> {
        let coded_len = |out: &Outgoing<'_>| out.coding.map_or(0, |_| out.region.len());
        let (own, all) = (coded_len(&outgoing[i]), outgoing.iter().map(coded_len).sum::<u64>());
        if own == 0 {
            return None;
        }
        let took = self.marks[1].since(&self.marks[0]).ok()?;
        Some(took.mul_f64(own as f64 / all as f64))
    }

    /// Begins with what moves frames and raw bytes, if it can be timed: it is until [`end_move`](Self::end_move).
    pub(super) fn begin_move(&mut self) -> bool {
        let started = self.stopwatch.start(&self.stream);
        started.inspect_err(|error| tracing::warn!(%error, "the link is not timed")).is_ok()
    }

    /// All that moves them is enqueued.
    pub(super) fn end_move(&mut self, moved: Moved) {
        if let Err(error) = self.stopwatch.stop(&self.stream, moved) {
            tracing::warn!(%error, "the link is not timed");
        }
    }

    /// What was moved last and timed, and how long that took.
    pub(super) fn moved(&mut self) -> Option<(Moved, Duration)> {
        let read = self.stopwatch.read();
        read.unwrap_or_else(|error| {
            tracing::warn!(%error, "nothing is known of the link");
            None
        })
    }

    /// Finds room for the frames that `entries` announce, and their kernels. That which is this rank's `own` does not come.
    pub(super) fn expect(
        &mut self,
        entries: &[Entry],
        own: Option<u32>,
        from: impl Fn(usize) -> u32,
    ) -> Result<(), NcclError> {
        let mut end = 0;
        self.coming.1.clear();
        for (i, entry) in entries.iter().enumerate() {
            let mut len = 0;
            if let Some(Coding { algorithm, chunk_size }) = entry.coding().filter(|_| own != Some(from(i))) {
                let coder = self.kernels.coder(algorithm, chunk_size);
                coder.ok_or(NcclError::NoKernels { rank: from(i) })?;
                len = entry.stored_len();
            }
            self.coming.1.push(end..end + len);
            end += len.next_multiple_of(ALIGN);
        }
        self.coming.0.room(&self.device, end)?;
        Ok(())
    }

    /// Enqueues the decoding of all frames that have come, which `entries` announced: by number, and where they go. It is timed if
    /// that is asked for, and all are of one codec.
    pub(super) fn decode_all<'a>(
        &mut self,
        frames: impl Iterator<Item = (usize, &'a Entry, Incoming<'a>)> + Clone,
        is_timed: bool,
    ) -> Result<(), NcclError> {
        let decoded = Decoded::of(frames.clone().map(|(_, entry, _)| entry)).filter(|_| is_timed);
        let watched = decoded.filter(|_| warned(self.decoder_watch.start(&self.stream)));
        for (i, entry, into) in frames {
            self.decode(i, entry, into)?;
        }
        if let Some(decoded) = watched {
            warned(self.decoder_watch.stop(&self.stream, decoded));
        }
        Ok(())
    }

    /// What was decoded last and timed, and how long that took, if that is over by now.
    pub(super) fn decoded(&mut self) -> Option<(Decoded, Duration)> {
        let read = self.decoder_watch.read();
        read.unwrap_or_else(|error| {
            tracing::warn!(%error, "decoders are not timed");
            None
        })
    }

    /// Enqueues the decoding of a frame that has come, the one that `entry`, of that number, announced.
    fn decode(&mut self, i: usize, entry: &Entry, into: Incoming<'_>) -> Result<(), NcclError> {
        let Some(Coding { algorithm, chunk_size }) = entry.coding() else { return Ok(()) };
        let coder = self.kernels.coder(algorithm, chunk_size);
        let coder = coder.ok_or(NcclError::NoKernels { rank: into.from })?;
        let workspace = self.workspace.grown(&self.device, &self.stream, workspace_needed(None))?;
        let status = self.words.made().word(nth(&self.layout.statuses(), self.decoding.len(), WORD).start);
        let src = self.coming.0.made().slice(self.coming.1[i].clone());
        let job = Decompress { src, src_len: None, dst: into.region, status };
        coder.decompress(&self.stream, workspace, &[job])?;
        self.decoding.push(into.from);
        Ok(())
    }

    /// Headers of this rank.
    pub(super) fn outgoing(&self) -> Region<'_> {
        self.word_region(self.layout.outgoing())
    }

    /// Headers of others.
    pub(super) fn incoming(&self) -> Region<'_> {
        self.word_region(self.layout.incoming())
    }

    /// One of them.
    pub(super) fn own_header(&self, i: usize) -> Region<'_> {
        self.word_region(nth(&self.layout.outgoing(), i, ENTRY_LEN))
    }

    /// One of those that others send.
    pub(super) fn their_header(&self, i: usize) -> Region<'_> {
        self.word_region(nth(&self.layout.incoming(), i, ENTRY_LEN))
    }

    /// The first `len` bytes of a frame that leaves.
    pub(super) fn leaving(&self, i: usize, len: u64) -> Region<'_> {
        let start = self.leaving.1[i].start;
        self.leaving.0.made().slice(start..start + len)
    }

    /// Where a frame goes that comes.
    pub(super) fn coming(&self, i: usize) -> Region<'_> {
        self.coming.0.made().slice(self.coming.1[i].clone())
    }

    fn word_region(&self, range: Range<u64>) -> Region<'_> {
        self.words.made().slice(range)
    }

    fn read_words(&self, range: Range<u64>) -> Result<Vec<u64>, DeviceError> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        if !bytes.is_empty() {
            self.side.download(self.word_region(range), &mut bytes)?;
        }
        let (words, _) = bytes.as_chunks();
        Ok(words.iter().copied().map(u64::from_le_bytes).collect())
    }
}

/// Whether something was done that calls can do without; if not, says so.
fn warned(done: Result<(), DeviceError>) -> bool {
    done.inspect_err(|error| tracing::warn!(%error, "decoders are not timed")).is_ok()
}

/// What regions are encoded with, and what their policies ask about.
fn codecs_for(outgoing: &[Outgoing<'_>]) -> BTreeSet<(Algorithm, ChunkSize)> {
    let mut codecs = BTreeSet::new();
    for out in outgoing {
        codecs.extend(out.coding.map(|coding| (coding.algorithm, coding.chunk_size)));
        let asked = |question: Question| {
            question.algorithms.iter().map(move |algorithm| (algorithm, question.chunk_size))
        };
        codecs.extend(out.question.into_iter().flat_map(asked));
    }
    codecs.retain(|(algorithm, _)| *algorithm != Algorithm::None);
    codecs
}

/// What encoding so many bytes needs; with none, what decoding does.
fn workspace_needed(encoded: Option<(&Coder, u64)>) -> u64 {
    match encoded {
        Some((coder, len)) => workspace_len(coder.chunk_size(), &[len]),
        None => workspace_len(ChunkSize::DEFAULT, &[]),
    }
}
