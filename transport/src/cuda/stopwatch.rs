//! How long work on a stream takes, by the clock of its device. Nobody waits for it.

use std::time::Duration;

use mgcomp_codecs::device::{DeviceError, Event, Stream};

/// Times one thing after the other, on whatever stream it is.
#[derive(Debug)]
pub(crate) struct Stopwatch<T> {
    /// Before and after what is timed. Kept for as long as the next one is in the same context.
    marks: Option<[Event; 2]>,
    /// What is timed, if it is not known yet how long it took.
    under_way: Option<T>,
}

impl<T> Default for Stopwatch<T> {
    fn default() -> Self {
        Self { marks: None, under_way: None }
    }
}

impl<T> Stopwatch<T> {
    /// Whether something new can be timed.
    pub(crate) const fn is_free(&self) -> bool {
        self.under_way.is_none()
    }

    /// What comes next on `stream`, which does not record, is timed until [`stop`](Self::stop).
    pub(crate) fn start(&mut self, stream: &Stream) -> Result<(), DeviceError> {
        self.under_way = None;
        let marks = match self.marks.take().filter(|[start, _]| start.is_of(stream)) {
            Some(marks) => marks,
            None => [stream.event()?, stream.event()?],
        };
        stream.record(&self.marks.insert(marks)[0])
    }

    /// Ends the time of `what` with what is on `stream` now, the same that it was started on.
    pub(crate) fn stop(&mut self, stream: &Stream, what: T) -> Result<(), DeviceError> {
        if let Some([_, end]) = &self.marks {
            stream.record(end)?;
            self.under_way = Some(what);
        }
        Ok(())
    }

    /// What was timed, and how long it took, if it is over by now.
    pub(crate) fn read(&mut self) -> Result<Option<(T, Duration)>, DeviceError> {
        let (Some([start, end]), Some(_)) = (&self.marks, &self.under_way) else { return Ok(None) };
        match end.since_if_over(start) {
            Ok(None) => Ok(None),
            Ok(Some(took)) => Ok(self.under_way.take().map(|what| (what, took))),
            Err(error) => {
                self.under_way = None;
                Err(error)
            }
        }
    }
}
