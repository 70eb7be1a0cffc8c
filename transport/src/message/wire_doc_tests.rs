//! `WIRE.md` says what the code does: its tables, drawings and examples are read and compared.

use mgcomp_codecs::{Algorithm, AlgorithmSet, ElementSet};

use super::layout::Field;
use super::{
    Address, DataReady, DecodeTime, Fetch, Greeting, Header, Hello, Kind, Limits, MAX_HELLO_LEN, MessageId,
    Offer, OfferAck, OfferId, Rank, ReadRequest, Secret, Status, Tag, TaggedSend, VERSION, WriteAck,
    WriteRequest,
};
use super::{
    data_ready, decode_time, fetch, hello, offer, offer_ack, read_request, tagged_send, write_ack,
    write_request,
};

const WIRE: &str = include_str!("../../../WIRE.md");

fn fields(kind: Kind) -> &'static [Field] {
    match kind {
        Kind::ReadRequest => read_request::LAYOUT.fields(),
        Kind::DataReady => data_ready::LAYOUT.fields(),
        Kind::WriteRequest => write_request::LAYOUT.fields(),
        Kind::WriteAck => write_ack::LAYOUT.fields(),
        Kind::Hello => hello::LAYOUT.fields(),
        Kind::TaggedSend => tagged_send::LAYOUT.fields(),
        Kind::Offer => offer::LAYOUT.fields(),
        Kind::Fetch => fetch::LAYOUT.fields(),
        Kind::OfferAck => offer_ack::LAYOUT.fields(),
        Kind::DecodeTime => decode_time::LAYOUT.fields(),
    }
}

/// What stands below `heading`, up to the next heading.
fn section(heading: &str) -> &'static str {
    let from = WIRE.find(&format!("{heading}\n")).unwrap_or_else(|| panic!("no section {heading:?}"));
    let rest = &WIRE[from + heading.len()..];
    &rest[..rest.find("\n#").unwrap_or(rest.len())]
}

/// The section that describes messages of this kind.
fn message_section(kind: Kind) -> &'static str {
    section(&format!("### Type {}: {kind}", kind.number()))
}

/// The cells of the table rows in `text`, without its heading.
fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let lines = text.lines().filter(|line| line.starts_with("| "));
    lines.skip(1).map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
}

/// The blocks fenced with this word.
fn blocks<'a>(text: &'a str, fence: &str) -> Vec<&'a str> {
    let open = format!("```{fence}\n");
    text.split(&open).skip(1).map(|rest| rest.split("```").next().unwrap_or(rest)).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: String = hex.split_whitespace().collect();
    assert!(digits.len().is_multiple_of(2), "{hex}");
    (0..digits.len()).step_by(2).map(|i| u8::from_str_radix(&digits[i..i + 2], 16).unwrap()).collect()
}

/// Names and values of a drawing: a line of names, a line of values, and so on.
fn drawn(drawing: &str) -> Vec<(&str, &str)> {
    let lines: Vec<Vec<&str>> = drawing
        .lines()
        .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
        .collect();
    let mut pairs = Vec::new();
    for pair in lines.chunks(2) {
        assert_eq!(pair[0].len(), pair[1].len(), "{drawing}");
        pairs.extend(pair[0].iter().copied().zip(pair[1].iter().copied()));
    }
    pairs
}

/// The examples of each kind of message, in the order of the page, with their payloads.
fn examples(kind: Kind) -> Vec<(Header, &'static [u8])> {
    let address = Address::new(3, 0x1000);
    let read = DataReady { id: MessageId(0xabc), algorithm: Algorithm::None, status: Status::Good };
    match kind {
        Kind::Hello => vec![
            (Header::Hello(Hello::Greeting(greeting())), &[]),
            (Header::Hello(Hello::refusal(Status::WrongSecret)), &[]),
        ],
        Kind::ReadRequest => {
            vec![(
                Header::ReadRequest(ReadRequest { id: MessageId(0xabc), address, length: 8, raw: false }),
                &[],
            )]
        }
        Kind::DataReady => vec![
            (Header::DataReady(read), &[1, 2, 3, 4, 5, 6, 7, 8]),
            (Header::DataReady(DataReady { status: Status::OutOfBounds, ..read }), &[]),
        ],
        Kind::WriteRequest => {
            let algorithm = Algorithm::None;
            let write = WriteRequest { id: MessageId(0xabd), address, length: 4, algorithm };
            vec![(Header::WriteRequest(write), &[0xca, 0xfe, 0xf0, 0x0d])]
        }
        Kind::WriteAck => {
            vec![(Header::WriteAck(WriteAck { id: MessageId(0xabd), status: Status::Good }), &[])]
        }
        Kind::TaggedSend => {
            let (algorithm, tag) = (Algorithm::None, Tag(0x0123_4567_89ab_cdef));
            let send = TaggedSend {
                id: MessageId(0xabe),
                algorithm,
                continued: false,
                unawaited: false,
                tag,
                length: 3,
            };
            vec![(Header::TaggedSend(send), b"abc")]
        }
        Kind::Offer => {
            let tag = Tag(0x0123_4567_89ab_cdef);
            vec![(Header::Offer(Offer { offer: OfferId(5), continued: false, tag, length: 1 << 32 }), &[])]
        }
        Kind::Fetch => {
            let fetch = Fetch { id: MessageId(0xdef), offer: OfferId(5), offset: 1 << 20, length: 1 << 20 };
            vec![(Header::Fetch(fetch), &[])]
        }
        Kind::OfferAck => {
            vec![(Header::OfferAck(OfferAck { status: Status::Good, offer: OfferId(5) }), &[])]
        }
        Kind::DecodeTime => {
            let time = DecodeTime { id: MessageId(0xabd), answer: false, nanoseconds: 2500 };
            vec![(Header::DecodeTime(time), &[])]
        }
    }
}

