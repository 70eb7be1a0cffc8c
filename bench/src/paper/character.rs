//! What the payloads of a run are like: a row of Tables V and VI.

use mgcomp_codecs::line::LINE_LEN;

use super::patterns::LinePatterns;
use super::transfer::Kind;

/// Bits of entropy that 64 different bytes have.
const MAX_ENTROPY_BITS: f64 = 6.0;

/// Sums over all payloads of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Character {
    pub(super) reads: u64,
    pub(super) writes: u64,
    /// Payloads that end in a part of a line.
    pub(super) partial_payloads: u64,
    pub(super) lines: u64,
    /// Bits before compression.
    raw_bits: u64,
    /// Bits by BDI, FPC and C-Pack+Z.
    pub(super) bits: [u64; 3],
    /// Bits by FPC in the paper's count.
    pub(super) fpc_bits_as_paper: u64,
    entropy_bits: f64,
    /// Events by pattern number: FPC, C-Pack+Z, BDI.
    patterns: [[u64; 10]; 3],
}

impl Character {
    /// Adds a transfer of so many bytes, but not its lines.
    pub(super) fn add_transfer(&mut self, kind: Kind, payload_len: usize) {
        match kind {
            Kind::Read => self.reads += 1,
            Kind::Write => self.writes += 1,
        }
        self.partial_payloads += u64::from(!payload_len.is_multiple_of(LINE_LEN));
    }

    /// Adds a line, whose entropy is `entropy_bits`. A line of zeros is one event for FPC and C-Pack+Z, any
    /// other is as many as it has words, 16 in a whole one; BDI counts lines.
    pub(super) fn add_line(&mut self, line: &LinePatterns, entropy_bits: f64) {
        self.lines += 1;
        self.raw_bits += u64::from(line.raw_bits);
        self.entropy_bits += entropy_bits;
        for (sum, bits) in self.bits.iter_mut().zip(line.bits) {
            *sum += u64::from(bits);
        }
        self.fpc_bits_as_paper += u64::from(line.fpc_bits_as_paper);
        let [fpc, cpackz, bdi] = &mut self.patterns;
        bdi[line.bdi] += 1;
        let Some(words) = line.words else {
            fpc[1] += 1;
            cpackz[1] += 1;
            return;
        };
        words.fpc().iter().for_each(|&pattern| fpc[usize::from(pattern)] += 1);
        words.cpackz().iter().for_each(|&pattern| cpackz[usize::from(pattern)] += 1);
    }

    /// Mean entropy of a line's bytes, from 0 to 1.
    pub(super) fn entropy(&self) -> f64 {
        self.entropy_bits / self.lines.max(1) as f64 / MAX_ENTROPY_BITS
    }

    /// Raw bits over coded bits: BDI, FPC, C-Pack+Z. With `as_paper`, FPC by the paper's count.
    pub(super) fn ratios(&self, as_paper: bool) -> [f64; 3] {
        let [bdi, fpc, cpackz] = self.bits;
        let fpc = if as_paper { self.fpc_bits_as_paper } else { fpc };
        [bdi, fpc, cpackz].map(|bits| self.raw_bits as f64 / bits.max(1) as f64)
    }

    /// The three most frequent patterns with their share in percent: FPC, C-Pack+Z, BDI. Patterns that do not
    /// occur are left out.
    pub(super) fn dominant(&self) -> [Vec<(usize, f64)>; 3] {
        self.patterns.map(|counts| {
            let total = counts.iter().sum::<u64>().max(1) as f64;
            let mut all: Vec<_> = counts.iter().enumerate().filter(|(_, count)| **count > 0).collect();
            all.sort_by_key(|&(number, count)| (std::cmp::Reverse(*count), number));
            all.truncate(3);
            all.into_iter().map(|(number, &count)| (number, 100.0 * count as f64 / total)).collect()
        })
    }
}

