//! The tensors in `samples/`, carried in the binary so that it needs no files. `samples/README.md` says where
//! they come from.

use mgcomp_codecs::Element;

/// One tensor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// Its file without `.bin`.
    pub(crate) name: &'static str,
    /// What its bytes are.
    pub(crate) element: Element,
    /// Its values, little-endian.
    pub(crate) bytes: &'static [u8],
}

macro_rules! sample {
    ($name:literal, $element:ident) => {
        Sample {
            name: $name,
            element: Element::$element,
            bytes: include_bytes!(concat!("../samples/", $name, ".bin")),
        }
    };
}

/// Every tensor, in the order of `samples/corpus.json`.
pub(crate) const SAMPLES: [Sample; 6] = [
    sample!("relu.f32", F32),
    sample!("relu.f16", F16),
    sample!("weights.bf16", Bf16),
    sample!("csr_indices.i32", U32),
    sample!("edges.i64", U64),
    sample!("random.u8", U8),
];

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn samples_are_those_of_the_list() {
        let list: Value = serde_json::from_str(include_str!("../samples/corpus.json")).unwrap();
        let tensors = list["tensors"].as_array().unwrap();
        assert_eq!(tensors.len(), SAMPLES.len());
        for (sample, tensor) in SAMPLES.iter().zip(tensors) {
            let Sample { name, element, bytes } = sample;
            assert_eq!(tensor["file"], format!("{name}.bin"));
            let dtype = match tensor["dtype"].as_str().unwrap() {
                "float32" => Element::F32,
                "float16" => Element::F16,
                "bfloat16" => Element::Bf16,
                "int32" => Element::U32,
                "int64" => Element::U64,
                "uint8" => Element::U8,
                other => panic!("{name}: {other}"),
            };
            assert_eq!(*element, dtype, "{name}");
            let shape = tensor["shape"].as_array().unwrap();
            let values: u64 = shape.iter().map(|n| n.as_u64().unwrap()).product();
            assert_eq!(bytes.len() as u64, values * element.width_bytes() as u64, "{name}");
            assert_eq!(tensor["bytes"], bytes.len(), "{name}");
        }
    }

    #[test]
    fn samples_stay_small() {
        let total_bytes: usize = SAMPLES.iter().map(|sample| sample.bytes.len()).sum();
        assert_eq!(total_bytes, 1_938_944);
        assert!(total_bytes <= 4_000_000);
    }
}
