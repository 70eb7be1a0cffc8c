//! What data of an element tends to become, before anything is known of a stream.

use mgcomp_codecs::{Algorithm, Element};

/// Weight of what one transfer or sample says.
const WEIGHT: f64 = 0.125;

/// By numbers of element and algorithm: coded bytes per raw byte, without framing.
#[derive(Clone, Debug)]
pub(super) struct Priors {
    fractions: [[Option<f64>; 16]; 16],
}

impl Priors {
    /// What is worth a guess of data of this element, if anything is.
    pub(super) fn fraction(&self, element: Element, algorithm: Algorithm) -> Option<f64> {
        self.fractions[usize::from(element.number())][usize::from(algorithm.number())]
    }

    /// Data of this element has become so much.
    pub(super) fn learn(&mut self, element: Element, algorithm: Algorithm, seen: f64) {
        let known = &mut self.fractions[usize::from(element.number())][usize::from(algorithm.number())];
        *known = Some(known.map_or(seen, |known| known + (seen - known) * WEIGHT));
    }
}

impl Default for Priors {
    /// What tensors and index lists of programs mostly are. Bytes can be anything.
    fn default() -> Self {
        let mut fractions = [[None; 16]; 16];
        for element in Element::ALL {
            let typical = match element {
                Element::U8 => continue,
                Element::Bf16 => (Algorithm::Xp, 0.7),
                Element::F16 | Element::F32 | Element::F64 | Element::F8E4M3 | Element::F8E5M2 => {
                    (Algorithm::Xp, 0.87)
                }
                Element::U16 | Element::U32 | Element::U64 => (Algorithm::Int, 0.5),
            };
            let (algorithm, fraction) = typical;
            fractions[usize::from(element.number())][usize::from(algorithm.number())] = Some(fraction);
        }
        Self { fractions }
    }
}
