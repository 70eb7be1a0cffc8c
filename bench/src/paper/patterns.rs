//! Which patterns of Table II lines and words show.

use mgcomp_codecs::line::{LINE_LEN, LINE_WORDS, words};
use mgcomp_codecs::{bdi, cpackz, fpc};

/// Data bits of the patterns of FPC, by number.
const FPC_BITS: [u32; 10] = [0, 0, 0, 8, 4, 8, 16, 16, 16, 32];
/// The number of an FPC word that matches nothing.
const FPC_UNMATCHED: u8 = 9;
/// BDI leaves the line as it is.
const BDI_RAW: usize = 9;

/// What one line looks like to the three codecs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinePatterns {
    /// Bits before compression: 512, or fewer in a payload's last line.
    pub(super) raw_bits: u32,
    /// Bits by BDI, FPC and C-Pack+Z, never more than before compression.
    pub(super) bits: [u32; 3],
    /// Bits by FPC if a word that matches nothing took 32 bits, as the paper seems to count.
    pub(super) fpc_bits_as_paper: u32,
    /// The pattern of the line.
    pub(super) bdi: usize,
    /// The patterns of the words; none in a line of zeros, which is one event of pattern 1.
    pub(super) words: Option<WordPatterns>,
}

/// Pattern numbers of the words of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WordPatterns {
    /// Words that the payload has a byte of. Behind them are those that codecs fill the line up with.
    count: usize,
    fpc: [u8; LINE_WORDS],
    cpackz: [u8; LINE_WORDS],
}

impl WordPatterns {
    pub(super) fn fpc(&self) -> &[u8] {
        &self.fpc[..self.count]
    }

    pub(super) fn cpackz(&self) -> &[u8] {
        &self.cpackz[..self.count]
    }
}

impl LinePatterns {
    /// The patterns of a line, or of the part of one that a payload ends in, 1 to 64 bytes.
    ///
    /// Its bits are those of the codecs, which fill up a part with zeros; where they would be more than those of the bytes
    /// that there are, the bytes go uncompressed.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut line = [0; LINE_LEN];
        line[..bytes.len()].copy_from_slice(bytes);
        let raw_bits = 8 * bytes.len() as u32;
        let coded = [bdi::line_bits(&line), fpc::line_bits(&line), cpackz::line_bits(&line)];
        let all = words(&line);
        let words = (all != [0; LINE_WORDS]).then(|| WordPatterns {
            count: bytes.len().div_ceil(4),
            fpc: all.map(fpc_pattern),
            cpackz: cpackz_patterns(&all),
        });
        let fpc_bits_as_paper = words.map_or(coded[1], |words| fpc_bits_as_paper(&words.fpc)).min(raw_bits);
        let bdi = if coded[0] < raw_bits { bdi_pattern(coded[0], &all) } else { BDI_RAW };
        Self { raw_bits, bits: coded.map(|bits| bits.min(raw_bits)), fpc_bits_as_paper, bdi, words }
    }
}

/// The number that a word has for FPC, 2 to 9: of all that match, the one with the fewest bits, ties by the
/// lower number.
const fn fpc_pattern(word: u32) -> u8 {
    let value = word as i32;
    let (low, high) = (word as i16, (word >> 16) as i16);
    match value {
        0 => 2,
        -8..=7 => 4,
        _ if word == (word & 0xff) * 0x0101_0101 => 3,
        -128..=127 => 5,
        -32_768..=32_767 => 6,
        _ if low == 0 => 7,
        _ if low as i8 as i16 == low && high as i8 as i16 == high => 8,
        _ => FPC_UNMATCHED,
    }
}

/// The size of a line of these words with 3 + 0 bits of prefix and no code for a word that matches nothing.
fn fpc_bits_as_paper(patterns: &[u8; LINE_WORDS]) -> u32 {
    let prefix = |pattern| if pattern == FPC_UNMATCHED { 0 } else { 3 };
    patterns.iter().map(|&pattern| FPC_BITS[usize::from(pattern)] + prefix(pattern)).sum()
}

/// The numbers that the words of a line have for C-Pack+Z, 2 to 7.
fn cpackz_patterns(words: &[u32; LINE_WORDS]) -> [u8; LINE_WORDS] {
    let (mut dictionary, mut len) = ([0; LINE_WORDS], 0);
    words.map(|word| {
        let has = |shift: u32| dictionary[..len].iter().any(|&known: &u32| known >> shift == word >> shift);
        let pattern = match word {
            0 => 2,
            _ if has(0) => 4,
            1..=0xff => 6,
            _ if has(8) => 7,
            _ if has(16) => 5,
            _ => 3,
        };
        if pattern == 3 {
            dictionary[len] = word;
            len += 1;
        }
        pattern
    })
}

