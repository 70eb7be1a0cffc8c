//! What bytes of unknown meaning are values of.

use mgcomp_codecs::frame::{Options, sampled_frame_len};
use mgcomp_codecs::{Algorithm, Element, codec};

/// Bytes that each guess looks at.
const SAMPLE_LEN: usize = 16 << 10;
/// What codecs can tell apart, the most likely first; with what shows it best. Zeros look the same in all of them, so no codec
/// of zeros is asked.
const GUESSES: [(Element, Algorithm); 7] = [
    (Element::Bf16, Algorithm::Xp),
    (Element::F32, Algorithm::Xp),
    (Element::F16, Algorithm::Xp),
    (Element::F64, Algorithm::Xp),
    (Element::U32, Algorithm::Int),
    (Element::U64, Algorithm::Int),
    (Element::U8, Algorithm::Int),
];

/// Guesses within so many hundredths of the raw length are as good as each other.
const SLACK: u64 = 2;

/// What `raw` is most likely values of: that as which a sample of it becomes shortest. Bytes that no codec makes anything of
/// are bytes.
#[must_use]
pub fn guess_element(raw: &[u8]) -> Element {
    let options = Options::for_len(raw.len());
    let guess = |&(element, algorithm): &(Element, Algorithm)| {
        let codec = codec(algorithm)?;
        Some((sampled_frame_len(codec, element, raw, options, SAMPLE_LEN), element))
    };
    let guesses: Vec<_> = GUESSES.iter().filter_map(guess).collect();
    let slack = raw.len() as u64 * SLACK / 100;
    let shortest = guesses.iter().map(|(len, _)| *len).min().filter(|len| len + slack < raw.len() as u64);
    let Some(shortest) = shortest else { return Element::U8 };
    let first = guesses.into_iter().find(|(len, _)| *len <= shortest + slack);
    first.map_or(Element::U8, |(_, element)| element)
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;

    /// Numbers that spread as weights do: sums of uniform ones.
    fn weights() -> impl Iterator<Item = f64> {
        let mut state = 7u64;
        let mut uniform = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1u64 << 53) as f64 - 0.5
        };
        std::iter::from_fn(move || Some((0..6).map(|_| uniform()).sum::<f64>() * 0.03)).take(64 << 10)
    }

    #[test]
    fn floats_are_told_by_their_width() {
        let of: [(Element, Vec<u8>); 4] = [
            (Element::Bf16, weights().flat_map(|w| bf16::from_f64(w).to_le_bytes()).collect()),
            (Element::F16, weights().flat_map(|w| f16::from_f64(w).to_le_bytes()).collect()),
            (Element::F32, weights().flat_map(|w| (w as f32).to_le_bytes()).collect()),
            (Element::F64, weights().flat_map(f64::to_le_bytes).collect()),
        ];
        for (element, raw) in of {
            assert_eq!(guess_element(&raw), element);
        }
    }

    #[test]
    fn integers_are_told_by_their_width() {
        let numbers = || weights().map(|w| (1e6 * (w + 1.0)) as u64);
        let of: [(Element, Vec<u8>); 2] = [
            (Element::U32, numbers().flat_map(|number| (number as u32).to_le_bytes()).collect()),
            (Element::U64, numbers().flat_map(u64::to_le_bytes).collect()),
        ];
        for (element, raw) in of {
            assert_eq!(guess_element(&raw), element);
        }
    }

    #[test]
    fn noise_and_nothing_are_bytes() {
        let mut state = 1u64;
        let mut noise = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        let noise: Vec<u8> = (0..100_000).map(|_| noise()).collect();
        assert_eq!(guess_element(&noise), Element::U8);
        assert_eq!(guess_element(&[]), Element::U8);
    }
}
