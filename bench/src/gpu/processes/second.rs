//! `mgcomp-bench gpu-second`: the other process.
#![allow(unsafe_code)] // memory of the first process

use std::os::fd::OwnedFd;
use std::time::Duration;

use mgcomp_codecs::device::{
    Buffer, Device, DeviceError, EventHandle, Imported, MemoryHandle, Region, Shareable, Stream,
};

use super::wire::{Answer, Channel, Failure, Order};
use super::{SharedError, compare, pattern};
use crate::error::BenchError;
use crate::gpu::time::{Clock, median};

/// Be the other process that `gpu` shares memory with. Not for use by hand.
#[derive(clap::Args)]
#[command(hide = true)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> Result<(), BenchError> {
    take_part().map_err(|source| BenchError::Shared { means: "an order", source })
}

fn take_part() -> Result<(), SharedError> {
    let channel = Channel::inherited()?;
    let (order, file): (Order, _) = channel.receive()?;
    let mapped = Mapped::open(&order, file);
    let used = mapped.as_ref().map(|mapped| mapped.use_it(&order));
    let failure = match &used {
        Ok(Ok(_)) => None,
        Err(SharedError::Unsupported(why)) => Some(Failure::Unsupported(why.clone())),
        Ok(Err(error)) => Some(Failure::Wrong(error.to_string())),
        Err(error) => Some(Failure::Wrong(error.to_string())),
    };
    let failed = || Answer { failure, ..Answer::default() };
    let answer = used.ok().and_then(Result::ok).unwrap_or_else(failed);
    channel.send(&answer, None)?;
    // What was recorded ends before the memory is let go; and whatever waits for the event has it until then.
    channel.wait_for_end();
    if let Ok(mapped) = &mapped {
        mapped.stream.wait()?;
    }
    Ok(())
}

/// The memory of the first process.
struct Mapped {
    device: Device,
    stream: Stream,
    memory: Memory,
    /// To copy to, and from: the last copy comes from there.
    own: [Buffer; 2],
}

enum Memory {
    Imported(Imported),
    Shared(Shareable),
}

impl Mapped {
    fn open(order: &Order, file: Option<OwnedFd>) -> Result<Self, SharedError> {
        let device = Device::open(order.ordinal).map_err(SharedError::of_opening)?;
        let len = order.bytes as u64;
        let memory = match (file, order.handle.as_slice().try_into()) {
            (Some(file), _) => device.map_shareable(file, len).map(Memory::Shared),
            // SAFETY: the first process keeps the memory until this one has ended.
            (None, Ok(handle)) => unsafe { device.import(&MemoryHandle(handle), len) }.map(Memory::Imported),
            (None, Err(_)) => return Err(SharedError::Other("neither a handle nor a file".to_owned())),
        };
        let memory = memory.map_err(SharedError::of_opening)?;
        let buffer = || device.alloc(len).map_err(SharedError::of_opening);
        let own = [buffer()?, buffer()?];
        Ok(Self { stream: device.stream()?, device, memory, own })
    }

    fn region(&self) -> Region<'_> {
        match &self.memory {
            Memory::Imported(memory) => memory.region(),
            Memory::Shared(memory) => memory.region(),
        }
    }

    /// Looks at the memory, copies from there, and writes to it.
    fn use_it(&self, order: &Order) -> Result<Answer, SharedError> {
        let own = &self.own;
        let mut found = vec![0; order.bytes];
        self.stream.download(self.region(), &mut found)?;
        compare("the first process", &found, &pattern(1, order.bytes))?;
        let clock = Clock::new(&self.device)?;
        let mut times = [const { Vec::new() }; 2];
        for _ in 0..order.rounds {
            for (times, from) in times.iter_mut().zip([self.region(), own[1].region()]) {
                let copy = |stream: &Stream| stream.copy(from, own[0].region());
                times.push(
                    clock
                        .time::<DeviceError>(copy)
                        .as_ref()
                        .map(Duration::as_secs_f64)
                        .map_err(Clone::clone)?,
                );
            }
        }
        let [seconds, plain_seconds] = times.each_mut().map(|times| median(times));
        self.stream.upload(&pattern(2, order.bytes), own[0].region())?;
        self.stream.copy(own[0].region(), self.region())?;
        let event = self.record(&order.event)?;
        if !event {
            self.stream.wait()?;
        }
        Ok(Answer { failure: None, event, seconds, plain_seconds })
    }

    /// Whether the event of both was recorded.
    fn record(&self, handle: &[u8]) -> Result<bool, DeviceError> {
        let Ok(handle) = handle.try_into() else { return Ok(false) };
        let Ok(event) = self.device.import_event(&EventHandle(handle)) else { return Ok(false) };
        self.stream.record(&event)?;
        Ok(true)
    }
}
