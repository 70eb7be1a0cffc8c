//! What an allocation holds at some time.

use mgcomp_codecs::Element;

use crate::data::{self, Item};
use crate::error::BenchError;

/// The bytes of an allocation, and what they are.
pub(super) struct Snapshot {
    pub(super) label: String,
    pub(super) class: Class,
    pub(super) element: Element,
    pub(super) bytes: Vec<u8>,
}

/// What sort of program has such data, as far as a list says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    Hpc,
    DeepLearning,
    Other,
}

impl Class {
    pub(super) const ALL: [Self; 3] = [Self::Hpc, Self::DeepLearning, Self::Other];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Hpc => "HPC",
            Self::DeepLearning => "DL",
            Self::Other => "other",
        }
    }

    /// The mean capacity that the paper's abstract gives, at a threshold of 30 %.
    pub(super) const fn published(self) -> Option<f64> {
        match self {
            Self::Hpc => Some(1.9),
            Self::DeepLearning => Some(1.5),
            Self::Other => None,
        }
    }

    fn of_kind(kind: &str) -> Self {
        const LEARNING: [&str; 10] = [
            "weights",
            "kv",
            "activations",
            "cnn",
            "embeddings",
            "gnn",
            "gradients",
            "optimizer",
            "token",
            "relu",
        ];
        if ["hpc", "index", "sparse"].iter().any(|start| kind.starts_with(start)) {
            Self::Hpc
        } else if LEARNING.iter().any(|start| kind.starts_with(start)) {
            Self::DeepLearning
        } else {
            Self::Other
        }
    }
}

impl Snapshot {
    pub(super) fn read(item: &Item) -> Result<Self, BenchError> {
        Ok(Self {
            label: item.label.clone(),
            class: item.kind.as_deref().map_or(Class::Other, Class::of_kind),
            element: item.element,
            bytes: data::read(&item.path)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_belong_to_classes() {
        let kinds = ["hpc_field", "index", "cnn_relu_grad", "weights", "random", ""];
        let classes =
            [Class::Hpc, Class::Hpc, Class::DeepLearning, Class::DeepLearning, Class::Other, Class::Other];
        assert_eq!(kinds.map(Class::of_kind), classes);
    }
}
