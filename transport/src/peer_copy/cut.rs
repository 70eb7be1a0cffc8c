//! How long the segments of copies are.

use mgcomp_codecs::device::{Device, DeviceError};
use mgcomp_selector::Overlap;

/// Where kernels of two devices work beside each other, a long copy has so many segments: the first encoder and the last
/// decoder, which nothing goes beside, take a small part of the whole.
const PARTS: u64 = 8;
/// Segments are multiples of this, since kernels on less do not fill a device. Pieces that go through the host are no longer:
/// the driver copies them at full speed, and the first pass over the link and the last one have nothing beside them.
const PIECE_BYTES: u64 = 4 << 20;
/// What the start of a kernel takes counts for nothing in segments of so many bytes.
const ENOUGH_BYTES: u64 = 32 << 20;

/// What is between two devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Between {
    /// Nothing: they are one context, whose kernels share all that it has, and run one after another.
    Nothing,
    /// A link over which kernels of the first store into the memory of the second.
    Reach,
    /// Memory of the host. Both may still be contexts of one device.
    Host,
}

/// How copies between two devices are cut into segments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    between: Between,
    /// The most raw bytes of a segment, at least 1.
    pub(super) longest_bytes: u64,
    /// Whether bytes pass the link twice, to the host and from there.
    pub(super) is_relayed: bool,
}

impl Cut {
    /// For copies in segments of up to `segment_bytes`.
    pub(super) fn new(from: &Device, to: &Device, segment_bytes: u64) -> Result<Self, DeviceError> {
        let between = match (from.is_same(to), from.reach(to)?) {
            (true, _) => Between::Nothing,
            (false, true) => Between::Reach,
            (false, false) => Between::Host,
        };
        let is_one_device = from.info().ordinal == to.info().ordinal;
        Ok(Self::of(between, is_one_device, segment_bytes))
    }

    fn of(between: Between, is_one_device: bool, segment_bytes: u64) -> Self {
        let most = match between {
            Between::Nothing => u64::MAX,
            Between::Reach => ENOUGH_BYTES,
            Between::Host => PIECE_BYTES,
        };
        let is_relayed = between == Between::Host && !is_one_device;
        Self { between, longest_bytes: segment_bytes.clamp(1, most), is_relayed }
    }

    /// Whether kernels of the first device reach the memory of the second.
    pub(super) const fn is_direct(self) -> bool {
        !matches!(self.between, Between::Host)
    }

    /// The raw bytes of each segment of a copy but the last one, which may have fewer.
    pub(super) fn segment_bytes(self, raw_bytes: u64) -> u64 {
        match self.between {
            Between::Nothing | Between::Host => self.longest_bytes,
            Between::Reach => {
                raw_bytes.div_ceil(PARTS).next_multiple_of(PIECE_BYTES).clamp(1, self.longest_bytes)
            }
        }
    }

    /// The most segments of copies of up to `most_bytes`.
    pub(super) fn most_segments(self, most_bytes: u64) -> u64 {
        most_bytes.div_ceil(self.longest_bytes).max(PARTS)
    }

    /// When what works on a copy of so many bytes works beside the rest.
    pub(super) fn overlap(self, raw_bytes: u64) -> Overlap {
        match self.between {
            // As if it were one segment, whatever there is room for.
            Between::Nothing => Overlap::Fused(raw_bytes.max(1)),
            _ if self.is_relayed => Overlap::Relayed(self.segment_bytes(raw_bytes)),
            _ => Overlap::Fused(self.segment_bytes(raw_bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn segments_are_as_long_as_pays() {
        let bytes = |between, segment_bytes: u64, raw_bytes: u64| {
            Cut::of(between, false, segment_bytes).segment_bytes(raw_bytes)
        };
        for (raw_bytes, expected) in [
            (0, 1),
            (1, 4 * MIB),
            (32 * MIB, 4 * MIB),
            (32 * MIB + 1, 8 * MIB),
            (64 * MIB, 8 * MIB),
            (256 * MIB, 32 * MIB),
            (1024 * MIB, 32 * MIB),
        ] {
            let expected: u64 = expected;
            assert_eq!(bytes(Between::Reach, 128 * MIB, raw_bytes), expected, "{raw_bytes}");
            assert_eq!(bytes(Between::Reach, 6 * MIB, raw_bytes), expected.min(6 * MIB), "{raw_bytes}");
            assert_eq!(bytes(Between::Nothing, 128 * MIB, raw_bytes), 128 * MIB);
            assert_eq!(bytes(Between::Host, 128 * MIB, raw_bytes), 4 * MIB);
            assert_eq!(bytes(Between::Host, 1000, raw_bytes), 1000);
            assert_eq!(bytes(Between::Nothing, 0, raw_bytes), 1);
        }
    }

    #[test]
    fn no_copy_has_more_segments_than_there_are_words_for() {
        for between in [Between::Nothing, Between::Reach, Between::Host] {
            for segment_bytes in [1, 1000, 4 * MIB, 5 * MIB, 1024 * MIB] {
                let cut = Cut::of(between, false, segment_bytes);
                for most_bytes in [0, 1, 999, 4 * MIB + 1, 33 * MIB, 300 * MIB, 1024 * MIB] {
                    let most = cut.most_segments(most_bytes);
                    for raw_bytes in [0, most_bytes / 9, most_bytes / 2, most_bytes] {
                        let count = raw_bytes.div_ceil(cut.segment_bytes(raw_bytes));
                        assert!(count <= most, "{cut:?} {raw_bytes} of {most_bytes}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_works_at_the_same_time_is_known() {
        let overlap = |between, is_one_device, raw_bytes: u64| {
            Cut::of(between, is_one_device, 128 * MIB).overlap(raw_bytes)
        };
        assert_eq!(overlap(Between::Nothing, true, 512 * MIB), Overlap::Fused(512 * MIB));
        assert_eq!(overlap(Between::Nothing, true, 0), Overlap::Fused(1));
        assert_eq!(overlap(Between::Reach, false, 64 * MIB), Overlap::Fused(8 * MIB));
        assert_eq!(overlap(Between::Host, true, 64 * MIB), Overlap::Fused(4 * MIB));
        assert_eq!(overlap(Between::Host, false, 64 * MIB), Overlap::Relayed(4 * MIB));
    }
}
