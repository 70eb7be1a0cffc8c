//! What `mgcomp inspect` says of frames, right or wrong.

use std::fs;

use mgcomp_codecs::frame::{self, ChunkSize, Frame, Options};
use mgcomp_codecs::ibp::{FitOptions, Ibp, fit};
use mgcomp_codecs::{Cpu, Element};
use serde_json::Value;

use crate::ZEROS_FRAME;
use crate::workbench::{Workbench, stdout};

#[test]
fn inspect_explains_each_field() {
    let bench = Workbench::with("frame", &ZEROS_FRAME);
    let text = stdout(&bench.succeed(&["inspect", "frame", "--chunks"]));
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    let expected = [
        "0 magic 4d 47 \"MG\": a frame",
        "2 version 01 layout version 1",
        "3 algorithm 01 coded with bdi",
        "4 element 00 values are u8, 8 bits each",
        "5 flags 01 bit 0: the table holds a CRC32C of each chunk's raw bytes",
        "6 chunk size 0c 2^12 = 4096 raw bytes per chunk",
        "7 reserved 00 always zero",
        "8 raw length 20 00 00 00 00 00 00 00 32 raw bytes",
        "16 table (16 bytes) 1 entries: end in units of 16 bytes, CRC32C",
        "32 chunks (16 bytes) 1 coded, 0 raw",
        "smallest 16 bytes (chunk 0), largest 16 bytes (chunk 0)",
        "0 32 16 32 8a9136aa coded",
        "ratio 0.67: 32 raw bytes in 48",
        "verified: all 1 chunks decode and match their checksums",
    ];
    for line in expected {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert!(lines.contains(&words), "no line {line:?} in\n{text}");
    }
}

#[test]
fn inspect_gives_the_same_as_json() {
    let bench = Workbench::with("frame", &ZEROS_FRAME);
    let text = stdout(&bench.succeed(&["inspect", "frame", "--json", "--chunks"]));
    assert_eq!(text.lines().count(), 1);
    let json: Value = serde_json::from_str(&text).unwrap();
    let offsets: Vec<u64> =
        json["header"].as_array().unwrap().iter().map(|field| field["offset"].as_u64().unwrap()).collect();
    assert_eq!(offsets, [0, 2, 3, 4, 5, 6, 7, 8]);
    for (key, value) in [
        ("algorithm", Value::from("bdi")),
        ("element", "u8".into()),
        ("checksum", true.into()),
        ("raw_bytes", 32.into()),
        ("frame_bytes", 48.into()),
        ("chunks", 1.into()),
        ("raw_chunks", 0.into()),
        ("damaged_chunks", 0.into()),
        ("unchecked_chunks", 0.into()),
        ("error", Value::Null),
    ] {
        assert_eq!(json[key], value, "{key}");
    }
    assert_eq!(json["chunk_list"][0]["crc32c"], "8a9136aa");
}

#[test]
fn inspect_lists_the_codebook() {
    let golden = mgcomp_tests::golden::folder().join("ibp-bf16.frame");
    let bench = Workbench::with("frame", &fs::read(golden).unwrap());
    let json = stdout(&bench.succeed(&["inspect", "frame", "--json", "--chunks"]));
    let json: Value = serde_json::from_str(&json).unwrap();
    let number = |value: &Value| value.as_u64().unwrap();
    let codebook = &json["codebook"];
    let (offset, bytes) = (number(&codebook["offset"]), number(&codebook["bytes"]));
    // It fills what is between the table and the first chunk, and its first 8 bytes are its name.
    assert_eq!(offset, 16 + number(&json["table_bytes"]));
    assert_eq!(offset + bytes, number(&json["chunk_list"][0]["offset"]));
    let name = bench.read("frame")[offset as usize..][..8].try_into().unwrap();
    let name = format!("{:#018x}", u64::from_le_bytes(name));
    assert_eq!((&codebook["identity"], &codebook["carried"]), (&name.as_str().into(), &true.into()));

    let text = stdout(&bench.succeed(&["inspect", "frame"]));
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let lines: Vec<_> = text.lines().map(words).collect();
    let line =
        |expected: String| assert!(lines.contains(&words(&expected)), "no line {expected:?} in\n{text}");
    line(format!("{offset} codebook ({bytes} bytes) {name}, all of it"));
    let flags =
        lines.iter().find(|line| line.get(1).is_some_and(|field| field == "flags")).unwrap().join(" ");
    assert!(flags.contains("no checksums; bit 1: a codebook"), "{flags}");
    assert!(!text.contains("wrong"), "{text}");
    let chunks = lines.iter().find(|line| line.get(1).is_some_and(|field| field == "chunks")).unwrap();
    assert_eq!(chunks[0], (offset + bytes).to_string());
}

