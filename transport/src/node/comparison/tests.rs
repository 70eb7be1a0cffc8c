mod failing;

use std::collections::VecDeque;
use std::time::Duration;

use mgcomp_codecs::{Algorithm, AlgorithmSet, Element};
use mgcomp_selector::StreamId;

use super::*;

const BYTES: u64 = 20_000;
const PEER: Rank = Rank(1);
const FACTS: CheapFacts = CheapFacts {
    peer: 1,
    stream: StreamId(2),
    raw_bytes: BYTES,
    element: Element::F32,
    allowed: AlgorithmSet::from_bits(0),
    link: None,
    lambda: None,
    is_observed: true,
};
const FASTEST: Reason = Reason::Fastest { predicted_ns: 2, raw_ns: 3 };
const SLOWER: Reason = Reason::TransferSlower { coded_ns: 120_000, raw_ns: 100_000 };
/// What one takes raw and otherwise, in microseconds.
const RAW: u64 = 100;
const CODED: u64 = 120;
/// So many are enough to find that: three in a row show that there is something to compare, and from the tenth on it is compared, by
/// four of each way.
const FOUND: u64 = 17;

fn decision(algorithm: Algorithm, reason: Reason) -> Decision {
    Decision { algorithm, reason, predicted_bits: Some(4 * BYTES), predicted_ns: None, charged: None }
}

/// A node that moves bytes in no time but that which is said.
struct Bench {
    comparisons: Comparisons,
    now: Instant,
    clear_byte_ns: f64,
    requests: u64,
}

impl Bench {
    fn new() -> Self {
        Self { comparisons: Comparisons::default(), now: Instant::now(), clear_byte_ns: 0.0, requests: 0 }
    }

    fn begin(&mut self, peer: Rank, kind: Kind, bytes: u64) -> (RequestId, bool) {
        self.begin_part(Move { peer, kind, bytes, continued: false })
    }

    fn begin_part(&mut self, part: Move) -> (RequestId, bool) {
        self.requests += 1;
        let (request, now) = (RequestId(self.requests), self.now);
        (request, self.comparisons.begin(request, part, || self.clear_byte_ns, || now))
    }

    fn decide(&mut self, request: RequestId, reason: Reason) -> Decision {
        self.comparisons.decide(request, &FACTS, decision(Algorithm::Xp, reason), false)
    }

    fn pass(&mut self, micros: u64) {
        self.now += Duration::from_micros(micros);
    }

    fn end(&mut self, request: RequestId, is_good: bool) {
        let now = self.now;
        self.comparisons.end(request, is_good, || now);
    }

    /// Begins a write. Returns what becomes of the decision on it.
    fn begin_write(&mut self, reason: Reason) -> (RequestId, Decision) {
        let (request, raw) = self.begin(PEER, Kind::Write, BYTES);
        let decision = self.decide(request, reason);
        assert!(raw || decision.reason == reason);
        (request, decision)
    }

    /// One write, from its beginning to its end.
    fn write(&mut self, reason: Reason) -> Reason {
        let (request, decision) = self.begin_write(reason);
        self.pass(micros(&decision));
        self.end(request, true);
        decision.reason
    }

    /// One read, of which the peer compresses what it is not to send raw, if `compresses`. Returns whether it was to.
    fn read(&mut self, compresses: bool) -> bool {
        let (request, raw) = self.begin(PEER, Kind::Read, BYTES);
        let is_coded = compresses && !raw;
        if is_coded {
            self.comparisons.arrived(request, BYTES, BYTES / 2);
        }
        self.pass(if is_coded { CODED } else { RAW });
        self.end(request, true);
        raw
    }
}

fn micros(decision: &Decision) -> u64 {
    if decision.algorithm == Algorithm::None { RAW } else { CODED }
}

