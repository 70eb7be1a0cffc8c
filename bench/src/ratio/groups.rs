//! Kinds of data, each with the ratio that its structure allows.

use mgcomp_codecs::Element;

use crate::data::Item;

/// Files that belong together.
pub(super) struct Group {
    pub(super) name: &'static str,
    /// The ratio to reach, where there is one: what fixed-width codes without a bit-serial step can do.
    pub(super) goal: Option<f64>,
    holds: fn(&Traits<'_>) -> bool,
}

/// What decides where a file belongs.
struct Traits<'a> {
    kind: &'a str,
    name: &'a str,
    element: Element,
    /// Share of elements whose bits are all zero.
    zeros: f64,
}

/// A tensor with more zeros than this is not dense.
const DENSE_ZEROS: f64 = 0.05;

/// Every group, in the order in which they are listed.
pub(super) const GROUPS: [Group; 13] = [
    group("dense bf16", Some(1.455), |file| file.is_dense(&[Element::Bf16])),
    group("dense f16", Some(1.14), |file| file.is_dense(&[Element::F16])),
    group("dense f32", Some(1.17), |file| file.is_dense(&[Element::F32])),
    group("dense fp8", Some(1.16), |file| file.is_dense(&[Element::F8E4M3, Element::F8E5M2])),
    group("GELU bf16", Some(1.48), |file| file.is_gelu() && file.element == Element::Bf16),
    group("CNN maps, masked gradients", Some(3.4), |file| matches!(file.kind, "cnn_relu" | "cnn_relu_grad")),
    group("bag of words", Some(80.0), |file| {
        file.kind == "gnn" && file.name.contains("bow") && !file.name.contains("agg")
    }),
    group("CSR indices i32", Some(8.0), |file| file.kind == "index" && file.element == Element::U32),
    group("CSR indices i64", Some(11.0), |file| file.kind == "index" && file.element == Element::U64),
    group("sorted keys u64", Some(2.0), |file| file.kind == "sorted_keys" && file.element == Element::U64),
    group("heat f32", Some(2.1), |file| file.name.contains("heat") && file.element == Element::F32),
    group("heat f64", Some(1.36), |file| file.name.contains("heat") && file.element == Element::F64),
    group("random", None, |file| file.kind == "random"),
];

const fn group(name: &'static str, goal: Option<f64>, holds: fn(&Traits<'_>) -> bool) -> Group {
    Group { name, goal, holds }
}

impl Group {
    /// The groups that `item` with the content `raw` belongs to, by their place in [`GROUPS`].
    pub(super) fn of(item: &Item, raw: &[u8]) -> Vec<usize> {
        let Some(kind) = &item.kind else { return Vec::new() };
        let zeros = zero_share(raw, item.element.width_bytes());
        let file = Traits { kind, name: &item.label, element: item.element, zeros };
        (0..GROUPS.len()).filter(|&at| (GROUPS[at].holds)(&file)).collect()
    }
}

impl Traits<'_> {
    /// Weights, caches, gradients and the like: exponents of few values, the rest noise.
    fn is_dense(&self, elements: &[Element]) -> bool {
        let kinds = ["weights", "kv", "activations", "gradients", "optimizer", "embeddings"];
        elements.contains(&self.element)
            && kinds.contains(&self.kind)
            && !self.is_gelu()
            && self.zeros <= DENSE_ZEROS
    }

    /// Outputs of a GELU, whose sign says much about the exponent.
    fn is_gelu(&self) -> bool {
        self.kind == "activations" && self.name.contains("gelu")
    }
}

fn zero_share(raw: &[u8], width: usize) -> f64 {
    let elements = raw.chunks_exact(width);
    let count = elements.len().max(1);
    elements.filter(|element| element.iter().all(|&byte| byte == 0)).count() as f64 / count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of the groups of a file with one zero in `period` elements.
    fn groups(label: &str, kind: &str, element: Element, period: usize) -> Vec<&'static str> {
        let item = Item { label: label.into(), path: "x".into(), element, kind: Some(kind.into()) };
        let width = element.width_bytes();
        let mut raw = vec![1; 1000 * width];
        raw.chunks_mut(width).step_by(period).for_each(|element| element.fill(0));
        Group::of(&item, &raw).into_iter().map(|at| GROUPS[at].name).collect()
    }

    #[test]
    fn files_find_their_groups() {
        let cases = [
            ("w.bf16.bin", "weights", Element::Bf16, 1000, "dense bf16"),
            ("w.f8e5m2.bin", "kv", Element::F8E5M2, 1000, "dense fp8"),
            ("act.hidden.f32.bin", "activations", Element::F32, 1000, "dense f32"),
            ("act.gelu.bf16.bin", "activations", Element::Bf16, 1000, "GELU bf16"),
            ("cnn.f16.bin", "cnn_relu_grad", Element::F16, 2, "CNN maps, masked gradients"),
            ("gnn.bow_binary.f32.bin", "gnn", Element::F32, 2, "bag of words"),
            ("edges.i64.bin", "index", Element::U64, 1000, "CSR indices i64"),
            ("keys.bin", "sorted_keys", Element::U64, 1000, "sorted keys u64"),
            ("hpc.heat.f64.bin", "hpc_field", Element::F64, 1000, "heat f64"),
            ("r.bin", "random", Element::U8, 1000, "random"),
        ];
        for (label, kind, element, period, expected) in cases {
            assert_eq!(groups(label, kind, element, period), [expected], "{label}");
        }
        // Rows of zeros, another GELU, aggregated words, other keys, other fields.
        for (label, kind, element, period) in [
            ("grad.wordemb.bf16.bin", "gradients", Element::Bf16, 10),
            ("act.gelu.f32.bin", "activations", Element::F32, 1000),
            ("gnn.bow_agg1.f32.bin", "gnn", Element::F32, 2),
            ("keys.bin", "sorted_keys", Element::U32, 1000),
            ("hpc.grayscott.f64.bin", "hpc_field", Element::F64, 1000),
        ] {
            assert_eq!(groups(label, kind, element, period), Vec::<&str>::new(), "{label}");
        }
    }

    #[test]
    fn what_no_list_describes_has_no_group() {
        let item = Item { label: "random".into(), path: "x".into(), element: Element::U8, kind: None };
        assert!(Group::of(&item, &[1]).is_empty());
    }

    #[test]
    fn zeros_are_elements_without_a_bit() {
        assert_eq!(zero_share(&[0, 0, 0, 1, 0, 0, 2, 0, 0], 2), 0.5);
        assert_eq!(zero_share(&[0], 2), 0.0);
    }
}
