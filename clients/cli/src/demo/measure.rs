//! Measuring one data set: raw and compressed in turn, several times, on the same machine.

use std::collections::BTreeMap;
use std::time::Duration;

use mgcomp_codecs::Algorithm;
use mgcomp_selector::PolicySpec;
use mgcomp_transport::link::Shaping;

use super::dataset::Dataset;
use super::error::DemoError;
use super::exchange::RankReport;
use crate::show::OFF;

/// How often each of the two is measured.
const REPEATS: usize = 3;
/// What one measurement should take at least when the link alone is slow.
const TARGET: Duration = Duration::from_millis(400);
/// Rounds at most, for data sets of a few bytes.
const MAX_ROUNDS: u64 = 200;

/// Ranks that can exchange a data set.
pub(super) trait Ranks {
    /// Lets all ranks exchange data set `dataset` `rounds` times, raw if there is no policy; returns what each has to say.
    fn exchange(
        &mut self,
        dataset: usize,
        policy: Option<PolicySpec>,
        rounds: u32,
    ) -> Result<Vec<RankReport>, DemoError>;
}

/// What came of one data set.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) dataset: String,
    /// How codecs were chosen in the end: by the policy, or not at all.
    pub(super) mode: String,
    pub(super) bytes: u64,
    pub(super) raw_ms: f64,
    pub(super) compressed_ms: f64,
    /// Bytes of payload on the link per raw byte.
    pub(super) traffic: f64,
    pub(super) equal: bool,
    /// By name: transfers and raw bytes.
    pub(super) algorithms: BTreeMap<String, Carried>,
    /// The last decisions of rank 0, as lines and as objects.
    pub(super) decisions: Vec<(String, serde_json::Value)>,
}

/// What one algorithm carried.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Carried {
    pub(super) transfers: u64,
    pub(super) raw_bytes: u64,
    pub(super) coded_bytes: u64,
}

impl Row {
    pub(super) fn speedup(&self) -> f64 {
        self.raw_ms / self.compressed_ms
    }
}

pub(super) fn measure(
    ranks: &mut dyn Ranks,
    index: usize,
    dataset: &Dataset,
    policy: PolicySpec,
    shaping: Shaping,
) -> Result<Row, DemoError> {
    let rounds = rounds(dataset, shaping);
    let (mut raw_ms, mut compressed_ms) = (Vec::new(), Vec::new());
    let (mut equal, mut is_off, mut algorithms) = (true, false, BTreeMap::<String, Carried>::new());
    let mut decisions = Vec::new();
    for _ in 0..REPEATS {
        let raw = ranks.exchange(index, None, rounds)?;
        let compressed = ranks.exchange(index, Some(policy), rounds)?;
        raw_ms.push(millis(&raw, rounds));
        compressed_ms.push(millis(&compressed, rounds));
        decisions = compressed.first().map(|report| report.decisions.clone()).unwrap_or_default();
        // They may belong to another job than this process.
        is_off = compressed.iter().all(|report| report.is_off);
        equal &= raw.iter().chain(&compressed).all(|report| report.equal);
        for sent in compressed.iter().flat_map(|report| &report.sent) {
            let carried = algorithms.entry(sent.algorithm.clone()).or_default();
            carried.transfers += sent.transfers;
            carried.raw_bytes += sent.raw_bytes;
            carried.coded_bytes += sent.coded_bytes;
        }
    }
    let sum = |field: fn(&Carried) -> u64| algorithms.values().map(field).sum::<u64>() as f64;
    Ok(Row {
        dataset: dataset.name.clone(),
        mode: if is_off { OFF.to_owned() } else { policy.to_string() },
        bytes: dataset.bytes.len() as u64,
        raw_ms: median(raw_ms),
        compressed_ms: median(compressed_ms),
        traffic: sum(|c| c.coded_bytes) / sum(|c| c.raw_bytes),
        equal,
        algorithms,
        decisions,
    })
}

/// Enough rounds for the target, by the time that the raw bytes take on the link: each rank sends its tensor
/// twice in a round.
pub(super) fn rounds(dataset: &Dataset, shaping: Shaping) -> u32 {
    let round = shaping.duration(2 * dataset.bytes.len() as u64) + 4 * shaping.latency();
    let rounds = TARGET.as_nanos().div_ceil(round.as_nanos().max(1));
    rounds.clamp(1, MAX_ROUNDS.into()) as u32
}

/// Time of one round, by the slowest rank.
fn millis(reports: &[RankReport], rounds: u32) -> f64 {
    let slowest = reports.iter().map(|report| report.elapsed_ns).max().unwrap_or(0);
    slowest as f64 / 1e6 / f64::from(rounds)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// How algorithms are ordered in reports: as their numbers are.
pub(super) fn by_number<T>(by_name: &BTreeMap<String, T>) -> impl Iterator<Item = (Algorithm, &T)> {
    Algorithm::ALL.into_iter().filter_map(|algorithm| Some((algorithm, by_name.get(algorithm.name())?)))
}
