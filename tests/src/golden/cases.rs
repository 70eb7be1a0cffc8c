//! What golden files are made of. Cases are only added: what they give is frozen.

use mgcomp_codecs::frame::{self, ChunkSize, FrameError, Options};
use mgcomp_codecs::ibp::{Codebook, CodebookSection, FitOptions, Granule, Ibp, fit};
use mgcomp_codecs::{Algorithm, Codec, Cpu, Element, codec_on};

use crate::data::{self, Kind, Random};
use crate::series::{self, Near, Shape};

/// A frame to freeze.
#[derive(Clone, Debug)]
pub struct Case {
    name: String,
    algorithm: Algorithm,
    element: Element,
    options: Options,
    raw: Vec<u8>,
    /// For IBP, and whether the frame only names it.
    codebook: Option<(Codebook, bool)>,
}

impl Case {
    fn new(name: &str, algorithm: Algorithm, element: Element, raw: Vec<u8>) -> Self {
        let options = Options { chunk_size: ChunkSize::SMALL, checksum: false };
        Self { name: format!("{algorithm}-{name}"), algorithm, element, options, raw, codebook: None }
    }

    fn checked(mut self) -> Self {
        self.options.checksum = true;
        self
    }

    fn with_codebook(self, codebook: Codebook, is_named: bool) -> Self {
        Self { codebook: Some((codebook, is_named)), ..self }
    }

    /// Names and contents of its files.
    ///
    /// # Errors
    /// Never: its bytes fit into a frame.
    ///
    /// # Panics
    /// If its algorithm has no codec.
    pub fn files(&self) -> Result<Vec<(String, Vec<u8>)>, FrameError> {
        let portable = codec_on(Cpu::Portable, self.algorithm).expect("a codec");
        let ibp = self.codebook.as_ref().map(|(codebook, is_named)| {
            let ibp = Ibp::with(Cpu::Portable, codebook.clone()).expect("whole granules");
            if *is_named { ibp.naming() } else { ibp }
        });
        let codec = ibp.as_ref().map_or(portable, |ibp| ibp as &dyn Codec);
        let frame = frame::encode(codec, self.element, &self.raw, self.options)?;
        let mut files =
            vec![(format!("{}.frame", self.name), frame), (format!("{}.raw", self.name), self.raw.clone())];
        if let Some((codebook, true)) = &self.codebook {
            let section = CodebookSection::Carried(codebook.clone()).to_bytes();
            files.push((format!("{}.codebook", self.name), section));
        }
        Ok(files)
    }
}

/// All cases.
#[must_use]
pub fn all() -> Vec<Case> {
    let algorithms = Algorithm::ALL.into_iter().filter(|&algorithm| algorithm != Algorithm::None);
    let mut cases: Vec<Case> = algorithms.flat_map(of_every_algorithm).collect();
    cases.extend(frames());
    cases.extend([forms(), prefixes(), patterns(), planes()]);
    cases.extend([1, 2, 4, 8].map(runs));
    cases.push(Case::new("fixed", Algorithm::Deflate, Element::U8, b"mgcomp ".repeat(6)));
    cases.extend(codebooks());
    cases.extend(float_masks());
    cases.extend(float_tables());
    cases.extend([Element::U8, Element::U16, Element::U32, Element::U64].map(patches));
    cases.extend(predictions());
    cases
}

/// Every element, and chunks that are coded, raw and short.
fn of_every_algorithm(algorithm: Algorithm) -> Vec<Case> {
    let mut cases = Vec::new();
    for element in Element::ALL {
        let (width, number) = (element.width_bytes(), usize::from(element.number()));
        let before = Element::ALL.into_iter().take(number).filter(|e| e.width_bytes() == width).count();
        // Both paddings of 32-bit masks, unused bits in the last one, and a tail.
        let len = ((700 / width / 32 + before) * 32 + 11) * width + width - 1;
        let case = of_element(
            algorithm,
            &element.to_string(),
            element,
            suited(algorithm, element, len, number as u64),
        );
        cases.push(if number % 2 == 0 { case.checked() } else { case });
    }
    let element = if algorithm == Algorithm::Xp { Element::Bf16 } else { Element::U32 };
    let mut raw = suited(algorithm, element, 4096, 100);
    raw.extend(data::bytes(Kind::Dense, 4096, 101));
    raw.extend(suited(algorithm, element, 1003, 102));
    cases.push(of_element(algorithm, "chunks", element, raw).checked());
    cases
}

