use mgcomp_codecs::Element;
use proptest::prelude::*;

use super::*;
use crate::message::Header;
use crate::message::limits::tests::any_limits;
use crate::message::secret::tests::any_secret;

fn any_greeting() -> impl Strategy<Value = Greeting> {
    let ranks = (1..=u32::MAX).prop_flat_map(|ranks| (0..ranks, Just(ranks)));
    (any_secret(), ranks, any_limits(), any::<u16>(), any::<u16>()).prop_map(
        |(secret, (rank, ranks), limits, algorithms, elements)| Greeting {
            secret,
            rank: Rank(rank),
            ranks,
            limits,
            algorithms: AlgorithmSet::from_bits(algorithms | 1),
            elements: ElementSet::from_bits(elements),
        },
    )
}

pub(crate) fn any_hello() -> impl Strategy<Value = Hello> {
    prop_oneof![
        any_greeting().prop_map(Hello::Greeting),
        (1..=u8::MAX).prop_map(|code| Hello::refusal(Status::from_code(code))),
    ]
}

const SECRET: [u8; 16] = [0, 17, 34, 51, 68, 85, 102, 119, 136, 153, 170, 187, 204, 221, 238, 255];

const BYTES: [u8; 64] = [
    0x50, 0x00, 0x00, 0x09, 0x4d, 0x47, 0x43, 0x57, // type, zero, status, version, magic
    0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, // secret
    0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff, // secret
    0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x04, // rank 2 of 4
    0x04, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // 64 MiB a transfer,
    0x10, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x00, // a window of 256 MiB, 1,024 in flight
    0x00, 0x1f, 0x03, 0xff, 0x00, 0x00, 0x00, 0x00, // algorithms 0 to 4, elements 0 to 9
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
];

fn greeting() -> Greeting {
    Greeting {
        secret: Secret::new(SECRET),
        rank: Rank(2),
        ranks: 4,
        limits: Limits { max_transfer_bytes: 64 << 20, window_bytes: 256 << 20, max_in_flight: 1024 },
        algorithms: Algorithm::ALL[..5].iter().copied().collect(),
        elements: Element::ALL.into_iter().collect(),
    }
}

fn with(at: usize, replacement: &[u8]) -> [u8; 64] {
    let mut bytes = BYTES;
    bytes[at..at + replacement.len()].copy_from_slice(replacement);
    bytes
}

#[track_caller]
fn assert_invalid(bytes: &[u8], error: Invalid) {
    assert_eq!(Header::parse(bytes), Err(error.into()));
}

#[test]
fn bytes_are_those_of_the_layout() {
    let hello = Hello::Greeting(greeting());
    assert_eq!(*hello.encode(), BYTES);
    assert_eq!(Header::parse(&BYTES), Ok((Header::Hello(hello), 64)));
}

#[test]
fn a_refusal_is_its_status_and_zeroes() {
    let mut bytes = [0; 64];
    bytes[..8].copy_from_slice(&[0x50, 8, 0, 9, 0x4d, 0x47, 0x43, 0x57]);
    let hello = Hello::refusal(Status::WrongSecret);
    assert_eq!(*hello.encode(), bytes);
    assert_eq!(Header::parse(&bytes), Ok((Header::Hello(hello), 64)));
    for bit_offset in 64..512 {
        let mut bytes = bytes;
        bytes[bit_offset / 8] |= 0x80 >> (bit_offset % 8);
        let error = Header::parse(&bytes).unwrap_err();
        let MessageError::Invalid(Invalid::Reserved { bit_offset: named, .. }) = error else {
            panic!("bit {bit_offset}: {error}");
        };
        assert_eq!(named, bit_offset);
    }
}

#[test]
#[should_panic(expected = "a refusal needs a reason")]
fn a_refusal_cannot_be_good() {
    let _ = Hello::refusal(Status::Good);
}

