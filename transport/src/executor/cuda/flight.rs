//! What is done on a lane for each kind of work: first all that needs no look at results, then the rest.
#![allow(unsafe_code)] // page-locked memory that no work uses any more

use bytes::Bytes;
use mgcomp_codecs::Algorithm;
use mgcomp_codecs::device::{Buffer, DeviceError, Status as KernelStatus};
use mgcomp_codecs::frame::{ChunkSize, Frame};

use super::lane::{Coded, Destination, Lane, WORDS};
use crate::cuda::kernels::Kernels;
use crate::cuda::sampling::Sample;
use crate::cuda::staging::{Ready, filled};
use crate::executor::failure::Failure;
use crate::executor::waiting::InUse;
use crate::executor::{Output, Work};
use crate::memory::{DeviceBytes, DeviceHold, DeviceSlice, Room, Shelf, Slice};
use crate::message::Status;
use crate::payload::Payload;

/// Payloads up to this length are copied to ordinary memory: rooms are much longer, and payloads may live long.
const BRIEF_BYTES: usize = 4096;

/// Work that is under way on a lane.
#[derive(Debug)]
pub(super) enum Flight {
    /// There was nothing to do.
    Nothing(Output),
    /// The memory is being compressed.
    Compressing(Algorithm),
    /// The memory is being copied to a room, as it is.
    CopyingOut,
    /// Raw bytes are being copied to the memory.
    CopyingIn,
    /// A frame is being decompressed.
    Decompressing(Destination),
    /// Samples are being compressed, only for their lengths.
    Estimating(Sample),
    /// It did not come so far.
    Failed(Failure),
}

impl Flight {
    /// Enqueues what `work` needs first, on memory that is held for it.
    pub(super) fn start(
        lane: &mut Lane,
        kernels: &mut Kernels,
        work: &Work,
        hold: Option<DeviceHold>,
    ) -> Result<Self, Failure> {
        let hold = hold.ok_or(Failure::Status(Status::Internal))?;
        if hold.slice().is_empty() && !work.writes() {
            return Ok(Self::Nothing(nothing(work)));
        }
        lane.begin(hold)?;
        match *work {
            Work::Encode { ref source, element, algorithm, ref shelf, .. } => {
                let chunk_size = ChunkSize::for_len(slice_of(source)?.len());
                if algorithm != Algorithm::None
                    && let Some(coder) = kernels.coder(algorithm, chunk_size)
                {
                    match lane.compress(coder, element, shelf.as_ref()) {
                        Ok(()) => return Ok(Self::Compressing(algorithm)),
                        Err(error) if error.is_sticky() => return Err(error.into()),
                        // The copy comes behind whatever was enqueued.
                        Err(error) => tracing::warn!(%error, "not compressed"),
                    }
                }
                lane.copy_out(shelf.as_ref())?;
                lane.mark()?;
                Ok(Self::CopyingOut)
            }
            Work::Decode { ref payload, algorithm, ref destination, all_or_nothing } => {
                let len = slice_of(destination)?.len();
                let into = if all_or_nothing { Destination::Scratch } else { Destination::Place };
                Self::start_decode(lane, kernels, (payload, algorithm), len, into)
            }
            Work::Estimate { ref source, element, algorithms, sample } => {
                let len = slice_of(source)?.len();
                let chunk_size = ChunkSize::for_len(len);
                let mut sample = Sample::of(len as u64, chunk_size, sample, algorithms);
                let coder = |algorithm| kernels.coder(algorithm, chunk_size).cloned();
                sample.start(coder, WORDS, |coder, pieces, first| {
                    lane.estimate(coder, element, pieces, first)
                })?;
                lane.mark_words()?;
                Ok(Self::Estimating(sample))
            }
        }
    }

