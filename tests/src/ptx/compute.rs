//! Instructions that only compute: what they make of the operands of one lane.

/// The operands of one lane, of any width up to 64 bits; of predicates 0 or 1. What an instruction has not is 0.
pub(super) type Operands = [u64; 4];

/// The result, without ones above the instruction's width.
pub(super) type Function = fn(&Operands) -> u64;

/// Generic addresses of shared memory begin here; those of global memory are what they are.
pub(super) const SHARED_WINDOW: u64 = 1 << 56;

/// `lane!(u32: a b => a & b)` is the number of operands and a [`Function`] that sees them as of that type.
macro_rules! lane {
    ($type:ty: $($name:ident)+ => $result:expr) => {{
        fn function(operands: &Operands) -> u64 {
            let [$($name,)+ ..] = *operands;
            $(let $name = $name as $type;)+
            u64::from($result)
        }
        Some(([$(stringify!($name)),+].len(), function as Function))
    }};
}

/// How many operands the instruction `name` takes, and what it does with them; `None` if it is no such instruction.
pub(super) fn function(name: &str) -> Option<(usize, Function)> {
    let integer = || logic(name).or_else(|| conversion(name)).or_else(|| comparison(name));
    arithmetic(name).or_else(integer).or_else(|| float(name))
}

fn arithmetic(name: &str) -> Option<(usize, Function)> {
    match name {
        "add.s16" => lane!(u16: a b => a.wrapping_add(b)),
        "add.s32" => lane!(u32: a b => a.wrapping_add(b)),
        "add.s64" | "add.u64" => lane!(u64: a b => a.wrapping_add(b)),
        "sub.s32" => lane!(u32: a b => a.wrapping_sub(b)),
        "sub.s64" => lane!(u64: a b => a.wrapping_sub(b)),
        "neg.s16" => lane!(u16: a => a.wrapping_neg()),
        "neg.s32" => lane!(u32: a => a.wrapping_neg()),
        "neg.s64" => lane!(u64: a => a.wrapping_neg()),
        "mul.lo.s32" => lane!(u32: a b => a.wrapping_mul(b)),
        "mul.lo.s64" => lane!(u64: a b => a.wrapping_mul(b)),
        "mul.wide.u16" => lane!(u16: a b => u32::from(a) * u32::from(b)),
        "mul.wide.u32" => lane!(u32: a b => u64::from(a) * u64::from(b)),
        "mul.wide.s32" => lane!(i32: a b => (i64::from(a) * i64::from(b)).cast_unsigned()),
        "mad.lo.s32" => lane!(u32: a b c => a.wrapping_mul(b).wrapping_add(c)),
        // The device leaves open what a division by zero gives.
        "div.u16" => lane!(u16: a b => a.checked_div(b).unwrap_or(u16::MAX)),
        "div.u64" => lane!(u64: a b => a.checked_div(b).unwrap_or(u64::MAX)),
        "div.u32" => lane!(u32: a b => a.checked_div(b).unwrap_or(u32::MAX)),
        "rem.u32" => lane!(u32: a b => a.checked_rem(b).unwrap_or(u32::MAX)),
        "rem.u64" => lane!(u64: a b => a.checked_rem(b).unwrap_or(u64::MAX)),
        "min.u32" => lane!(u32: a b => a.min(b)),
        "min.u64" => lane!(u64: a b => a.min(b)),
        "max.u32" => lane!(u32: a b => a.max(b)),
        "max.u64" => lane!(u64: a b => a.max(b)),
        "dp4a.u32.u32" => lane!(u32: a b c => dot_product(a, b, c)),
        "cvta.shared.u64" => lane!(u64: a => a + SHARED_WINDOW),
        "cvta.global.u64" | "cvta.to.global.u64" => lane!(u64: a => a),
        _ => None,
    }
}