/// Shannon entropy of the bytes of a line in bits per byte, 0 to 6. A part of a line can have less than a whole one.
pub(super) fn entropy_bits(line: &[u8]) -> f64 {
    let mut counts = [0u8; 256];
    for &byte in line {
        counts[usize::from(byte)] += 1;
    }
    // Each byte stands for log2(how many there are / how often it occurs).
    let information: f64 = line.iter().map(|&byte| LOG2[usize::from(counts[usize::from(byte)])]).sum();
    LOG2[line.len()] - information / line.len() as f64
}

/// log2 of 0 to 64, and 0 for 0.
static LOG2: std::sync::LazyLock<[f64; LINE_LEN + 1]> =
    std::sync::LazyLock::new(|| std::array::from_fn(|n| if n > 0 { (n as f64).log2() } else { 0.0 }));

#[cfg(test)]
mod tests {
    use mgcomp_codecs::line::Line;

    use super::*;

    #[test]
    fn entropy_of_lines_by_hand() {
        let close = |line: Line, bits: f64| (entropy_bits(&line) - bits).abs() < 1e-12;
        assert!(close([7; 64], 0.0));
        assert!(close(std::array::from_fn(|i| i as u8), 6.0));
        assert!(close(std::array::from_fn(|i| (i % 4) as u8), 2.0));
        // Half zeros, half all different: ½ · 1 + ½ · 6.
        assert!(close(std::array::from_fn(|i| if i < 32 { 0 } else { i as u8 }), 3.5));
        // What is missing of a line is not of it.
        assert_eq!([&[7][..], &[1, 2], &[1, 2, 3, 4]].map(entropy_bits), [0.0, 1.0, 2.0]);
    }

    #[test]
    fn events_are_counted_as_in_table_vi() {
        let mut character = Character::default();
        let mut line = [0; 64];
        character.add_line(&LinePatterns::of(&line), 0.0);
        line[0] = 5;
        character.add_line(&LinePatterns::of(&line), 3.0);
        let [fpc, cpackz, bdi] = character.dominant();
        let percent = |count: f64, of: f64| 100.0 * count / of;
        // One event and sixteen: the zero line, a 4-bit value (narrow for C-Pack+Z), fifteen zero words.
        assert_eq!(fpc, [(2, percent(15.0, 17.0)), (1, percent(1.0, 17.0)), (4, percent(1.0, 17.0))]);
        assert_eq!(cpackz, [(2, percent(15.0, 17.0)), (1, percent(1.0, 17.0)), (6, percent(1.0, 17.0))]);
        assert_eq!(bdi, [(1, 50.0), (3, 50.0)]);
        assert_eq!(character.entropy(), 0.25);
        // BDI 4 + 140, FPC 3 + (15 · 3 + 7), C-Pack+Z 2 + (15 · 2 + 12).
        assert_eq!(character.bits, [144, 55, 44]);
        assert_eq!(character.ratios(false)[0], 1024.0 / 144.0);
    }

    #[test]
    fn a_part_of_a_line_has_events_for_its_own_words_and_its_own_bits() {
        let mut character = Character::default();
        // Six bytes are two words: a 4-bit value, and a 16-bit one that C-Pack+Z has as new.
        character.add_line(&LinePatterns::of(&[5, 0, 0, 0, 0, 1]), 0.0);
        let [fpc, cpackz, bdi] = character.dominant();
        assert_eq!(fpc, [(4, 50.0), (6, 50.0)]);
        assert_eq!(cpackz, [(3, 50.0), (6, 50.0)]);
        // No form takes fewer than 48 bits: BDI 180, FPC 3 + 4 + 3 + 16 + 14 · 3, C-Pack+Z 12 + 34 + 14 · 2.
        assert_eq!((bdi, character.bits), (vec![(9, 100.0)], [48; 3]));
        assert_eq!((character.ratios(false), character.ratios(true)), ([1.0; 3], [1.0; 3]));
    }
}