/// The number of the BDI form that has `bits`. Two have 308: 4-byte elements with 2-byte deltas go first.
fn bdi_pattern(bits: u32, words: &[u32; LINE_WORDS]) -> usize {
    match bits {
        4 => 1,
        68 => 2,
        140 => 3,
        204 => 4,
        332 => 5,
        180 => 6,
        308 if fits_half_deltas(words) => 7,
        308 => 8,
        _ => BDI_RAW,
    }
}

/// Whether all words that are no 16-bit numbers lie within 16 bits of each other.
fn fits_half_deltas(words: &[u32; LINE_WORDS]) -> bool {
    let long = || words.iter().filter(|&&word| i16::try_from(word as i32).is_err());
    long().max().zip(long().min()).is_none_or(|(max, min)| max - min < 1 << 16)
}

#[cfg(test)]
mod tests {
    use mgcomp_codecs::line::{Line, from_words};

    use super::*;
    use crate::data::Random;

    /// Lines in which all patterns occur.
    fn lines() -> impl Iterator<Item = Line> {
        let mut random = Random::new(5);
        (0..20_000).map(move |_| {
            let shared = random.bits() as u32;
            let kinds = random.bits() as usize;
            from_words(&std::array::from_fn(|_| {
                let bits = random.bits() as u32;
                match random.below(1 + kinds % 9) {
                    0 => bits & 7,
                    1 => 0,
                    2 => shared ^ (bits & 0xff),
                    3 => shared ^ (bits & 0xffff),
                    4 => bits << 16,
                    5 => (bits & 0xff) * 0x0101_0101,
                    6 => (bits as i16).into_u32(),
                    7 => bits & 0x003f_003f,
                    _ => bits,
                }
            }))
        })
    }

    trait IntoU32 {
        fn into_u32(self) -> u32;
    }

    impl IntoU32 for i16 {
        fn into_u32(self) -> u32 {
            i32::from(self) as u32
        }
    }

    #[test]
    fn patterns_add_up_to_the_bits_of_the_codecs() {
        let cpackz_bits = |pattern: &u8| [0, 0, 2, 34, 8, 24, 12, 16][usize::from(*pattern)];
        let bdi_bits = [0, 4, 68, 140, 204, 332, 180, 308, 308, 512];
        let mut seen = ([false; 10], [false; 8], [false; 10]);
        for line in lines() {
            let patterns = LinePatterns::of(&line);
            assert_eq!(bdi_bits[patterns.bdi], patterns.bits[0]);
            seen.2[patterns.bdi] = true;
            let Some(words) = patterns.words else { continue };
            let fpc: u32 = words.fpc.iter().map(|&pattern| 3 + FPC_BITS[usize::from(pattern)]).sum();
            assert_eq!(fpc.min(512), patterns.bits[1], "{words:?}");
            let cpackz: u32 = words.cpackz.iter().map(cpackz_bits).sum();
            assert_eq!(cpackz.min(512), patterns.bits[2], "{words:?}");
            words.fpc.iter().for_each(|&pattern| seen.0[usize::from(pattern)] = true);
            words.cpackz.iter().for_each(|&pattern| seen.1[usize::from(pattern)] = true);
        }
        assert_eq!(seen.0[2..], [true; 8]);
        assert_eq!(seen.1[2..], [true; 6]);
        assert_eq!((seen.2[6], seen.2[7], seen.2[9]), (true, true, true));
    }

    #[test]
    fn forms_of_one_size_are_told_apart() {
        // One far word keeps four-byte elements from fitting; its two halves are near each other's.
        let halves = LinePatterns::of(&from_words(&std::array::from_fn(|i| {
            if i == 0 { 0x1200_1234 } else { 0x1210_1220 + i as u32 }
        })));
        let near = LinePatterns::of(&from_words(&std::array::from_fn(|i| 0x1200_0000 + 300 * i as u32)));
        assert_eq!((near.bits[0], near.bdi), (308, 7));
        assert_eq!((halves.bits[0], halves.bdi), (308, 8));
        let zeros = LinePatterns::of(&[0; 64]);
        assert_eq!((zeros.bits, zeros.bdi, zeros.words), ([4, 3, 2], 1, None));
    }

    #[test]
    fn the_papers_count_has_no_prefix_for_an_unmatched_word() {
        // KM in small: 14 zero words and two that match nothing.
        let line = from_words(&std::array::from_fn(|i| if i % 8 == 3 { 0x40c8_1c81 + i as u32 } else { 0 }));
        let patterns = LinePatterns::of(&line);
        assert_eq!((patterns.bits[1], patterns.fpc_bits_as_paper), (14 * 3 + 2 * 35, 14 * 3 + 2 * 32));
    }
}