#[test]
fn inspect_tells_damage() {
    let mut frame = ZEROS_FRAME;
    frame[20] ^= 1; // the checksum
    let bench = Workbench::with("frame", &frame);
    let said = ["frame is damaged: 1 of 1 chunks", "chunk 0 at byte 32: checksum"];
    let text = stdout(&bench.fail(&["inspect", "frame", "--chunks"], &said));
    assert!(text.contains("damaged: 1 of 1 chunks do not decode"), "{text}");
    let json = stdout(&bench.fail(&["inspect", "frame", "--json"], &said));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["damaged_chunks"], 1);
    assert!(json["error"].as_str().unwrap().contains("checksum"), "{json}");
}

/// A frame of three chunks that names its codebook and does not carry it.
fn naming_frame() -> Vec<u8> {
    let float = |i: u32| {
        let [_, low, high, _] = i.wrapping_mul(2_654_435_761).to_le_bytes();
        [low, high, 0x10 * (i % 10) as u8, 0x3f]
    };
    let raw: Vec<u8> = (0..2500).flat_map(float).collect();
    let codebook = fit(&raw, 40, FitOptions::default()).unwrap();
    let codec = Ibp::with(Cpu::active(), codebook).unwrap().naming();
    let options = Options { chunk_size: ChunkSize::SMALL, checksum: true };
    frame::encode(&codec, Element::F32, &raw, options).unwrap()
}

#[test]
fn inspect_does_not_take_what_it_cannot_check_for_damage() {
    let mut frame = naming_frame();
    let parsed = Frame::parse(&frame).unwrap();
    let needed = format!("codebook {:#018x}", parsed.codebook().unwrap().id());
    assert!(parsed.chunks().all(|chunk| !chunk.is_raw()));
    let bench = Workbench::with("frame", &frame);
    let said = ["frame cannot be checked without ", &needed, "3 of 3 chunks need it"];
    let text = stdout(&bench.fail(&["inspect", "frame", "--chunks"], &said));
    assert!(
        text.contains("not verified: 3 of 3 chunks cannot be checked") && text.contains(" unchecked\n"),
        "{text}"
    );
    assert!(!text.contains("damage"), "{text}");
    let json: Value =
        serde_json::from_str(&stdout(&bench.fail(&["inspect", "frame", "--json"], &said))).unwrap();
    assert_eq!((&json["damaged_chunks"], &json["unchecked_chunks"]), (&0.into(), &3.into()));
    assert!(json["error"].as_str().unwrap().contains(&needed), "{json}");
    // That it is cut is seen without.
    frame.pop();
    bench.write("frame", &frame);
    bench.fail(&["inspect", "frame"], &["frame truncated"]);
}

#[test]
fn inspect_explains_a_wrong_header_too() {
    let mut frame = ZEROS_FRAME;
    frame[2] = 9;
    let bench = Workbench::with("frame", &frame);
    let text = stdout(&bench.fail(&["inspect", "frame"], &["frame version 9 (byte 2)"]));
    assert!(text.contains("wrong: layout version 9") && text.contains("coded with bdi"), "{text}");
}
