//! What the vector back-ends share: codes of the first word and of planes, with few branches.
//!
//! Planes stand in the order of their codes here: index 0 is plane 32, index 32 is plane 0. A set of planes is a
//! mask of 33 bits in that order.

use super::{ALL_ONES, ENTRY_LEN, PLANES, RAW_ENTRY_BITS};

/// Room for one entry at `coded`: its codes take at most 46 bytes, then two vectors of planes are stored.
pub(super) const ENTRY_ROOM: usize = 192;

/// The longest an entry may be in bits to be stored coded.
pub(super) const MAX_CODED_BITS: u32 = RAW_ENTRY_BITS - 8;

/// Which code each plane has; every plane is in one set.
#[derive(Clone, Copy)]
pub(super) struct Kinds {
    pub(super) zero: u64,
    pub(super) ones: u64,
    pub(super) zero_dbp: u64,
    pub(super) pair: u64,
    pub(super) single: u64,
}

impl Kinds {
    /// The planes that stand behind the codes.
    #[inline(always)]
    pub(super) fn plain(&self) -> u64 {
        let others = self.zero | self.ones | self.zero_dbp | self.pair | self.single;
        others ^ ((1 << PLANES) - 1)
    }

    /// The first planes of runs of zeros.
    #[inline(always)]
    pub(super) fn run_starts(&self) -> u64 {
        self.zero & !(self.zero << 1)
    }

    /// The runs of zeros that are one plane long.
    #[inline(always)]
    pub(super) fn short_runs(&self) -> u64 {
        self.run_starts() & !(self.zero >> 1)
    }

    /// What the codes and planes take in bits.
    #[inline(always)]
    pub(super) fn bits(&self) -> u32 {
        32 * self.plain().count_ones()
            + 10 * (self.pair | self.single).count_ones()
            + 5 * (self.ones | self.zero_dbp).count_ones()
            + 7 * self.run_starts().count_ones()
            - 4 * self.short_runs().count_ones()
    }

    /// Those of planes 31 to 16, followed by those of planes 15 to 0.
    #[inline(always)]
    pub(super) fn followed_by(&self, lower: &Self) -> Self {
        Self {
            zero: self.zero | lower.zero << 16,
            ones: self.ones | lower.ones << 16,
            zero_dbp: self.zero_dbp | lower.zero_dbp << 16,
            pair: self.pair | lower.pair << 16,
            single: self.single | lower.single << 16,
        }
    }

    /// With plane 32 in front of the others, which have index 0 to 31 here. Of it, DBP and DBX are the same.
    #[inline(always)]
    pub(super) fn with_sign(self, sign: u32) -> Self {
        let lowest = sign & sign.wrapping_neg();
        let (zero, ones) = (sign == 0, sign == ALL_ONES);
        let (pair, single) = (!zero && sign == 3 * u64::from(lowest) as u32, !zero && sign == lowest);
        Self {
            zero: self.zero << 1 | u64::from(zero),
            ones: self.ones << 1 | u64::from(ones),
            zero_dbp: self.zero_dbp << 1,
            pair: self.pair << 1 | u64::from(pair),
            single: self.single << 1 | u64::from(single),
        }
    }
}

/// Appends the codes of all planes, given the DBX of each as a little-endian word.
#[inline(always)]
pub(super) fn push_codes(out: &mut Appender<'_>, kinds: &Kinds, dbx: &Spelled) {
    let with_index = kinds.pair | kinds.single;
    let mut left = kinds.run_starts() | kinds.ones | kinds.zero_dbp | with_index;
    // The next plane without a code.
    let mut next = 0;
    while left != 0 {
        let plane = left.trailing_zeros();
        let run = (!(kinds.zero >> plane)).trailing_zeros();
        let has_index = with_index >> plane & 1;
        let upper = (kinds.zero_dbp | kinds.single) >> plane & 1;
        let index = u64::from(u32::from_le_bytes(dbx[plane as usize]).trailing_zeros()) * has_index;
        let (code, bits) = match run {
            0 => (upper << 4 | has_index << 3 | index << 5, 5 + 5 * has_index as u32),
            1 => (0b100, 3),
            _ => (0b10 | (u64::from(run) - 2) << 2, 7),
        };
        // Plain planes before it have a code of one bit, which is 1.
        let plain = plane - next;
        out.push(code << plain | ((1 << plain) - 1), plain + bits);
        next = plane + run.max(1);
        left &= left - 1;
    }
    let plain = PLANES as u32 - next;
    out.push((1 << plain) - 1, plain);
}