fn of_element(algorithm: Algorithm, name: &str, element: Element, raw: Vec<u8>) -> Case {
    if algorithm != Algorithm::Ibp {
        return Case::new(name, algorithm, element, raw);
    }
    let options = FitOptions { granule: Some(Granule::Four), clusters: 1, stride: 1 };
    let codebook = fit(&raw, 12, options).expect("whole granules");
    Case::new(name, algorithm, element, raw).with_codebook(codebook, false)
}

/// Bytes that an algorithm makes shorter.
fn suited(algorithm: Algorithm, element: Element, len: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let width = element.width_bytes();
    let count = len.div_ceil(width);
    let mut raw = match algorithm {
        Algorithm::Xp => {
            floats(element, count, &mut random, |random| (random.bits(), 3 + random.below(4) as u64))
        }
        Algorithm::Ibp => tensors(12, 1, len.div_ceil(12), seed),
        Algorithm::Int => {
            let near = Near::Before(1);
            let shape = Shape { near, noise_bits: 2, outlier_percent: 3, outlier_bits: 5, shift: 0 };
            series::words(shape, width, count, &mut random)
        }
        Algorithm::Zvc | Algorithm::Rle => {
            let mut zeros = false;
            let element = |_| {
                zeros ^= random.percent(10);
                if zeros || random.percent(20) { 0 } else { random.bits() | 1 }
            };
            (0..count).map(element).flat_map(|bits| bits.to_le_bytes().into_iter().take(width)).collect()
        }
        _ => {
            // Some of each kind, but for what is random.
            let kinds = [Kind::Zero, Kind::Sparse, Kind::Dictionary, Kind::Patterns, Kind::Deltas];
            let lines =
                (0..len.div_ceil(64)).map(|line| data::bytes(kinds[line % 5], 64, seed + line as u64));
            lines.flatten().collect()
        }
    };
    raw.truncate(len);
    raw
}

/// What is the frame's and no codec's.
fn frames() -> Vec<Case> {
    let zvc = |name: &str, raw| Case::new(name, Algorithm::Zvc, Element::F32, raw);
    let sparse = |len| suited(Algorithm::Zvc, Element::F32, len, 7);
    let mut cases = vec![
        zvc("empty", Vec::new()),
        zvc("empty-checked", Vec::new()).checked(),
        zvc("whole", sparse(8192)),
        zvc("one-byte", vec![0x5a]),
        zvc("raw-padded", data::bytes(Kind::Dense, 100, 3)).checked(),
    ];
    for log2 in 13..=16 {
        let mut case = zvc(&format!("{}k", 1 << (log2 - 10)), sparse(1500 + log2));
        case.options.chunk_size = ChunkSize::from_log2(log2 as u8).expect("a chunk size");
        cases.push(case);
    }
    let mut large = zvc("16k-chunks", [vec![0; 16_384], sparse(333)].concat());
    large.options.chunk_size = ChunkSize::DEFAULT;
    cases.push(large.checked());
    cases
}

/// Lines of every form of BDI, in turn, an odd number of them, the last one cut.
fn forms() -> Case {
    let mut random = Random::new(21);
    let mut raw = Vec::new();
    for line in 0..19 {
        let (width, delta_bits) =
            [(8, 0), (8, 0), (8, 7), (8, 15), (8, 31), (4, 7), (4, 15), (2, 7), (8, 64)][line % 9];
        let base = if line % 9 == 0 { 0 } else { 0x7a5b_4c3d_2e1f_0a98 };
        for i in 0..64 / width {
            let delta = random.bits().checked_shr(64 - delta_bits).unwrap_or(0);
            // Some are near zero.
            let from = if line % 9 > 1 && i % 5 == 3 { 0 } else { base };
            raw.extend(&u64::wrapping_add(from, delta).to_le_bytes()[..width]);
        }
    }
    raw.truncate(18 * 64 + 50);
    Case::new("forms", Algorithm::Bdi, Element::U64, raw)
}

