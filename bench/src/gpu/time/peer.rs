//! From one device to another, compressed on the way and plain: to the same one, to a context of it, and to the next device
//! where there is one. Copies that go straight there, of buffers for which kernels are timed in graphs, are timed so too.
#![allow(unsafe_code)] // launches graphs

use std::time::Instant;

use mgcomp_codecs::device::{Buffer, Device, DeviceError, Region, Stream};
use mgcomp_codecs::{Algorithm, Element};
use mgcomp_transport::peer_copy::{PeerCopier, PeerCopy, PeerCopyConfig, PeerCopyError};

use super::clock::{Clock, median};
use super::contest::Graphs;
use super::{Place, TimeError};
use crate::gpu::check::{Peer, copy_config};
use crate::gpu::data::Dataset;
use crate::gpu::report::{Method, PeerCopied, Seconds, ShortCopied, rounded};

/// Bytes of copies that are too short to be coded.
pub(super) const SHORT_BYTES: usize = 4 << 10;
/// So many of them are handed over at a time, which the driver has room for.
const SHORT_COPIES: usize = 64;

/// Buffers start on multiples of this.
const ALIGN: u64 = 256;

/// Times copies of buffers of `place` to `peer`, whose kernels take so long by themselves.
pub(super) fn time(
    (device, peer): (&Device, &Peer),
    (algorithm, codec): (Algorithm, Option<Seconds>),
    dataset: &Dataset,
    place: &Place,
    rounds: usize,
) -> Result<PeerCopied, TimeError> {
    let coded = PeerCopyConfig { gate_bytes: 1, most_bytes: place.bytes as u64, ..copy_config(algorithm)? };
    let copier = PeerCopier::new(device, &peer.device, coded)?;
    // The driver's own copies through the host may not be recorded.
    let method = if copier.is_direct() { place.method() } else { Method::Stream };
    let sets = if method == Method::Graph { place.sets } else { 1 };
    let stride = (place.bytes as u64).next_multiple_of(ALIGN);
    let needed = 3 * sets as u64 * stride;
    let has = peer.device.info().memory_bytes;
    if needed > has {
        return Err(TimeError::Memory { needed, has });
    }
    let there = peer.device.alloc(sets as u64 * stride)?;
    let mut road = Road { place, device, peer, copier, there, stride, sets };
    let clock = Clock::new(device)?;
    let mut coded_bytes = 0;
    for way in WAYS {
        coded_bytes = road.travel_and_check(&clock, way)?;
    }
    let graphs = match method {
        Method::Graph => Some([road.record(&clock, PLAIN)?, road.record(&clock, CODED)?]),
        Method::Stream => None,
    };
    // By what each further copy costs, and alone.
    let (mut times, mut alone) = ([const { Vec::new() }; 2], [const { Vec::new() }; 2]);
    for round in 0..=rounds {
        for way in WAYS {
            let seconds = road.travel(&clock, way)?.0;
            let further = match &graphs {
                // SAFETY: the road outlives the launch, and nothing else is under way.
                Some(graphs) => unsafe { graphs[way].time(&clock) }?,
                None => seconds,
            };
            // The first round warms up.
            if round > 0 {
                times[way].push(further);
                alone[way].push(seconds);
            }
        }
    }
    for graphs in graphs.iter().flatten() {
        road.check_recorded(&clock, graphs)?;
    }
    road.travel_and_check(&clock, CODED)?;
    let [plain, coded] = times.map(|mut times| median(&mut times).max(1e-12));
    let [plain_alone_us, alone_us] = alone.map(|mut times| rounded(median(&mut times) * 1e6));
    let gbps = |seconds: f64| rounded(place.bytes as f64 / seconds / 1e9);
    Ok(PeerCopied {
        subject: algorithm.name(),
        dataset: dataset.label.clone(),
        element: dataset.element.name(),
        bytes: place.bytes,
        to: peer.name,
        is_direct: road.copier.is_direct(),
        method,
        rounds,
        ratio: rounded(place.bytes as f64 / coded_bytes.max(1) as f64),
        plain_gbps: gbps(plain),
        gbps: gbps(coded),
        plain_alone_us,
        alone_us,
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
const WAYS: [usize; 2] = [PLAIN, CODED];

struct Road<'a> {
    place: &'a Place,
    device: &'a Device,
    peer: &'a Peer,
    copier: PeerCopier,
    /// Where so many buffers go, each so far behind the one before.
    there: Buffer,
    stride: u64,
    sets: usize,
}

impl Road<'_> {
    /// Enqueues a copy of one of the buffers; the copier's word on how it goes.
    fn enqueue(&mut self, way: usize, set: usize, stream: &Stream) -> Result<Option<PeerCopy>, DeviceError> {
        let Self { place, device, peer, copier, there, stride, .. } = self;
        let (from, to) = (place.raw(set), part(there, *stride, (set, place.bytes)));
        if way == PLAIN {
            return stream.copy_between((device, from), (&peer.device, to)).map(|()| None);
        }
        copier.copy(stream, place.element, from, to).map(Some)
    }

    /// Seconds of one copy by itself, and the copier's word on how it went.
    fn travel(&mut self, clock: &Clock, way: usize) -> Result<(f64, Option<PeerCopy>), TimeError> {
        let mut copy = None;
        let time = clock.time(|stream| {
            copy = self.enqueue(way, 0, stream)?;
            Ok::<(), DeviceError>(())
        })?;
        Ok((time.as_secs_f64(), copy))
    }

    /// Copies of all buffers in turn.
    fn record(&mut self, clock: &Clock, way: usize) -> Result<Graphs, TimeError> {
        let sets = self.sets;
        let enqueue = |set| self.enqueue(way, set, &clock.stream).map(drop).map_err(TimeError::from);
        Graphs::record(&clock.stream, sets, enqueue)
    }

    /// Each of them brings what there is.
    fn check_recorded(&self, clock: &Clock, graphs: &Graphs) -> Result<(), TimeError> {
        self.forget(clock)?;
        // SAFETY: all that they use outlives the launch, which the comparison waits for.
        unsafe { graphs.launch(&clock.stream)? };
        (0..self.sets).try_for_each(|set| self.bring_home(clock, set))?;
        self.place.compare(&clock.stream, self.sets)
    }

    /// One copy, and home again by a plain copy; what comes home is looked at. Returns the bytes that went over.
    fn travel_and_check(&mut self, clock: &Clock, way: usize) -> Result<u64, TimeError> {
        self.forget(clock)?;
        let (_, copy) = self.travel(clock, way)?;
        let stream = &clock.stream;
        let report = |copy| self.copier.report(stream, &copy);
        let report = copy.map(report).transpose().map_err(|error| match error {
            PeerCopyError::Segment { segment, refused } => {
                TimeError::Refused { set: segment as usize, refused }
            }
            PeerCopyError::Device(error) => error.into(),
            _ => TimeError::RoundTrip { set: 0, offset: 0 },
        })?;
        self.bring_home(clock, 0)?;
        self.place.compare_first(stream)?;
        Ok(report.map_or(self.place.bytes as u64, |report| report.coded_bytes))
    }

    /// What another way has left must not pass for what the next one brings.
    fn forget(&self, clock: &Clock) -> Result<(), DeviceError> {
        let there = self.peer.device.stream()?;
        there.zero(self.there.region())?;
        there.wait()?;
        self.place.poison(&clock.stream)
    }

    /// A plain copy of one of the buffers, to where it is compared.
    fn bring_home(&self, clock: &Clock, set: usize) -> Result<(), DeviceError> {
        let from = part(&self.there, self.stride, (set, self.place.bytes));
        clock.stream.copy_between((&self.peer.device, from), (self.device, self.place.back(set)))
    }
}

/// The place of one of the buffers, of so many bytes, which are so far behind each other.
fn part(whole: &Buffer, stride: u64, (set, bytes): (usize, usize)) -> Region<'_> {
    let start = set as u64 * stride;
    whole.slice(start..start + bytes as u64)
}
