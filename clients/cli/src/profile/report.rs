//! What profiles say, for people and for programs.

use std::fmt::Write;

use mgcomp_codecs::Element;
use mgcomp_transport::buddy::{Choice, Form, Profile, Target, Threshold};
use serde_json::{Map, Value, json};

/// One allocation.
pub(super) struct Row {
    /// Its first snapshot.
    pub(super) name: String,
    pub(super) snapshots: usize,
    pub(super) element: Element,
    pub(super) choice: Choice,
    pub(super) profile: Profile,
    /// The forms that were looked at.
    pub(super) forms: Vec<Form>,
}

/// All of them.
pub(super) struct Report {
    threshold: Threshold,
    rows: Vec<Row>,
}

const MEBIBYTE: f64 = (1 << 20) as f64;

impl Report {
    pub(super) const fn new(threshold: Threshold) -> Self {
        Self { threshold, rows: Vec::new() }
    }

    pub(super) fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// A table, and what the allocations come to together.
    pub(super) fn to_text(&self) -> String {
        let width = self.rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0).max(8);
        let mut text = format!(
            "{:width$} {:>8} {:>8} {:>5} {:>7} {:>9} {:>9} {:>7}  {}\n",
            "snapshot",
            "element",
            "MiB",
            "form",
            "target",
            "capacity",
            "overflow",
            "zero",
            "overflow at each target"
        );
        for row in &self.rows {
            let choice = &row.choice;
            let zeros = 100.0 * choice.zero_entries as f64 / choice.entries as f64;
            let _ = writeln!(
                text,
                "{:width$} {:>8} {:>8.2} {:>5} {:>7} {:>9.3} {:>7.1} % {:>5.1} %  {}",
                row.name,
                row.element,
                choice.raw_bytes as f64 / MEBIBYTE,
                choice.form,
                choice.target,
                choice.effective_capacity(),
                100.0 * choice.overflow_share(),
                zeros,
                row.shares()
            );
        }
        text + &self.together()
    }

    /// What all allocations come to; entries count by their bytes.
    fn together(&self) -> String {
        let sum = |of: fn(&Choice) -> f64| self.rows.iter().map(|row| of(&row.choice)).sum::<f64>();
        let raw = sum(|choice| choice.raw_bytes as f64);
        let device = sum(|choice| (choice.footprint.device_bytes + choice.footprint.metadata_bytes) as f64);
        let overflow = sum(|choice| choice.overflow_share() * choice.raw_bytes as f64);
        format!(
            "\n{:.2} MiB take {:.2} MiB of device memory, metadata counted, and {:.2} MiB of buddy memory: capacity {:.3}; \
             {:.1} % overflow (threshold {} %)\n",
            raw / MEBIBYTE,
            device / MEBIBYTE,
            sum(|choice| choice.footprint.buddy_bytes as f64) / MEBIBYTE,
            raw / device,
            100.0 * overflow / raw,
            self.threshold.as_percent()
        )
    }

    /// One object a line.
    pub(super) fn to_json(&self) -> String {
        self.rows.iter().map(|row| format!("{}\n", row.to_json(self.threshold))).collect()
    }
}

impl Row {
    /// The overflow of the form chosen at each target but 1, where there is none.
    fn shares(&self) -> String {
        let form = self.choice.form;
        let share =
            |&target: &Target| format!("{target}: {:.1}", 100.0 * self.profile.overflow_share(form, target));
        form.targets().iter().skip(1).map(share).collect::<Vec<_>>().join("  ")
    }

    fn to_json(&self, threshold: Threshold) -> Value {
        let choice = &self.choice;
        let by_target = |form: Form| -> Map<String, Value> {
            let share =
                |&target| (Target::name(target).to_owned(), self.profile.overflow_share(form, target).into());
            form.targets().iter().map(share).collect()
        };
        let shares: Map<String, Value> =
            self.forms.iter().map(|&form| (form.name().to_owned(), by_target(form).into())).collect();
        json!({
            "snapshot": self.name,
            "snapshots": self.snapshots,
            "element": self.element.name(),
            "threshold_percent": threshold.as_percent(),
            "form": choice.form.name(),
            "target": choice.target.name(),
            "raw_bytes": choice.raw_bytes,
            "device_bytes": choice.footprint.device_bytes,
            "metadata_bytes": choice.footprint.metadata_bytes,
            "buddy_bytes": choice.footprint.buddy_bytes,
            "effective_capacity": choice.effective_capacity(),
            "entries": choice.entries,
            "zero_entries": choice.zero_entries,
            "overflowing_entries": choice.overflowing_entries,
            "overflow_share": choice.overflow_share(),
            "overflow_share_by_target": shares,
        })
    }
}