/// Words of every prefix of FPC in a line, a line of zeros, and a raw one.
fn prefixes() -> Case {
    let words = [
        0x1234_5678,
        0,
        0x5555_5555,
        7,
        0xffff_fff9,
        100,
        0xffff_ff80,
        30_000,
        0xffff_8000,
        0x00ab_0000,
        0x8000_0000,
        0x0007_ffec,
        0x007f_ff80,
        0x9abc_def0,
        1,
        0x0101_0101,
    ];
    let line = |turn: usize| (0..16).flat_map(move |i| u32::to_le_bytes(words[(i * 3 + turn) % 16]));
    let mut raw: Vec<u8> = line(0).chain([0; 64]).chain(line(5)).collect();
    raw.extend(data::bytes(Kind::Dense, 64, 22));
    raw.extend(line(9).take(43));
    Case::new("prefixes", Algorithm::Fpc, Element::U32, raw)
}

/// Words of every code of C-Pack+Z, a line of zeros, and a raw one.
fn patterns() -> Case {
    let mut raw = data::bytes(Kind::Patterns, 320, 23);
    raw.extend([0; 64]);
    raw.extend(data::bytes(Kind::Dense, 64, 24));
    raw.extend(data::bytes(Kind::Dictionary, 105, 25));
    Case::new("codes", Algorithm::CpackZ, Element::U32, raw)
}

/// Entries of every first word and plane of BPC.
fn planes() -> Case {
    let mut random = Random::new(26);
    let mut raw = Vec::new();
    let firsts = [0, 5, 0xffff_fffa, 100, 0xffff_ff9c, 30_000, 0x1234_5678];
    let steps: [fn(&mut Random, usize) -> u32; 8] = [
        |_, _| 0,
        // All ones, and zero planes alone and in rows.
        |_, _| 0b1011,
        |_, _| 5 << 20,
        // One step, two steps next to each other.
        |_, i| u32::from(i == 9),
        |_, i| u32::from(i == 9 || i == 10) << 3,
        // Planes of noise above planes of zeros.
        |random, _| (random.bits() as u32 & 7) << 4,
        |random, i| random.bits() as u32 & 1 | u32::from(i % 7 == 0) << 9,
        |random, _| (random.bits() as u32 & 255).wrapping_sub(128),
    ];
    for entry in 0..16 {
        let mut word: u32 = firsts[entry % 7];
        for i in 0..32 {
            raw.extend(word.to_le_bytes());
            word = word.wrapping_add(steps[entry % 8](&mut random, i));
        }
    }
    raw.extend([0; 128]);
    raw.extend(data::bytes(Kind::Dense, 128, 27));
    raw.extend([1, 2, 3]);
    Case::new("planes", Algorithm::Bpc, Element::U32, raw)
}

/// Runs of RLE that are longer than a control can say, and shorter ones.
fn runs(width: usize) -> Case {
    let element = [Element::U8, Element::U16, Element::U32, Element::U64][width.ilog2() as usize];
    let mut random = Random::new(28);
    let mut raw = Vec::new();
    for (zeros, literals) in [(260, 131), (3, 1), (1, 1), (2, 129), (128, 5)] {
        raw.extend(vec![0; zeros * width]);
        for _ in 0..literals {
            raw.extend(&(random.bits() | 1).to_le_bytes()[..width]);
        }
    }
    raw.extend(&[9; 8][..width - 1]);
    Case::new(&format!("runs-{width}"), Algorithm::Rle, element, raw)
}

/// `count` tensors of `kinds` kinds, in turn by chance: bytes of a kind have some bits in common, all but now and
/// then.
fn tensors(tensor_len: usize, kinds: usize, count: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let patterns: Vec<(u8, u8)> = (0..kinds * tensor_len)
        .map(|_| (random.bits() as u8, [0xff, 0xf0, 0x3c, 0x81, 0x55, 0][random.below(6)]))
        .collect();
    let mut bytes = Vec::new();
    for _ in 0..count {
        let kind = random.below(kinds) * tensor_len;
        let strays = random.percent(10);
        for &(value, mask) in &patterns[kind..kind + tensor_len] {
            let noise = random.bits() as u8;
            let kept = if strays && random.percent(20) { 0 } else { mask };
            bytes.push(value & kept | noise & !kept);
        }
    }
    bytes
}