fn logic(name: &str) -> Option<(usize, Function)> {
    match name {
        "and.b16" => lane!(u16: a b => a & b),
        "and.b32" => lane!(u32: a b => a & b),
        "and.b64" | "and.pred" => lane!(u64: a b => a & b),
        "or.b16" => lane!(u16: a b => a | b),
        "or.b32" => lane!(u32: a b => a | b),
        "or.b64" | "or.pred" => lane!(u64: a b => a | b),
        "xor.b16" => lane!(u16: a b => a ^ b),
        "xor.b32" => lane!(u32: a b => a ^ b),
        "xor.b64" | "xor.pred" => lane!(u64: a b => a ^ b),
        "not.b16" => lane!(u16: a => !a),
        "not.b32" => lane!(u32: a => !a),
        "not.b64" => lane!(u64: a => !a),
        "not.pred" => lane!(u64: a => !a & 1),
        "shl.b16" => lane!(u32: a b => a.checked_shl(b).unwrap_or(0) as u16),
        "shl.b32" => lane!(u32: a b => a.checked_shl(b).unwrap_or(0)),
        "shl.b64" => lane!(u64: a b => a.checked_shl(b as u32).unwrap_or(0)),
        "shr.u16" => lane!(u32: a b => (a & 0xffff).checked_shr(b).unwrap_or(0)),
        "shr.u32" => lane!(u32: a b => a.checked_shr(b).unwrap_or(0)),
        "shr.u64" | "shr.b64" => lane!(u64: a b => a.checked_shr(b as u32).unwrap_or(0)),
        "shr.s32" => lane!(u32: a b => (a.cast_signed() >> b.min(31)).cast_unsigned()),
        "shr.s64" => lane!(u64: a b => (a.cast_signed() >> (b as u32).min(63)).cast_unsigned()),
        "shf.l.wrap.b32" => lane!(u32: a b c => (join(a, b) << (c % 32) >> 32) as u32),
        "shf.r.wrap.b32" => lane!(u32: a b c => (join(a, b) >> (c % 32)) as u32),
        "bfi.b32" => lane!(u64: a b c d => insert(a, b, c, d) as u32),
        "bfi.b64" => lane!(u64: a b c d => insert(a, b, c, d)),
        "bfind.shiftamt.u32" => lane!(u32: a => if a == 0 { u32::MAX } else { a.leading_zeros() }),
        "brev.b32" => lane!(u32: a => a.reverse_bits()),
        "clz.b32" => lane!(u32: a => a.leading_zeros()),
        "clz.b64" => lane!(u64: a => a.leading_zeros()),
        "popc.b32" => lane!(u32: a => a.count_ones()),
        "popc.b64" => lane!(u64: a => a.count_ones()),
        "prmt.b32" => lane!(u32: a b c => permute(a, b, c)),
        "selp.b16" | "selp.u16" => lane!(u64: a b c => (if c == 0 { b } else { a }) as u16),
        "selp.b32" | "selp.u32" => lane!(u64: a b c => (if c == 0 { b } else { a }) as u32),
        "selp.b64" | "selp.u64" => lane!(u64: a b c => if c == 0 { b } else { a }),
        _ => None,
    }
}

fn conversion(name: &str) -> Option<(usize, Function)> {
    match name {
        "mov.pred" => lane!(u64: a => a & 1),
        "mov.u16" | "mov.b16" | "cvt.u16.u32" | "cvt.u16.u64" => lane!(u16: a => a),
        "mov.u32" | "mov.b32" | "cvt.u32.u64" => lane!(u32: a => a),
        "mov.u64" | "mov.b64" => lane!(u64: a => a),
        "cvt.u32.u16" | "cvt.u64.u16" => lane!(u16: a => a),
        "cvt.u64.u32" => lane!(u32: a => a),
        "cvt.s16.s8" => lane!(i8: a => i16::from(a).cast_unsigned()),
        "cvt.s32.s8" => lane!(i8: a => i32::from(a).cast_unsigned()),
        "cvt.s32.s16" => lane!(i16: a => i32::from(a).cast_unsigned()),
        "cvt.s64.s32" => lane!(i32: a => i64::from(a).cast_unsigned()),
        _ => None,
    }
}

