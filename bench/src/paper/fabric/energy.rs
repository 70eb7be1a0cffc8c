//! What moving and coding costs in energy.

use super::Outcome;

/// pJ for compressing and decompressing a 512-bit line: BDI, FPC, C-Pack+Z.
///
/// Table III gives the sum of both; the parts are in the proportion of power times latency of each, which add up to
/// that sum but for rounding.
const CODEC_PJ: [(f64, f64); 3] =
    [split(1.3, 0.6 * 2.0, 0.2 * 1.0), split(36.9, 4.6 * 3.0, 4.6 * 5.0), split(40.0, 1.8 * 16.0, 1.3 * 9.0)];

const fn split(sum: f64, first: f64, second: f64) -> (f64, f64) {
    (sum * first / (first + second), sum * second / (first + second))
}

/// How far apart the GPUs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::paper) enum Distance {
    /// Dies in a package.
    InterDie,
    /// Packages or boards in a node.
    Board,
    /// Nodes.
    Node,
}

impl Distance {
    pub(in crate::paper) const ALL: [Self; 3] = [Self::InterDie, Self::Board, Self::Node];

    pub(in crate::paper) const fn name(self) -> &'static str {
        match self {
            Self::InterDie => "inter-die",
            Self::Board => "board",
            Self::Node => "node",
        }
    }

    /// The middle of what the paper gives: 1 to 2, 10 to 12, and 250.
    pub(in crate::paper) const fn pj_per_bit(self) -> f64 {
        match self {
            Self::InterDie => 1.5,
            Self::Board => 11.0,
            Self::Node => 250.0,
        }
    }
}

impl Outcome {
    /// Energy of links and codecs in pJ.
    pub(in crate::paper) fn energy_pj(&self, distance: Distance) -> f64 {
        8.0 * self.fabric_bytes as f64 * distance.pj_per_bit() + self.codec_pj()
    }

    /// Energy of the codecs alone.
    pub(in crate::paper) fn codec_pj(&self) -> f64 {
        let lines = self.compressed_lines.into_iter().zip(self.decompressed_lines);
        let pj = CODEC_PJ.into_iter().zip(lines);
        pj.map(|((compress, decompress), (coded, decoded))| {
            compress * coded as f64 + decompress * decoded as f64
        })
        .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn energy_of_one_transfer_by_hand() {
        // A read of a line that BDI makes 23 bytes: 16 + 4 + 23 bytes on the bus, 1.3 pJ in the codec.
        let mut outcome = Outcome { fabric_bytes: 43, ..Outcome::default() };
        (outcome.compressed_lines[0], outcome.decompressed_lines[0]) = (1, 1);
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(close(outcome.energy_pj(Distance::InterDie), 344.0 * 1.5 + 1.3));
        assert!(close(outcome.energy_pj(Distance::Board), 344.0 * 11.0 + 1.3));
        assert!(close(outcome.energy_pj(Distance::Node), 344.0 * 250.0 + 1.3));
        // All three compress, C-Pack+Z decompresses: 1.3 · 6/7 + 36.9 · 3/8 + 40.
        (outcome.compressed_lines, outcome.decompressed_lines) = ([1; 3], [0, 0, 1]);
        assert!(close(outcome.codec_pj(), 1.3 * 6.0 / 7.0 + 36.9 * 3.0 / 8.0 + 40.0));
    }
}