/// Codebooks of IBP: granules, clusters, carried and named; chunks that cut tensors, and tails.
fn codebooks() -> Vec<Case> {
    let shapes = [
        ("four", Granule::Four, 20, 1, false, 5001),
        ("four-clusters", Granule::Four, 100, 2, false, 6002),
        ("eight", Granule::Eight, 64, 1, false, 2005),
        ("named", Granule::Eight, 24, 1, true, 1003),
        ("named-clusters", Granule::Four, 12, 2, true, 4999),
    ];
    let case = |(name, granule, tensor_len, clusters, is_named, len): (&str, _, usize, _, _, usize)| {
        let mut raw = tensors(tensor_len, clusters, len.div_ceil(tensor_len), len as u64);
        raw.truncate(len);
        let options = FitOptions { granule: Some(granule), clusters, stride: 1 };
        let codebook = fit(&raw, tensor_len, options).expect("whole granules");
        let case = Case::new(name, Algorithm::Ibp, Element::F32, raw).with_codebook(codebook, is_named);
        if is_named { case } else { case.checked() }
    };
    shapes.map(case).into()
}

/// `count` floats whose sign (lowest bit) and exponent `top` says; their fractions are random.
fn floats(
    element: Element,
    count: usize,
    random: &mut Random,
    top: impl Fn(&mut Random) -> (u64, u64),
) -> Vec<u8> {
    let width = element.width_bytes();
    let exponent_bits = match element {
        Element::U8 | Element::F8E4M3 => 4,
        Element::F8E5M2 | Element::F16 => 5,
        Element::U16 | Element::Bf16 | Element::U32 | Element::F32 => 8,
        Element::U64 | Element::F64 => 11,
    };
    let rest = 8 * width - 1 - exponent_bits;
    let mut raw = Vec::new();
    for _ in 0..count {
        let (sign, exponent) = top(random);
        let exponent = exponent & ((1 << exponent_bits) - 1);
        let fraction = random.bits() & ((1 << rest) - 1);
        let bits = (sign & 1) << (8 * width - 1) | exponent << rest | fraction;
        raw.extend(&bits.to_le_bytes()[..width]);
    }
    raw
}

/// Masks of XP at every depth, both at once, and chunks of which nothing is left.
fn float_masks() -> Vec<Case> {
    let mut random = Random::new(31);
    let xp = |name: &str, raw| Case::new(name, Algorithm::Xp, Element::F8E4M3, raw);
    let mut cases = Vec::new();
    for (depth, one_in) in [2, 12, 150, 2000].into_iter().enumerate() {
        let value = |random: &mut Random| if random.below(one_in) == 0 { random.bits() as u8 | 1 } else { 0 };
        let mut zeros: Vec<u8> = (0..4096).map(|_| value(&mut random)).collect();
        zeros[77] = 0x35;
        cases.push(xp(&format!("zeros-{depth}"), zeros));
    }
    for (depth, len) in [3, 40, 300, 1900].into_iter().enumerate() {
        let mut value = 0x41;
        let repeats = (0..4096).map(|i| {
            if i % len == len - 1 {
                value = random.bits() as u8 | 1;
            }
            value
        });
        cases.push(xp(&format!("repeats-{depth}"), repeats.collect()));
    }
    cases.push(xp("nothing-left", vec![0; 2000]));
    let both = (0..300).flat_map(|i| [0, [0x3f80, 0x4000, 0x4040][i / 9 % 3]]).flat_map(u16::to_le_bytes);
    cases.push(Case::new("both-masks", Algorithm::Xp, Element::Bf16, both.chain([1]).collect()));
    cases
}

