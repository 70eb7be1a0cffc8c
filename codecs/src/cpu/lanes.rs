//! Compress and expand for machines without such instructions: shuffle controls for eight lanes by mask.

/// `COMPRESS[mask]`: the indices of the set bits of `mask`, lowest first; 0x80 where none is left.
pub(crate) static COMPRESS: [[u8; 8]; 256] = controls(true);

/// `EXPAND[mask]`: for each set bit how many bits are set below it; 0x80 for a clear bit.
pub(crate) static EXPAND: [[u8; 8]; 256] = controls(false);

/// A byte that a byte shuffle turns into zero.
pub(crate) const NO_LANE: u8 = 0x80;

const fn controls(compress: bool) -> [[u8; 8]; 256] {
    let mut table = [[NO_LANE; 8]; 256];
    let mut mask = 0;
    while mask < 256 {
        let (mut lane, mut set) = (0, 0);
        while lane < 8 {
            if mask >> lane & 1 == 1 {
                if compress {
                    table[mask][set] = lane as u8;
                } else {
                    table[mask][lane] = set as u8;
                }
                set += 1;
            }
            lane += 1;
        }
        mask += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_of_one_mask_by_hand() {
        assert_eq!(COMPRESS[0b1010_0001], [0, 5, 7, 0x80, 0x80, 0x80, 0x80, 0x80]);
        assert_eq!(EXPAND[0b1010_0001], [0, 0x80, 0x80, 0x80, 0x80, 1, 0x80, 2]);
        assert_eq!(COMPRESS[0], [NO_LANE; 8]);
        assert_eq!(EXPAND[255], [0, 1, 2, 3, 4, 5, 6, 7]);
    }
}
