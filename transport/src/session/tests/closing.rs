//! The end of a session: every request fails once, and what comes later is of no interest.

use super::solo::{Solo, read, receive, send, write, zeroed};
use super::world::World;
use super::*;
use crate::link::{LinkError, SendError};
use crate::memory::HostBuffer;
use crate::message::{Invalid, Offer};
use crate::region::Access;

const HOME: Address = Address::new(0, 0);

/// A session with requests 0 to 9 in every stage that there is, and some of the peer's that are being served.
fn busy() -> Solo {
    let mut solo = Solo::open(Limits { max_in_flight: 7, ..WIDE });
    solo.regions.register(HostBuffer::zeroed(9).all(), Element::U8, Access::all()).unwrap();
    solo.submit(0, read(HOME, &zeroed(2))); // asked for
    solo.submit(1, read(HOME, &zeroed(2))); // being decoded
    solo.hear_bytes(&[0x20, 0, 0x10, 0, 1, 2]);
    solo.submit(2, write(b"sent", HOME));
    let encode = solo.jobs.pop_back().unwrap();
    solo.work_on(encode);
    solo.submit(3, write(b"being encoded", HOME));
    solo.submit(4, send(b"being encoded", 1));
    solo.submit(5, send(b"held", 1));
    let encode = solo.jobs.pop_back().unwrap();
    solo.work_on(encode);
    solo.submit(6, read(HOME, &zeroed(200_000))); // two of four pieces asked for
    solo.submit(7, write(b"not begun", HOME));
    solo.submit(8, receive(2, &zeroed(1))); // nothing there
    solo.submit(9, receive(1, &zeroed(1))); // being decoded
    solo.hear_bytes(&[0x60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 9]);
    solo.hear_bytes(&[0x60, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1, 9]); // nobody asked
    solo.hear_bytes(&[0x10, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0]); // a read
    solo.hear_bytes(&[0x30, 0, 0x30, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 9]); // a write
    assert!(solo.delivered.is_empty() && solo.jobs.len() == 6, "{:?}", solo.jobs);
    solo.take_sent();
    solo
}

fn failed(error: &SessionError) -> Result<u64, TransferError> {
    Err(TransferError::Session { peer: Rank(1), error: error.clone() })
}

/// Every reason, with what the peer is told.
fn reasons() -> Vec<(SessionError, Option<u8>)> {
    let second = Duration::from_secs(1);
    vec![
        (LinkError::PeerClosed(Rank(1)).into(), None),
        (MessageError::from(Invalid::Window).into(), Some(14)),
        (MessageError::Version { got: 3 }.into(), Some(7)),
        (Violation::SecondHello.into(), Some(14)),
        (SessionError::Refused(Status::Closing), None),
        (SessionError::PeerRefused(Status::WrongSecret), Some(8)),
        (SessionError::PeerRefused(Status::Good), None), // nothing that can be said
        (SessionError::GreetingTimeout(second), None),
        (SessionError::Silent(second), None),
        (SendError::Full { queued_bytes: 2, limit: 1 }.into(), None),
        (SessionError::Closed, Some(12)),
        (SessionError::Device("as arranged".to_owned()), Some(15)),
    ]
}

#[test]
fn every_request_fails_once_whatever_the_reason() {
    for (error, farewell) in reasons() {
        let mut solo = busy();
        solo.close(error.clone());
        solo.assert_over(error.clone(), farewell.map(Status::from_code));
        assert_eq!(solo.take_sent().len(), usize::from(farewell.is_some()));
        solo.delivered.sort_by_key(|&(id, _)| id);
        // The memory of request 1 is in use until its bytes are decoded, so it comes to its end then.
        let expected: Vec<_> = (0..9).filter(|&id| id != 1).map(|id| (id, failed(&error))).collect();
        assert_eq!(solo.delivered, expected);
        // What was sent before the end is good, where the peer did nothing wrong: the one that is being decoded, and the
        // one that nobody had asked for.
        let is_orderly = matches!(
            error,
            SessionError::Closed | SessionError::Link(_) | SessionError::Refused(Status::Closing)
        );
        let jobs = std::mem::take(&mut solo.jobs);
        jobs.into_iter().for_each(|job| solo.work_on(job));
        solo.submit(10, receive(7, &zeroed(1)));
        let jobs = std::mem::take(&mut solo.jobs);
        jobs.into_iter().for_each(|job| solo.work_on(job));
        let late = if is_orderly { Ok(1) } else { failed(&error) };
        assert_eq!(solo.delivered[8..], [(1, failed(&error)), (9, Ok(1)), (10, late)]);
        assert!(solo.take_sent().is_empty(), "nobody hears an answer");
        solo.submit(11, receive(7, &zeroed(1)));
        assert_eq!(solo.delivered[11], (11, failed(&error)));
        assert!(solo.session.is_idle());
    }
}

