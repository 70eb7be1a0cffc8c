//! Line sizes once more, as slowly and plainly as the tables can be read: list every row that fits, take the
//! cheapest. Shares no code with the crate.

use mgcomp_codecs::{Algorithm, line::Line};

/// Size of `line` in bits.
pub(crate) fn line_bits(algorithm: Algorithm, line: &Line) -> u32 {
    match algorithm {
        Algorithm::Bdi => bdi(line),
        Algorithm::Fpc => fpc(line),
        Algorithm::CpackZ => cpackz(line),
        other => panic!("{other} has no line size"),
    }
}

/// Bytes per base, bytes per delta, and the size that Table II prints: data bits and tag bits.
const BDI_FORMS: [(usize, u32, u32); 6] = [
    (8, 1, 128 + 12),
    (8, 2, 192 + 12),
    (8, 4, 320 + 12),
    (4, 1, 160 + 20),
    (4, 2, 288 + 20),
    (2, 1, 272 + 36),
];

fn bdi(line: &Line) -> u32 {
    let mut sizes = vec![512];
    if line == &[0; 64] {
        sizes.push(4);
    }
    if (8..64).all(|i| line[i] == line[i - 8]) {
        sizes.push(64 + 4);
    }
    for (base_len, delta_len, bits) in BDI_FORMS {
        if bdi_fits(line, base_len, delta_len) {
            sizes.push(bits);
        }
    }
    sizes.into_iter().min().unwrap()
}

fn bdi_fits(line: &Line, base_len: usize, delta_len: u32) -> bool {
    let elements = line.chunks(base_len).map(|bytes| {
        let mut wide = [0; 16];
        wide[..base_len].copy_from_slice(bytes);
        i128::from_le_bytes(wide)
    });
    let modulus = 1i128 << (8 * base_len);
    let half = 1i128 << (8 * delta_len - 1);
    let long: Vec<i128> = elements.filter(|&e| e >= half && e < modulus - half).collect();
    long.iter().all(|&e| e - long.iter().min().unwrap() < 2 * half)
}

/// The words of a line as bytes, lowest first.
fn words(line: &Line) -> impl Iterator<Item = [u8; 4]> + '_ {
    line.chunks(4).map(|bytes| bytes.try_into().unwrap())
}

fn fpc(line: &Line) -> u32 {
    if line == &[0; 64] {
        return 3;
    }
    let sum = words(line).map(|word| 3 + fpc_data_bits(word)).sum::<u32>();
    if sum < 512 { sum } else { 512 }
}

fn fpc_data_bits(word: [u8; 4]) -> u32 {
    let signed = i64::from(i32::from_le_bytes(word));
    let [low, high] = [[word[0], word[1]], [word[2], word[3]]].map(i16::from_le_bytes);
    let rows = [
        (signed == 0, 0),
        (word == [word[0]; 4], 8),
        ((-8..=7).contains(&signed), 4),
        ((-128..=127).contains(&signed), 8),
        ((-32768..=32767).contains(&signed), 16),
        (low == 0, 16),
        ((-128..=127).contains(&low) && (-128..=127).contains(&high), 16),
        (true, 32),
    ];
    rows.into_iter().filter(|row| row.0).map(|row| row.1).min().unwrap()
}

fn cpackz(line: &Line) -> u32 {
    if line == &[0; 64] {
        return 2;
    }
    let mut dictionary: Vec<[u8; 4]> = Vec::new();
    let mut sum = 0;
    for word in words(line) {
        let rows = [
            (word == [0; 4], 2),
            (dictionary.contains(&word), 4 + 4),
            (word[1..] == [0; 3], 4 + 8),
            (dictionary.iter().any(|known| known[1..] == word[1..]), 4 + 4 + 8),
            (dictionary.iter().any(|known| known[2..] == word[2..]), 4 + 4 + 16),
            (true, 2 + 32),
        ];
        let bits = rows.into_iter().filter(|row| row.0).map(|row| row.1).min().unwrap();
        if bits == 2 + 32 {
            dictionary.push(word);
        }
        sum += bits;
    }
    if sum < 512 { sum } else { 512 }
}
