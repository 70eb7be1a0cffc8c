//! Random traffic in both directions: everything arrives, once, and nothing else changes.

use super::rng::Rng;
use super::world::World;
use super::*;
use crate::memory::HostBuffer;

/// Bytes around a destination that must stay as they are.
const GUARD: usize = 9;
const GUARD_BYTE: u8 = 0xee;
/// Reads go to the first half of what an end registers, writes to the second.
const HALF: usize = 10_000;
const TAGS: u64 = 4;
/// Requests are made within this time.
const SPAN_US: u64 = 3000;

/// Seeds and the number of requests they made.
fn exchange_many(seeds: std::ops::Range<u64>, reorder: bool) -> Totals {
    let mut totals = Totals::default();
    for seed in seeds {
        Exchange::new(seed, reorder).run(&mut totals);
    }
    println!("{totals:?}");
    totals
}

#[test]
fn everything_arrives_once_and_nothing_else_changes() {
    let totals = exchange_many(0..1000, false);
    // The loads are random, but not so random that one of these could be left out.
    assert!(totals.requests > 10_000 && totals.messages.iter().all(|&n| n > 1000), "{totals:?}");
    assert!(totals.compressed > 500 && totals.heard > 500, "{totals:?}");
}

#[test]
fn answers_and_requests_may_overtake_each_other() {
    let totals = exchange_many(5000..5600, true);
    assert!(totals.requests > 5_000 && totals.messages.iter().all(|&n| n > 500), "{totals:?}");
}

#[derive(Debug, Default)]
struct Totals {
    requests: usize,
    /// Reads, writes, sends, fetches.
    messages: [u64; 4],
    compressed: u64,
    /// Frames of which it was heard how long they took to decode.
    heard: u32,
}

/// Two ends, what they were asked to do, and what must have come of it.
struct Exchange {
    world: World,
    /// Longest piece of either end.
    longest: [u64; 2],
    regions: Vec<(HostBuffer, Address)>,
    /// What the regions must hold in the end.
    region_bytes: [Vec<u8>; 2],
    /// Where the next write to a region goes.
    unwritten: [usize; 2],
    requests: [Vec<Expected>; 2],
}

/// What a request must come to.
struct Expected {
    len: u64,
    /// Memory that it fills, and what must be in there.
    memory: Option<(HostBuffer, Vec<u8>)>,
}

impl Exchange {
    fn new(seed: u64, reorder: bool) -> Self {
        let mut rng = Rng::new(seed);
        let configs = [0, 1].map(|local| random_config(&mut rng, local));
        let longest = [0, 1].map(|end| {
            let peer = configs[1 - end].limits;
            let window_bytes = peer.window_bytes.min(configs[end].limits.window_bytes);
            let longest = u64::from(peer.max_transfer_bytes).min(window_bytes);
            longest.min(configs[end].piece_bytes.into())
        });
        let mut world = World::new(rng.next(), configs);
        world.reorder = reorder;
        let region_bytes = [0, 1].map(|_| rng.data(2 * HALF));
        let regions = (0..2).map(|end| world.register(end, region_bytes[end].clone())).collect();
        let (unwritten, requests) = ([HALF; 2], [vec![], vec![]]);
        Self { world, longest, regions, region_bytes, unwritten, requests }
    }

    fn run(mut self, totals: &mut Totals) {
        for end in 0..2 {
            for _ in 0..self.world.rng.below(30) {
                if self.world.rng.one_in(2) { self.plan_read(end) } else { self.plan_write(end) }
            }
            (0..TAGS).for_each(|tag| self.plan_sends(end, tag));
        }
        self.world.run();
        self.world.assert_idle();
        for end in 0..2 {
            self.check(end);
            totals.requests += self.requests[end].len();
            let traffic = &self.world.traffic[end];
            (0..4).for_each(|kind| totals.messages[kind] += traffic.asked[kind]);
            totals.compressed += traffic.compressed;
            totals.heard += self.world.ends[end].told;
        }
    }

    fn check(&self, end: usize) {
        let error = self.world.ends[end].session.error();
        assert_eq!(error, None, "end {end}");
        assert_eq!(self.world.ends[end].delivered.len(), self.requests[end].len());
        assert_eq!(self.world.ends[end].unacknowledged.len(), 0, "writes that are over");
        for (id, expected) in self.requests[end].iter().enumerate() {
            assert_eq!(self.world.result(end, id as u64), Some(&Ok(expected.len)), "end {end}, request {id}");
            if let Some((buffer, bytes)) = &expected.memory {
                assert!(buffer.all().to_vec() == *bytes, "end {end}, request {id}: wrong bytes");
            }
        }
        let region = self.regions[end].0.all().to_vec();
        assert!(region == self.region_bytes[end], "region of end {end}: wrong bytes");
    }

