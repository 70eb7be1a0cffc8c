//! The executor for the memory of CUDA devices.
//!
//! Each device gets streams of its own, on which codecs run by their kernels and bytes go to and from page-locked memory
//! of the host: links carry them from there, or from where they are if they can. Nothing waits for a device but threads that do nothing else. Work on
//! different pieces overlaps: while one is coded, the one before is copied. Short frames kernels store in page-locked memory themselves, and read there.
//!
//! What the kernels cannot do goes another way: a source is sent raw, and a frame is decoded by the host. Frames that
//! devices make have no checksums, and those of frames that they read are not compared.

mod flight;
pub(crate) mod kernels;
mod lane;
mod mark;
pub(crate) mod probe;
pub(crate) mod sampling;
pub(crate) mod scratch;
mod staging;
pub(crate) mod stopwatch;
mod worker;

use std::collections::HashMap;

use mgcomp_codecs::device::{Device, DeviceError};
use mgcomp_codecs::{AlgorithmSet, Element};
use mgcomp_selector::{Estimate, SampleSize};

use self::flight::Flight;
use self::kernels::Kernels;
use self::lane::Lane;
#[cfg(target_os = "linux")]
pub(crate) use self::staging::Ready;
use self::staging::Staging;
use self::worker::Worker;
use super::failure::Failure;
use super::{Done, DoneSink, Executor, HostExecutor, Outlet, Output, Ticket, Work};
use crate::memory::{DeviceSlice, Slice};
use crate::payload::Payload;

/// Carries out work on memory of devices, and leaves all other work to the executor for host memory.
pub struct CudaExecutor {
    host: HostExecutor,
    sink: DoneSink,
    outlet: Outlet,
    /// By context, from its first work on.
    workers: HashMap<u64, Worker>,
}

impl CudaExecutor {
    /// An executor that reports to `sink` what `host` does not do. Devices are set up when the first work for them comes.
    #[must_use]
    pub fn new(host: HostExecutor, sink: DoneSink, outlet: Outlet) -> Self {
        Self { host, sink, outlet, workers: HashMap::new() }
    }

    fn worker(&mut self, device: &Device) -> std::io::Result<&Worker> {
        use std::collections::hash_map::Entry;
        match self.workers.entry(device.context_id()) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => Ok(entry.insert(Worker::start(device, self.outlet, &self.sink)?)),
        }
    }
}

impl Executor for CudaExecutor {
    fn submit(&mut self, ticket: Ticket, work: Work) -> Option<Done> {
        let Some(device) = device_of(&work) else { return self.host.submit(ticket, work) };
        let handed_in = match self.worker(&device) {
            Ok(worker) => worker.submit(ticket, work),
            Err(error) => {
                tracing::warn!(%error, "no thread for a device");
                false
            }
        };
        (!handed_in).then(|| Done::failed(ticket))
    }

    fn resume(&mut self) -> Option<Done> {
        self.host.resume()
    }

    fn is_waiting(&self) -> bool {
        self.host.is_waiting()
    }
}

/// The device whose memory the work is on, if it is on one's.
fn device_of(work: &Work) -> Option<Device> {
    match work.raw().slice()? {
        Slice::Device(slice) => Some(slice.device().clone()),
        Slice::Host(_) => None,
    }
}

/// What each of `algorithms` that has kernels would make of `source`. Waits for that; after an error there are none.
pub(crate) fn estimate(
    source: &DeviceSlice,
    element: Element,
    algorithms: AlgorithmSet,
    sample: SampleSize,
) -> Vec<Estimate> {
    let device = source.device();
    let work = Work::Estimate { source: Payload::from_memory(source.clone()), element, algorithms, sample };
    let estimated =
        Lane::new(device, &Staging::new(device), None).map_err(Failure::from).and_then(|mut lane| {
            let flight = Flight::start(&mut lane, &mut Kernels::new(device), &work, Some(source.hold()));
            let ended = flight.and_then(|flight| flight.finish(&mut lane, &work));
            match &ended {
                Ok(_) => drop(lane.end()),
                Err(_) => lane.abandon(),
            }
            ended
        });
    match estimated {
        Ok(Output::Estimates(estimates)) => estimates,
        Ok(_) => Vec::new(),
        Err(error) => {
            tracing::warn!(%error, "nothing is known of data on a device");
            Vec::new()
        }
    }
}

/// Copies `from` to `into`, which is as long, also where one of them is on a device. Waits until it is done, also in a thread that
/// records.
pub(crate) fn copy(from: &Slice, into: &Slice) -> Result<(), DeviceError> {
    match (from, into) {
        (Slice::Device(slice), _) | (_, Slice::Device(slice)) => {
            slice.device().relaxed(|| copy_now(from, into))
        }
        _ => copy_now(from, into),
    }
}

fn copy_now(from: &Slice, into: &Slice) -> Result<(), DeviceError> {
    match (from, into) {
        (Slice::Device(from), Slice::Device(into)) => {
            let (from, into) = (from.hold(), into.hold_mut());
            let stream = into.slice().device().stream()?;
            from.slice().order(&stream)?;
            into.slice().order(&stream)?;
            let copied = stream.copy(from.slice().region(), into.slice().region());
            copied.and(stream.wait()) // also after an error: the memory must not be let go before
        }
        (Slice::Host(from), Slice::Device(into)) => {
            let (from, into) = (from.hold(), into.hold_mut());
            let stream = into.slice().device().stream()?;
            into.slice().order(&stream)?;
            stream.upload(&from, into.slice().region())
        }
        (Slice::Device(from), Slice::Host(into)) => {
            let (from, mut into) = (from.hold(), into.hold_mut());
            let stream = from.slice().device().stream()?;
            from.slice().order(&stream)?;
            stream.download(from.slice().region(), &mut into)
        }
        (Slice::Host(from), Slice::Host(into)) => {
            into.write(|into| from.read(|from| into.copy_from_slice(from)));
            Ok(())
        }
    }
}