    fn start_decode(
        lane: &mut Lane,
        kernels: &mut Kernels,
        (payload, algorithm): (&Payload, Algorithm),
        len: usize,
        into: Destination,
    ) -> Result<Self, Failure> {
        if let Some(there) = payload.on_device().filter(|there| there.device().is_same(lane.device()))
            && let Some(flight) = Self::start_decode_there(lane, kernels, (there, algorithm), len, into)?
        {
            return Ok(flight);
        }
        // Of another device's, which only programs with several devices in a rank meet, or without kernels for it: waits.
        let bytes = &payload.fetch()?;
        if algorithm == Algorithm::None {
            if bytes.len() != len {
                return Err(Failure::Status(Status::BadPayload));
            }
            if len == 0 {
                return Ok(Self::Nothing(Output::Decoded));
            }
            if let Some(bytes) = payload.pinned() {
                lane.copy_lent_in(bytes.clone())?;
                lane.mark()?;
                return Ok(Self::CopyingIn);
            }
            return copy_in(lane, len, |room| {
                room.copy_from_slice(bytes);
                Ok(())
            });
        }
        let frame = Frame::parse(bytes).map_err(|_| Failure::Status(Status::BadPayload))?;
        let header = frame.header();
        if header.algorithm != algorithm || header.raw_len != len as u64 {
            return Err(Failure::Status(Status::BadPayload));
        }
        let Some(coder) = kernels.coder(algorithm, header.chunk_size) else {
            // The host can do it, if anybody can.
            return copy_in(lane, len, |room| {
                frame.decode_into(room).map_err(|_| Failure::Status(Status::BadPayload))
            });
        };
        let coded = match payload.pinned() {
            Some(bytes) => Coded::Lent(bytes.clone()),
            None => Coded::Staged(filled(lane.staging(), bytes.len(), |room| {
                room.copy_from_slice(bytes);
                Ok::<(), DeviceError>(())
            })?),
        };
        lane.decompress(coder, coded, into)?;
        Ok(Self::Decompressing(into))
    }

    /// As above, of a payload that is on this device; `None` if the device does not have the kernels. The kernel alone sees
    /// the frame's header, and checks it.
    fn start_decode_there(
        lane: &mut Lane,
        kernels: &mut Kernels,
        (there, algorithm): (&DeviceBytes, Algorithm),
        len: usize,
        into: Destination,
    ) -> Result<Option<Self>, Failure> {
        if algorithm == Algorithm::None {
            if there.len() != len as u64 {
                return Err(Failure::Status(Status::BadPayload));
            }
            lane.copy_here(there.region())?;
            lane.mark()?;
            return Ok(Some(Self::CopyingIn));
        }
        let Some(coder) = kernels.coder(algorithm, ChunkSize::for_len(len)) else { return Ok(None) };
        lane.decompress(coder, Coded::There(there.region()), into)?;
        Ok(Some(Self::Decompressing(into)))
    }

    /// Waits for what was enqueued, and does what is left to do.
    pub(super) fn finish(self, lane: &mut Lane, work: &Work) -> Result<Output, Failure> {
        match self {
            Self::Nothing(output) => Ok(output),
            Self::Compressing(algorithm) => {
                let [len, status] = first_two(lane.words.wait()?);
                let raw_len = work.raw().capacity();
                let is_good = KernelStatus::from_word(status) == KernelStatus::GOOD;
                // Never more bytes than without mgcomp.
                if is_good && len > 0 && len < raw_len {
                    if let Some(room) = lane.take_left() {
                        return Ok(left(algorithm, room, len));
                    }
                    if lane.cut_frame(len) {
                        return ready(lane, algorithm, work);
                    }
                    lane.copy_frame_out(len, shelf_of(work))?;
                    arrive(lane, algorithm, work)
                } else {
                    lane.copy_out(shelf_of(work))?;
                    arrive(lane, Algorithm::None, work)
                }
            }
            Self::CopyingOut => arrived(lane, Algorithm::None, work),
            Self::CopyingIn => lane.wait().map(|()| Output::Decoded).map_err(Into::into),
            Self::Decompressing(into) => {
                let [_, status] = first_two(lane.words.wait()?);
                if let Err(error) = KernelStatus::from_word(status).check() {
                    tracing::warn!(%error, "payload does not decode");
                    return Err(Failure::Status(Status::BadPayload));
                }
                if into == Destination::Scratch {
                    lane.copy_scratch_in()?;
                    lane.mark()?;
                    lane.wait()?;
                }
                Ok(Output::Decoded)
            }
            Self::Estimating(sample) => Ok(Output::Estimates(sample.read(lane.words.wait()?))),
            Self::Failed(failure) => Err(failure),
        }
    }
}

