//! Collectives that go raw though the policy would compress them, and that they bring the same.

use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use mgcomp_codecs::{Algorithm, Element};
use mgcomp_selector::{Reason, Record};
use mgcomp_transport::communicator::{Communicator, CommunicatorError, Datatype, Operation};
use mgcomp_transport::link::loopback::Loopback;
use mgcomp_transport::memory::HostBuffer;
use mgcomp_transport::node::Node;

use super::buffer_of;
use super::common::job::{config, meet};
use super::common::stubborn::{FASTEST, SLOW, Stubborn};
use super::common::{HANGS, watched};

/// What delays one by less leaves no doubt which way is slower.
const DELAY: Duration = SLOW.checked_div(2).expect("it is long");
/// Each rank's block.
const BYTES: usize = 16 << 10;

/// Both ranks do `work`, given what each sends and room for what both send; returns the first one's decisions.
fn decisions(
    reason: Reason,
    slow: Algorithm,
    work: impl Fn(&Communicator, [&HostBuffer; 2]) + Sync,
) -> Vec<Record> {
    let start = |link| {
        Node::start(Box::new(link), Box::new(Stubborn { reason, slow: Some(slow) }), config()).unwrap()
    };
    let nodes: Vec<Node> = Loopback::fabric(2, None).unwrap().into_iter().map(start).collect();
    nodes.iter().for_each(meet);
    let communicators: Vec<_> = nodes.into_iter().map(Communicator::world).collect();
    thread::scope(|scope| {
        for communicator in &communicators {
            scope.spawn(|| {
                let (mine, got) = (buffer_of(communicator.rank(), BYTES), HostBuffer::zeroed(2 * BYTES));
                work(communicator, [&mine, &got]);
            });
        }
    });
    communicators[0].node().decisions()
}

fn all_gather(communicator: &Communicator, [mine, got]: [&HostBuffer; 2]) {
    got.all().write(|got| got.fill(0xaa));
    communicator.all_gather(&mine.all(), &got.all(), Element::U8).unwrap();
    let all = [0, 1].map(|rank| buffer_of(rank, BYTES).all().to_vec()).concat();
    assert!(got.all().read(|got| *got == all));
}

/// What was decided on whole blocks.
fn of_blocks(records: &[Record]) -> Vec<(Algorithm, Reason)> {
    let of_blocks = records.iter().filter(|record| record.facts.raw_bytes == BYTES as u64);
    of_blocks.map(|record| (record.decision.algorithm, record.decision.reason)).collect()
}

/// What the first rank decided in so many all-gathers, each of which brought what it should.
fn decided(reason: Reason, slow: Algorithm, collectives: usize) -> Vec<(Algorithm, Reason)> {
    decided_and_delayed(reason, slow, collectives).0
}

/// The same, and the most that one was delayed on any rank beyond what is slow in it.
fn decided_and_delayed(
    reason: Reason,
    slow: Algorithm,
    collectives: usize,
) -> (Vec<(Algorithm, Reason)>, Duration) {
    // The longest of both ranks.
    let took = Mutex::new(vec![Duration::ZERO; collectives]);
    let records = decisions(reason, slow, |communicator, buffers| {
        for number in 0..collectives {
            let started = Instant::now();
            all_gather(communicator, buffers);
            let longest = &mut took.lock().unwrap()[number];
            *longest = started.elapsed().max(*longest);
        }
    });
    let decided = of_blocks(&records);
    assert_eq!(decided.len(), collectives, "one message each");
    let delay = |(took, &(algorithm, _)): (Duration, &(Algorithm, Reason))| {
        if algorithm == slow { took.saturating_sub(SLOW) } else { took }
    };
    let delayed = took.into_inner().unwrap().into_iter().zip(&decided).map(delay).max();
    (decided, delayed.unwrap())
}

/// What was decided in 200 all-gathers must be `as_expected`, unless something else has delayed them: then all is done again.
fn expect_decided(slow: Algorithm, as_expected: impl Fn(&[(Algorithm, Reason)]) -> bool) {
    let started = Instant::now();
    loop {
        let (decided, delayed) = decided_and_delayed(FASTEST, slow, 200);
        if as_expected(&decided) {
            return;
        }
        assert!(delayed > DELAY && started.elapsed() < HANGS, "delayed by {delayed:?}: {decided:?}");
    }
}

fn count(decided: &[(Algorithm, Reason)], is_one: impl Fn(Algorithm, Reason) -> bool) -> usize {
    decided.iter().filter(|&&(algorithm, reason)| is_one(algorithm, reason)).count()
}

#[test]
fn collectives_go_raw_where_they_take_longer_with_compression() {
    let is_compressed = |algorithm, reason| algorithm == Algorithm::Zvc && reason == FASTEST;
    let is_timed = |algorithm, reason| algorithm == Algorithm::None && reason == Reason::CollectiveTimed;
    let is_slower = |algorithm, reason| match reason {
        Reason::CollectiveSlower { coded_ns, raw_ns } => {
            assert!(u128::from(coded_ns) >= SLOW.as_nanos() && raw_ns < coded_ns, "{reason}");
            algorithm == Algorithm::None
        }
        _ => false,
    };
    expect_decided(Algorithm::Zvc, |decided| {
        let [compressed, timed, slower] =
            [count(decided, is_compressed), count(decided, is_timed), count(decided, is_slower)];
        assert_eq!(compressed + timed + slower, decided.len());
        compressed >= 4 && timed >= 4 && slower > 100
    });
}

