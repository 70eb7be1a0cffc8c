//! Copies that were measured, beside what the model says of them.

use super::model::{Model, Overlap, Wire};
use super::results::Copied;

/// A copy and the model's word on it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Compared {
    pub(super) copied: Copied,
    /// Speed-up over plain by [`Overlap::BOTH`].
    pub(super) predicted: [f64; 2],
}

impl Compared {
    /// What `model`, of the same codec and data, says of `copied`, with the stages that it has. The link is as fast as the
    /// plain copy was, all that it took being due to its bytes.
    pub(super) fn new(model: &Model, copied: Copied) -> Self {
        let wire = Wire { bytes_per_s: copied.plain_gbytes * 1e9, latency_s: 0.0 };
        let model = Model { stages: copied.stages, ..model.clone() };
        let predicted = Overlap::BOTH.map(|overlap| model.speed_up(wire, copied.bytes as f64, overlap));
        Self { copied, predicted }
    }

    /// The speed-up that was measured.
    pub(super) fn measured(&self) -> f64 {
        self.copied.gbytes / self.copied.plain_gbytes
    }

    /// The measured one over the predicted ones.
    pub(super) fn measured_of_predicted(&self) -> [f64; 2] {
        self.predicted.map(|predicted| self.measured() / predicted)
    }
}

#[cfg(test)]
mod tests {
    use super::super::codec::{Codec, Rates};
    use super::super::model::Stages;
    use super::*;

    /// A copy of 8000 bytes by a codec that halves, and takes 400 ns before it and 200 after.
    fn compared(stages: Stages) -> Compared {
        let rates = Rates { ratio: 2.0, encode_gbytes: 20.0, decode_gbytes: 40.0 };
        let codec = Codec::measured(String::new(), 8000, rates);
        // Latency and efficiency are those of the links that nobody measured.
        let model = Model { codec, stages: Stages::Both, latency_s: 1.0, launch_s: 0.0, efficiency: 0.1 };
        let (way, dataset) = ("x".into(), "d".into());
        let copied = Copied { way, dataset, stages, bytes: 8000, plain_gbytes: 5.0, gbytes: 6.0 };
        Compared::new(&model, copied)
    }

    #[test]
    fn predictions_by_hand() {
        // 1600 ns plain; 800 on the link, with 400 before and 200 after it. A piece costs what the smallest buffer costs: two
        // would take 400 + 400 + 200, and 400 more, no better; without the decoder 400 + 400, and 400 more; without the
        // encoder 400 + 200, and 400 more, four 200 + 200, and three times 200 more.
        let cases = [
            (Stages::Both, 1400.0, 1400.0),
            (Stages::Encode, 1200.0, 1200.0),
            (Stages::Decode, 1000.0, 1000.0),
        ];
        for (stages, turn, overlapped) in cases {
            let predicted = compared(stages).predicted;
            for (got, expected) in [(predicted[0], 1600.0 / turn), (predicted[1], 1600.0 / overlapped)] {
                assert!((got - expected).abs() < 1e-9, "{stages:?}: {got} for {expected}");
            }
        }
        let compared = compared(Stages::Both);
        assert!((compared.measured() - 1.2).abs() < 1e-9);
        assert!((compared.measured_of_predicted()[0] - 1.05).abs() < 1e-9);
    }
}
