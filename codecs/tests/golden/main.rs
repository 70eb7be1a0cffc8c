//! Frames of version 1 as they were frozen: every back-end reads and writes exactly these bytes.
//!
//! `v1/SHA256SUMS` names all files. A change of the format is a new version and a new folder; a case that is missing
//! is a new name, which `cargo run -p mgcomp-tests --bin golden` writes.

#[path = "../common/golden.rs"]
mod golden;
mod modes;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use golden::Golden;
use mgcomp_codecs::frame::{self, Frame, Options, Workers};
use mgcomp_codecs::ibp::{Codebook, CodebookSection, Ibp};
use mgcomp_codecs::{Algorithm, Codec, Cpu, codec_on};
use sha2::{Digest as _, Sha256};

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/v1"))
}

/// The codebook in a section.
fn codebook_of(section: &[u8]) -> Codebook {
    CodebookSection::parse(section).unwrap().carried().expect("a codebook that is all there").clone()
}

/// The frame that `cpu` makes of the raw bytes, in the same way.
fn encode(golden: &Golden, parsed: &Frame<'_>, cpu: Cpu) -> Vec<u8> {
    let header = parsed.header();
    let options = Options { chunk_size: header.chunk_size, checksum: header.checksum };
    let ibp = |codebook: &Codebook| Ibp::with(cpu, codebook.clone()).unwrap();
    let fitted = match (parsed.codebook(), &golden.codebook) {
        (Some(CodebookSection::Carried(codebook)), None) => Some(ibp(codebook)),
        (Some(CodebookSection::Named(_)), Some(section)) => Some(ibp(&codebook_of(section)).naming()),
        (None, None) => None,
        (found, _) => panic!("{}: {found:?}, and a codebook beside it or not", golden.name),
    };
    let codec = match &fitted {
        Some(ibp) => ibp as &dyn Codec,
        None => codec_on(cpu, header.algorithm).unwrap(),
    };
    assert_eq!(frame::frame_len(codec, header.element, &golden.raw, options), golden.frame.len() as u64);
    frame::encode(codec, header.element, &golden.raw, options).unwrap()
}

#[test]
fn files_are_as_they_were_frozen() {
    let sums = fs::read_to_string(folder().join("SHA256SUMS")).unwrap();
    let mut named = BTreeMap::new();
    for line in sums.lines() {
        let (sum, name) = line.split_once("  ").unwrap_or_else(|| panic!("{line:?}"));
        assert_eq!(named.insert(name.to_owned(), sum.to_owned()), None, "{name} twice");
    }
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if name != "SHA256SUMS" {
            let hash = Sha256::digest(fs::read(&path).unwrap());
            found.insert(name, hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        }
    }
    assert_eq!(found, named);
}

#[test]
fn every_back_end_reads_and_writes_them() {
    let workers = Workers::new(2).unwrap();
    for golden in Golden::all(folder()) {
        let name = &golden.name;
        let mut parsed = Frame::parse(&golden.frame).unwrap_or_else(|e| panic!("{name}: {e}"));
        if let Some(section) = &golden.codebook {
            assert!(parsed.decode_to_vec(u64::MAX).is_err(), "{name} does not need its codebook");
            parsed = parsed.with_codebook(&codebook_of(section)).unwrap();
        }
        for cpu in Cpu::available() {
            let parsed = parsed.clone().on(cpu);
            let decoded = parsed.decode_to_vec(golden.raw.len() as u64);
            assert!(decoded.as_ref() == Ok(&golden.raw), "{name} on {}: {:?}", cpu.isa(), decoded.err());
            let mut raw = vec![0xa5; golden.raw.len()];
            workers.decode_into(&parsed, &mut raw).unwrap();
            assert!(raw == golden.raw, "{name} on {}: by threads", cpu.isa());
            // Of DEFLATE the library that writes it may change, the format does not.
            if parsed.header().algorithm != Algorithm::Deflate {
                assert!(encode(&golden, &parsed, cpu) == golden.frame, "{name} on {}: frame", cpu.isa());
            }
        }
    }
}

#[test]
fn they_show_every_mode_that_an_encoder_has() {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for golden in Golden::all(folder()) {
        let (algorithm, seen) = modes::of(&golden.frame, golden.codebook.as_deref());
        found.entry(algorithm.to_owned()).or_default().extend(seen);
    }
    let mut wrong = Vec::new();
    for (algorithm, expected) in modes::expected() {
        let found = found.remove(algorithm).unwrap_or_default();
        wrong.extend(expected.difference(&found).map(|mode| format!("{algorithm}: no {mode}")));
        wrong.extend(found.difference(&expected).map(|mode| format!("{algorithm}: {mode} is not listed")));
    }
    assert!(wrong.is_empty() && found.is_empty(), "{}\n{found:?}", wrong.join("\n"));
}