/// Floats travel as bits. Nothing is flushed to zero, and what is no number is the one that devices make of it.
fn float(name: &str) -> Option<(usize, Function)> {
    match name {
        "mov.f32" => lane!(u32: a => a),
        "mov.f64" => lane!(u64: a => a),
        "add.rn.f32" => lane!(u32: a b => bits_of(f32::from_bits(a) + f32::from_bits(b))),
        "mul.rn.f32" => lane!(u32: a b => bits_of(f32::from_bits(a) * f32::from_bits(b))),
        "div.rn.f32" => lane!(u32: a b => bits_of(f32::from_bits(a) / f32::from_bits(b))),
        "add.rn.f64" => lane!(u64: a b => long_bits_of(f64::from_bits(a) + f64::from_bits(b))),
        "div.rn.f64" => lane!(u64: a b => long_bits_of(f64::from_bits(a) / f64::from_bits(b))),
        "cvt.rn.f32.u32" => lane!(u32: a => (a as f32).to_bits()),
        "cvt.rn.f64.u32" => lane!(u32: a => f64::from(a).to_bits()),
        "setp.num.f32" => lane!(u32: a b => !f32::from_bits(a).is_nan() && !f32::from_bits(b).is_nan()),
        "setp.num.f64" => lane!(u64: a b => !f64::from_bits(a).is_nan() && !f64::from_bits(b).is_nan()),
        _ => None,
    }
}

fn bits_of(value: f32) -> u32 {
    if value.is_nan() { 0x7fff_ffff } else { value.to_bits() }
}

fn long_bits_of(value: f64) -> u64 {
    if value.is_nan() { 0xfff8_0000_0000_0000 } else { value.to_bits() }
}

fn comparison(name: &str) -> Option<(usize, Function)> {
    let (relation, of) = name.strip_prefix("setp.")?.split_once('.')?;
    macro_rules! compare {
        ($type:ty) => {
            match relation {
                "eq" => lane!($type: a b => a == b),
                "ne" => lane!($type: a b => a != b),
                "lt" => lane!($type: a b => a < b),
                "le" => lane!($type: a b => a <= b),
                "gt" => lane!($type: a b => a > b),
                "ge" => lane!($type: a b => a >= b),
                _ => None,
            }
        };
    }
    match of {
        "s16" => compare!(i16),
        "u16" => compare!(u16),
        "s32" => compare!(i32),
        "u32" | "b32" => compare!(u32),
        "s64" => compare!(i64),
        "u64" | "b64" => compare!(u64),
        _ => None,
    }
}

