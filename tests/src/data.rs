//! Seeded data of several kinds.

/// A small generator (SplitMix64): the same numbers for the same seed on every machine.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The generator of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    /// A number below `limit`, which must not be zero.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.bits() % limit as u64) as usize
    }

    /// Whether an event of this probability happens.
    pub fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// What kind of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// All zero.
    Zero,
    /// Mostly zero, in runs and within elements.
    Sparse,
    /// Random bytes, which no codec shortens.
    Dense,
    /// Words that repeat earlier words of their line, whole or in part.
    Dictionary,
    /// All six C-Pack patterns in each line.
    Patterns,
    /// Elements of 2, 4 or 8 bytes, each near the base of its line or near zero.
    Deltas,
    /// Runs of lines, each of another kind.
    Mixed,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 7] =
        [Self::Zero, Self::Sparse, Self::Dense, Self::Dictionary, Self::Patterns, Self::Deltas, Self::Mixed];
}

/// `len` bytes of a kind.
#[must_use]
pub fn bytes(kind: Kind, len: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut bytes = Vec::with_capacity(len + 64);
    while bytes.len() < len {
        match kind {
            Kind::Mixed => {
                let kind = Kind::ALL[random.below(6)];
                for _ in 0..=random.below(8) {
                    push_line(kind, &mut random, &mut bytes);
                }
            }
            kind => push_line(kind, &mut random, &mut bytes),
        }
    }
    bytes.truncate(len);
    bytes
}

/// `count` tensors of `kinds` kinds, in turn by chance: bytes of a kind have some bits in common, all but now and
/// then.
#[must_use]
pub fn tensors(tensor_len: usize, kinds: usize, count: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut patterns = Vec::new();
    for _ in 0..kinds * tensor_len {
        let mask = [0xff, 0xf0, 0x3c, 0x81, 0x55, 0][random.below(6)];
        patterns.push((random.bits() as u8, mask));
    }
    let mut bytes = Vec::new();
    for _ in 0..count {
        let kind = random.below(kinds) * tensor_len;
        let strays = random.percent(10);
        for &(value, mask) in &patterns[kind..kind + tensor_len] {
            let noise = random.bits() as u8;
            let kept = if strays && random.percent(5) { 0 } else { mask };
            bytes.push(value & kept | noise & !kept);
        }
    }
    bytes
}

fn push_line(kind: Kind, random: &mut Random, bytes: &mut Vec<u8>) {
    let words: [u32; 16] = match kind {
        Kind::Zero => [0; 16],
        Kind::Sparse => sparse_line(random),
        Kind::Dense | Kind::Mixed => std::array::from_fn(|_| random.bits() as u32),
        Kind::Dictionary => dictionary_line(random),
        Kind::Patterns => pattern_line(random),
        Kind::Deltas => delta_line(random),
    };
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}

fn sparse_line(random: &mut Random) -> [u32; 16] {
    let dense_percent = [0, 5, 40][random.below(3)];
    std::array::from_fn(|_| {
        let byte_mask = [0xff, 0xff00, 0xff_0000, 0xff00_00ff, 0xffff_ffff][random.below(5)];
        if random.percent(dense_percent) { random.bits() as u32 & byte_mask } else { 0 }
    })
}

fn dictionary_line(random: &mut Random) -> [u32; 16] {
    let pool: [u32; 4] = std::array::from_fn(|_| random.bits() as u32);
    std::array::from_fn(|_| {
        let keep = [0xffff_ffff, 0xffff_ff00, 0xffff_0000][random.below(3)];
        pool[random.below(4)] & keep | random.bits() as u32 & !keep
    })
}

/// Zero, new, equal, upper half, low byte and upper bytes in turn, the order turned by chance.
fn pattern_line(random: &mut Random) -> [u32; 16] {
    let base = random.bits() as u32 | 0x0100_0000;
    let turn = random.below(6);
    std::array::from_fn(|i| match (i + turn) % 6 {
        0 => 0,
        1 => base.wrapping_add(0x0001_0000 * (i as u32 / 6)),
        2 => base,
        3 => base ^ 0x0000_5500,
        4 => 1 + random.below(255) as u32,
        _ => base ^ 0x0000_0003,
    })
}

/// Each line has its own width of elements and of deltas; some are all the same.
fn delta_line(random: &mut Random) -> [u32; 16] {
    let width_bits = [16, 32, 64][random.below(3)];
    let delta_bits = [0, 7, 8, 9, 15, 16, 17, 31, 32][random.below(9)].min(width_bits - 1);
    let (base, zero_percent) = (random.bits(), [0, 0, 30, 100][random.below(4)]);
    let mut element = || {
        let delta = random.bits() & ((1 << delta_bits) - 1);
        let near_zero = delta.wrapping_sub(1 << delta_bits >> 1);
        let element = if random.percent(zero_percent) { near_zero } else { base.wrapping_add(delta) };
        element & u64::MAX >> (64 - width_bits)
    };
    let per_pair = 64 / width_bits;
    let mut words = [0; 16];
    for pair in words.as_chunks_mut().0 {
        let bits = (0..per_pair).fold(0, |bits, i| bits | element() << (i * width_bits));
        *pair = [bits as u32, (bits >> 32) as u32];
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_bytes() {
        for kind in Kind::ALL {
            let data = bytes(kind, 1000, 7);
            assert_eq!(data.len(), 1000);
            assert_eq!(data, bytes(kind, 1000, 7));
            assert_eq!(kind == Kind::Zero, data == bytes(kind, 1000, 8));
        }
    }
}