    fn plan_read(&mut self, end: usize) {
        let len = self.random_len(end);
        let offset = self.world.rng.index(HALF - len + 1);
        let (into, mut expected) = guarded(len);
        expected[GUARD..GUARD + len].copy_from_slice(&self.region_bytes[1 - end][offset..offset + len]);
        let from = self.regions[1 - end].1.checked_add(offset as u64).unwrap();
        let request = Request::Read { from, into: destination(&into, len), raw: false };
        self.plan(end, len, request, Some((into, expected)), None);
    }

    fn plan_write(&mut self, end: usize) {
        let (peer, len) = (1 - end, self.random_len(end));
        let offset = self.unwritten[peer];
        if offset + len > 2 * HALF {
            return;
        }
        self.unwritten[peer] += len;
        let bytes = self.world.rng.data(len);
        self.region_bytes[peer][offset..offset + len].copy_from_slice(&bytes);
        let to = self.regions[peer].1.checked_add(offset as u64).unwrap();
        let (from, element) = (source(bytes), self.world.rng.pick(&Element::ALL));
        self.plan(end, len, Request::Write { from, element, to }, None, None);
    }

    /// Sends under one tag, whose receives are posted sooner or later, and in the same order.
    fn plan_sends(&mut self, end: usize, number: u64) {
        // Messages that overtake each other match receives in the order in which they come.
        let count = self.world.rng.below(if self.world.reorder { 2 } else { 6 });
        let mut times = || {
            let mut times: Vec<_> = (0..count).map(|_| self.world.rng.micros(SPAN_US)).collect();
            times.sort();
            times
        };
        let (sends, receives) = (times(), times());
        let tag = Tag(number << 60 | number);
        for (send_at, receive_at) in sends.into_iter().zip(receives) {
            // The receiver may cut it in pieces of its own.
            let most = self.longest[1 - end].saturating_mul(30);
            let len = self.random_len(end).min(usize::try_from(most).unwrap_or(usize::MAX));
            let bytes = self.world.rng.data(len);
            let room = len + self.world.rng.pick(&[0, 0, 1, 50]);
            let (into, mut expected) = guarded(room);
            expected[GUARD..GUARD + len].copy_from_slice(&bytes);
            let (from, element) = (source(bytes), self.world.rng.pick(&Element::ALL));
            let completion = self.world.rng.pick(&[Completion::Local, Completion::Remote]);
            self.plan(
                end,
                len,
                Request::Send {
                    from,
                    element,
                    tag,
                    completion,
                    part_of: None,
                    continued: false,
                    window: None,
                },
                None,
                Some(send_at),
            );
            let receive = Request::Receive { tag, into: destination(&into, room) };
            self.plan(1 - end, len, receive, Some((into, expected)), Some(receive_at));
        }
    }

    fn plan(
        &mut self,
        end: usize,
        len: usize,
        request: Request,
        memory: Option<(HostBuffer, Vec<u8>)>,
        at: Option<Duration>,
    ) {
        let at = at.unwrap_or_else(|| self.world.rng.micros(SPAN_US));
        let id = self.requests[end].len() as u64;
        self.world.plan(at, end, id, request);
        self.requests[end].push(Expected { len: len as u64, memory });
    }

    /// A length that makes at most some tens of pieces, the corners more often than by chance.
    fn random_len(&mut self, end: usize) -> usize {
        let piece = self.longest[end];
        let rng = &mut self.world.rng;
        let corners = [0, 1, 3, piece - 1, piece, piece.saturating_add(1), piece.saturating_mul(3)];
        let corner = rng.pick(&corners);
        let any = rng.below(piece.saturating_mul(30).min(HALF as u64) + 1);
        (if rng.one_in(3) { any } else { corner }).min(HALF as u64) as usize
    }
}

fn random_config(rng: &mut Rng, local: u32) -> SessionConfig {
    let limits = Limits {
        max_transfer_bytes: rng.pick(&[1, 5, 64, 1000, 1 << 20, u32::MAX]),
        window_bytes: rng.pick(&[1, 7, 100, 5000, 1 << 30, u64::MAX]),
        max_in_flight: rng.pick(&[2, 3, 10, 1 << 16]),
    };
    let silence_timeout = Duration::from_millis(3); // now and then a probe is among the messages
    let piece_bytes = rng.pick(&[1, 13, 500, 1 << 16, u32::MAX]);
    SessionConfig { piece_bytes, silence_timeout, ..config(local, limits) }
}

/// A buffer with room for `len` bytes between guards, and what is in it.
fn guarded(len: usize) -> (HostBuffer, Vec<u8>) {
    let bytes = vec![GUARD_BYTE; len + 2 * GUARD];
    (HostBuffer::from(bytes.clone()), bytes)
}

fn destination(buffer: &HostBuffer, len: usize) -> Payload {
    Payload::from_memory(buffer.slice(GUARD..GUARD + len).unwrap())
}

fn source(bytes: Vec<u8>) -> Payload {
    Payload::from_memory(HostBuffer::from(bytes).all())
}
