//! Memory of the device in another process: whether what one writes is what the other reads, and how fast the other copies it.
//!
//! The other process is this program again. It maps the memory by a handle of the driver, and by a file; what it finds is
//! looked at, and then what it leaves there, which an event that both have tells to be there.

mod second;
mod wire;

use std::process::{Child, Command, Stdio};

use mgcomp_codecs::device::{Device, DeviceError, Event, Stream};

use self::wire::{Answer, Channel, Failure, Order};
use super::report::{Report, Shared, rounded};
use crate::error::BenchError;
pub(crate) use second::{Args, run as run_second};

/// How memory gets to another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Means {
    Handle,
    File,
}

impl Means {
    fn name(self) -> &'static str {
        match self {
            Self::Handle => "a handle",
            Self::File => "a file",
        }
    }
}

/// Why memory was not shared, or not well.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SharedError {
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error("the other process: {0}")]
    System(#[from] std::io::Error),
    #[error("the other process says nothing that can be read")]
    Answer(#[from] serde_json::Error),
    /// The machine or the driver does not do it, or has no room; here, or in the other process.
    #[error("{0}")]
    Unsupported(String),
    #[error("the other process: {0}")]
    Other(String),
    #[error("byte {offset} of what {whom} wrote is another one")]
    Bytes { whom: &'static str, offset: usize },
}

impl SharedError {
    /// An error of what comes before the memory is used: no failure, unless the device is lost.
    fn of_opening(error: DeviceError) -> Self {
        if error.is_sticky() { Self::Device(error) } else { Self::Unsupported(error.to_string()) }
    }
}

/// Shares `bytes` bytes of `device` by each means.
pub(super) fn run(
    device: &Device,
    bytes: usize,
    rounds: usize,
    report: &mut Report,
) -> Result<(), BenchError> {
    for means in [Means::Handle, Means::File] {
        match share(device, means, bytes, rounds) {
            Ok(shared) => report.shared(shared)?,
            Err(SharedError::Unsupported(why)) => {
                let what = format!("memory of the device in another process, by {}", means.name());
                report.skipped(&what, &why)?;
            }
            Err(source) => return Err(BenchError::Shared { means: means.name(), source }),
        }
    }
    Ok(())
}

fn share(device: &Device, means: Means, bytes: usize, rounds: usize) -> Result<Shared, SharedError> {
    let stream = device.stream()?;
    let order =
        Order { ordinal: device.info().ordinal, bytes, rounds, handle: Vec::new(), event: Vec::new() };
    match means {
        Means::Handle => {
            let memory = device.alloc(bytes as u64).map_err(SharedError::of_opening)?;
            let handle = memory.export().map_err(SharedError::of_opening)?;
            stream.upload(&pattern(1, bytes), memory.region())?;
            let order = Order { handle: handle.0.to_vec(), ..order };
            let shared = meet((device, &stream), means, order, None, &mut |back| {
                stream.download(memory.region(), back)
            })?;
            Ok(shared)
        }
        Means::File => {
            let memory = device.alloc_shareable(bytes as u64).map_err(SharedError::of_opening)?;
            let file = memory.export().map_err(SharedError::of_opening)?;
            stream.upload(&pattern(1, bytes), memory.region())?;
            meet((device, &stream), means, order, Some(file), &mut |back| {
                stream.download(memory.region(), back)
            })
        }
    }
}

/// Lets the other process do its part. The memory outlives it.
fn meet(
    (device, stream): (&Device, &Stream),
    means: Means,
    order: Order,
    file: Option<std::os::fd::OwnedFd>,
    read: &mut dyn FnMut(&mut [u8]) -> Result<(), DeviceError>,
) -> Result<Shared, SharedError> {
    let event = shared_event(device);
    let handle = event.as_ref().map_or_else(Vec::new, |(_, handle)| handle.clone());
    let (bytes, rounds) = (order.bytes, order.rounds);
    let (mut other, channel) = Other::start()?;
    channel.send(&Order { event: handle, ..order }, file.as_ref())?;
    let answer: Answer = channel.receive()?.0;
    let Answer { failure, event: has_recorded, seconds, plain_seconds } = answer;
    if let Some(failure) = failure {
        return Err(match failure {
            Failure::Unsupported(why) => SharedError::Unsupported(format!("the other process: {why}")),
            Failure::Wrong(why) => SharedError::Other(why),
        });
    }
    if let Some((event, _)) = event.as_ref().filter(|_| has_recorded) {
        stream.follow_event(event)?;
    }
    let mut back = vec![0; bytes];
    read(&mut back)?;
    compare("the other process", &back, &pattern(2, bytes))?;
    drop(channel);
    other.child.wait()?;
    let gbps = |seconds: f64| rounded(bytes as f64 / seconds.max(1e-12) / 1e9);
    Ok(Shared {
        by: means.name(),
        bytes,
        rounds,
        event: has_recorded,
        gbps: gbps(seconds),
        plain_gbps: gbps(plain_seconds),
    })
}

/// An event for both, where the driver shares such.
fn shared_event(device: &Device) -> Option<(Event, Vec<u8>)> {
    let event = device.shared_milestone().ok()?;
    let handle = event.export().ok()?;
    Some((event, handle.0.to_vec()))
}

/// The other process, which ends with this.
struct Other {
    child: Child,
}

impl Other {
    fn start() -> Result<(Self, Channel), SharedError> {
        let (own, theirs) = Channel::pair()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("gpu-second").stdin(Stdio::from(theirs)).stdout(Stdio::null());
        Ok((Self { child: command.spawn()? }, own))
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it has ended, if all went well
        let _ = self.child.wait();
    }
}

/// What one side writes and the other looks for.
fn pattern(seed: u32, bytes: usize) -> Vec<u8> {
    let word = |i: u32| (i.wrapping_mul(2_654_435_761) ^ seed.wrapping_mul(40_503)).to_le_bytes();
    let mut pattern: Vec<u8> = (0..bytes.div_ceil(4) as u32).flat_map(word).collect();
    pattern.truncate(bytes);
    pattern
}

fn compare(whom: &'static str, got: &[u8], wanted: &[u8]) -> Result<(), SharedError> {
    match got.iter().zip(wanted).position(|(got, wanted)| got != wanted) {
        Some(offset) => Err(SharedError::Bytes { whom, offset }),
        None => Ok(()),
    }
}
