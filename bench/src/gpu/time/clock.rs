//! Times by the device's clock.

use std::time::Duration;

use mgcomp_codecs::device::{Device, DeviceError, Event, Stream};

/// Two events around work in a stream.
pub(in crate::gpu) struct Clock {
    pub(super) stream: Stream,
    start: Event,
    end: Event,
}

impl Clock {
    pub(in crate::gpu) fn new(device: &Device) -> Result<Self, DeviceError> {
        Ok(Self { stream: device.stream()?, start: device.event()?, end: device.event()? })
    }

    /// How long the work takes that `enqueue` enqueues.
    pub(in crate::gpu) fn time<E: From<DeviceError>>(
        &self,
        enqueue: impl FnOnce(&Stream) -> Result<(), E>,
    ) -> Result<Duration, E> {
        self.stream.record(&self.start)?;
        enqueue(&self.stream)?;
        self.stream.record(&self.end)?;
        self.stream.wait()?;
        Ok(self.end.since(&self.start)?)
    }
}

/// The middle one, or the mean of the two in the middle; 0 of none.
pub(in crate::gpu) fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    match times.len() {
        0 => 0.0,
        len if len.is_multiple_of(2) => f64::midpoint(times[len / 2 - 1], times[len / 2]),
        len => times[len / 2],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_in_the_middle() {
        assert_eq!(median(&mut [3.0, 1.0, 100.0]), 3.0);
        assert_eq!(median(&mut [3.0, 1.0, 100.0, 4.0]), 3.5);
        assert_eq!(median(&mut []), 0.0);
    }
}