#[test]
fn writes_that_take_longer_compressed_go_raw() {
    let mut bench = Bench::new();
    let reasons: Vec<Reason> = (0..FOUND).map(|_| bench.write(FASTEST)).collect();
    assert_eq!(reasons.iter().filter(|reason| **reason == Reason::TransferTimed).count(), 4);
    assert_eq!(reasons.iter().filter(|reason| **reason == FASTEST).count(), 13);
    assert_eq!(bench.write(FASTEST), SLOWER);
    // What is to be learned is learned all the same.
    let trial = Reason::Trial { predicted_ns: 3, raw_ns: 2 };
    assert_eq!(bench.write(trial), trial);
    for other in [
        (Rank(2), Kind::Write, BYTES),
        (PEER, Kind::Read, BYTES),
        (PEER, Kind::Send, BYTES),
        (PEER, Kind::Write, 2 * BYTES),
        (PEER, Kind::Write, LEAST_BYTES - 1),
    ] {
        let (peer, kind, bytes) = other;
        let (request, raw) = bench.begin(peer, kind, bytes);
        assert!(!raw, "{other:?}");
        bench.end(request, true);
    }
    assert!(bench.begin(PEER, Kind::Write, BYTES + 100).1, "about as long");
}

#[test]
fn what_is_under_way_at_once_goes_one_way_and_counts_once() {
    let mut bench = Bench::new();
    for _ in 0..FOUND {
        let four: Vec<_> = (0..4).map(|_| bench.begin_write(FASTEST)).collect();
        assert!(four.iter().all(|(_, decision)| *decision == four[0].1));
        bench.pass(four.iter().map(|(_, decision)| micros(decision)).sum());
        four.iter().for_each(|(request, _)| bench.end(*request, true));
        bench.pass(10_000); // in which the program does something else
    }
    assert_eq!(bench.write(FASTEST), SLOWER);
}

#[test]
fn the_parts_of_a_message_go_one_way_and_count_once() {
    let mut bench = Bench::new();
    let mut timed = 0;
    for _ in 0..FOUND {
        let parts = [true, true, false].map(|continued| {
            let part = Move { peer: PEER, kind: Kind::Send, bytes: 3 * BYTES, continued };
            let (request, _) = bench.begin_part(part);
            (request, bench.decide(request, FASTEST))
        });
        assert!(parts.iter().all(|(_, decision)| *decision == parts[0].1));
        for (request, decision) in &parts {
            bench.pass(micros(decision) / 2 - 10);
            bench.end(*request, true);
        }
        timed += u32::from(parts[0].1.reason == Reason::TransferTimed);
    }
    assert_eq!(timed, 4);
    let (request, _) = bench.begin(PEER, Kind::Send, 3 * BYTES);
    // Three times 50 µs and 40.
    let slower = Reason::TransferSlower { coded_ns: 150_000, raw_ns: 120_000 };
    assert_eq!(bench.decide(request, FASTEST).reason, slower, "so long did all parts together take");
}

#[test]
fn what_begins_beside_a_burst_is_none_of_it() {
    let mut bench = Bench::new();
    let mut raw = Vec::new();
    for _ in 0..3 * FOUND {
        // All at once, of which no more are raw than a burst has.
        let many: Vec<_> = (0..100).map(|_| bench.begin_write(FASTEST)).collect();
        raw.push(many.iter().filter(|(_, decision)| decision.reason == Reason::TransferTimed).count());
        assert!(many[BURST as usize..].iter().all(|(_, decision)| decision.reason == FASTEST));
        for (request, decision) in many {
            // Both ways alike.
            bench.pass(RAW);
            assert!(decision.reason == FASTEST || decision.algorithm == Algorithm::None);
            bench.end(request, true);
        }
    }
    raw.sort_unstable();
    raw.dedup();
    assert_eq!(raw, [0, BURST as usize]);
}

#[test]
fn long_ones_that_never_count_are_not_raw_for_ever() {
    let mut bench = Bench::new();
    (0..10).for_each(|_| _ = bench.write(FASTEST));
    // Found to be worth a comparison, of which no burst counts: all of them take more than they are waited for.
    let mut under_way = VecDeque::new();
    let reasons: Vec<_> = (0..2000)
        .map(|_| {
            while under_way.len() < 40 {
                under_way.push_back(bench.begin_write(FASTEST));
            }
            let (request, decision) = under_way.pop_front().unwrap();
            bench.pass(100_000);
            bench.end(request, true);
            decision.reason
        })
        .collect();
    assert!(reasons.contains(&Reason::TransferTimed), "{reasons:?}");
    assert!(reasons[200..].iter().all(|reason| *reason == FASTEST), "{reasons:?}");
}

