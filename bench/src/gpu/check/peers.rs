//! Copies from the device to others, compressed on their way: to the same one, where kernels reach both ends, to a context of
//! the same device, which is another one to the driver, and to the next device where there is one. And the same recorded
//! once, and repeated on other data.
#![allow(unsafe_code)] // launches graphs

use mgcomp_codecs::device::{Cache, Device, DeviceError, Stream, devices};
use mgcomp_codecs::frame::ChunkSize;
use mgcomp_codecs::{Algorithm, AlgorithmSet, Element};
use mgcomp_selector::{Fixed, PolicySpec};
use mgcomp_transport::peer_copy::{PeerCopier, PeerCopy, PeerCopyConfig};

use super::case::{self, Case};
use super::error::{CheckError, compare};
use super::guarded::Guarded;
use super::{Extent, Lab};
use crate::data::Random;

/// So short that most cases have several.
const SEGMENT_BYTES: u64 = 40_000;
/// No case is longer.
const MOST_BYTES: u64 = 300_000;
/// Bytes of the copy that is repeated: some segments, and a part of one.
const REPEATED_BYTES: usize = 150_001;

/// The other end of a copy.
pub(in crate::gpu) struct Peer {
    pub(in crate::gpu) device: Device,
    /// What it is.
    pub(in crate::gpu) name: &'static str,
}

impl Peer {
    /// All that `device` has.
    pub(in crate::gpu) fn all(device: &Device) -> Result<Vec<Self>, DeviceError> {
        let (own, count) = (device.info().ordinal, devices()?.len() as u32);
        let mut peers = vec![
            Self { device: device.clone(), name: "the same device" },
            Self { device: Device::open_apart(own, Cache::Default)?, name: "a context of the same device" },
        ];
        if count > 1 {
            peers.push(Self { device: Device::open((own + 1) % count)?, name: "another device" });
        }
        Ok(peers)
    }
}

/// Copies that are all coded with `algorithm`.
pub(in crate::gpu) fn config(algorithm: Algorithm) -> Result<PeerCopyConfig, DeviceError> {
    let policy = Fixed::try_new(algorithm).map_err(|_| DeviceError::NoKernels(algorithm))?;
    let algorithms = AlgorithmSet::from_iter([algorithm]);
    Ok(PeerCopyConfig { policy: PolicySpec::Fixed(policy), algorithms, ..PeerCopyConfig::default() })
}

fn short_segments(algorithm: Algorithm) -> Result<PeerCopyConfig, DeviceError> {
    let (segment_bytes, most_bytes) = (SEGMENT_BYTES, MOST_BYTES);
    Ok(PeerCopyConfig { gate_bytes: 1, segment_bytes, most_bytes, ..config(algorithm)? })
}

/// Buffers by chance arrive, and nothing beside them.
pub(super) fn copies(lab: &Lab<'_>, algorithm: Algorithm) -> Result<Extent, CheckError> {
    let Lab { device, stream, effort } = lab;
    let mut extent = Extent::default();
    for peer in Peer::all(device)? {
        let mut random = Random::new(effort.seed ^ u64::from(algorithm.number()) << 8);
        let mut copier = PeerCopier::new(device, &peer.device, short_segments(algorithm)?)?;
        let there = peer.device.stream()?;
        for number in 0..effort.cases {
            let case = Case::random(number, ChunkSize::DEFAULT, &mut random);
            let len = case.raw.len() as u64;
            let from = Guarded::new(device, stream, "the source", &case.raw, case.offset)?;
            let what = "what arrived";
            let to = Guarded::poisoned(&peer.device, &there, what, len, case.back_offset)?;
            let copy = copier.copy(stream, case.element, from.region(), to.region())?;
            expect_coded(&case, &copy)?;
            report(&copier, stream, &copy, &case)?;
            compare(&case, what, &to.read(&there, &case)?, &case.raw)?;
            compare(&case, "the source", &from.read(stream, &case)?, &case.raw)?;
            extent.add(1, len);
        }
    }
    Ok(extent)
}

/// A copy that was recorded once brings what there is each time that it is launched.
pub(super) fn repeated(lab: &Lab<'_>, algorithm: Algorithm) -> Result<Extent, CheckError> {
    let Lab { device, stream, effort } = lab;
    let mut extent = Extent::default();
    for peer in Peer::all(device)? {
        let mut random = Random::new(effort.seed ^ u64::from(algorithm.number()) << 16);
        let mut copier = PeerCopier::new(device, &peer.device, short_segments(algorithm)?)?;
        let there = peer.device.stream()?;
        let mut case = Case {
            number: 0,
            element: Element::F32,
            raw: vec![0; REPEATED_BYTES],
            offset: 0,
            back_offset: 4,
        };
        let from = Guarded::new(device, stream, "the source", &case.raw, case.offset)?;
        let to =
            Guarded::poisoned(&peer.device, &there, "what arrived", REPEATED_BYTES as u64, case.back_offset)?;
        let mut copy = None;
        let graph = stream.capture(|| {
            copy = Some(copier.copy(stream, case.element, from.region(), to.region())?);
            Ok::<(), CheckError>(())
        })?;
        let Some(copy) = copy else { continue };
        expect_coded(&case, &copy)?;
        for number in 0..effort.replays {
            // What was there before differs, so what is not copied shows.
            case = Case { number, raw: case::bytes(REPEATED_BYTES, case.element, &mut random), ..case };
            stream.upload(&case.raw, from.region())?;
            // SAFETY: copier and buffers live until the report has waited for the work.
            unsafe { graph.launch(stream)? };
            report(&copier, stream, &copy, &case)?;
            compare(&case, "what arrived", &to.read(&there, &case)?, &case.raw)?;
            extent.add(1, REPEATED_BYTES as u64);
        }
    }
    Ok(extent)
}

/// Nothing is checked by a plain copy.
fn expect_coded(case: &Case, copy: &PeerCopy) -> Result<(), CheckError> {
    if copy.path.is_coded() || copy.raw_bytes == 0 {
        Ok(())
    } else {
        Err(CheckError::Plain { case: case.to_string() })
    }
}

fn report(copier: &PeerCopier, stream: &Stream, copy: &PeerCopy, case: &Case) -> Result<(), CheckError> {
    let reported = copier.report(stream, copy);
    reported.map(drop).map_err(|error| CheckError::of_copy(case, error))
}
