use std::cell::Cell;

use mgcomp_codecs::{Algorithm, Element};
use mgcomp_selector::{LinkFacts, Overlap, StreamId};

use super::envelope::{EnvelopeError, HEADER_LEN, Header};
use super::{
    Coder, Comparisons, EnvSettings, OpenError, PartOf, REPORT_LEN, SealError, Sealed, To, UnderWay,
};
use crate::control::{self, Count, SlotKind, SlotView};
use crate::link::Position;
use crate::message::Rank;

fn coder(settings: &EnvSettings) -> Coder {
    Coder::new(Position { rank: Rank(0), ranks: 2 }, settings)
}

fn with_policy(policy: &str) -> Coder {
    coder(&EnvSettings { policy: policy.parse().unwrap(), ..EnvSettings::default() })
}

fn to(element: Option<Element>) -> To {
    let link = LinkFacts::try_new(1.0, 20_000, Overlap::None).unwrap();
    To { peer: 1, stream: StreamId(3), element, link: Some(link) }
}

/// Rising numbers: every codec of integers makes them shorter.
fn numbers(count: u32) -> Vec<u8> {
    (0..count).flat_map(|i| (i * 3).to_le_bytes()).collect()
}

/// Bytes that no codec makes shorter.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 5u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

fn sealed(coder: &Coder, raw: &[u8]) -> Vec<u8> {
    let mut message = vec![0xee; Coder::max_len(raw.len())];
    let len = coder.seal(&to(None), raw, &mut message).unwrap();
    message.truncate(len);
    message
}

#[test]
fn what_was_sealed_comes_back_under_every_policy() {
    for policy in ["adaptive", "paper", "fixed:none", "fixed:bdi", "fixed:xp"] {
        let coder = with_policy(policy);
        for raw in [vec![], vec![7], numbers(10), numbers(100_000), noise(70_001)] {
            for _ in 0..3 {
                let message = sealed(&coder, &raw);
                let mut back = vec![0xee; raw.len() + 5];
                assert_eq!(coder.open(1, &message, &mut back), Ok(raw.len()), "{policy}");
                let (opened, behind) = back.split_at(raw.len());
                assert!(opened == raw && behind == [0xee; 5], "{policy}, {} bytes", raw.len());
                assert!(message.len() <= raw.len() + HEADER_LEN, "{policy}");
            }
        }
    }
}

#[test]
fn raw_bytes_need_not_be_copied() {
    let (coder, raw) = (with_policy("fixed:bdi"), noise(5000));
    let mut message = vec![0; Coder::max_len(raw.len())];
    let sealed = coder.seal_apart(&to(None), &raw, &mut message).unwrap();
    assert_eq!(sealed, Sealed { len: HEADER_LEN, raw_follows: true });
    let header = Header::parse(&message[..sealed.len]).unwrap();
    assert_eq!((header.algorithm, header.raw_len), (Algorithm::None, 5000));
    assert_eq!(header.check_raw(&raw), Ok(()));

    let short = &mut message[..Coder::max_len(raw.len()) - 1];
    let error = SealError::Room { needed: short.len() + 1, room: short.len() };
    assert_eq!(coder.seal_apart(&to(None), &raw, short), Err(error));
}

#[test]
fn frames_of_a_collective_that_is_slower_with_them_are_not_made() {
    let (coder, raw) = (with_policy("adaptive"), numbers(100_000));
    let mut message = vec![0; Coder::max_len(raw.len())];
    let (comparisons, told) = (Comparisons::default(), Cell::new(0));
    let mut one = |is_first| {
        let work = |collective: &UnderWay| {
            coder.seal_frame(&to(None), &raw, &mut message, Some(PartOf { collective, is_first }))
        };
        let tell_all = |own: &[u8; REPORT_LEN]| {
            told.set(told.get() + 1);
            // Another rank takes 10 ms raw and 30 ms compressed.
            let words = [10_000_000u64, 30_000_000, 8].into_iter().flat_map(u64::to_le_bytes);
            Ok(own.iter().copied().chain(words).collect())
        };
        comparisons.compared((), raw.len() as u64, work, tell_all).unwrap()
    };
    assert!((0..100).any(|_| one(true).is_some()), "at first");
    // Sooner or later, whatever the policy has still to learn.
    let mut in_a_row = 0;
    for _ in 0..5000 {
        in_a_row = if one(true).is_none() { in_a_row + 1 } else { 0 };
        if in_a_row == 30 {
            break;
        }
    }
    assert_eq!(in_a_row, 30, "told {} times", told.get());
    // Others of this kind are made.
    assert!(coder.seal_frame(&to(None), &raw, &mut message, None).unwrap().is_some());
}