#[test]
fn collectives_are_compressed_where_they_take_longer_raw() {
    expect_decided(Algorithm::None, |decided| {
        let raw = count(decided, |algorithm, _| algorithm == Algorithm::None);
        let timed = count(decided, |_, reason| reason == Reason::CollectiveTimed);
        (2..50).contains(&raw) && timed == raw
    });
}

#[test]
fn what_was_not_decided_by_times_is_left_alone() {
    let decided = decided(Reason::Fixed, Algorithm::Zvc, 40);
    assert!(decided.iter().all(|&made| made == (Algorithm::Zvc, Reason::Fixed)));
}

#[test]
fn policies_are_not_asked_about_what_ranks_tell_each_other() {
    let records = decisions(Reason::Fixed, Algorithm::Xp, |communicator, buffers| {
        (0..40).for_each(|_| all_gather(communicator, buffers));
    });
    let is_report = |record: &Record| record.decision.reason == Reason::BetweenRanks;
    assert!(records.iter().all(|record| is_report(record) == (record.facts.raw_bytes == 24)));
    // Before each of them, what it is behind: one block and one report are one message each.
    let places = records.iter().enumerate().filter(|(_, record)| is_report(record)).map(|(place, _)| place);
    let behind: Vec<usize> = places.enumerate().map(|(reports, place)| place - reports).collect();
    assert_eq!(behind, [1, 9, 17, 33]);
}

#[test]
fn the_parts_of_a_message_go_one_way() {
    // Two parts, of which the second is shorter.
    const LONG: usize = (512 << 10) + BYTES;
    const MESSAGES: usize = 40;
    let records = decisions(FASTEST, Algorithm::Zvc, |communicator, _| {
        let (sent, got) = (buffer_of(0, LONG), HostBuffer::zeroed(LONG));
        for _ in 0..MESSAGES {
            if communicator.rank() == 0 {
                communicator.send(1, 7, &sent.all(), Element::U8).unwrap();
            } else {
                got.all().write(|got| got.fill(0xaa));
                assert_eq!(communicator.receive(0, 7, &got.all()), Ok(LONG as u64));
                assert!(got.all().to_vec() == sent.all().to_vec());
            }
        }
    });
    let reasons: Vec<Reason> = records.iter().map(|record| record.decision.reason).collect();
    assert_eq!(reasons.len(), 2 * MESSAGES);
    let timed = reasons.chunks_exact(2).filter(|parts| {
        let is_one_way = std::mem::discriminant(&parts[0]) == std::mem::discriminant(&parts[1]);
        assert!(is_one_way, "{parts:?}");
        parts[0] == Reason::TransferTimed
    });
    assert!((2..=16).contains(&timed.count()), "{reasons:?}");
}

#[test]
fn what_one_rank_sends_or_gets_alone_is_not_compared() {
    let records = decisions(FASTEST, Algorithm::Zvc, |communicator, [mine, got]| {
        for _ in 0..20 {
            communicator.gather(1, &mine.all(), &got.all(), Element::U8).unwrap();
            communicator.scatter(0, &got.all(), &mine.all(), Element::U8).unwrap();
        }
    });
    assert_eq!(of_blocks(&records), [(Algorithm::Zvc, FASTEST); 40]);
    assert_eq!(records.len(), 40, "no reports");
}

#[test]
fn wrong_arguments_on_one_rank_do_not_count() {
    let each = |world: &Communicator, [mine, got]: [&HostBuffer; 2]| {
        let blocks =
            |buffer: &HostBuffer| [0, 1].map(|block| buffer.all().part(block * BYTES, BYTES).unwrap());
        let crossing = got.all().part(BYTES / 2, BYTES).unwrap();
        let (u8, u32) = (Element::U8, (Datatype::U32, Operation::Sum));
        for number in 0..12 {
            // So that it is the other's turn to ask when this one is wrong.
            if world.rank() == number % 2 {
                for _ in 0..3 {
                    let overlap = Err(CommunicatorError::Overlap);
                    assert_eq!(world.all_gather(&crossing, &got.all(), u8), overlap);
                    assert_eq!(world.all_to_all(&crossing, &blocks(got)[0], u8), overlap);
                    assert_eq!(world.all_reduce(&crossing, &blocks(got)[0], u32.0, u32.1), overlap);
                    assert_eq!(world.reduce_scatter(&got.all(), &crossing, u32.0, u32.1), overlap);
                    assert!(world.broadcast(2, &got.all(), u8).is_err());
                }
            }
            all_gather(world, [mine, got]);
            world.all_to_all(&mine.all(), &blocks(got)[0], u8).unwrap();
            world.all_reduce(&mine.all(), &blocks(got)[0], u32.0, u32.1).unwrap();
            world.reduce_scatter(&got.all(), &blocks(got)[world.rank() as usize], u32.0, u32.1).unwrap();
            world.broadcast(1, &got.all(), u8).unwrap();
        }
    };
    watched(move || drop(decisions(FASTEST, Algorithm::Xp, each)));
}
