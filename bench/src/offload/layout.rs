//! In which order the values of a map lie in memory.

use super::maps::Map;

/// An order of dimensions, the innermost last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    Nchw,
    Nhwc,
    Chwn,
}

impl Layout {
    pub(super) const ALL: [Self; 3] = [Self::Nchw, Self::Nhwc, Self::Chwn];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Nchw => "NCHW",
            Self::Nhwc => "NHWC",
            Self::Chwn => "CHWN",
        }
    }

    /// Which of N, C, H, W each dimension is.
    const fn order(self) -> [usize; 4] {
        match self {
            Self::Nchw => [0, 1, 2, 3],
            Self::Nhwc => [0, 2, 3, 1],
            Self::Chwn => [1, 2, 3, 0],
        }
    }

    /// The values of `map` in this order.
    pub(super) fn of(self, map: &Map) -> Vec<u8> {
        let [_, c, h, w] = map.dims;
        let strides = [c * h * w, h * w, w, 1];
        let order = self.order();
        let (dims, steps) = (order.map(|d| map.dims[d]), order.map(|d| strides[d]));
        let width = map.element.width_bytes();
        let mut bytes = Vec::with_capacity(map.nchw.len());
        for a in 0..dims[0] {
            for b in 0..dims[1] {
                for c in 0..dims[2] {
                    let row = a * steps[0] + b * steps[1] + c * steps[2];
                    for d in 0..dims[3] {
                        let at = (row + d * steps[3]) * width;
                        bytes.extend_from_slice(&map.nchw[at..at + width]);
                    }
                }
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use mgcomp_codecs::Element;

    use super::*;

    #[test]
    fn values_go_where_their_indices_say() {
        // Two images, three channels, one row of two: the value is 100 n + 10 c + w.
        let nchw = vec![0, 1, 10, 11, 20, 21, 100, 101, 110, 111, 120, 121];
        let map =
            Map { label: "x".into(), element: Element::U8, dims: [2, 3, 1, 2], nchw, is_generated: false };
        assert_eq!(Layout::Nchw.of(&map), map.nchw);
        assert_eq!(Layout::Nhwc.of(&map), [0, 10, 20, 1, 11, 21, 100, 110, 120, 101, 111, 121]);
        assert_eq!(Layout::Chwn.of(&map), [0, 100, 1, 101, 10, 110, 11, 111, 20, 120, 21, 121]);
    }

    #[test]
    fn elements_stay_whole() {
        let nchw = vec![1, 2, 3, 4, 5, 6, 7, 8];
        let map =
            Map { label: "x".into(), element: Element::F16, dims: [1, 2, 1, 2], nchw, is_generated: false };
        assert_eq!(Layout::Nhwc.of(&map), [1, 2, 5, 6, 3, 4, 7, 8]);
    }
}
