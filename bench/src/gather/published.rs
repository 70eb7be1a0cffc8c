//! What the paper found: *Reducing the GPU Memory Bottleneck with Lossless Compression for ML*, tables 1, 2 and 5.

/// Kinds of rows that the paper has figures for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Sparse,
    Dense,
    Embeddings,
    KvBf16,
    WeightsBf16,
}

/// The figures of a kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Published {
    /// What the paper calls it.
    pub(super) name: &'static str,
    /// Space saved in percent, over all data of the kind.
    pub(super) saved_percent: f64,
    /// Speed of a transfer, in multiples of the plain one.
    pub(super) speed_up: f64,
    /// Ratio from a tenth of the rows divided by that from all of them.
    pub(super) tenth_of_all: Option<f64>,
}

impl Kind {
    pub(super) fn published(self) -> Published {
        let (name, saved_percent, speed_up, tenth_of_all) = match self {
            Self::Sparse => ("GNN sparse", 92.9, 9.7, Some(1.000)),
            Self::Dense => ("GNN dense", 10.4, 1.2, Some(0.997)),
            Self::Embeddings => ("DLRM", 8.3, 1.1, Some(0.991)),
            Self::KvBf16 => ("LLM KV", 23.4, 1.27, None),
            Self::WeightsBf16 => ("LLM weights", 26.7, 1.32, None),
        };
        Published { name, saved_percent, speed_up, tenth_of_all }
    }
}

/// Speed relative to a transfer of the same bytes that decodes nothing, at 90 % saved: by bytes of a row (figure 7).
pub(super) const OF_IDEAL_AT_90: [(usize, f64); 3] = [(256, 0.50), (1024, 0.78), (4096, 0.86)];

/// Why our figures are others than the paper's.
pub(super) const DIFFERENCES: [&str; 5] = [
    "The link is simulated: a clock that lets bytes pass at the set rate. Rows are read and decoded by this machine's cores,",
    "which stand for the device; the paper has an A100 behind PCIe 4 (25 GB/s), whose warps hide decoding much longer.",
    "Generated rows stand for the paper's data, which is not here: numbers by chance with as many zeros, or of such",
    "distributions. Saved space follows the data: sparse rows with fewer ones save more than the paper's mean of three sets,",
    "and made-up means and deviations of features and keys are more alike, or less, than real ones.",
];
