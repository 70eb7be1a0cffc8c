//! From one device to another, compressed on the way and plain: to the same one, to a context of it, and to the next device
//! where there is one.

use std::time::Instant;

use mgcomp_codecs::device::{Buffer, Device, DeviceError};
use mgcomp_codecs::{Algorithm, Element};
use mgcomp_transport::link::cuda::copy::{PeerCopier, PeerCopy, PeerCopyConfig, PeerCopyError};

use super::clock::{Clock, median};
use super::{Place, TimeError};
use crate::gpu::check::{Peer, copy_config};
use crate::gpu::data::Dataset;
use crate::gpu::report::{PeerCopied, Seconds, ShortCopied, rounded};

/// Bytes of copies that are too short to be coded.
pub(super) const SHORT_BYTES: usize = 4 << 10;
/// So many of them are handed over at a time, which the driver has room for.
const SHORT_COPIES: usize = 64;

/// Times copies of buffer 0 of `place` to `peer`, whose kernels take so long by themselves.
pub(super) fn time(
    (device, peer): (&Device, &Peer),
    (algorithm, codec): (Algorithm, Option<Seconds>),
    dataset: &Dataset,
    place: &Place,
    rounds: usize,
) -> Result<PeerCopied, TimeError> {
    let needed = 3 * place.bytes as u64;
    let has = peer.device.info().memory_bytes;
    if needed > has {
        return Err(TimeError::Memory { needed, has });
    }
    let coded = PeerCopyConfig { gate_bytes: 1, most_bytes: place.bytes as u64, ..copy_config(algorithm)? };
    let mut road = Road {
        place,
        device,
        peer,
        copier: PeerCopier::new(device, &peer.device, coded)?,
        there: peer.device.alloc(place.bytes as u64)?,
        clock: Clock::new(device)?,
    };
    let mut coded_bytes = 0;
    for way in [PLAIN, CODED] {
        coded_bytes = road.travel_and_check(way)?;
    }
    let mut times = [const { Vec::new() }; 2];
    for _ in 0..rounds {
        for way in [PLAIN, CODED] {
            times[way].push(road.travel(way)?.0);
        }
    }
    road.travel_and_check(CODED)?;
    let [plain, coded] = times.map(|mut times| median(&mut times).max(1e-12));
    let gbps = |seconds: f64| rounded(place.bytes as f64 / seconds / 1e9);
    Ok(PeerCopied {
        subject: algorithm.name(),
        dataset: dataset.label.clone(),
        element: dataset.element.name(),
        bytes: place.bytes,
        to: peer.name,
        is_direct: road.copier.is_direct(),
        rounds,
        ratio: rounded(place.bytes as f64 / coded_bytes.max(1) as f64),
        plain_gbps: gbps(plain),
        gbps: gbps(coded),
        of_codec: codec.map(|codec| rounded(coded / (codec.encode + codec.decode).max(1e-12))),
    })
}

/// Times what the host takes to hand over copies to `peer` that are too short to be coded.
pub(super) fn time_short((device, peer): (&Device, &Peer), rounds: usize) -> Result<ShortCopied, TimeError> {
    let mut copier = PeerCopier::new(device, &peer.device, PeerCopyConfig::default())?;
    let stream = device.stream()?;
    let (here, there) = (device.alloc(SHORT_BYTES as u64)?, peer.device.alloc(SHORT_BYTES as u64)?);
    let bytes: Vec<u8> = (0..SHORT_BYTES).map(|at| (at * 7 % 251) as u8).collect();
    stream.upload(&bytes, here.region())?;
    let (from, to) = (here.region(), there.region());
    let mut hand_over = |way: usize| {
        let started = Instant::now();
        for _ in 0..SHORT_COPIES {
            if way == PLAIN {
                stream.copy_between((device, from), (&peer.device, to))?;
            } else {
                // Plain: there is nothing to report of it.
                let _plain = copier.copy(&stream, Element::U8, from, to)?;
            }
        }
        let took = started.elapsed();
        stream.wait()?;
        let mut found = vec![0; SHORT_BYTES];
        let far = peer.device.stream()?;
        far.download(to, &mut found)?;
        far.zero(to)?;
        far.wait()?;
        let differs = bytes.iter().zip(&found).position(|(sent, found)| sent != found);
        differs.map_or(Ok(()), |offset| Err(TimeError::RoundTrip { set: 0, offset }))?;
        Ok::<f64, TimeError>(took.as_secs_f64() * 1e6 / SHORT_COPIES as f64)
    };
    let mut times = [const { Vec::new() }; 2];
    for round in 0..=rounds {
        for way in [PLAIN, CODED] {
            let us = hand_over(way)?;
            // The first is not to count: the driver may have to make something.
            times[way].extend((round > 0).then_some(us));
        }
    }
    let [driver_us, us] = times.map(|mut times| rounded(median(&mut times)));
    Ok(ShortCopied { to: peer.name, bytes: SHORT_BYTES, rounds, driver_us, us })
}

/// The driver's own copy.
const PLAIN: usize = 0;
/// The copier's.
const CODED: usize = 1;

struct Road<'a> {
    place: &'a Place,
    device: &'a Device,
    peer: &'a Peer,
    copier: PeerCopier,
    there: Buffer,
    clock: Clock,
}

impl Road<'_> {
    /// Seconds there, and the copier's word on how it went that way.
    fn travel(&mut self, way: usize) -> Result<(f64, Option<PeerCopy>), TimeError> {
        let Self { place, device, peer, copier, there, clock } = self;
        let mut copy = None;
        let time = clock.time(|stream| {
            let (from, to) = (place.raw(0), there.region());
            if way == PLAIN {
                return stream.copy_between((device, from), (&peer.device, to));
            }
            copy = Some(copier.copy(stream, place.element, from, to)?);
            Ok::<(), DeviceError>(())
        })?;
        Ok((time.as_secs_f64(), copy))
    }

    /// The same, and home again by a plain copy; what comes home is looked at. Returns the bytes that went over.
    fn travel_and_check(&mut self, way: usize) -> Result<u64, TimeError> {
        // What the other way has left must not pass for what this one brings.
        let there = self.peer.device.stream()?;
        there.zero(self.there.region())?;
        there.wait()?;
        let stream = &self.clock.stream;
        self.place.poison(stream)?;
        stream.zero(self.place.back(0))?;
        let (_, copy) = self.travel(way)?;
        let stream = &self.clock.stream;
        let report = |copy| self.copier.report(stream, &copy);
        let report = copy.map(report).transpose().map_err(|error| match error {
            PeerCopyError::Segment { segment, refused } => {
                TimeError::Refused { set: segment as usize, refused }
            }
            PeerCopyError::Device(error) => error.into(),
            _ => TimeError::RoundTrip { set: 0, offset: 0 },
        })?;
        stream.copy_between((&self.peer.device, self.there.region()), (self.device, self.place.back(0)))?;
        self.place.compare_first(stream)?;
        Ok(report.map_or(self.place.bytes as u64, |report| report.coded_bytes))
    }
}
