//! Counting over a sample of rows of 64 bytes: how often each bit is set, and how many granules participate at each threshold.

#[cfg(target_arch = "x86_64")]
use super::avx2;
#[cfg(target_arch = "x86_64")]
use super::avx512;
use super::counts::Counts;
use super::levels::STEPS;
use crate::Cpu;

/// Bytes of a row.
pub(super) const ROW_LEN: usize = 64;
/// As many bytes of a buffer.
pub(super) type SampleRow = [u8; ROW_LEN];

/// Invariant bits by threshold, and what they are in most rows.
pub(super) struct Thresholds {
    pub(super) majority: SampleRow,
    pub(super) masks: [SampleRow; STEPS],
}

/// For each threshold how many rows have a participating granule at each place.
pub(super) struct Participants {
    /// Of granules of four bytes.
    pub(super) fours: [[u32; ROW_LEN / 4]; STEPS],
    /// Of granules of eight bytes.
    pub(super) eights: [[u64; ROW_LEN / 8]; STEPS],
}

/// For each bit of a row, how many of `rows` have it set.
pub(super) fn set_bits(cpu: Cpu, rows: &[SampleRow]) -> Counts {
    match cpu {
        Cpu::Portable => Counts::of(ROW_LEN, rows.iter().map(SampleRow::as_slice)),
        #[cfg(target_arch = "x86_64")]
        Cpu::Avx2(cpu) => avx2::set_bits(cpu, rows),
        #[cfg(target_arch = "x86_64")]
        Cpu::Avx512(cpu) => avx512::set_bits(cpu, rows),
    }
}

/// What participates in `rows`.
pub(super) fn participants(cpu: Cpu, thresholds: &Thresholds, rows: &[SampleRow]) -> Participants {
    match cpu {
        Cpu::Portable => portable_participants(thresholds, rows),
        #[cfg(target_arch = "x86_64")]
        Cpu::Avx2(cpu) => avx2::participants(cpu, thresholds, rows),
        #[cfg(target_arch = "x86_64")]
        Cpu::Avx512(cpu) => avx512::participants(cpu, thresholds, rows),
    }
}

fn portable_participants(thresholds: &Thresholds, rows: &[SampleRow]) -> Participants {
    let mut counts = Participants { fours: [[0; ROW_LEN / 4]; STEPS], eights: [[0; ROW_LEN / 8]; STEPS] };
    let (usual, masks) = (fours(&thresholds.majority), thresholds.masks.each_ref().map(fours));
    for row in rows {
        let row = fours(row);
        for (counts, mask) in counts.fours.iter_mut().zip(&masks) {
            for (i, count) in counts.iter_mut().enumerate() {
                *count += u32::from((row[i] ^ usual[i]) & mask[i] == 0);
            }
        }
    }
    let (usual, masks) = (eights(&thresholds.majority), thresholds.masks.each_ref().map(eights));
    for row in rows {
        let row = eights(row);
        for (counts, mask) in counts.eights.iter_mut().zip(&masks) {
            for (i, count) in counts.iter_mut().enumerate() {
                *count += u64::from((row[i] ^ usual[i]) & mask[i] == 0);
            }
        }
    }
    counts
}

/// A row as words of four bytes.
#[inline]
pub(super) fn fours(row: &SampleRow) -> [u32; ROW_LEN / 4] {
    let (words, _) = row.as_chunks();
    std::array::from_fn(|i| u32::from_le_bytes(words[i]))
}

/// A row as words of eight bytes.
#[inline]
pub(super) fn eights(row: &SampleRow) -> [u64; ROW_LEN / 8] {
    let (words, _) = row.as_chunks();
    std::array::from_fn(|i| u64::from_le_bytes(words[i]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_bits_by_hand() {
        // More rows than a byte counts: 200 of one kind, then 100 of another.
        let (mut a, mut b) = ([0; ROW_LEN], [0xff; ROW_LEN]);
        (a[5], a[63], b[63]) = (0b101, 0x80, 0x7f);
        let rows = [vec![a; 200], vec![b; 100]].concat();
        for cpu in Cpu::available() {
            let counts = set_bits(cpu, &rows);
            let mut expected = vec![100; 8 * ROW_LEN];
            (expected[8 * 5], expected[8 * 5 + 2], expected[8 * 63 + 7]) = (300, 300, 200);
            assert_eq!((counts.tensors, counts.ones), (300, expected), "{cpu:?}");
        }
    }

    #[test]
    fn participants_by_hand() {
        // All of byte 0 is invariant below threshold 8, and half of it from there on; bit 0 of byte 12 always.
        let (mut low, mut high) = ([0; ROW_LEN], [0; ROW_LEN]);
        (low[0], low[12], high[0], high[12]) = (0xff, 1, 0x0f, 1);
        let masks = std::array::from_fn(|step| if step < 8 { low } else { high });
        let mut majority = [0; ROW_LEN];
        majority[12] = 0xff;
        let usual = majority;
        let row = |index: usize, byte: u8| {
            let mut row = usual;
            row[index] = byte;
            row
        };
        // As most; byte 0 only agrees on the half; it agrees on nothing; byte 12 on all but the bit that counts; on no other.
        let rows = [usual, row(0, 0xf0), row(0, 0x01), row(12, 0xfe), row(12, 0x01)];
        for cpu in Cpu::available() {
            let Participants { fours, eights } = participants(cpu, &Thresholds { majority, masks }, &rows);
            for step in 0..STEPS {
                let (mut four, mut eight) = ([5; 16], [5; 8]);
                let first = if step < 8 { 3 } else { 4 };
                (four[0], four[3]) = (first, 4);
                (eight[0], eight[1]) = (u64::from(first), 4);
                assert_eq!((fours[step], eights[step]), (four, eight), "{cpu:?}, threshold {step}");
            }
        }
    }
}
