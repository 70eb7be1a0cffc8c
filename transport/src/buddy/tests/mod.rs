//! Pools as their users and their memories see them.

mod format_doc;
mod layout;
mod model;
mod refusals;
mod threads;

use mgcomp_codecs::Element;

use super::*;

const FORMS: [Form; 4] = [Form::Bpc, Form::Xp(Element::Bf16), Form::Xp(Element::F32), Form::Xp(Element::F64)];

/// Numbers by chance that are the same each time.
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.bits() % limit
    }
}

/// Bytes of one of several kinds: zeros, a ramp, sparse values, floats of few exponents, noise.
fn bytes(random: &mut Random, len: usize) -> Vec<u8> {
    let kind = random.below(5);
    let mut words = 0..;
    let mut word = || -> u32 {
        let (i, bits): (u32, _) = (words.next().unwrap_or(0), random.bits());
        match kind {
            0 => 0,
            1 => i.wrapping_mul(3).wrapping_add(1 << 20),
            2 if !bits.is_multiple_of(9) => 0,
            3 => (bits as u32 & 0x807f_ffff) | (120 + (bits >> 60) as u32 % 3) << 23,
            _ => bits as u32,
        }
    };
    let mut bytes: Vec<u8> = (0..len.div_ceil(4)).flat_map(|_| word().to_le_bytes()).collect();
    bytes.truncate(len);
    bytes
}