/// Holds the memory that `work` is on; none if that is no device's.
pub(super) fn try_hold(work: &Work) -> Result<Option<DeviceHold>, InUse> {
    let Some(Slice::Device(slice)) = work.raw().slice() else { return Ok(None) };
    let hold = if work.writes() { slice.try_hold_mut() } else { slice.try_hold() };
    hold.map(Some).ok_or(InUse)
}

/// Fills a room with raw bytes and enqueues their copy to the memory.
fn copy_in(
    lane: &mut Lane,
    len: usize,
    fill: impl FnOnce(&mut [u8]) -> Result<(), Failure>,
) -> Result<Flight, Failure> {
    let room = filled(lane.staging(), len, fill)?;
    lane.copy_in(room)?;
    lane.mark()?;
    Ok(Flight::CopyingIn)
}

/// Waits for what was enqueued last, a copy to a room.
fn arrive(lane: &mut Lane, algorithm: Algorithm, work: &Work) -> Result<Output, Failure> {
    lane.mark()?;
    arrived(lane, algorithm, work)
}

/// The payload in the lane's room, once it is there.
fn arrived(lane: &mut Lane, algorithm: Algorithm, work: &Work) -> Result<Output, Failure> {
    lane.wait()?;
    if let Some(room) = lane.take_left() {
        let len = room.len() as u64;
        return Ok(left(algorithm, room, len));
    }
    ready(lane, algorithm, work)
}

/// The payload in the lane's room, which no work uses any more.
fn ready(lane: &mut Lane, algorithm: Algorithm, work: &Work) -> Result<Output, Failure> {
    let room = lane.end().ok_or(Failure::Status(Status::Internal))?;
    let is_shelved = shelf_of(work).is_some_and(|shelf| room.is_of(shelf.rooms(lane.device())));
    // SAFETY: all work that uses the room was enqueued before the mark, which was waited for.
    let bytes = unsafe { Ready::new(room) };
    if bytes.as_ref().len() <= BRIEF_BYTES {
        let bytes = Bytes::copy_from_slice(bytes.as_ref());
        return Ok(Output::Encoded(algorithm, Payload::from_bytes(bytes)));
    }
    let payload = Payload::from_pinned(Bytes::from_owner(bytes));
    Ok(Output::Encoded(algorithm, if is_shelved { payload.shelved() } else { payload }))
}

/// Where what comes of work is to stay on the host.
fn shelf_of(work: &Work) -> Option<&Shelf> {
    if let Work::Encode { shelf, .. } = work { shelf.as_ref() } else { None }
}

/// A payload that stays on the device.
fn left(algorithm: Algorithm, room: Room<Buffer>, len: u64) -> Output {
    Output::Encoded(algorithm, Payload::from_device(DeviceBytes::new(room, len)))
}

/// What comes of work on no bytes.
fn nothing(work: &Work) -> Output {
    match work {
        Work::Encode { .. } => Output::Encoded(Algorithm::None, Payload::empty()),
        Work::Decode { .. } => Output::Decoded,
        Work::Estimate { .. } => Output::Estimates(Vec::new()),
    }
}

/// The memory behind a payload that is a piece of a device's.
fn slice_of(payload: &Payload) -> Result<&DeviceSlice, Failure> {
    match payload.slice() {
        Some(Slice::Device(slice)) => Ok(slice),
        _ => Err(Failure::Status(Status::Internal)),
    }
}

fn first_two(words: &[u64]) -> [u64; 2] {
    [words[0], words[1]]
}