#[test]
fn what_has_become_so_long_that_it_never_counts_is_not_raw_for_ever() {
    let mut bench = Bench::new();
    (0..FOUND).for_each(|_| _ = bench.write(FASTEST));
    assert_eq!(bench.write(FASTEST), SLOWER);
    let mut under_way = VecDeque::new();
    let mut reasons = Vec::new();
    for _ in 0..2000 {
        while under_way.len() < 40 {
            under_way.push_back(bench.begin_write(FASTEST));
        }
        let (request, decision) = under_way.pop_front().unwrap();
        bench.pass(100_000);
        bench.end(request, true);
        reasons.push(decision.reason);
    }
    assert_eq!(reasons[0], SLOWER);
    assert!(reasons[1000..].iter().all(|reason| *reason == FASTEST), "{reasons:?}");
}

#[test]
fn what_is_not_received_for_long_holds_up_no_comparison() {
    for early in 0..40 {
        let mut bench = Bench::new();
        for _ in 0..early {
            bench.write(FASTEST);
        }
        let (waiting, _) = bench.begin_write(FASTEST);
        let reasons: Vec<_> = (0..100_000).map(|_| bench.write(FASTEST)).collect();
        let count = |reasons: &[Reason], reason| reasons.iter().filter(|one| **one == reason).count();
        // It is found all the same, and looked at again.
        let last = &reasons[80_000..];
        assert!(count(last, SLOWER) > 18_000, "{early}: {}", count(last, SLOWER));
        assert!(count(last, FASTEST) > 0, "{early}");
        assert!(count(&reasons, Reason::TransferTimed) < 1500, "{early}");
        bench.end(waiting, true);
        assert!(bench.comparisons.under_way.is_empty());
    }
}

#[test]
fn what_peers_do_meanwhile_makes_little_slower() {
    let mut found = 0;
    for seed in 1..=200u64 {
        let mut bench = Bench::new();
        let mut state = seed;
        let is_slower = (0..70).any(|_| {
            let (request, decision) = bench.begin_write(FASTEST);
            // Up to 30 ms, whichever way it goes.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            bench.pass((state >> 33) % 30_000);
            bench.end(request, true);
            matches!(decision.reason, Reason::TransferSlower { .. })
        });
        found += u32::from(is_slower);
    }
    // By means alone it would be half of them.
    assert!(found < 50, "{found}");
}

#[test]
fn only_what_begins_once_nothing_is_left_counts() {
    let mut bench = Bench::new();
    // One of a burst is still under way when that is over.
    let first: Vec<_> = (0..BURST + 1).map(|_| bench.begin_write(FASTEST)).collect();
    bench.pass(RAW);
    let (last, others) = first.split_last().unwrap();
    others.iter().for_each(|(request, _)| bench.end(*request, true));
    let line = |bench: &mut Bench| {
        let line = bench.comparisons.known.get_mut(&(PEER, Kind::Write, length_class(BYTES))).unwrap();
        (line.left.count, line.burst.as_ref().map(|burst| (burst.since.is_some(), burst.ended)))
    };
    assert_eq!(line(&mut bench), (1, None));
    // What ends meanwhile leaves no burst behind, in which the program's pause would count.
    let (request, _) = bench.begin_write(FASTEST);
    assert_eq!(line(&mut bench), (1, Some((false, 0))));
    bench.end(request, true);
    assert_eq!(line(&mut bench), (1, None));
    // What had begun before the last one ended has a part of its time before.
    let (early, _) = bench.begin_write(FASTEST);
    bench.end(last.0, true);
    assert_eq!(line(&mut bench), (0, Some((true, 0))));
    let (late, _) = bench.begin_write(FASTEST);
    bench.end(early, true);
    assert_eq!(line(&mut bench), (0, Some((true, 0))));
    bench.end(late, true);
    assert_eq!(line(&mut bench), (0, None));
}

