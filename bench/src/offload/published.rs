//! What the paper prints.

use mgcomp_codecs::Algorithm;

use super::layout::Layout;

/// Mean ratio over the paper's six networks, weighted by size, where its text gives one.
pub(super) const fn mean_ratio(algorithm: Algorithm, layout: Layout) -> Option<f64> {
    match (algorithm, layout) {
        (Algorithm::Zvc, _) => Some(2.6),
        (Algorithm::Deflate, Layout::Nchw) => Some(2.76),
        _ => None,
    }
}

/// The largest ratio of a layer.
pub(super) const fn most_ratio(algorithm: Algorithm) -> Option<f64> {
    match algorithm {
        Algorithm::Zvc => Some(13.8),
        _ => None,
    }
}

/// Mean share of zeros, and the largest of a layer.
pub(super) const ZERO_SHARES: (f64, f64) = (0.62, 0.93);
