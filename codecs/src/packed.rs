//! Fields of 1, 2 or 4 bits, packed into bytes, first field in the lowest bits.

/// Appends fields of `BITS` bits.
#[derive(Default)]
pub(crate) struct PackedWriter<const BITS: usize> {
    bytes: Vec<u8>,
    fields: usize,
}

impl<const BITS: usize> PackedWriter<BITS> {
    pub(crate) fn push(&mut self, field: u8) {
        let shift = self.fields * BITS % 8;
        if shift == 0 {
            self.bytes.push(0);
        }
        if let Some(last) = self.bytes.last_mut() {
            *last |= field << shift;
        }
        self.fields += 1;
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// The bytes that `fields` fields of `BITS` bits take.
pub(crate) const fn packed_len<const BITS: usize>(fields: usize) -> usize {
    (fields * BITS).div_ceil(8)
}

/// Field `index` of `bytes`.
pub(crate) fn packed_field<const BITS: usize>(bytes: &[u8], index: usize) -> u8 {
    bytes[index * BITS / 8] >> (index * BITS % 8) & ((1 << BITS) - 1)
}

/// Whether the bits behind the last of `fields` fields are zero.
pub(crate) fn packed_tail_is_zero<const BITS: usize>(bytes: &[u8], fields: usize) -> bool {
    let used = fields * BITS % 8;
    used == 0 || bytes[fields * BITS / 8] >> used == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_field_is_lowest() {
        let mut nibbles = PackedWriter::<4>::default();
        for field in [0x1, 0x2, 0xf] {
            nibbles.push(field);
        }
        assert_eq!(nibbles.bytes(), [0x21, 0x0f]);
        assert_eq!(packed_len::<4>(3), 2);
        assert_eq!([0, 1, 2].map(|i| packed_field::<4>(nibbles.bytes(), i)), [1, 2, 15]);
        assert!(packed_tail_is_zero::<4>(nibbles.bytes(), 3));
        assert!(!packed_tail_is_zero::<4>(&[0x21, 0x1f], 3));
    }

    #[test]
    fn pairs_of_bits() {
        let mut pairs = PackedWriter::<2>::default();
        for field in [3, 0, 2, 1, 2] {
            pairs.push(field);
        }
        assert_eq!(pairs.bytes(), [0b01_10_00_11, 0b10]);
        assert_eq!(packed_field::<2>(pairs.bytes(), 3), 1);
    }
}