#[test]
fn what_never_ends_goes_in_bursts_of_which_none_counts_for_the_next() {
    let mut bench = Bench::new();
    let mut under_way = VecDeque::from([bench.begin_write(FASTEST)]);
    let mut ways = Vec::new();
    for _ in 0..(FOUND + 1) * u64::from(BURST + 1) {
        // The next one is there before the link has brought the one before.
        under_way.push_back(bench.begin_write(FASTEST));
        let (request, decision) = under_way.pop_front().unwrap();
        ways.push(decision.reason);
        bench.pass(micros(&decision));
        bench.end(request, true);
    }
    ways.dedup();
    let timed = ways.iter().filter(|reason| **reason == Reason::TransferTimed).count();
    assert!((2..=4).contains(&timed), "{ways:?}");
    assert_eq!(ways.last(), Some(&SLOWER), "{ways:?}");
}

#[test]
fn what_has_become_long_is_noticed_though_it_never_ends() {
    let mut bench = Bench::new();
    let mut under_way = VecDeque::from([bench.begin_write(FASTEST)]);
    let mut next = |bench: &mut Bench, takes: &dyn Fn(&Decision) -> u64| {
        under_way.push_back(bench.begin_write(FASTEST));
        let (request, decision) = under_way.pop_front().unwrap();
        bench.pass(takes(&decision));
        bench.end(request, true);
        decision.reason
    };
    let found = (0..(FOUND + 1) * u64::from(BURST + 1)).map(|_| next(&mut bench, &micros)).last();
    assert_eq!(found, Some(SLOWER));
    // 16 of these take more than they are waited for.
    let reasons: Vec<_> = (0..200).map(|_| next(&mut bench, &|_| 210_000)).collect();
    assert!(reasons[150..].iter().all(|reason| *reason == FASTEST), "{reasons:?}");
}

#[test]
fn reads_that_take_longer_compressed_are_asked_for_raw_and_compared_again() {
    let mut bench = Bench::new();
    let raw = (0..FOUND).filter(|_| bench.read(true)).count();
    assert_eq!(raw, 4);
    let (mut raw, mut again) = (0, 0);
    for _ in 0..100 {
        if bench.read(true) { raw += 1 } else { again += 1 }
    }
    // About as many as there were lie between two comparisons: those from 33 and 65 on.
    assert_eq!((raw, again), (92, 8));
}

#[test]
fn reads_of_what_comes_raw_anyway_are_not_compared() {
    let mut bench = Bench::new();
    assert!((0..1000).all(|_| !bench.read(false)));
    // What comes compressed though it was to be raw says nothing: the peer had to.
    let mut bench = Bench::new();
    let mut raw = 0;
    for _ in 0..100 {
        let (request, is_raw) = bench.begin(PEER, Kind::Read, BYTES);
        raw += u32::from(is_raw);
        bench.comparisons.arrived(request, BYTES, BYTES / 2);
        bench.pass(if is_raw { 1 } else { CODED });
        bench.end(request, true);
    }
    assert!(raw > 0 && raw <= 32, "{raw}");
}

#[test]
fn what_is_clear_is_not_compared() {
    // By 8 ns a byte: 160 µs for the bytes of one, and as much for others that go the same way.
    for (coded, others, is_compared) in
        [(159, 0, false), (160, 0, true), (319, BYTES, false), (320, BYTES, true)]
    {
        for (kind, other) in [(Kind::Read, Kind::Write), (Kind::Write, Kind::Read), (Kind::Send, Kind::Read)]
        {
            let mut bench = Bench { clear_byte_ns: 8.0, ..Bench::new() };
            let mut raw = 0;
            for _ in 0..100 {
                // Two at once, which take twice as long.
                let both = [0; 2].map(|_| bench.begin(PEER, kind, BYTES));
                for (request, is_raw) in both {
                    raw += usize::from(is_raw);
                    bench.comparisons.pass(PEER, kind.direction(), BYTES);
                    if kind != Kind::Read {
                        bench.decide(request, FASTEST);
                    } else if !is_raw {
                        bench.comparisons.arrived(request, BYTES, BYTES / 2);
                    }
                }
                bench.comparisons.pass(PEER, kind.direction(), 2 * others);
                // What goes the other way, or between others, has a link of its own.
                bench.comparisons.pass(PEER, other.direction(), 1 << 30);
                bench.comparisons.pass(Rank(2), kind.direction(), 1 << 30);
                bench.pass(2 * if both[0].1 { 330 } else { coded });
                both.into_iter().for_each(|(request, _)| bench.end(request, true));
            }
            assert_eq!(raw > 0, is_compared, "{kind:?} {coded}");
        }
    }
}