/// The code of the plane in front, and its length in bits.
#[inline(always)]
pub(super) fn sign_code(kinds: &Kinds, sign: u32) -> (u64, u32) {
    if kinds.plain() & 1 == 1 {
        return (0b1, 1);
    }
    if kinds.zero & 1 == 1 {
        return match u64::from((!kinds.zero).trailing_zeros()) {
            1 => (0b100, 3),
            run => (0b10 | (run - 2) << 2, 7),
        };
    }
    if kinds.ones & 1 == 1 {
        return (0b00000, 5);
    }
    let code = if kinds.single & 1 == 1 { 0b11000 } else { 0b01000 };
    (code | u64::from(sign.trailing_zeros()) << 5, 10)
}

/// The code in front of a first word of so many significant bits: as a number, its length, that of the value.
const FIRST_WORD: [(u8, u8, u8); 34] = {
    let mut table = [(0b1, 1, 32); 34];
    let mut bits = 0;
    while bits <= 16 {
        table[bits] = match bits {
            0 => (0b000, 3, 0),
            1..=4 => (0b100, 3, 4),
            5..=8 => (0b010, 3, 8),
            _ => (0b110, 3, 16),
        };
        bits += 1;
    }
    table
};

/// The code of the first word as a number, and its length in bits.
#[inline(always)]
pub(super) fn first_word_code(word: u32) -> (u64, u32) {
    // Bits of a signed number that holds the word; 0 for zero.
    let magnitude = word ^ ((word as i32) >> 31) as u32;
    let significant = if word == 0 { 0 } else { 33 - magnitude.leading_zeros() };
    let (code, code_bits, value_bits) = FIRST_WORD[significant as usize % FIRST_WORD.len()];
    let value = u64::from(word) & ((1 << value_bits) - 1);
    (u64::from(code) | value << code_bits, u32::from(code_bits) + u32::from(value_bits))
}

/// Appends bits to an entry, fewer than 8 of them waiting for a byte.
pub(super) struct Appender<'a> {
    pub(super) room: &'a mut [u8; ENTRY_ROOM],
    pub(super) bytes: usize,
    pub(super) waiting: u64,
    pub(super) waiting_bits: u32,
}

impl Appender<'_> {
    /// The longest field that can be appended, in bits.
    pub(super) const MOST: u32 = 56;

    /// Appends `field`, which has at most [`MOST`](Self::MOST) bits.
    #[inline(always)]
    pub(super) fn push(&mut self, field: u64, bits: u32) {
        let word = self.waiting | field << self.waiting_bits;
        let word_bits = self.waiting_bits + bits;
        self.room[self.bytes..self.bytes + 8].copy_from_slice(&word.to_le_bytes());
        self.bytes += word_bits as usize / 8;
        self.waiting = word >> (word_bits & !7);
        self.waiting_bits = word_bits % 8;
    }
}

/// The DBX of planes whose code spells it out, as little-endian words; zero for all others.
pub(super) type Spelled = [[u8; 4]; PLANES];

/// What the codes of an entry say.
pub(super) struct Codes {
    pub(super) first_word: u32,
    /// Planes whose DBX stands behind the codes.
    pub(super) plain: u64,
    /// Planes whose DBP is zero.
    pub(super) zero_dbp: u64,
    /// The codes take so many bits.
    pub(super) bits: usize,
}

/// What a code that does not begin with `1` or `01` says, by its next three bits.
struct Short {
    zero_dbp: bool,
    /// The DBX, to be shifted by the index if there is one.
    dbx: u32,
    index_mask: u8,
}

const SHORT: [Short; 8] = {
    const ZERO: Short = Short { zero_dbp: false, dbx: 0, index_mask: 0 };
    [
        Short { zero_dbp: false, dbx: ALL_ONES, index_mask: 0 },
        ZERO,
        Short { zero_dbp: false, dbx: 0b11, index_mask: 31 },
        ZERO,
        Short { zero_dbp: true, dbx: 0, index_mask: 0 },
        ZERO,
        Short { zero_dbp: false, dbx: 0b1, index_mask: 31 },
        ZERO,
    ]
};

