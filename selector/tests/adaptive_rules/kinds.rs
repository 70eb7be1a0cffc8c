//! Streams of several kinds of data: in phases, and by chance.

use std::sync::Arc;

use mgcomp_codecs::Algorithm;
use mgcomp_selector::Adaptive;
use mgcomp_selector::speeds::Speeds;

use crate::rig::{Data, NOISE, Sent, WEIGHTS, codec, send, speeds, transfer};

const ZEROS: Data = Data { xp: 0.06, zvc: 0.05, ibp: 1.0 };
const SHORT: u64 = 64 << 10;

/// Numbers by chance, the same each time.
struct Chance(u64);

impl Chance {
    /// Whether something happens that does so many times of a hundred.
    fn happens(&mut self, percent: u64) -> bool {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % 100 < percent
    }
}

/// What a transfer of 64 KiB takes at 1 ns a byte, in bytes: its coded bytes, codecs, and what was looked at.
fn cost(sent: &Sent, data: Data) -> f64 {
    let coding = match sent.decision.algorithm {
        Algorithm::Xp => 0.15,
        Algorithm::Zvc => 0.075,
        _ => 0.0,
    };
    SHORT as f64 * (data.fraction(sent.decision.algorithm) + coding) + 0.02 * sent.sampled_bytes as f64
}

#[test]
fn data_by_chance_costs_no_more_than_with_the_best_codec_for_all_of_it() {
    for percent in [95, 80, 50, 30] {
        let (mut policy, mut chance) = (Adaptive::new(speeds()), Chance(percent));
        let (mut ours, mut best, mut raw) = (0.0, 0.0, 0.0);
        for _ in 0..4000 {
            let data = if chance.happens(percent) { ZEROS } else { NOISE };
            ours += cost(&send(&mut policy, &transfer(SHORT), data), data);
            best += SHORT as f64 * (data.zvc + 0.075);
            raw += SHORT as f64;
        }
        assert!(best < 0.9 * raw && ours < 1.01 * best, "{percent} %: {ours} and {best}, {raw} raw");
    }
}

#[test]
fn what_mostly_does_not_shrink_costs_little_more_than_to_send_it_as_it_is() {
    let (mut policy, mut chance) = (Adaptive::new(speeds()), Chance(1));
    let (mut ours, mut raw) = (0.0, 0.0);
    for _ in 0..4000 {
        let data = if chance.happens(2) { ZEROS } else { NOISE };
        ours += cost(&send(&mut policy, &transfer(SHORT), data), data);
        raw += SHORT as f64;
    }
    assert!(ours < 1.01 * raw, "{ours} and {raw}");
}

/// Phases of 200 transfers, where a whole sample takes as long as is saved in thirty: how many transfers of each phase were
/// coded.
fn coded(phases: &[Data]) -> Vec<usize> {
    let slow = codec(Algorithm::Ibp, 0.1, 1300.0);
    let codecs = speeds().codecs().iter().cloned().chain([slow]).collect();
    let mut policy = Adaptive::new(Arc::new(Speeds::try_new(codecs).unwrap()));
    let mut of_phase = |data| {
        let is_coded =
            |_: &usize| send(&mut policy, &transfer(SHORT), data).decision.algorithm != Algorithm::None;
        (0..200).filter(is_coded).count()
    };
    phases.iter().map(|&data| of_phase(data)).collect()
}

#[test]
fn phases_that_come_back_are_known_from_their_first_transfer_or_a_glance() {
    let coded = coded(&[ZEROS, NOISE, ZEROS, NOISE, ZEROS, NOISE, ZEROS]);
    // A glance at 16 KiB takes as long as eight transfers of 66 us leave for it.
    for phase in [2, 4, 6] {
        assert!(coded[phase] > 180, "{coded:?}");
    }
    // One in vain, until the data is seen to be noise again.
    assert!([3, 5].iter().all(|&phase| (1..=2).contains(&coded[phase])), "{coded:?}");
}

#[test]
fn a_codec_that_suits_a_known_kind_is_taken_at_once() {
    let mut policy = Adaptive::new(speeds());
    for data in [ZEROS, WEIGHTS, ZEROS] {
        (0..200).for_each(|_| _ = send(&mut policy, &transfer(SHORT), data));
    }
    assert_eq!(send(&mut policy, &transfer(SHORT), WEIGHTS).decision.algorithm, Algorithm::Zvc);
    let next = send(&mut policy, &transfer(SHORT), WEIGHTS);
    let predicted = next.decision.predicted_bits.unwrap() as f64 / (8 * SHORT) as f64;
    assert!(next.decision.algorithm == Algorithm::Xp && (predicted - 0.6).abs() < 0.001, "{predicted}");
}