#[test]
fn what_is_disturbed_now_and_then_is_no_reason_to_compare() {
    // Of every so many, all but one take longer than the link would.
    for (period, is_compared) in [(3, false), (4, true)] {
        let mut bench = Bench { clear_byte_ns: 8.0, ..Bench::new() };
        let timed = (0..400).filter(|number| {
            let (request, decision) = bench.begin_write(FASTEST);
            bench.comparisons.pass(PEER, Direction::ToPeer, BYTES);
            bench.pass(if number % period == 0 { 100 } else { 300 });
            bench.end(request, true);
            decision.reason == Reason::TransferTimed
        });
        assert_eq!(timed.count() > 0, is_compared, "{period}");
    }
}

#[test]
fn what_goes_raw_anyway_hides_nothing() {
    let mut bench = Bench::new();
    let mut timed = 0;
    for _ in 0..FOUND {
        timed += u32::from(bench.write(FASTEST) == Reason::TransferTimed);
        // As if it were switched off for every second one.
        let (request, _) = bench.begin(PEER, Kind::Write, BYTES);
        let bypass = Decision::bypass(&FACTS, Reason::SwitchedOff);
        assert_eq!(bench.comparisons.decide(request, &FACTS, bypass, false), bypass);
        bench.pass(RAW);
        bench.end(request, true);
    }
    assert!(timed >= 2, "{timed}");
}

#[test]
fn what_is_learned_from_is_no_reason_to_compare() {
    let mut bench = Bench::new();
    let trial = Reason::Trial { predicted_ns: 3, raw_ns: 2 };
    assert!((0..100).all(|_| bench.write(trial) == trial));
    // The next look for something to compare is not far.
    assert!((0..200).any(|_| bench.write(FASTEST) == Reason::TransferTimed));
}

#[test]
fn what_a_peer_wants_raw_is_raw_where_only_predicted_times_speak_against_it() {
    let wanted = |reason| answer_raw(&FACTS, decision(Algorithm::Xp, reason));
    let raw = Decision { predicted_ns: Some(3), ..Decision::bypass(&FACTS, Reason::RawWanted) };
    assert_eq!(wanted(FASTEST), raw);
    for reason in [
        Reason::Fixed,
        Reason::Won { votes: 3, of: 7 },
        Reason::Trial { predicted_ns: 3, raw_ns: 2 },
        Reason::Guessed { predicted_ns: 2, raw_ns: 3 },
    ] {
        assert_eq!(wanted(reason), decision(Algorithm::Xp, reason));
    }
}

#[test]
fn what_was_forgotten_while_it_was_under_way_does_no_harm() {
    let mut bench = Bench::new();
    let early: Vec<_> = (0..3).map(|_| bench.begin_write(FASTEST).0).collect();
    for peer in 2..600 {
        let (request, _) = bench.begin(Rank(peer), Kind::Write, BYTES);
        bench.end(request, true);
    }
    // The same kind as before, known anew.
    let (late, _) = bench.begin_write(FASTEST);
    early.into_iter().for_each(|request| bench.end(request, true));
    bench.pass(CODED);
    bench.end(late, true);
    assert_eq!((0..FOUND).filter(|_| bench.write(FASTEST) == Reason::TransferTimed).count(), 4);
    assert!(bench.comparisons.under_way.is_empty());
}
