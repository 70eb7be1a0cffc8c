//! A value for each workload and scheme.

use super::super::fabric::{Distance, Outcome, System};
use super::super::runs::{Done, Scheme};

/// What a figure shows, relative to the same workload without compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quantity {
    /// Payloads alone.
    Payload,
    /// All bytes on the fabric, headers, requests and acknowledgements included.
    Traffic,
    /// From the first request to the last answer.
    Time,
    /// Links and codecs.
    Energy(Distance),
}

impl Quantity {
    fn of(self, outcome: &Outcome) -> f64 {
        match self {
            Self::Payload => outcome.payload_bytes as f64,
            Self::Traffic => outcome.fabric_bytes as f64,
            Self::Time => outcome.cycles as f64,
            Self::Energy(distance) => outcome.energy_pj(distance),
        }
    }

    /// Of `done` under `scheme`, as a share of what it is without compression.
    pub(super) fn share(self, done: &Done, scheme: Scheme, system: System) -> f64 {
        self.of(done.outcome(scheme, system)) / self.of(done.outcome(Scheme::None, system))
    }

    /// Its name in headings.
    pub(super) fn title(self) -> String {
        match self {
            Self::Payload => "traffic, payloads alone".into(),
            Self::Traffic => "traffic, all messages with headers".into(),
            Self::Time => "execution time".into(),
            Self::Energy(distance) => {
                format!("energy of links and codecs, {} ({} pJ/b)", distance.name(), distance.pj_per_bit())
            }
        }
    }

    /// Its name in CSV headers.
    pub(super) fn key(self) -> String {
        match self {
            Self::Payload => "payload_traffic/none".into(),
            Self::Traffic => "fabric_traffic/none".into(),
            Self::Time => "time/none".into(),
            Self::Energy(distance) => format!("energy_{}/none", distance.name()),
        }
    }
}

/// Rows of workloads, columns of schemes.
pub(super) struct Matrix {
    pub(super) quantity: Quantity,
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<(String, Vec<f64>)>,
}

impl Matrix {
    /// `quantity` of every workload under every scheme, as a share of what it is without compression.
    pub(super) fn new(quantity: Quantity, done: &[Done], schemes: &[Scheme], system: System) -> Self {
        let row = |done: &Done| {
            let share = |&scheme| quantity.share(done, scheme, system);
            (done.name.clone(), schemes.iter().map(share).collect())
        };
        let columns = schemes.iter().map(|scheme| scheme.label()).collect();
        Self { quantity, columns, rows: done.iter().map(row).collect() }
    }

    /// The mean of each column.
    pub(super) fn means(&self) -> Vec<f64> {
        let mean = |column: usize| {
            self.rows.iter().map(|(_, values)| values[column]).sum::<f64>() / self.rows.len().max(1) as f64
        };
        (0..self.columns.len()).map(mean).collect()
    }

    /// An aligned table with its means.
    pub(super) fn lines(&self) -> Vec<String> {
        let rows = self.rows.iter().cloned().chain([("mean".to_owned(), self.means())]);
        let names = rows.clone().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        let heading: String = self.columns.iter().map(|column| format!(" {column:>8}")).collect();
        let line = |(name, values): (String, Vec<f64>)| {
            let values: String = values.iter().map(|value| format!(" {value:>8.3}")).collect();
            format!("{name:<names$}{values}")
        };
        let title = format!("{} / without compression", self.quantity.title());
        [title, format!("{:names$}{heading}", "")].into_iter().chain(rows.map(line)).collect()
    }
}
