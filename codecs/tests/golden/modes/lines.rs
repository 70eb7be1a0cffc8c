//! The codecs of lines and entries.

use super::{Chunk, Modes};

pub(crate) fn bdi(chunk: Chunk<'_>, modes: &mut Modes) {
    for line in 0..chunk.raw_len.div_ceil(64) {
        modes.insert(format!("form {}", chunk.coded.bits(4 * line, 4)));
    }
}

/// The kinds of lines, as FPC and C-Pack+Z have them: how many are coded, and where what follows starts.
fn kinds(chunk: Chunk<'_>, modes: &mut Modes) -> (usize, usize) {
    let lines = chunk.raw_len.div_ceil(64);
    let (raw_at, mut raw) = (lines.div_ceil(8), 0);
    let mut coded = 0;
    for line in 0..lines {
        let kind = if chunk.coded.bit(line) == 1 {
            coded += 1;
            "coded line"
        } else {
            raw += 1;
            ["zero line", "raw line"][chunk.coded.bit(8 * raw_at + raw - 1)]
        };
        modes.insert(kind.to_owned());
    }
    (coded, (raw_at + raw.div_ceil(8)).next_multiple_of(2))
}

pub(crate) fn fpc(chunk: Chunk<'_>, modes: &mut Modes) {
    let (coded, at) = kinds(chunk, modes);
    for word in (0..coded).flat_map(|line| (0..16).map(move |word| 8 * (at + 6 * line) + word)) {
        let prefix: usize = (0..3).map(|plane| chunk.coded.bit(word + 16 * plane) << plane).sum();
        modes.insert(format!("prefix {prefix}"));
    }
}

pub(crate) fn cpackz(chunk: Chunk<'_>, modes: &mut Modes) {
    let (coded, at) = kinds(chunk, modes);
    let mut sub_codes = 0;
    for word in (0..coded).flat_map(|line| (0..16).map(move |word| 8 * (at + 4 * line) + word)) {
        let code = chunk.coded.bit(word) | chunk.coded.bit(word + 16) << 1;
        modes.insert(format!("code {code}"));
        if code == 3 {
            let sub_code = chunk.coded.bits(8 * (at + 4 * coded) + 2 * sub_codes, 2);
            modes.insert(format!("sub-code {sub_code}"));
            sub_codes += 1;
        }
    }
}

const FIRST_WORDS: [&str; 5] = [
    "first word zero",
    "first word of 4 bits",
    "first word of 8 bits",
    "first word of 16 bits",
    "any other first word",
];
const PLANES: [&str; 7] = [
    "run of zero planes",
    "single zero plane",
    "all ones",
    "zero DBP",
    "two ones",
    "single one",
    "any other plane",
];

pub(crate) fn expected_bpc() -> impl Iterator<Item = String> {
    let sizes = ["zero entry", "coded entry", "raw entry"];
    FIRST_WORDS.into_iter().chain(PLANES).chain(sizes).map(str::to_owned)
}

pub(crate) fn bpc(chunk: Chunk<'_>, modes: &mut Modes) {
    let entries = chunk.raw_len.div_ceil(128);
    let mut at = entries;
    for entry in 0..entries {
        let size = chunk.coded.u8(entry);
        modes.insert(
            ["zero entry", "coded entry", "raw entry"][usize::from(size > 0) + size / 128].to_owned(),
        );
        if (1..128).contains(&size) {
            bpc_codes(chunk, 8 * at, modes);
        }
        at += size;
    }
}

/// The codes of an entry that starts at bit `at`.
fn bpc_codes(chunk: Chunk<'_>, mut at: usize, modes: &mut Modes) {
    let mut take = |len| {
        let bits = chunk.coded.bits(at, len);
        at += len;
        bits
    };
    // Codes are written with their first bit lowest, so `001` is 4.
    let (first, len) = if take(1) == 1 { (4, 32) } else { [(0, 0), (2, 8), (1, 4), (3, 16)][take(2)] };
    modes.insert(FIRST_WORDS[first].to_owned());
    take(len);
    let mut planes = 33;
    while planes > 0 {
        let (kind, count) = if take(1) == 1 {
            (6, 1)
        } else if take(1) == 1 {
            (0, take(5) + 2)
        } else if take(1) == 1 {
            (1, 1)
        } else {
            let kind = [2, 4, 3, 5][take(2)];
            take(if kind < 4 { 0 } else { 5 });
            (kind, 1)
        };
        modes.insert(PLANES[kind].to_owned());
        planes -= count;
    }
}
