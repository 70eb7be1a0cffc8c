//! Links that are made to look slower, and what others show of themselves. Only lower bounds are checked: a busy machine is slower than any link.

use std::time::{Duration, Instant};

use mgcomp_transport::message::Rank;

use crate::ROOMY;
use crate::common::end::{End, numbered};
use crate::common::fabric::Fabric;

/// What `bytes` bytes take at least, by the definition of a rate: 1 Gb/s is 10⁹ bits in a second.
fn least(fabric: Fabric, bytes: usize) -> Duration {
    let shaping = fabric.shaping.unwrap();
    Duration::from_secs_f64(bytes as f64 * 8.0 / (shaping.rate_gbps() * 1e9)) + shaping.latency()
}

pub(crate) fn rate_is_kept(fabric: Fabric) {
    let mut ends = End::start_all(fabric.links(2, ROOMY));
    let started = Instant::now();
    (0..100).for_each(|number| ends[0].send(Rank(1), &numbered(number, 50_000)));
    for number in 0..100 {
        ends[1].expect(Rank(0), number, 50_000);
        // Not only the last message is late enough.
        assert!(started.elapsed() >= least(fabric, (number as usize + 1) * 50_000), "message {number}");
    }
}

pub(crate) fn latency_is_kept(fabric: Fabric) {
    let mut ends = End::start_all(fabric.links(2, ROOMY));
    for (from, to) in [(0, 1), (1, 0)] {
        let started = Instant::now();
        ends[from].send(Rank(to), &numbered(1, 0));
        ends[to as usize].expect(Rank(from as u32), 1, 0);
        assert!(started.elapsed() >= fabric.shaping.unwrap().latency());
    }
}

pub(crate) fn all_peers_share_a_port(fabric: Fabric) {
    let mut ends = End::start_all(fabric.links(4, ROOMY));
    let started = Instant::now();
    for number in 0..10 {
        (1..4).for_each(|peer| ends[0].send(Rank(peer), &numbered(number, 100_000)));
    }
    (1..4).for_each(|peer| {
        (0..10).for_each(|number| ends[peer].expect(Rank(0), number, 100_000));
    });
    // The last of the 30 messages went to rank 3, which was asked last.
    assert!(started.elapsed() >= least(fabric, 30 * 100_000));
}

/// None is under way for long, so it takes many: together they do take longer than the 2 ms that are looked at.
pub(crate) fn messages_that_are_taken_at_once_tell_the_rate(fabric: Fabric) {
    let mut ends = End::start_all(fabric.links(2, ROOMY));
    assert_eq!(ends[0].link.facts(Rank(1)), None, "a hello says nothing");
    for number in 0..200 {
        ends[0].send(Rank(1), &numbered(number, 1 << 20));
        ends[1].expect(Rank(0), number, 1 << 20);
    }
    assert!(ends[0].link.facts(Rank(1)).is_some());
}
