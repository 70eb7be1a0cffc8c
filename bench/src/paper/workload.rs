//! A run: its transfers as the fabric sees them, and what its payloads are like.

use mgcomp_codecs::line::{LINE_LEN, Line};

use super::character::{Character, entropy_bits};
use super::generate::Bench;
use super::patterns::LinePatterns;
use super::transfer::{Kind, Transfer};

/// How many transfers Figure 1 shows.
pub(super) const SHOWN: usize = 500;

/// A payload without its bytes: all that the fabric and the policies ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sized {
    pub(super) kind: Kind,
    pub(super) from: u8,
    pub(super) to: u8,
    /// Bytes before compression.
    pub(super) raw_bytes: u16,
    /// Bits by BDI, FPC and C-Pack+Z, never more than before compression.
    pub(super) bits: [u16; 3],
}

impl Sized {
    /// 64-byte lines, a partial one counted.
    pub(super) const fn lines(&self) -> u16 {
        self.raw_bytes.div_ceil(LINE_LEN as u16)
    }
}

/// One of the first transfers, for Figure 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shown {
    /// Bits by BDI, FPC and C-Pack+Z.
    pub(super) bits: [u16; 3],
    /// 0 to 1, mean over the lines of the transfer.
    pub(super) entropy: f64,
}

/// All transfers of a run.
#[derive(Debug)]
pub(super) struct Workload {
    /// The benchmark's, or the path of the trace: reports make a label of it.
    pub(super) name: String,
    /// The benchmark of the paper that this is to be compared with, if any.
    pub(super) bench: Option<Bench>,
    pub(super) is_trace: bool,
    pub(super) transfers: Vec<Sized>,
    pub(super) shown: Vec<Shown>,
    pub(super) character: Character,
    /// Whether FPC words that match nothing count 32 bits.
    as_paper: bool,
    known: Known,
}

impl Workload {
    pub(super) fn new(name: String, bench: Option<Bench>, is_trace: bool, as_paper: bool) -> Self {
        Self {
            name,
            bench,
            is_trace,
            transfers: Vec::new(),
            shown: Vec::new(),
            character: Character::default(),
            as_paper,
            known: Known::default(),
        }
    }

    /// Adds the next transfer.
    pub(super) fn push(&mut self, transfer: Transfer<'_>) {
        let Transfer { kind, from, to, payload } = transfer;
        let mut bits = [0u16; 3];
        let mut entropy = 0.0;
        let mut line_count = 0;
        self.character.add_transfer(kind, payload.len());
        for line in payload.chunks(LINE_LEN) {
            let (patterns, entropy_bits) = self.known.look_at(line);
            self.character.add_line(&patterns, entropy_bits);
            let mut line_bits = patterns.bits;
            if self.as_paper {
                line_bits[1] = patterns.fpc_bits_as_paper;
            }
            // A payload has at most 63 lines of 512 bits.
            bits.iter_mut().zip(line_bits).for_each(|(sum, bits)| *sum += bits as u16);
            entropy += entropy_bits / 6.0;
            line_count += 1;
        }
        self.transfers.push(Sized { kind, from, to, raw_bytes: payload.len() as u16, bits });
        if self.shown.len() < SHOWN {
            self.shown.push(Shown { bits, entropy: entropy / f64::from(line_count.max(1)) });
        }
    }

    /// Frees what only [`push`](Self::push) needs.
    pub(super) fn finish(mut self) -> Self {
        self.known = Known::default();
        self.transfers.shrink_to_fit();
        self
    }

    /// Raw bits over coded bits: BDI, FPC, C-Pack+Z.
    pub(super) fn ratios(&self) -> [f64; 3] {
        self.character.ratios(self.as_paper)
    }
}

/// Lines that were looked at before: programs read the same lines over and over.
#[derive(Debug, Default)]
struct Known {
    lines: Vec<Option<(Line, LinePatterns, f64)>>,
}

impl Known {
    /// How many lines are remembered; 23 MB.
    const PLACES: usize = 1 << 15;

    fn look_at(&mut self, line: &[u8]) -> (LinePatterns, f64) {
        let Ok(line) = <&Line>::try_from(line) else {
            return (LinePatterns::of(line), entropy_bits(line)); // the end of a payload, of which there are few
        };
        if self.lines.is_empty() {
            self.lines.resize(Self::PLACES, None);
        }
        let hash = line.as_chunks::<8>().0.iter().fold(0u64, |hash, bytes| {
            (hash ^ u64::from_le_bytes(*bytes)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
        });
        let place = &mut self.lines[hash as usize % Self::PLACES];
        match place {
            Some((known, patterns, entropy_bits)) if known == line => (*patterns, *entropy_bits),
            _ => {
                let (patterns, entropy_bits) = (LinePatterns::of(line), entropy_bits(line));
                *place = Some((*line, patterns, entropy_bits));
                (patterns, entropy_bits)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_of_several_lines_is_their_sum() {
        let mut workload = Workload::new("x".into(), None, true, false);
        let payload = [&[0u8; 64][..], &[0; 36]].concat();
        for kind in [Kind::Read, Kind::Write] {
            workload.push(Transfer { kind, from: 2, to: 0, payload: &payload });
        }
        let workload = workload.finish();
        assert_eq!(
            workload.transfers[0],
            Sized { kind: Kind::Read, from: 2, to: 0, raw_bytes: 100, bits: [8, 6, 4] }
        );
        assert_eq!(workload.transfers[1].lines(), 2);
        assert_eq!(
            (workload.character.reads, workload.character.writes, workload.character.lines),
            (1, 1, 4)
        );
        assert_eq!(workload.character.partial_payloads, 2);
        // 800 bits over 8, 6 and 4.
        assert_eq!(workload.ratios(), [100.0, 800.0 / 6.0, 200.0]);
        assert_eq!(workload.shown.len(), 2);
    }

    #[test]
    fn a_part_of_a_line_takes_no_more_than_its_own_bits() {
        // Noise of 32 bytes, filled up with zeros: FPC 8 · 35 + 8 · 3 and C-Pack+Z 8 · 34 + 8 · 2 are less than 512 bits, but
        // more than the 256 that there are.
        let mut random = crate::data::Random::new(7);
        let payload: Vec<u8> = (0..64 + 32).map(|_| random.bits() as u8).collect();
        for as_paper in [false, true] {
            let mut workload = Workload::new("x".into(), None, true, as_paper);
            workload.push(Transfer { kind: Kind::Read, from: 0, to: 1, payload: &payload[64..] });
            workload.push(Transfer { kind: Kind::Read, from: 0, to: 1, payload: &payload });
            assert_eq!(
                [workload.transfers[0].bits, workload.transfers[1].bits],
                [[256; 3], [768; 3]],
                "{as_paper}"
            );
            assert_eq!(workload.ratios(), [1.0; 3], "{as_paper}");
        }
    }

    #[test]
    fn the_longest_payload_of_noise_does_not_overflow() {
        let mut random = crate::data::Random::new(1);
        let payload: Vec<u8> =
            (0..super::super::transfer::MAX_PAYLOAD_LEN).map(|_| random.bits() as u8).collect();
        let mut workload = Workload::new("x".into(), None, true, true);
        workload.push(Transfer { kind: Kind::Read, from: 0, to: 1, payload: &payload });
        assert_eq!(workload.transfers[0].bits, [63 * 512; 3]);
    }
}
