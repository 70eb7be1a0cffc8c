//! Samples that nobody waits for: what they find is told when a later transfer asks.

use std::ops::Range;

use mgcomp_codecs::device::{Coder, Device, DeviceError, Region, Stream, Workspace, workspace_len};
use mgcomp_codecs::frame::ChunkSize;
use mgcomp_codecs::{Algorithm, AlgorithmSet};
use mgcomp_selector::{CheapFacts, Estimate, SampleSize};

use super::sampling::{self, Sample};
use super::staging::Words;

/// Words for all that is found at a time.
const WORDS: usize = 2048;

/// What a policy wants to know of a transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    pub(crate) facts: CheapFacts,
    pub(crate) chunk_size: ChunkSize,
    pub(crate) algorithms: AlgorithmSet,
    pub(crate) size: SampleSize,
}

/// What was found for the transfer with these facts.
pub(crate) type Answer = (CheapFacts, Vec<Estimate>);

/// Has data looked at on a stream of its own.
#[derive(Debug)]
pub(crate) struct Probe {
    device: Device,
    stream: Stream,
    workspace: Workspace<'static>,
    words: Words,
    /// What was asked, and which words will say what was found.
    asked: Vec<(CheapFacts, Sample, Range<usize>)>,
}

impl Probe {
    pub(crate) fn new(device: &Device) -> Result<Self, DeviceError> {
        let (stream, words) = (device.stream()?, Words::new(device, WORDS)?);
        // Last, because zeros are on their way to it from then on.
        let workspace = device.workspace(&stream, workspace_len(ChunkSize::DEFAULT, &[]))?;
        Ok(Self { device: device.clone(), stream, workspace, words, asked: Vec::new() })
    }

    /// Whether it can be asked: all that was asked before has been answered.
    pub(crate) fn is_free(&self) -> bool {
        self.asked.is_empty()
    }

    /// Where it looks.
    pub(crate) const fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Has data looked at, after what is on `stream`. Before anything may change the data there,
    /// [`release`](Self::release) is called. After an error nothing will be found, but until [its stream](Self::stream) has
    /// come to its end, data may be looked at.
    pub(crate) fn ask(
        &mut self,
        mut coder: impl FnMut(Algorithm, ChunkSize) -> Option<Coder>,
        stream: &Stream,
        questions: &[(Question, Region<'_>)],
    ) -> Result<(), DeviceError> {
        let asked = self.enqueue(&mut coder, stream, questions);
        if asked.is_err() {
            self.asked.clear();
        }
        asked
    }

    fn enqueue(
        &mut self,
        coder: &mut impl FnMut(Algorithm, ChunkSize) -> Option<Coder>,
        stream: &Stream,
        questions: &[(Question, Region<'_>)],
    ) -> Result<(), DeviceError> {
        self.stream.follow(stream)?;
        let mut end = 0;
        for &(Question { facts, chunk_size, algorithms, size }, data) in questions {
            let mut sample = Sample::of(data.len(), chunk_size, size, algorithms);
            let start = end;
            let estimate = |coder: &Coder, pieces: &[(u64, u64)], first: usize| {
                let with = (coder, &self.stream, &mut self.workspace);
                sampling::estimate(with, (facts.element, data), pieces, (&self.words, start + first))
            };
            end += sample.start(|algorithm| coder(algorithm, chunk_size), WORDS - start, estimate)?;
            self.asked.push((facts, sample, start..end));
        }
        self.words.mark(&self.stream)
    }

    /// Lets what comes next on `stream` wait until all was looked at. After an error it does not.
    pub(crate) fn release(&self, stream: &Stream) -> Result<(), DeviceError> {
        stream.follow(&self.stream)
    }

    /// What was found, if it is there by now.
    pub(crate) fn answers(&mut self) -> Result<Vec<Answer>, DeviceError> {
        if self.asked.is_empty() || !self.stream.is_idle()? {
            return Ok(Vec::new());
        }
        // It is there, so this does not wait.
        let words = self.words.wait()?;
        let answer =
            |(facts, sample, at): (CheapFacts, Sample, Range<usize>)| (facts, sample.read(&words[at]));
        Ok(self.asked.drain(..).map(answer).collect())
    }

    /// Waits until nothing is under way, also while other streams record. If even that fails, the context is lost and runs
    /// nothing any more.
    pub(crate) fn settle(&self) {
        if let Err(error) = self.device.relaxed(|| self.stream.wait()) {
            tracing::warn!(%error, "a stream does not come to its end");
        }
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.settle();
    }
}
