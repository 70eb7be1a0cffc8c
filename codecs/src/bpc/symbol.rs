//! The codes of planes and of the first word.

use super::string::{BitReader, BitWriter};
use super::{ALL_ONES, DELTAS, PLANES};

/// What a code says of one plane, or of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Symbol {
    /// As many planes whose DBX is zero.
    Zeros(usize),
    /// The DBX is all ones.
    Ones,
    /// The DBP is zero, the DBX is not.
    ZeroDbp,
    /// The DBX has two ones, at this index and the next.
    Pair(u32),
    /// The DBX has a single one, at this index.
    Single(u32),
    /// None of these: 31 bits of DBX follow behind the codes.
    Plane(u32),
}

impl Symbol {
    /// The symbol of a plane whose DBX is not zero.
    fn of(dbp: u32, dbx: u32) -> Self {
        let lowest = dbx.trailing_zeros();
        if dbx == ALL_ONES {
            Self::Ones
        } else if dbp == 0 {
            Self::ZeroDbp
        } else if dbx >> lowest == 0b11 {
            Self::Pair(lowest)
        } else if dbx >> lowest == 1 {
            Self::Single(lowest)
        } else {
            Self::Plane(dbx)
        }
    }

    /// The code as a number, and its length in bits.
    fn code(self) -> (u64, u32) {
        match self {
            Self::Zeros(1) => (0b100, 3),
            Self::Zeros(run) => (0b10 | (run as u64 - 2) << 2, 7),
            Self::Ones => (0b00000, 5),
            Self::ZeroDbp => (0b10000, 5),
            Self::Pair(index) => (0b01000 | u64::from(index) << 5, 10),
            Self::Single(index) => (0b11000 | u64::from(index) << 5, 10),
            Self::Plane(_) => (0b1, 1),
        }
    }

    /// Its length in bits, those behind the codes counted.
    pub(super) fn bits(self) -> u32 {
        self.code().1 + if matches!(self, Self::Plane(_)) { DELTAS as u32 } else { 0 }
    }

    pub(super) fn write_code(self, out: &mut BitWriter) {
        let (code, bits) = self.code();
        out.push(code, bits);
    }

    /// Reads a code; [`Symbol::Plane`] comes without its bits. `None` for an index that no plane has.
    pub(super) fn read_code(bits: &mut BitReader) -> Option<Self> {
        let mut next = || bits.take(1) == 1;
        if next() {
            return Some(Self::Plane(0));
        }
        if next() {
            return Some(Self::Zeros(bits.take(5) as usize + 2));
        }
        if next() {
            return Some(Self::Zeros(1));
        }
        match (next(), next()) {
            (false, false) => Some(Self::Ones),
            (false, true) => Some(Self::ZeroDbp),
            (true, one) => {
                let index = bits.take(5) as u32;
                let symbol = if one { Self::Single(index) } else { Self::Pair(index) };
                (symbol.dbx() <= ALL_ONES).then_some(symbol)
            }
        }
    }

    /// The DBX that the code says, zero where it does not say any.
    pub(super) fn dbx(self) -> u32 {
        match self {
            Self::Ones => ALL_ONES,
            Self::Pair(index) => (0b11u64 << index).min(u64::from(u32::MAX)) as u32,
            Self::Single(index) => 1 << index,
            Self::Plane(dbx) => dbx,
            Self::Zeros(_) | Self::ZeroDbp => 0,
        }
    }
}

/// The symbols of an entry, from plane 32 down, given the DBP of each plane by its number.
pub(super) fn symbols(dbp: &[u32; PLANES]) -> impl Iterator<Item = Symbol> + '_ {
    let dbx = |plane: usize| dbp[plane] ^ dbp.get(plane + 1).copied().unwrap_or(0);
    let mut left = PLANES;
    std::iter::from_fn(move || {
        let plane = left.checked_sub(1)?;
        let run = (0..left).rev().take_while(|&plane| dbx(plane) == 0).count();
        left -= run.max(1);
        Some(if run > 0 { Symbol::Zeros(run) } else { Symbol::of(dbp[plane], dbx(plane)) })
    })
}

/// The code of the first word as a number, and its length in bits.
pub(super) fn first_word_code(word: u32) -> (u64, u32) {
    let signed = word as i32;
    if signed == 0 {
        (0b000, 3)
    } else if (-8..8).contains(&signed) {
        (0b100 | u64::from(word & 0xf) << 3, 3 + 4)
    } else if i8::try_from(signed).is_ok() {
        (0b010 | u64::from(word & 0xff) << 3, 3 + 8)
    } else if i16::try_from(signed).is_ok() {
        (0b110 | u64::from(word & 0xffff) << 3, 3 + 16)
    } else {
        (0b1 | u64::from(word) << 1, 1 + 32)
    }
}

pub(super) fn read_first_word(bits: &mut BitReader) -> u32 {
    let mut next = || bits.take(1) == 1;
    if next() {
        return bits.take(32) as u32;
    }
    let value_bits = match (next(), next()) {
        (false, false) => return 0,
        (false, true) => 4,
        (true, false) => 8,
        (true, true) => 16,
    };
    let unused = 32 - value_bits;
    ((bits.take(value_bits) as i32) << unused >> unused) as u32
}