/// Tables of XP, narrow and wide, signed or not, for every way to cut a value; and all tiers.
fn float_tables() -> Vec<Case> {
    let mut random = Random::new(32);
    let mut cases = Vec::new();
    let cuts = [Element::U8, Element::F8E5M2, Element::F16, Element::Bf16, Element::F32, Element::F64];
    for element in cuts {
        // The sign follows the exponent; 512 values are whole groups.
        let signed = floats(element, 512, &mut random, |random| {
            let exponent = random.below(6) as u64;
            (exponent & 1, exponent)
        });
        cases.push(Case::new(&format!("signed-{element}"), Algorithm::Xp, element, signed));
    }
    // Exponents of all tiers: some that are common, some that are rare, and some that are in no table.
    for (name, common) in [("narrow", [3, 3]), ("wide", [9, 3])] {
        let raw = floats(Element::Bf16, 700, &mut random, |random| {
            let exponent = match random.below(40) {
                0..=31 => random.below(common[0]),
                32..=38 => common[0] + random.below(common[1]),
                _ => 100 + random.below(100),
            };
            (random.bits(), exponent as u64)
        });
        cases.push(Case::new(name, Algorithm::Xp, Element::Bf16, raw).checked());
    }
    cases
}

/// Blocks of INT without planes, with some, with all, and with patches of every length.
fn patches(element: Element) -> Case {
    let width = element.width_bytes();
    let bits = 8 * width;
    let mut random = Random::new(33);
    let mut words = Vec::new();
    let block = |words: &mut Vec<u64>, random: &mut Random, noise_bits: usize, outlier_bits: usize| {
        for i in 0..32 {
            let bits = if i % 16 == 5 { outlier_bits } else { noise_bits };
            words.push(random.bits().checked_shr(64 - bits as u32).unwrap_or(0) | 1 << (bits - 1));
        }
    };
    for _ in 0..(512 / width).div_ceil(32) {
        block(&mut words, &mut random, 2, 2);
    }
    for len in 1..=width {
        block(&mut words, &mut random, 2, (8 * len).min(bits));
        block(&mut words, &mut random, 2, 2);
    }
    words.extend([0; 32]);
    block(&mut words, &mut random, bits, bits);
    block(&mut words, &mut random, 2, 2);
    words.truncate(words.len() - 7);
    let mut raw: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes().into_iter().take(width)).collect();
    raw.extend(&[3; 8][..width - 1]);
    Case::new(&format!("patches-{element}"), Algorithm::Int, element, raw)
}

/// Predictors, maps and rotations of INT.
fn predictions() -> Vec<Case> {
    let shapes = [
        ("base", Element::U32, Near::Base, 6, 0),
        ("rotated", Element::U32, Near::Base, 6, 9),
        ("reversed", Element::F32, Near::BaseFromTop, 5, 0),
        ("lag", Element::U16, Near::Before(3), 2, 0),
        ("lag-long", Element::U64, Near::Before(64), 9, 4),
        ("lags", Element::U32, Near::Plane(1, 64), 3, 0),
        ("lags-bytes", Element::U8, Near::Plane(4, 17), 2, 0),
    ];
    let case = |(name, element, near, noise_bits, shift): (&str, Element, Near, u32, u32)| {
        let shape = Shape { near, noise_bits, outlier_percent: 3, outlier_bits: noise_bits + 3, shift };
        let width = element.width_bytes();
        let raw = series::words(shape, width, 2600 / width, &mut Random::new(34));
        Case::new(name, Algorithm::Int, element, raw)
    };
    let mut cases: Vec<Case> = shapes.map(case).into();
    for element in [Element::U8, Element::U16, Element::U32, Element::U64] {
        let width = element.width_bytes();
        let (near, outlier_bits) = (Near::Base, 8 * width as u32 - 2);
        let shape = Shape { near, noise_bits: 0, outlier_percent: 3, outlier_bits, shift: 0 };
        let raw = series::words(shape, width, 1200 / width, &mut Random::new(35));
        cases.push(Case::new(&format!("constant-{element}"), Algorithm::Int, element, raw));
    }
    let few: Vec<u8> = (0..45u32).flat_map(|i| (1000 + i * i % 7).to_le_bytes()).collect();
    cases.push(Case::new("short", Algorithm::Int, Element::U32, few));
    cases
}
