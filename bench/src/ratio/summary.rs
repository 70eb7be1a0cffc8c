//! Ratios by kind of data, beside LZ4 and zstd.

use std::fmt::Write as _;

use super::groups::{GROUPS, Group};
use crate::data::Item;

/// Adds up what files of a kind take.
pub(super) struct Summary {
    columns: Vec<&'static str>,
    tallies: Vec<Tally>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Tally {
    files: usize,
    raw_bytes: u64,
    /// By column; none where a file could not be measured.
    coded_bytes: Vec<Option<u64>>,
}

impl Summary {
    /// With a column for each algorithm of `columns`.
    pub(super) fn new(columns: Vec<&'static str>) -> Self {
        let tally = Tally { coded_bytes: vec![Some(0); columns.len()], ..Tally::default() };
        Self { columns, tallies: vec![tally; GROUPS.len()] }
    }

    /// Adds the file `item` with the content `raw`, which takes so many bytes under each algorithm.
    pub(super) fn add(&mut self, item: &Item, raw: &[u8], coded_bytes: &[(&'static str, u64)]) {
        for at in Group::of(item, raw) {
            let tally = &mut self.tallies[at];
            tally.files += 1;
            tally.raw_bytes += raw.len() as u64;
            for (column, sum) in self.columns.iter().zip(&mut tally.coded_bytes) {
                let found = coded_bytes.iter().find(|(algorithm, _)| algorithm == column);
                *sum = sum.zip(found).map(|(sum, (_, bytes))| sum + bytes);
            }
        }
    }

    /// The table, without rows of kinds that no file was of; nothing if none was of any.
    pub(super) fn lines(&self) -> Vec<String> {
        let rows: Vec<String> = GROUPS
            .iter()
            .zip(&self.tallies)
            .filter(|(_, tally)| tally.files > 0)
            .map(|(group, tally)| line(group, tally))
            .collect();
        if rows.is_empty() {
            return rows;
        }
        let mut heading = format!("{:<26}  {:>5}  {:>7}  {:>6}", "kind of data", "files", "MiB", "goal");
        for column in &self.columns {
            let _ = write!(heading, "  {column:>7}");
        }
        [heading].into_iter().chain(rows).collect()
    }
}

fn line(group: &Group, tally: &Tally) -> String {
    let goal = group.goal.map_or("-".into(), |goal| goal.to_string());
    let mib = tally.raw_bytes as f64 / f64::from(1 << 20);
    let mut line = format!("{:<26}  {:>5}  {mib:>7.2}  {goal:>6}", group.name, tally.files);
    for bytes in &tally.coded_bytes {
        let ratio = bytes.map(|bytes| format!("{:.3}", tally.raw_bytes as f64 / bytes as f64));
        let _ = write!(line, "  {:>7}", ratio.unwrap_or("-".into()));
    }
    line
}

#[cfg(test)]
mod tests {
    use mgcomp_codecs::Element;

    use super::*;

    fn item(kind: &str, element: Element) -> Item {
        Item { label: "x".into(), path: "x".into(), element, kind: Some(kind.into()) }
    }

    #[test]
    fn files_of_a_kind_are_weighed_by_bytes() {
        let mut summary = Summary::new(vec!["zvc", "lz4"]);
        let maps = item("cnn_relu", Element::F32);
        summary.add(&maps, &[1; 1 << 20], &[("zvc", 1 << 19), ("lz4", 1 << 20)]);
        summary.add(&maps, &[1; 3 << 20], &[("lz4", 1 << 20), ("zvc", 1 << 19)]);
        let random = item("random", Element::U8);
        summary.add(&random, &[1; 1 << 19], &[("lz4", 1 << 19)]);
        summary.add(&item("other", Element::U8), &[1; 100], &[("lz4", 1), ("zvc", 1)]);
        let words = |line: &String| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let lines: Vec<Vec<String>> = summary.lines().iter().map(words).collect();
        let expected: [&[&str]; 3] = [
            &["kind", "of", "data", "files", "MiB", "goal", "zvc", "lz4"],
            &["CNN", "maps,", "masked", "gradients", "2", "4.00", "3.4", "4.000", "2.000"],
            &["random", "1", "0.50", "-", "-", "1.000"],
        ];
        assert_eq!(lines, expected);
        assert!(summary.lines().windows(2).all(|pair| pair[0].len() == pair[1].len()));
    }

    #[test]
    fn nothing_known_is_no_table() {
        let mut summary = Summary::new(vec!["zvc"]);
        summary.add(&item("other", Element::U8), &[1; 100], &[("zvc", 1)]);
        assert!(summary.lines().is_empty());
    }
}