fn join(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// `into` with its `len` bits from bit `at` on replaced by the low ones of `bits`.
fn insert(bits: u64, into: u64, at: u64, len: u64) -> u64 {
    let ones = |count: u64| if count >= 64 { u64::MAX } else { (1 << count) - 1 };
    let (at, len) = (at & 0xff, len & 0xff);
    let mask = ones(len).checked_shl(at as u32).unwrap_or(0);
    let bits = bits.checked_shl(at as u32).unwrap_or(0);
    into & !mask | bits & mask
}

fn dot_product(a: u32, b: u32, sum: u32) -> u32 {
    let pairs = a.to_le_bytes().into_iter().zip(b.to_le_bytes());
    pairs.fold(sum, |sum, (a, b)| sum.wrapping_add(u32::from(a) * u32::from(b)))
}

/// The bytes of `high:low` that the nibbles of `selector` name; bit 3 of one asks for eight times the byte's sign.
fn permute(low: u32, high: u32, selector: u32) -> u32 {
    let bytes = join(low, high).to_le_bytes();
    let picked: [u8; 4] = std::array::from_fn(|i| {
        let nibble = selector >> (4 * i);
        let byte = bytes[(nibble & 7) as usize];
        if nibble & 8 == 0 { byte } else { 0xff * (byte >> 7) }
    });
    u32::from_le_bytes(picked)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the instruction gives.
    fn of<const N: usize>(name: &str, operands: [u64; N]) -> u64 {
        let (count, function) = function(name).unwrap_or_else(|| panic!("no {name}"));
        assert_eq!(count, N, "{name}");
        let mut all = [0; 4];
        all[..N].copy_from_slice(&operands);
        function(&all)
    }

    #[test]
    fn answers_of_the_manual() {
        let ones = u64::from(u32::MAX);
        assert_eq!(of("add.s32", [ones, 2]), 1);
        assert_eq!(of("add.s16", [0xffff, 2]), 1);
        assert_eq!(of("mul.wide.s32", [ones, 3]), 3u64.wrapping_neg());
        assert_eq!(of("mul.wide.u32", [ones, 3]), 3 * ones);
        assert_eq!(of("mad.lo.s32", [5, 7, ones]), 34);
        assert_eq!(of("dp4a.u32.u32", [0x0102_03ff, 0x0101_02ff, 4]), 1 + 2 + 6 + 255 * 255 + 4);
        assert_eq!(of("shl.b32", [1, 32]), 0);
        assert_eq!(of("shl.b16", [0x8001, 1]), 2);
        assert_eq!(of("shr.s32", [0x8000_0000, 40]), ones);
        assert_eq!(of("shr.s64", [1 << 63, 63]), u64::MAX);
        assert_eq!(of("shf.l.wrap.b32", [0x8000_0000, 1, 33]), 3);
        assert_eq!(of("shf.r.wrap.b32", [2, 1, 1]), 0x8000_0001);
        assert_eq!(of("bfi.b32", [0xff, 0, 4, 4]), 0xf0);
        assert_eq!(of("bfi.b64", [7, 9, 32, 32]), 7 << 32 | 9);
        assert_eq!(of("bfind.shiftamt.u32", [1]), 31);
        assert_eq!(of("bfind.shiftamt.u32", [0]), ones);
        assert_eq!(of("clz.b64", [0]), 64);
        assert_eq!(of("prmt.b32", [0x8070_6050, 0x0403_0201, 0x7b40]), 0x04ff_0150);
        assert_eq!(of("selp.b32", [1, 2, 0]), 2);
        assert_eq!(of("selp.b64", [1, 2, 1]), 1);
        assert_eq!(of("mov.pred", [u64::MAX]), 1);
        assert_eq!(of("not.pred", [1]), 0);
        assert_eq!(of("cvt.s32.s8", [0x80]), u64::from(0xffff_ff80u32));
        assert_eq!(of("setp.lt.s32", [ones, 0]), 1);
        assert_eq!(of("setp.lt.u32", [ones, 0]), 0);
        assert_eq!(of("setp.eq.b64", [ones << 32, 0]), 0);
        assert_eq!(of("setp.eq.s16", [0xffff, u64::MAX]), 1);
        assert_eq!(of("neg.s16", [1]), 0xffff);
        assert_eq!(of("cvt.s16.s8", [0x80]), 0xff80);
        assert_eq!(of("div.u64", [1 << 40, 3]), (1 << 40) / 3);
    }

    #[test]
    fn floats_of_the_manual() {
        let (one, infinity) = (0x3f80_0000, 0x7f80_0000);
        assert_eq!(of("add.rn.f32", [one, 0x3380_0000]), one, "half of the last bit, to even");
        assert_eq!(of("add.rn.f32", [1, 1]), 2, "denormals");
        assert_eq!(of("mul.rn.f32", [0x7f00_0000, 0x4000_0000]), infinity);
        assert_eq!(of("div.rn.f32", [one, 0x4040_0000]), 0x3eaa_aaab);
        assert_eq!(of("add.rn.f32", [infinity, 0xff80_0000]), 0x7fff_ffff, "the NaN of devices");
        assert_eq!(of("add.rn.f64", [1, 2]), 3);
        assert_eq!(of("div.rn.f64", [0, 0]), 0xfff8_0000_0000_0000);
        assert_eq!(of("cvt.rn.f32.u32", [0xffff_ffff]), 0x4f80_0000);
        assert_eq!(of("cvt.rn.f64.u32", [3]), 0x4008_0000_0000_0000);
        assert_eq!(of("setp.num.f32", [0xffc0_0001, one]), 0);
        assert_eq!(of("setp.num.f64", [0x7ff0_0000_0000_0000, 0]), 1);
        assert_eq!(of("mov.f32", [one]), one);
        assert_eq!(of("mov.f64", [1 << 63]), 1 << 63);
    }

    #[test]
    fn others_are_none() {
        for name in ["add.f32", "fma.rn.f32", "setp.lt.f32", "setp.lt", "mov", "selp.f32", "setp.num.u32"] {
            assert!(function(name).is_none(), "{name}");
        }
    }
}
