//! The executor for the memory of CUDA devices.
//!
//! Each device gets streams of its own, on which codecs run by their kernels and bytes go to and from page-locked memory
//! of the host: links carry them from there, or from where they are if they can. Nothing waits for a device but threads that do nothing else. Work on
//! different pieces overlaps: while one is coded, the one before is copied. Short frames kernels store in page-locked memory themselves, and read there.
//!
//! What the kernels cannot do goes another way: a source is sent raw, and a frame is decoded by the host. Frames that
//! devices make have no checksums, and those of frames that they read are not compared.

mod flight;
mod lane;
mod worker;

use std::collections::HashMap;

use mgcomp_codecs::device::Device;
use mgcomp_codecs::{AlgorithmSet, Element};
use mgcomp_selector::{Estimate, SampleSize};

use self::flight::Flight;
use self::lane::Lane;
use self::worker::Worker;
use super::failure::Failure;
use super::{Accepted, Done, DoneSink, Executor, HostExecutor, Outlet, Output, Ticket, Work};
use crate::cuda::kernels::Kernels;
use crate::cuda::staging::Staging;
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

    fn accept(&mut self, ticket: Ticket, work: Work) -> Accepted {
        if device_of(&work).is_none() {
            return self.host.accept(ticket, work);
        }
        self.submit(ticket, work).map_or(Accepted::Taken, Accepted::Done)
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
