//! How a communicator ends: in peace, or because something has failed.

use std::thread;
use std::time::Instant;

use mgcomp_codecs::device::Stream;

use super::handle::UNHANDLED_CUDA_ERROR;
use super::{NcclCommunicator, NcclError};

impl NcclCommunicator {
    /// Fails if the communicator was aborted.
    pub(super) fn usable(&self) -> Result<(), NcclError> {
        self.broken.as_ref().map_or(Ok(()), |why| Err(NcclError::Broken(Box::new(why.clone()))))
    }

    /// After a failure, aborts the communicator: nobody knows how far the ranks are.
    pub(super) fn kept<T>(&mut self, result: Result<T, NcclError>) -> Result<T, NcclError> {
        let result = result.map_err(|error| self.cause(error));
        result.inspect_err(|error| self.give_up(error.clone(), None))
    }

    /// The same of a call that may have enqueued work on `stream`.
    pub(super) fn kept_on<T>(
        &mut self,
        stream: &Stream,
        result: Result<T, NcclError>,
    ) -> Result<T, NcclError> {
        let result = result.map_err(|error| self.cause(error));
        result.inspect_err(|error| self.give_up(error.clone(), Some(stream)))
    }

    /// What is behind a failure. Of a device that is lost, NCCL says no more than that some call of CUDA has failed, and so could not be
    /// told from who only hears of it.
    fn cause(&self, error: NcclError) -> NcclError {
        if !matches!(error, NcclError::Call { code: UNHANDLED_CUDA_ERROR, .. }) {
            return error;
        }
        let lane = &self.lane;
        match lane.device.relaxed(|| lane.stream.is_idle()) {
            Err(lost) if lost.is_sticky() => lost.into(),
            _ => error,
        }
    }

    /// Aborts the communicator, and waits until nothing is under way any more, not on `stream` either, so far as there is
    /// hope: whoever called may let go what the call was to use.
    pub(super) fn give_up(&mut self, why: NcclError, stream: Option<&Stream>) {
        self.relaxed(|world| {
            world.handle.abort();
            let aborted = world.handle.aborted();
            world.handle.drain(aborted, world.streams());
            if let Some(stream) = stream {
                world.outlast(aborted, stream);
            }
            world.broken = Some(why);
        });
    }

    /// Waits until nothing is under way on `stream`, up to the limit from `since` on. What has not ended by then is to end
    /// before memory of this communicator is given back: the driver may wait for it to do so.
    pub(super) fn outlast(&mut self, since: Instant, stream: &Stream) {
        // An error may be about the question. Without an answer the stream is waited for all the same: if it records, the
        // recording is spoilt and its program hears of that, but nobody takes away what is in use.
        let records = stream.is_capturing().or_else(|_| stream.is_capturing());
        // One that records runs nothing yet, and to ask it would spoil what it records.
        if matches!(records, Ok(true)) || self.handle.drain(since, [stream]) {
            return;
        }
        if let Err(error) = records.and_then(|_| self.lane.stream.follow(stream)) {
            tracing::warn!(%error, "a stream cannot wait for another one");
            self.must_leave = true;
        }
    }

    /// Where work of its own may be under way.
    fn streams(&self) -> impl Iterator<Item = &Stream> {
        self.lane.streams().chain(self.combiner.as_ref().map(|combiner| combiner.stream()))
    }

    /// Ends it in peace, if that is possible.
    fn end(&mut self) {
        // Who panics may have left the others in the middle of something.
        let finished =
            if thread::panicking() { Err(NcclError::Aborted) } else { self.lane.finish(&self.handle) };
        match finished {
            Ok(()) => self.handle.end(),
            Err(error) => {
                tracing::warn!(%error, "a communicator is dropped whose work has failed");
                self.give_up(error, None);
            }
        }
    }

    /// Gives all back that no device may still use, when the communicator has ended.
    fn give_back(&mut self, since: Instant) {
        // A stream that records is not destroyed: that may spoil what it records.
        let is_needed = self.must_leave || self.handle.is_stuck() || self.lane.records();
        if is_needed || !self.handle.drain(since, self.streams()) {
            tracing::warn!("memory of a communicator is left for good, since a device may still use it");
            return;
        }
        if let Some(combiner) = &mut self.combiner {
            combiner.give_back();
        }
        self.lane.give_back();
    }
}

impl Drop for NcclCommunicator {
    fn drop(&mut self) {
        self.relaxed(|world| {
            if world.broken.is_some() {
                // That may be long ago, and what was under way then end now.
                world.give_back(Instant::now());
            } else {
                world.end();
                world.give_back(world.handle.aborted());
            }
        });
    }
}