#[test]
fn an_offer_is_lost_with_the_session_and_all_sends_behind_it() {
    let mut solo = Solo::open(WIDE);
    solo.hear_bytes(&[0x60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1, 1]);
    solo.hear(Header::Offer(Offer { offer: OfferId(0), continued: false, tag: Tag(7), length: 1 }), b"");
    solo.hear_bytes(&[0x60, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1, 3]);
    solo.close(SessionError::Closed);
    let into = zeroed(1);
    solo.submit(0, receive(7, &into));
    let job = solo.jobs.pop_back().unwrap();
    solo.work_on(job);
    assert_eq!(into.to_vec(), [1]);
    // The third must not come in the place of the second.
    solo.submit(1, receive(7, &zeroed(1)));
    solo.submit(2, receive(7, &zeroed(1)));
    let failed = failed(&SessionError::Closed);
    assert_eq!(solo.delivered, [(0, Ok(1)), (1, failed.clone()), (2, failed)]);
    assert!(solo.session.is_idle());
}

#[test]
fn the_goodbye_comes_first_and_the_end_last() {
    let mut solo = busy();
    solo.session.close(SessionError::Closed);
    let actions: Vec<_> = std::iter::from_fn(|| solo.session.poll_action()).collect();
    let [Action::Send { header, .. }, delivered @ .., Action::Close { error: SessionError::Closed }] =
        &actions[..]
    else {
        panic!("{actions:?}")
    };
    assert_eq!(*header, Header::Hello(Hello::refusal(Status::Closing)));
    assert!(delivered.len() == 8 && delivered.iter().all(|a| matches!(a, Action::Deliver { .. })));
}

#[test]
fn nothing_that_comes_later_counts() {
    let mut solo = busy();
    let jobs = std::mem::take(&mut solo.jobs);
    let delivered = |solo: &Solo| solo.delivered.len();
    solo.close(SessionError::Closed);
    solo.take_sent();
    jobs.into_iter().for_each(|job| solo.work_on(job));
    solo.hear_bytes(&[0x20, 0, 0, 0, 1, 2]);
    solo.hear_bytes(&[0x40, 0, 0x90, 0]);
    solo.hear_bytes(&[0x10, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0]);
    solo.hear(Header::Hello(Hello::Greeting(greeting(1, WIDE))), b"");
    solo.hear(Header::Hello(Hello::refusal(Status::Internal)), b"");
    solo.hear_bytes(b"no message");
    solo.session.on_activity(solo.now);
    solo.wait(Duration::from_secs(1000));
    solo.close(SessionError::Silent(Duration::ZERO));
    assert!(solo.take_sent().is_empty() && solo.jobs.is_empty() && delivered(&solo) == 10);
    assert_eq!(solo.session.error(), Some(&SessionError::Closed));
    assert_eq!(solo.session.deadline(), None);
}

#[test]
fn later_requests_fail_with_the_reason() {
    let mut solo = Solo::open(WIDE);
    solo.close(SessionError::Closed);
    let far = Address::new(u16::MAX, u32::MAX);
    let requests = [read(HOME, &zeroed(1)), write(b"ab", far), send(b"", 1), receive(1, &zeroed(1))];
    for (id, request) in (0..).zip(requests) {
        solo.submit(id, request);
    }
    let expected: Vec<_> = (0..4).map(|id| (id, failed(&SessionError::Closed))).collect();
    assert_eq!(solo.delivered, expected);
    assert!(solo.session.is_idle());
}

#[test]
fn a_session_may_end_before_it_is_open() {
    let mut solo = Solo::new(config(0, WIDE));
    solo.submit(0, send(b"x", 1));
    solo.submit(1, receive(1, &zeroed(1)));
    solo.close(SessionError::Closed);
    assert_eq!(solo.delivered, [(0, failed(&SessionError::Closed)), (1, failed(&SessionError::Closed))]);
    solo.assert_over(SessionError::Closed, Some(Status::Closing));
}

#[test]
fn in_the_middle_of_traffic_both_ends_come_to_an_end() {
    let mut cut_short = 0;
    for seed in 0..300 {
        let limits = Limits { max_transfer_bytes: 10, window_bytes: 30, max_in_flight: 5 };
        let mut world = World::new(seed, [config(0, limits), config(1, limits)]);
        let regions = [0, 1].map(|end| world.register(end, vec![0; 300]));
        for end in 0..2 {
            let address = regions[1 - end].1;
            for n in 0..10 {
                world.submit(end, n, read(address, &zeroed(25)));
                world.submit(end, 100 + n, write(&[n as u8 + 1; 30], address.checked_add(30 * n).unwrap()));
                world.submit(end, 200 + n, send(&[n as u8; 9], n % 3));
                world.submit(end, 300 + n, receive(n % 3, &zeroed(9)));
            }
        }
        let time = world.rng.micros(8000);
        world.run_for(time);
        world.ends[0].session.close(SessionError::Closed);
        world.carry_out();
        world.run();
        assert_eq!(world.ends[1].closed, Some(SessionError::Refused(Status::Closing)));
        for end in 0..2 {
            assert!(world.ends[end].session.is_idle());
            assert_eq!(world.ends[end].delivered.len(), 40, "end {end}");
            cut_short += world.ends[end].delivered.values().filter(|result| result.is_err()).count();
            let memory = regions[1 - end].0.all().to_vec();
            for n in (0..10).filter(|n| world.result(end, 100 + n) == Some(&Ok(30))) {
                assert_eq!(memory[30 * n as usize..][..30], [n as u8 + 1; 30], "write {n} was acknowledged");
            }
        }
    }
    let all = 300 * 2 * 40;
    assert!(cut_short > all / 10 && cut_short < all * 9 / 10, "{cut_short} of {all} requests cut short");
}
