//! The end of what was enqueued, which a thread waits for.

use std::time::Duration;

use mgcomp_codecs::device::{Device, DeviceError, Event, Stream};

use crate::patience::Patience;

/// As long as kernels and copies of some MiB take.
const MOMENT: Duration = Duration::from_micros(200);

/// An event whose thread asks for a moment before it sleeps.
#[derive(Debug)]
pub(crate) struct Mark {
    event: Event,
    patience: Patience,
}

impl Mark {
    pub(crate) fn new(device: &Device) -> Result<Self, DeviceError> {
        Ok(Self { event: device.milestone()?, patience: Patience::of(MOMENT) })
    }

    /// Lets it stand for the end of what is on `stream` by now.
    pub(crate) fn set(&self, stream: &Stream) -> Result<(), DeviceError> {
        stream.record(&self.event)
    }

    /// Waits for it.
    pub(crate) fn wait(&self) -> Result<(), DeviceError> {
        let over =
            self.patience.begin().ask(|| self.event.is_over().map(|over| over.then_some(())).transpose());
        over.unwrap_or_else(|| self.event.wait())
    }
}