fn greeting() -> Greeting {
    Greeting {
        secret: Secret::new(std::array::from_fn(|i| i as u8 * 0x11)),
        rank: Rank(2),
        ranks: 4,
        limits: Limits { max_transfer_bytes: 64 << 20, window_bytes: 256 << 20, max_in_flight: 1024 },
        algorithms: Algorithm::ALL[..5].iter().copied().collect::<AlgorithmSet>(),
        elements: ElementSet::all(),
    }
}

#[test]
fn field_tables_are_the_layouts() {
    for kind in Kind::ALL {
        let mut at = 0;
        let expected: Vec<(String, &str)> = fields(kind)
            .iter()
            .map(|&(name, width)| {
                at += width;
                (format!("{}–{}", at - width, at - 1), name)
            })
            .collect();
        let documented: Vec<(String, &str)> =
            rows(message_section(kind)).map(|row| (row[0].to_owned(), row[1])).collect();
        assert_eq!(documented, expected, "{kind}");
    }
}

#[test]
fn examples_are_the_messages_they_are_said_to_be() {
    for kind in Kind::ALL {
        let documented = blocks(message_section(kind), "hex");
        let expected = examples(kind);
        assert_eq!(documented.len(), expected.len(), "{kind}");
        for (text, (header, payload)) in documented.into_iter().zip(expected) {
            let message = bytes(text);
            assert_eq!(message, [&header.encode(), payload].concat(), "{kind}");
            assert_eq!(Header::parse(&message), Ok((header, message.len() - payload.len())));
        }
    }
}

#[test]
fn drawings_show_every_field_and_the_bytes_below() {
    for kind in Kind::ALL {
        let text = message_section(kind);
        let (drawings, examples) = (blocks(text, "text"), blocks(text, "hex"));
        assert_eq!(drawings.len(), examples.len(), "{kind}");
        for (drawing, example) in drawings.into_iter().zip(examples) {
            let pairs = drawn(drawing);
            for (&(name, value), &(field, width)) in pairs.iter().zip(fields(kind)) {
                assert_eq!((name, value.len() * 4), (field, width as usize), "{kind}");
            }
            let rest = &pairs[fields(kind).len()..];
            assert!(rest.iter().all(|&(name, _)| name == "payload") && rest.len() <= 1, "{kind}");
            let values: String = pairs.iter().map(|&(_, value)| value).collect();
            assert_eq!(bytes(&values), bytes(example), "{kind}");
        }
    }
}

#[test]
fn tables_of_types_and_statuses_are_complete() {
    let types: Vec<_> = rows(section("## The messages"))
        .filter(|row| row[1] != "–")
        .map(|row| (row[0].to_owned(), row[1].to_owned(), row[2].to_owned()))
        .collect();
    let kinds =
        Kind::ALL.map(|kind| (kind.number().to_string(), kind.to_string(), kind.header_len().to_string()));
    assert_eq!(types, kinds);

    let statuses: Vec<_> =
        rows(section("### Status codes")).map(|row| (row[0].to_owned(), row[1].to_owned())).collect();
    assert_eq!(statuses, Status::ALL.map(|status| (status.code().to_string(), status.to_string())));
}

#[test]
fn version_and_longest_hello_are_named() {
    assert!(WIRE.contains(&format!("version {VERSION} of the protocol.")));
    assert_eq!(MAX_HELLO_LEN, 1024);
    assert_eq!(WIRE.matches("at most 1,024 bytes").count(), 2);
}

#[test]
fn record_example_holds_a_message() {
    let records = blocks(WIRE, "record");
    assert_eq!(records.len(), 1);
    let record = bytes(records[0]);
    let (prefix, message) = record.split_at(8);
    assert_eq!(prefix[..4], (message.len() as u32).to_le_bytes());
    assert_eq!(prefix[4..], crc32c::crc32c(message).to_le_bytes());
    assert_eq!(Header::parse(message), Ok((examples(Kind::WriteAck)[0].0, 4)));
}