#[test]
fn another_version_is_told_apart_whatever_else_it_says() {
    let error = MessageError::Version { got: 10 };
    assert_eq!(error.refusal_status(), Some(Status::WrongVersion));
    let newer = with(2, &[0, 10]);
    assert_eq!(Header::parse(&newer), Err(error.clone()));
    assert_eq!(Header::parse(&newer[..8]), Err(error.clone()));
    assert_eq!(Header::parse(&[&newer[..], &[0xff; 100]].concat()), Err(error.clone()));
    let mut strange = [0xff; 64];
    strange[..8].copy_from_slice(&[0x5f, 0xff, 0, 10, 0x4d, 0x47, 0x43, 0x57]);
    assert_eq!(Header::parse(&strange), Err(error));
    for got in [0, 1, 2, 3, 4, 5, 6, 7, 8] {
        assert_eq!(Header::parse(&with(2, &[0, got])), Err(MessageError::Version { got: got.into() }));
    }
}

#[test]
fn without_the_magic_nothing_else_counts() {
    let got = *b"MGCV";
    assert_invalid(&with(4, &got), Invalid::Magic { got });
    assert_invalid(&with(2, &[0, 9, b'M', b'G', b'C', b'V']), Invalid::Magic { got });
    assert_invalid(&[0x50; 8], Invalid::Magic { got: [0x50; 4] });
}

#[test]
fn each_reserved_bit_must_be_zero() {
    for bit_offset in 4..8 {
        let got = 1 << (7 - bit_offset);
        let error = Invalid::Reserved { kind: Kind::Hello, bit_offset, got };
        assert_invalid(&with(0, &[0x50 | got as u8]), error);
    }
    for bit_offset in 416..512 {
        let error = Invalid::Reserved { kind: Kind::Hello, bit_offset, got: 1 << (511 - bit_offset) };
        assert_invalid(&with(bit_offset / 8, &[0x80 >> (bit_offset % 8)]), error);
    }
}

#[test]
fn a_greeting_must_make_sense() {
    assert_invalid(&with(24, &[0, 0, 0, 4]), Invalid::Rank { rank: 4, ranks: 4 });
    assert_invalid(&with(24, &[0; 8]), Invalid::Rank { rank: 0, ranks: 0 });
    assert_invalid(&with(32, &[0; 4]), Invalid::MaxTransfer);
    assert_invalid(&with(36, &[0; 8]), Invalid::Window);
    assert_invalid(&with(44, &[0; 4]), Invalid::InFlight { got: 0 });
    assert_invalid(&with(44, &[0, 1, 0, 1]), Invalid::InFlight { got: 65_537 });
    assert_invalid(&with(48, &[0xff, 0xfe]), Invalid::AlgorithmSet { got: 0xfffe });
}

#[test]
fn it_carries_no_payload() {
    let error = Invalid::Trailing { kind: Kind::Hello, header_len: 64, got: 1 };
    assert_invalid(&[&BYTES[..], &[0]].concat(), error);
}

#[test]
fn strangers_and_impostors_are_refused() {
    let expected = Expected { secret: Secret::new(SECRET), ranks: 4, own: Rank(0), peer: None };
    let secret = Secret::new([1; 16]);
    assert_eq!(greeting().verify(&expected), Ok(()));
    assert_eq!(greeting().verify(&Expected { peer: Some(Rank(2)), ..expected }), Ok(()));
    assert_eq!(greeting().verify(&Expected { peer: Some(Rank(3)), ..expected }), Err(Status::WrongRank));
    assert_eq!(greeting().verify(&Expected { own: Rank(2), ..expected }), Err(Status::WrongRank));
    assert_eq!(greeting().verify(&Expected { ranks: 5, ..expected }), Err(Status::WrongRankCount));
    // The secret comes first, whatever else is wrong.
    let stranger = Greeting { secret, rank: Rank(9), ranks: 3, ..greeting() };
    assert_eq!(stranger.verify(&expected), Err(Status::WrongSecret));
    assert_eq!(Greeting { rank: Rank(4), ..greeting() }.verify(&expected), Err(Status::WrongRank));
}

proptest! {
    #[test]
    fn what_was_written_is_read(hello in any_hello()) {
        let header = Header::Hello(hello);
        prop_assert_eq!(Header::parse(&header.encode()), Ok((header, 64)));
    }
}
