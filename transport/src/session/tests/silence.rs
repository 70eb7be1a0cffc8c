//! Time: who owes an answer is asked whether it is still there, and given up in the end.

use super::solo::{Solo, read, receive, send, write, zeroed};
use super::world::World;
use super::*;

const SECOND: Duration = Duration::from_secs(1);
/// The silence timeout of `config`; a probe goes out after a third.
const TIMEOUT: Duration = Duration::from_secs(9);
const HOME: Address = Address::new(0, 0);

/// A read of no bytes with this id.
fn probe(id: u8) -> Vec<u8> {
    vec![0x10, 0, id << 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
}

/// An open session that waits for the answer to the read with id 0.
fn waiting() -> Solo {
    let mut solo = Solo::open(WIDE);
    solo.submit(1, read(HOME, &zeroed(1)));
    solo.take_sent();
    solo
}

#[test]
fn a_silent_peer_is_probed_at_a_third_and_given_up_at_the_timeout() {
    let mut solo = waiting();
    let start = solo.now;
    assert_eq!(solo.session.deadline(), Some(start + 3 * SECOND));
    solo.wait(3 * SECOND - Duration::from_nanos(1));
    assert!(solo.take_sent().is_empty());
    solo.wait(Duration::from_nanos(1));
    assert_eq!(solo.take_sent(), [probe(1)]);
    assert_eq!(solo.session.deadline(), Some(start + TIMEOUT));
    solo.wait(6 * SECOND - Duration::from_nanos(1));
    assert!(solo.take_sent().is_empty() && solo.session.is_open());
    solo.wait(Duration::from_nanos(1));
    solo.assert_over(SessionError::Silent(TIMEOUT), None);
    let error = TransferError::Session { peer: Rank(1), error: SessionError::Silent(TIMEOUT) };
    assert_eq!(solo.delivered, [(1, Err(error))]);
}

#[test]
fn an_answered_probe_starts_the_time_anew() {
    let mut solo = waiting();
    for id in 1..10 {
        solo.wait(3 * SECOND);
        assert_eq!(solo.take_sent(), [probe(id)]);
        solo.wait(5 * SECOND);
        solo.hear_bytes(&[0x20, 0, id << 4, 0]);
        assert_eq!(solo.session.deadline(), Some(solo.now + 3 * SECOND));
    }
    assert!(solo.delivered.is_empty() && solo.session.is_open());
}

#[test]
fn whatever_the_peer_says_shows_that_it_is_there() {
    let mut solo = waiting();
    solo.wait(3 * SECOND);
    solo.wait(5 * SECOND);
    solo.hear_bytes(&probe(1)); // the peer's own, under an id of its own
    assert_eq!(solo.session.deadline(), Some(solo.now + TIMEOUT)); // ours is not answered yet
    solo.wait(8 * SECOND);
    assert!(solo.session.is_open());
    solo.wait(SECOND);
    solo.assert_over(SessionError::Silent(TIMEOUT), None);
}

#[test]
fn moving_bytes_postpone_the_end() {
    let mut solo = waiting();
    for _ in 0..10 {
        solo.wait(2 * SECOND);
        solo.session.on_activity(solo.now);
        assert_eq!(solo.session.deadline(), Some(solo.now + 3 * SECOND));
    }
    assert!(solo.take_sent().is_empty());
    solo.wait(3 * SECOND);
    assert_eq!(solo.take_sent(), [probe(1)]);
    solo.wait(5 * SECOND);
    solo.session.on_activity(solo.now);
    assert_eq!(solo.session.deadline(), Some(solo.now + TIMEOUT));
}

#[test]
fn what_could_not_be_heard_is_no_silence() {
    let mut solo = waiting();
    let start = solo.now;
    solo.wait(2 * SECOND);
    solo.now += 100 * SECOND; // nobody looks at the time
    solo.session.on_pause(100 * SECOND, solo.now);
    assert_eq!(solo.session.deadline(), Some(start + 103 * SECOND));
    // Nor does it make a silence shorter than nothing.
    solo.session.on_pause(50 * SECOND, solo.now);
    assert_eq!(solo.session.deadline(), Some(solo.now + 3 * SECOND));
    solo.session.on_pause(Duration::MAX, solo.now);
    assert_eq!(solo.session.deadline(), Some(solo.now + 3 * SECOND));
    solo.wait(9 * SECOND);
    solo.assert_over(SessionError::Silent(TIMEOUT), None);
}

#[test]
fn who_is_late_all_the_time_gives_a_silent_peer_up_all_the_same() {
    let mut solo = waiting();
    let mut times = 0;
    while solo.session.error().is_none() {
        // Each time four seconds after it was to look.
        solo.now = solo.session.deadline().unwrap() + 4 * SECOND;
        solo.session.on_pause(4 * SECOND, solo.now);
        solo.wait(Duration::ZERO);
        times += 1;
        assert!(times <= 3, "excused for ever");
    }
    solo.assert_over(SessionError::Silent(TIMEOUT), None);
}

#[test]
fn a_greeting_that_could_not_be_heard_is_waited_for() {
    let mut solo = Solo::new(config(0, WIDE));
    let until = solo.session.deadline().unwrap();
    solo.now += 60 * SECOND;
    solo.session.on_pause(60 * SECOND, solo.now);
    assert_eq!(solo.session.deadline(), Some(until + 60 * SECOND));
    solo.wait(Duration::ZERO);
    assert_eq!(solo.session.error(), None);
}

#[test]
fn who_owes_nothing_is_left_alone() {
    let mut solo = Solo::open(WIDE);
    assert_eq!(solo.session.deadline(), None);
    solo.wait(1000 * SECOND);
    assert!(solo.take_sent().is_empty());
    // Only now the time begins.
    solo.submit(1, receive(1, &zeroed(1)));
    assert_eq!(solo.session.deadline(), Some(solo.now + 3 * SECOND));
    solo.hear_bytes(&[0x60, 0, 0x70, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0xaa]);
    solo.work();
    assert_eq!(solo.delivered, [(1, Ok(1))]);
    assert_eq!(solo.session.deadline(), None);
    solo.wait(1000 * SECOND);
    assert!(solo.session.is_open());
}

#[test]
fn a_later_request_does_not_give_a_silent_peer_more_time() {
    let mut solo = waiting();
    let start = solo.now;
    for n in 2..8 {
        solo.wait(SECOND);
        solo.submit(n, write(b"x", HOME));
    }
    assert_eq!(solo.session.deadline(), Some(start + TIMEOUT));
}

#[test]
fn every_kind_of_request_makes_the_peer_owe_something() {
    let requests = [read(HOME, &zeroed(0)), write(b"", HOME), send(b"", 1), receive(1, &zeroed(0))];
    for request in requests {
        let mut solo = Solo::open(WIDE);
        solo.submit(1, request);
        solo.work();
        solo.take_sent();
        solo.wait(3 * SECOND);
        assert!(matches!(solo.take_headers()[..], [Header::ReadRequest(ReadRequest { length: 0, .. })]));
        solo.wait(6 * SECOND);
        solo.assert_over(SessionError::Silent(TIMEOUT), None);
    }
}

#[test]
fn a_probe_is_answered_by_data_of_no_bytes_and_nothing_else() {
    for (answer, violation) in [
        (&[0x40, 0, 0x10, 0][..], Violation::NoSuchRequest(MessageId(1))),
        (&[0x20, 0, 0x10, 0, 0xaa], Violation::PayloadTooLong { payload_len: 1, length: 0 }),
    ] {
        let mut solo = waiting();
        solo.wait(3 * SECOND);
        assert_eq!(solo.take_sent(), [probe(1)]);
        solo.hear_bytes(answer);
        solo.assert_over(violation, Some(Status::Protocol));
    }
    let mut solo = waiting();
    solo.wait(3 * SECOND);
    solo.hear_bytes(&[0x20, 0, 0x10, 13]); // it is there, if not well
    solo.hear_bytes(&[0x20, 0, 0x10, 0]);
    solo.assert_over(Violation::NoSuchRequest(MessageId(1)), Some(Status::Protocol));
}

#[test]
fn no_probe_goes_out_beyond_the_limit() {
    let mut solo = Solo::open(Limits { max_in_flight: 2, ..WIDE });
    (0..5).for_each(|n| solo.submit(n, read(HOME, &zeroed(1))));
    solo.take_sent();
    let start = solo.now;
    assert_eq!(solo.session.deadline(), Some(start + TIMEOUT));
    solo.wait(4 * SECOND);
    assert!(solo.take_sent().is_empty());
    assert_eq!(solo.session.deadline(), Some(start + TIMEOUT));
    solo.wait(5 * SECOND);
    solo.assert_over(SessionError::Silent(TIMEOUT), None);
}

#[test]
fn a_probe_counts_against_the_limit() {
    let mut solo = Solo::open(Limits { max_in_flight: 2, ..WIDE });
    solo.submit(0, read(HOME, &zeroed(1)));
    solo.wait(3 * SECOND);
    solo.submit(1, read(HOME, &zeroed(1)));
    assert_eq!(solo.take_sent().len(), 2);
    solo.hear_bytes(&[0x20, 0, 0x10, 0]);
    assert_eq!(solo.take_sent().len(), 1);
}

#[test]
fn a_probe_that_outlives_its_reason_is_still_waited_for() {
    let mut solo = waiting();
    solo.wait(3 * SECOND);
    solo.hear_bytes(&[0x20, 0, 0, 0, 0xaa]);
    solo.work();
    assert_eq!((solo.delivered.len(), solo.session.deadline()), (1, None));
    solo.wait(1000 * SECOND);
    solo.submit(2, read(HOME, &zeroed(1)));
    assert_eq!(solo.session.deadline(), Some(solo.now + TIMEOUT));
    solo.hear_bytes(&[0x20, 0, 0x10, 0]);
    assert_eq!(solo.session.deadline(), Some(solo.now + 3 * SECOND));
}

#[test]
fn a_peer_that_does_not_greet_is_given_up() {
    let mut solo = Solo::new(config(0, WIDE));
    solo.sent.clear();
    let greeting_timeout = 5 * SECOND;
    solo.submit(1, receive(1, &zeroed(1)));
    assert_eq!(solo.session.deadline(), Some(solo.now + greeting_timeout));
    solo.session.on_activity(solo.now + 4 * SECOND); // bytes are no hello
    solo.wait(greeting_timeout - Duration::from_nanos(1));
    assert_eq!(solo.session.error(), None);
    solo.wait(Duration::from_nanos(1));
    solo.assert_over(SessionError::GreetingTimeout(greeting_timeout), None);
    assert_eq!(solo.delivered.len(), 1);
}

#[test]
fn a_late_greeting_starts_the_time_anew() {
    let mut solo = Solo::new(config(0, WIDE));
    solo.submit(1, receive(1, &zeroed(1)));
    solo.wait(4 * SECOND);
    solo.hear(Header::Hello(Hello::Greeting(greeting(1, WIDE))), b"");
    assert_eq!(solo.session.deadline(), Some(solo.now + 3 * SECOND));
}

#[test]
fn a_clock_that_goes_back_does_no_harm() {
    let mut solo = waiting();
    let start = solo.now;
    solo.session.on_activity(start + 100 * SECOND);
    solo.wait(50 * SECOND);
    assert!(solo.session.is_open() && solo.take_sent().is_empty());
    assert_eq!(solo.session.deadline(), Some(start + 103 * SECOND));
}

#[test]
fn timeouts_may_be_as_long_or_short_as_can_be() {
    for timeout in [Duration::MAX, Duration::from_secs(u64::MAX / 2), Duration::ZERO, Duration::from_nanos(1)]
    {
        let config = SessionConfig { greeting_timeout: timeout, silence_timeout: timeout, ..config(0, WIDE) };
        let mut solo = Solo::open_with(config, greeting(1, WIDE));
        solo.submit(1, read(HOME, &zeroed(1)));
        let mut steps = 0;
        while let Some(deadline) = solo.session.deadline() {
            solo.wait(deadline - solo.now);
            steps += 1;
            assert!(steps < 4 && solo.session.deadline().is_none_or(|later| later > solo.now));
        }
    }
}

#[test]
fn two_ends_that_wait_for_each_other_stay_together_and_notice_when_one_is_gone() {
    let mut world = World::open(1, WIDE);
    (0..2).for_each(|end| world.submit(end, 1, receive(1, &zeroed(1))));
    world.run_for(1000 * SECOND);
    assert!(world.ends.iter().all(|end| end.session.is_open() && end.delivered.is_empty()));
    // Each was asked whenever it had been silent for three seconds, and asking breaks the silence as well.
    let probes = world.traffic[0].asked[0] + world.traffic[1].asked[0];
    assert!((300..=680).contains(&probes), "{probes} probes");
    world.ends[1].session.close(SessionError::Silent(TIMEOUT)); // says nothing
    world.run_for(10 * SECOND);
    assert!(world.ends.iter().all(|end| end.closed.is_some() && end.delivered.len() == 1));
}
