//! Opening a session, or not.

use super::solo::{Solo, write};
use super::*;
use crate::message::{TaggedSend, WriteAck, WriteRequest};

/// Rank 0 of 2: transfers of 0x01020304 bytes, a window of 0x0102030405060708, 0x1234 requests at once.
const ODD: Limits =
    Limits { max_transfer_bytes: 0x0102_0304, window_bytes: 0x0102_0304_0506_0708, max_in_flight: 0x1234 };

fn refusal(code: u8) -> Vec<u8> {
    let mut bytes = vec![0x50, code, 0, 9, b'M', b'G', b'C', b'W'];
    bytes.resize(64, 0);
    bytes
}

#[test]
fn a_session_greets_at_once_and_says_nothing_more_before_it_is_greeted() {
    let mut solo = Solo::new(config(0, ODD));
    let mut greeting = vec![0x50, 0, 0, 9, b'M', b'G', b'C', b'W'];
    greeting.extend([0x5e; 16]);
    greeting.extend([0, 0, 0, 0, 0, 0, 0, 2]); // rank, ranks
    greeting.extend([1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0x12, 0x34]);
    greeting.extend(AlgorithmSet::supported().bits().to_be_bytes());
    greeting.extend([0x03, 0xff]); // ten elements
    greeting.resize(64, 0);
    assert_eq!(solo.take_sent(), [greeting]);
    solo.submit(1, write(b"early", Address::new(0, 0)));
    assert!(!solo.session.is_open() && solo.sent.is_empty() && solo.jobs.is_empty());
    solo.hear(Header::Hello(Hello::Greeting(self::greeting(1, ODD))), b"");
    assert!(solo.session.is_open());
    solo.work();
    let message = [&[0x30, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x50][..], b"early"].concat();
    assert_eq!(solo.take_sent(), [message]);
}

#[test]
fn strangers_are_refused_and_learn_nothing_but_the_reason() {
    let right = greeting(1, WIDE);
    let mut near = SECRET;
    near[15] ^= 1;
    let cases = [
        (Greeting { secret: Secret::new(near), ..right }, Status::WrongSecret, 8),
        (Greeting { secret: Secret::new(near), ranks: 7, rank: Rank(0), ..right }, Status::WrongSecret, 8),
        (Greeting { rank: Rank(0), ..right }, Status::WrongRank, 9),
        (Greeting { ranks: 3, ..right }, Status::WrongRankCount, 10),
        (Greeting { ranks: 3, rank: Rank(2), ..right }, Status::WrongRankCount, 10),
    ];
    for (stranger, status, code) in cases {
        let mut solo = Solo::new(config(0, WIDE));
        solo.sent.clear();
        solo.hear(Header::Hello(Hello::Greeting(stranger)), b"");
        solo.assert_over(SessionError::PeerRefused(status), Some(status));
        assert_eq!(solo.take_sent(), [refusal(code)]);
    }
}

#[test]
fn another_rank_of_the_job_is_refused() {
    let mut solo = Solo::new(SessionConfig { ranks: 4, peer: Rank(3), ..config(0, WIDE) });
    let other = Greeting { ranks: 4, rank: Rank(2), ..greeting(1, WIDE) };
    solo.hear(Header::Hello(Hello::Greeting(other)), b"");
    solo.assert_over(SessionError::PeerRefused(Status::WrongRank), Some(Status::WrongRank));
}

#[test]
fn another_version_is_refused() {
    for got in [1, 2, 3, 4, 5, 6, 7, 8, 10] {
        let mut solo = Solo::new(config(0, WIDE));
        solo.sent.clear();
        let mut other = Header::Hello(Hello::Greeting(greeting(1, WIDE))).encode().to_vec();
        other[3] = got;
        solo.hear_bytes(&other);
        let error = MessageError::Version { got: got.into() };
        solo.assert_over(error, Some(Status::WrongVersion));
        assert_eq!(solo.take_sent(), [refusal(7)]);
    }
}

#[test]
fn a_refusal_ends_the_session_at_any_time_and_is_not_answered() {
    for code in 1..=255 {
        let status = Status::from_code(code);
        let mut greeting = Solo::new(config(0, WIDE));
        greeting.sent.clear();
        for mut solo in [greeting, Solo::open(WIDE)] {
            solo.hear_bytes(&refusal(code));
            solo.assert_over(SessionError::Refused(status), None);
            assert!(solo.sent.is_empty());
        }
    }
}

#[test]
fn nothing_may_come_before_the_hello() {
    let (id, address) = (MessageId(0), Address::new(0, 0));
    let algorithm = Algorithm::None;
    let messages = [
        Header::ReadRequest(ReadRequest { id, address, length: 0, raw: false }),
        Header::DataReady(DataReady { id, algorithm, status: Status::Good }),
        Header::WriteRequest(WriteRequest { id, address, length: 0, algorithm }),
        Header::WriteAck(WriteAck { id, status: Status::Good }),
        Header::TaggedSend(TaggedSend {
            id,
            algorithm,
            continued: false,
            unawaited: false,
            tag: Tag(0),
            length: 0,
        }),
    ];
    for message in messages {
        let mut solo = Solo::new(config(0, WIDE));
        solo.hear(message, b"");
        solo.assert_over(Violation::BeforeHello, Some(Status::Protocol));
    }
}

#[test]
fn a_second_greeting_is_one_too_many() {
    let mut solo = Solo::open(WIDE);
    solo.hear(Header::Hello(Hello::Greeting(greeting(1, WIDE))), b"");
    solo.assert_over(Violation::SecondHello, Some(Status::Protocol));
    assert_eq!(solo.take_sent(), [refusal(14)]);
}

#[test]
fn only_what_the_peer_decodes_is_allowed() {
    // Algorithms 0, 4 and 12, of which this version knows the first two.
    let peer = Greeting { algorithms: AlgorithmSet::from_bits(0x1011), ..greeting(1, WIDE) };
    let mut solo = Solo::open_with(config(0, WIDE), peer);
    solo.submit(1, write(b"bytes", Address::new(0, 0)));
    let Some(Action::Encode { allowed, .. }) = solo.jobs.front() else { panic!("no encoding") };
    assert_eq!(allowed.iter().collect::<Vec<_>>(), [Algorithm::None, Algorithm::Zvc]);
}

#[test]
fn elements_that_the_peer_does_not_know_go_raw() {
    let elements = ElementSet::from_iter([Element::F32]);
    let mut solo = Solo::open_with(config(0, WIDE), Greeting { elements, ..greeting(1, WIDE) });
    for (element, least) in [(Element::F32, 2), (Element::Bf16, 1)] {
        let Request::Write { from, to, .. } = write(b"bytes", Address::new(0, 0)) else { unreachable!() };
        solo.submit(1, Request::Write { from, element, to });
        let Some(Action::Encode { allowed, .. }) = solo.jobs.pop_back() else { panic!("no encoding") };
        assert!(allowed.contains(Algorithm::None));
        assert_eq!(allowed.iter().count().min(2), least, "{element}");
    }
}
