//! Copies between two devices of a process, compressed on their way.
//!
//! As `cuMemcpyPeerAsync`, a call enqueues a copy on a stream and returns: what comes before it on the stream comes before
//! the copy, what comes after waits for it. Nothing waits on the host and nothing is looked at there, so that the copy can
//! be recorded in a graph and launched again with other data.
//!
//! # Ways
//! The kernel that encodes stores its frames straight into the memory of the other device, where the kernel that decodes
//! finds them and their lengths; an event lets it begin. Long copies are cut into segments: while one is decoded, the next
//! is encoded, on a stream of each device. So only coded bytes go over the link, and nobody but the kernels knows how many.
//! Where the first device does not reach the other's memory, frames go through page-locked memory of the host, which both
//! reach. Where both are one context, both kernels run on the stream of the copy, and no event is needed.
//!
//! Short copies, and those that the policy does not want to be coded, are plain copies: by the driver from memory to memory,
//! or, where that would have to go through the host anyway, long ones piece by piece through the same page-locked memory.
//!
//! # Segments and memory
//! | between the devices | raw bytes of a segment | room for frames |
//! |---|---|---|
//! | nothing: they are one context | all that there is room for | device memory for one segment |
//! | a link over which the first reaches the second | an eighth of the copy in whole 4 MiB, up to 32 MiB | memory of the second for two |
//! | the host | 4 MiB | page-locked memory for two |
//!
//! No segment is longer than [`PeerCopyConfig::segment_bytes`] says, nor than the longest copy. Room for one is a little more than
//! its raw bytes. Kernels on less than 4 MiB do not fill a device, and on 32 MiB their start counts for nothing where it goes beside
//! others' work; within one context nothing goes beside, so one segment is best, and 1 GiB in 8 is about as good.
//! With the settings that are usual a copier so takes 128 MiB, 64 MiB or 8 MiB. It has copies
//! come one after another, on whatever streams they are.
//!
//! # Memory and streams of other libraries
//! Bytes may lie in memory that another library has allocated in a device's primary context, as PyTorch's tensors do:
//! [`Region::from_raw`] takes any address and length. A CUDA stream of such a library is taken by [`Device::adopt_stream`] of the
//! device that it is of; null is that one's legacy default stream, on which PyTorch works if nobody says otherwise. Neither is
//! freed or destroyed here, and both must be there until the copy has ended.
//!
//! [`Device::adopt_stream`]: mgcomp_codecs::device::Device::adopt_stream
//! [`Region::from_raw`]: mgcomp_codecs::device::Region::from_raw
//!
//! # What is known of the link
//! The policy `adaptive`, also where an operator has set it, goes by how fast the link is, and leaves copies plain while that is not known. Where
//! [`PeerCopyConfig::link`] does not say it, and no λ decides, plain copies that are not recorded are timed by events, one at a
//! time, and a later copy hears how long that took if it is over by then: nothing waits for it. Two of them make the link known,
//! and one in 8 is timed from then on, or after 8 that did not show it: copies that take less than 20 us do not. Of coded ones, one
//! in 256 is plain for that. Those that go through the host are timed only while no other copy does.
//!
//! # What is known of the kernels
//! `adaptive` starts from how fast the kernels were when the device was [calibrated](crate::calibrate::calibrate_device), or from
//! what a model says of one like it. Then copies show it: of the first 8 that are coded with an algorithm, and of one in 8 later,
//! events time the kernels of one segment at both ends, and what the frames have become is brought to the host behind the
//! last. A later copy hears of it, if that is over by then.
//!
//! # Seen and steered
//! A copier has a slot of the process's [control page](crate::control), by the numbers of its devices, from its start on. What an
//! operator sets (off, policy, λ, size gate) holds from the next copy on, as far as there are kernels: an algorithm that has
//! none here (see [`PeerCopyConfig::algorithms`]) leaves copies plain, and counts as a setting that is not followed. A size gate takes the
//! place of [`PeerCopyConfig::gate_bytes`]. A copy that was recorded stays as it was recorded: whoever wants it otherwise
//! records it again.
//!
//! What a coded copy becomes is known of those that are watched, whatever the policy: of the first 8 with an algorithm and of one in
//! 8 later, if the last one that was watched is over by then. These count once a later copy hears of them, or when the copier
//! is dropped. The others count as if they had become as much smaller as the last one that was watched with their algorithm. So coded
//! bytes are exact for data that always compresses alike, and else as near as one in 8 is to the rest. Copies below the gate
//! are one call of the driver, or between two contexts two, of which the first asks whether the stream records, and are not counted, nor are those that are recorded, of which nobody knows how often a graph is launched.
//!
//! Where there is a page, a copy costs the host a look at its settings, one from the gate on also some counters. With
//! `MGCOMP=off` there is none. A copy from the gate on asks whether its stream records, but for plain ones under a policy that looks at nothing.
//!
//! ```
//! use mgcomp_codecs::Element;
//! use mgcomp_codecs::device::{Device, DeviceError};
//! use mgcomp_transport::peer_copy::{PeerCopier, PeerCopyConfig};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let device = match Device::open(0) {
//!     Err(DeviceError::NoDriver) => return Ok(()), // no GPU here
//!     device => device?,
//! };
//! let config = PeerCopyConfig { policy: "fixed:zvc".parse()?, ..PeerCopyConfig::default() };
//! // From a device to itself, for want of another.
//! let mut copier = PeerCopier::new(&device, &device, config)?;
//! let (stream, len) = (device.stream()?, 1 << 20);
//! let (from, to) = (device.alloc(len)?, device.alloc(len)?);
//! stream.zero(from.region())?;
//! let copy = copier.copy(&stream, Element::F32, from.region(), to.region())?;
//! assert!(copier.report(&stream, &copy)?.coded_bytes < len / 10);
//! # Ok(())
//! # }
//! ```

mod choice;
mod codecs;
mod config;
mod copier;
mod cut;
mod pipe;
mod report;
mod turns;
mod watch;

pub use config::PeerCopyConfig;
pub use copier::PeerCopier;
pub use report::{CopyPath, PeerCopy, PeerCopyError, PeerCopyReport};