/// The lengths of these codes, 4 bits each, the first lowest.
const SHORT_BITS: u32 = 0x3a35_3a35;

/// Reads the codes at the front of `window`, and puts the DBX that they spell out into `dbx`, which is zero
/// before. `None` where one has no meaning.
#[inline(always)]
pub(super) fn read_codes(window: &[u8; ENTRY_ROOM], dbx: &mut Spelled) -> Option<Codes> {
    let bits_at = |at: usize| {
        let mut word = [0; 8];
        // Codes end within 363 bits.
        word.copy_from_slice(&window[at / 8 % 128..][..8]);
        u64::from_le_bytes(word) >> (at % 8)
    };
    let (first_word, mut at) = read_first_word(bits_at(0));
    let (mut index, mut wrong) = (0, 0);
    let mut codes = Codes { first_word, plain: 0, zero_dbp: 0, bits: 0 };
    // One load has 57 bits at least, and in one round at most 33 codes `1` and 10 bits more are read: there is
    // enough as long as 14 are used at most.
    let (mut bits, mut used) = (bits_at(at), 0);
    loop {
        // As many codes `1` as there are, up to the last plane.
        let plain = (!bits).trailing_zeros().min(PLANES as u32 - index);
        codes.plain |= ((1u64 << plain) - 1) << index;
        index += plain;
        used += plain;
        if index == PLANES as u32 {
            break;
        }
        bits >>= plain;
        if bits & 0b10 != 0 {
            index += (bits >> 2 & 31) as u32 + 2;
            used += 7;
            bits >>= 7;
            if index > PLANES as u32 {
                return None;
            }
        } else {
            let short = &SHORT[bits as usize >> 2 & 7];
            let value = u64::from(short.dbx) << (bits >> 5 & u64::from(short.index_mask));
            wrong |= value >> 31;
            dbx[index as usize] = (value as u32).to_le_bytes();
            codes.zero_dbp |= u64::from(short.zero_dbp) << index;
            index += 1;
            // Next to the loop, not behind a load: the next code waits for this.
            let len = SHORT_BITS >> (bits as u32 & 0b1_1100) & 15;
            used += len;
            bits >>= len;
        }
        if used > 14 {
            at += used as usize;
            used = 0;
            bits = bits_at(at);
        }
    }
    at += used as usize;
    codes.bits = at;
    (wrong == 0).then_some(codes)
}

/// The first word whose code is at the front of `bits`, and the length of the code.
#[inline(always)]
fn read_first_word(bits: u64) -> (u32, usize) {
    const VALUE_BITS: [u8; 8] = [0, 32, 8, 32, 4, 32, 16, 32];
    let code_bits = if bits & 1 == 1 { 1 } else { 3 };
    let value_bits = u32::from(VALUE_BITS[bits as usize & 7]);
    // Shifted out and back in two steps, as there may be no bits at all.
    let up = 63 - value_bits;
    let value = (bits >> code_bits << up << 1) as i64 >> up >> 1;
    (value as u32, (code_bits + value_bits) as usize)
}

/// The front of `strings` with room behind it, zeros where it ends; a copy in `padded` if it has to be.
#[inline(always)]
pub(super) fn window<'a>(
    strings: &'a [u8],
    size: usize,
    padded: &'a mut [u8; ENTRY_ROOM],
) -> &'a [u8; ENTRY_ROOM] {
    if let Some(window) = strings.first_chunk() {
        return window;
    }
    *padded = [0; ENTRY_ROOM];
    padded[..size].copy_from_slice(&strings[..size]);
    padded
}

/// Whether codes of so many bits and their planes take exactly the `size` bytes of the entry, and the unused bits
/// are zero.
#[inline(always)]
pub(super) fn fills_its_size(codes: &Codes, window: &[u8; ENTRY_ROOM], size: usize) -> bool {
    let bits = codes.bits + 31 * codes.plain.count_ones() as usize;
    let unused = window[(size - 1) % ENTRY_LEN] >> (bits % 8);
    bits.div_ceil(8) == size && (bits.is_multiple_of(8) || unused == 0)
}