#[test]
fn raw_bytes_are_sealed_without_being_asked_about() {
    let (coder, raw) = (with_policy("fixed:int"), numbers(1000));
    let mut message = [vec![0xee; HEADER_LEN], raw.clone()].concat();
    assert_eq!(coder.seal_raw(Element::U32, &raw, &mut message), Ok(HEADER_LEN));
    let header = Header::parse(&message).unwrap();
    assert_eq!((header.algorithm, header.element), (Algorithm::None, Element::U32));
    let mut back = vec![0; raw.len()];
    assert_eq!((coder.open(1, &message, &mut back), &back), (Ok(raw.len()), &raw));
    message[HEADER_LEN + 7] ^= 1;
    assert!(coder.open(1, &message, &mut back).is_err(), "its checksum");
    let error = SealError::Room { needed: HEADER_LEN, room: HEADER_LEN - 1 };
    assert_eq!(coder.seal_raw(Element::U32, &raw, &mut message[1..HEADER_LEN]), Err(error));
}

#[test]
fn what_messages_are_values_of_is_said_or_found() {
    // Numbers of 20 bits in 4 bytes each.
    let raw: Vec<u8> = noise(200_000).chunks(4).flat_map(|b| [b[0], b[1], b[2] >> 4, 0]).collect();
    let element = |coder: &Coder, element| {
        let mut message = vec![0; Coder::max_len(raw.len())];
        coder.seal_apart(&to(element), &raw, &mut message).unwrap();
        Header::parse(&message).unwrap().element
    };
    let found = with_policy("fixed:int");
    assert_eq!(element(&found, None), Element::U32);
    assert_eq!(element(&found, Some(Element::F64)), Element::F64);
    let told = coder(&EnvSettings { element: Some(Element::U16), ..EnvSettings::default() });
    assert_eq!(element(&told, None), Element::U16);
}

#[test]
fn switched_off_nothing_is_coded() {
    let coder =
        coder(&EnvSettings { off: true, policy: "fixed:bdi".parse().unwrap(), ..EnvSettings::default() });
    let raw = numbers(10_000);
    assert_eq!(sealed(&coder, &raw)[HEADER_LEN..], raw);
}

#[test]
fn every_damaged_or_missing_byte_is_found() {
    let coder = with_policy("fixed:bdi");
    for raw in [numbers(2000), noise(500)] {
        let message = sealed(&coder, &raw);
        let mut back = vec![0; raw.len()];
        for offset in 0..message.len() {
            let mut damaged = message.clone();
            damaged[offset] ^= 4;
            // Only what fills up to a boundary means nothing.
            let opened = coder.open(1, &damaged, &mut back);
            assert!(opened.is_err() || back == raw, "byte {offset}: {opened:?}");
            assert!(coder.open(1, &message[..offset], &mut back).is_err(), "{offset} bytes");
        }
    }
}

#[test]
fn errors_say_what_is_wrong() {
    let coder = with_policy("fixed:none");
    let message = sealed(&coder, &[1, 2, 3]);
    let open = |message: &[u8], room: usize| coder.open(1, message, &mut vec![0; room]).unwrap_err();
    assert_eq!(open(&message, 2), OpenError::Room { raw_len: 3, room: 2 });
    assert_eq!(open(&message[..34], 3), OpenError::Length { expected: 3, found: 2 });
    let plain = b"not a message, but 32 bytes long";
    assert_eq!(open(plain, 99), OpenError::Envelope(EnvelopeError::Magic { found: *b"not " }));

    // A frame of something else than its envelope says.
    let coder = with_policy("fixed:bdi");
    let mut message = sealed(&coder, &numbers(2000));
    let header = Header { raw_len: 7999, ..Header::parse(&message).unwrap() };
    message[..HEADER_LEN].copy_from_slice(&header.write());
    let other = coder.open(1, &message, &mut vec![0; 8000]).unwrap_err();
    assert!(matches!(other, OpenError::OtherFrame { raw_len: 7999, found_len: 8000, .. }), "{other}");
}

#[test]
fn what_goes_raw_is_counted_once_whether_it_was_sealed_or_not() {
    // That nobody else in this process speaks to.
    const PEER: u32 = 40_961;
    let page = control::attach().expect("a page");
    let (coder, to) = (with_policy("fixed:none"), To { peer: PEER, ..to(None) });
    let (first, rest) = (noise(5000), 70_001);
    let mut message = vec![0; Coder::max_len(first.len())];
    let len = coder.seal(&to, &first, &mut message).unwrap();
    coder.sent_raw(&to, rest);
    coder.open(PEER, &message[..len], &mut vec![0; first.len()]).unwrap();
    coder.received_raw(PEER, rest);
    // What is nothing is no transfer.
    coder.sent_raw(&to, 0);
    coder.received_raw(PEER, 0);

    let page = page.page();
    let views = || (0..page.used()).filter_map(|slot| page.view(slot)).filter(|view| view.peer == PEER);
    let of_kind = |kind| {
        let mut views = views().filter(|view| view.kind == kind);
        let only: SlotView = views.next().expect("a slot");
        assert!(views.next().is_none(), "one for all");
        only
    };
    let bytes = 75_001;
    let both = Count { transfers: 2, raw_bytes: bytes, coded_bytes: bytes };
    let (sent, received) = (of_kind(SlotKind::Sent), of_kind(SlotKind::Received));
    assert_eq!((sent.stream, sent.algorithms[0], sent.sent()), (3, both, both));
    assert_eq!((sent.link_gbps, sent.link_latency_ns), (Some(1.0), 20_000));
    assert_eq!(received.decoded, both);
}
