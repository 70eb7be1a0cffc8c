//! The two sections that the granules of a code fill: participation bits and kept bits.

/// Takes granules in order and lays their bits down.
pub(super) struct Sink<'a> {
    /// One bit per granule, set = its invariant bits are left out.
    pub(super) participation: &'a mut [u8],
    /// What is kept, bit by bit.
    pub(super) kept: &'a mut [u8],
    /// How many granules are written.
    pub(super) granules: usize,
    /// Bytes of `kept` that are written, a multiple of 8.
    pub(super) at: usize,
    /// Kept bits that are not written yet, and how many: fewer than 64.
    pub(super) pending: u64,
    pub(super) fill: u32,
}

impl<'a> Sink<'a> {
    pub(super) fn new(participation: &'a mut [u8], kept: &'a mut [u8]) -> Self {
        participation.fill(0);
        Self { participation, kept, granules: 0, at: 0, pending: 0, fill: 0 }
    }

    /// Adds a granule: whether it participates, and the `count` low bits of `value`, which has no others.
    #[inline]
    pub(super) fn put(&mut self, participates: bool, value: u64, count: u32) {
        self.participation[self.granules / 8] |= u8::from(participates) << (self.granules % 8);
        self.granules += 1;
        self.pending |= value.unbounded_shl(self.fill);
        let fill = self.fill + count;
        if fill >= 64 {
            self.kept[self.at..self.at + 8].copy_from_slice(&self.pending.to_le_bytes());
            self.at += 8;
            self.pending = value.unbounded_shr(64 - self.fill);
        }
        self.fill = fill % 64;
    }

    /// For those who add many participation bits.
    pub(super) fn marker(&self) -> Marker {
        let fill = self.granules % 8;
        let begun = if fill > 0 { self.participation[self.granules / 8] } else { 0 };
        Marker { at: self.granules / 8, pending: u32::from(begun), fill }
    }

    /// Writes what is pending; returns the length of the kept bits in bytes.
    pub(super) fn finish(self) -> usize {
        let len = (self.fill as usize).div_ceil(8);
        self.kept[self.at..self.at + len].copy_from_slice(&self.pending.to_le_bytes()[..len]);
        self.at + len
    }
}

/// Writes participation bits over what was there, and never reads them back: a read that overlaps the write
/// before it has to wait.
pub(super) struct Marker {
    /// The byte that the pending bits belong to.
    at: usize,
    pending: u32,
    /// How many bits are pending, fewer than 8.
    fill: usize,
}

impl Marker {
    /// Adds `count` bits, at most 16.
    #[inline]
    pub(super) fn mark(&mut self, participation: &mut [u8], marks: u16, count: usize) {
        self.pending |= u32::from(marks) << self.fill;
        let bytes = self.pending.to_le_bytes();
        let room = &mut participation[self.at..];
        match room.first_chunk_mut() {
            Some(front) => *front = bytes,
            None => room.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte),
        }
        let end = self.fill + count;
        self.at += end / 8;
        self.pending >>= end / 8 * 8;
        self.fill = end % 8;
    }
}

/// Gives the bits of granules back in order.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    /// One bit per granule.
    pub(super) participation: &'a [u8],
    /// The kept bits, and perhaps bytes behind them.
    pub(super) kept: &'a [u8],
    /// How many granules, and how many kept bits, are taken.
    pub(super) granules: usize,
    pub(super) bit: usize,
}

impl<'a> Source<'a> {
    pub(super) fn new(participation: &'a [u8], kept: &'a [u8]) -> Self {
        Self { participation, kept, granules: 0, bit: 0 }
    }

    /// Whether the next granule participates.
    #[inline]
    pub(super) fn participates(&mut self) -> bool {
        let bit = self.participation[self.granules / 8] >> (self.granules % 8) & 1;
        self.granules += 1;
        bit == 1
    }

    /// The next `count` kept bits, at most 64; zeros behind the end.
    #[inline]
    pub(super) fn take(&mut self, count: u32) -> u64 {
        let (byte, shift) = (self.bit / 8, (self.bit % 8) as u32);
        self.bit += count as usize;
        let low = load(self.kept, byte) >> shift;
        let high = if shift + count > 64 { load(self.kept, byte + 8) << (64 - shift) } else { 0 };
        (low | high) & ones(count)
    }
}

/// Eight bytes from `at` on, zeros behind the end.
#[inline]
pub(super) fn load(bytes: &[u8], at: usize) -> u64 {
    let left = bytes.get(at..).unwrap_or_default();
    left.first_chunk().map_or_else(
        || left.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
        |&front| u64::from_le_bytes(front),
    )
}

/// The participation bits from granule `first` on, at least 25 or all that are left.
#[inline]
pub(super) fn marks_at(participation: &[u8], first: usize) -> u64 {
    let place = first / 8;
    let marks = match participation.get(place..place + 4) {
        Some(four) => u64::from(u32::from_le_bytes([four[0], four[1], four[2], four[3]])),
        None => load(participation, place),
    };
    marks >> (first % 8)
}

/// The low `count` bits set, at most 64.
pub(super) const fn ones(count: u32) -> u64 {
    u64::MAX.unbounded_shr(64 - count)
}
