//! Rows as an aligned table or as JSON, one object a line.

use std::io::{self, Write};

use super::{Any, Row};
use crate::error::BenchError;

/// What the table calls the sums over all files.
const TOTAL: &str = "total";

/// Prints rows as they come and, in the table, the sum of each algorithm at the end.
pub(super) struct Printer {
    json: bool,
    label_width: usize,
    /// By algorithm, in the order in which they first came.
    totals: Vec<Row<'static>>,
}

impl Printer {
    /// A table wide enough for files called `labels`, or JSON.
    pub(super) fn new<'a>(json: bool, labels: impl Iterator<Item = &'a str>) -> Self {
        let label_width = labels.chain([TOTAL]).map(|label| label.chars().count()).max().unwrap_or(0);
        Self { json, label_width, totals: Vec::new() }
    }

    /// Prints `row` and adds it to its total.
    pub(super) fn print(&mut self, row: &Row<'_>) -> Result<(), BenchError> {
        let is_first = self.totals.is_empty();
        self.add(row);
        if self.json {
            return put(&serde_json::to_string(row).expect("a row has string keys"));
        }
        if is_first {
            put(&self.heading())?;
        }
        put(&self.line(row))
    }

    /// The ratio of one algorithm over all files, none if there was no row of it.
    pub(super) fn total(&self, algorithm: &str) -> Option<f64> {
        let total = self.totals.iter().find(|total| total.algorithm == algorithm)?;
        Some(total.raw_bytes as f64 / total.coded_bytes as f64)
    }

    /// Prints the totals, which weigh every byte the same, not every file, and then `summary`.
    pub(super) fn finish(self, summary: &[String]) -> Result<(), BenchError> {
        if self.json || self.totals.is_empty() {
            return Ok(());
        }
        put("")?;
        self.totals.iter().try_for_each(|total| put(&self.line(total)))?;
        if self.totals.iter().any(|total| total.algorithm == Any::NAME) {
            put("any: computed from the smallest algorithm of each chunk")?;
        }
        if !summary.is_empty() {
            put("")?;
        }
        summary.iter().try_for_each(|line| put(line))
    }

    fn add(&mut self, row: &Row<'_>) {
        match self.totals.iter_mut().find(|total| total.algorithm == row.algorithm) {
            Some(total) => {
                total.raw_bytes += row.raw_bytes;
                total.coded_bytes += row.coded_bytes;
                total.paper_bits = total.paper_bits.zip(row.paper_bits).map(|(sum, bits)| sum + bits);
            }
            None => self.totals.push(Row { file: TOTAL, element: "-", ..*row }),
        }
    }

    fn heading(&self) -> String {
        format!(
            "{:<width$}  element  algorithm     raw bytes   coded bytes    ratio    paper bits  paper ratio",
            "file",
            width = self.label_width
        )
    }

    fn line(&self, row: &Row<'_>) -> String {
        let Row { file, element, algorithm, raw_bytes, coded_bytes, paper_bits } = *row;
        let ratio = raw_bytes as f64 / coded_bytes as f64;
        let (bits, paper_ratio) = match paper_bits {
            Some(bits) => (bits.to_string(), format!("{:.3}", (8 * raw_bytes) as f64 / bits as f64)),
            None => ("-".into(), "-".into()),
        };
        format!(
            "{file:<width$}  {element:<7}  {algorithm:<9}  {raw_bytes:>12}  {coded_bytes:>12}  {ratio:>7.3}  {bits:>12}  {paper_ratio:>11}",
            width = self.label_width
        )
    }
}

fn put(line: &str) -> Result<(), BenchError> {
    writeln!(io::stdout(), "{line}").map_err(BenchError::Stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(
        algorithm: &'static str,
        raw_bytes: u64,
        coded_bytes: u64,
        paper_bits: Option<u64>,
    ) -> Row<'static> {
        Row { file: "x", element: "f32", algorithm, raw_bytes, coded_bytes, paper_bits }
    }

    #[test]
    fn totals_weigh_bytes() {
        let mut printer = Printer::new(false, ["x"].into_iter());
        for row in [
            row("bdi", 100, 50, Some(400)),
            row("zvc", 100, 90, None),
            row("bdi", 900, 150, Some(600)),
            row("zvc", 900, 60, None),
        ] {
            printer.add(&row);
        }
        let expected = [row("bdi", 1000, 200, Some(1000)), row("zvc", 1000, 150, None)];
        assert_eq!(printer.totals, expected.map(|row| Row { file: TOTAL, element: "-", ..row }));
        let columns: Vec<String> =
            printer.line(&printer.totals[0]).split_whitespace().map(str::to_owned).collect();
        assert_eq!(columns, ["total", "-", "bdi", "1000", "200", "5.000", "1000", "8.000"]);
    }

    #[test]
    fn lines_are_as_wide_as_the_heading() {
        let printer = Printer::new(false, ["short", "a much longer name"].into_iter());
        let line = printer.line(&row("cpackz", 1 << 30, 1 << 29, Some(1 << 32)));
        assert_eq!(line.chars().count(), printer.heading().chars().count());
    }
}
