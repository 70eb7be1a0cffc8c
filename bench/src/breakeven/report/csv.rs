//! CSV files, units in their headers.

use std::fmt::Write as _;
use std::path::Path;

use super::super::model::LINKS;
use super::Report;
use crate::error::BenchError;
use crate::paper::quoted;

pub(super) fn write(report: &Report, folder: &Path) -> Result<(), BenchError> {
    let files = [
        ("break_even.csv", break_even(report)),
        ("speed_up.csv", speed_up(report)),
        ("copies.csv", copies(report)),
    ];
    for (name, text) in files {
        let path = folder.join(name);
        mgcomp_plot::write_file(&path, text.as_bytes())?;
    }
    Ok(())
}

/// Without a number where compression never pays.
fn break_even(report: &Report) -> String {
    let mut text = "gpu,link,link/(GB/s),in_turn/byte,overlapped/byte\n".to_owned();
    for case in &report.cases {
        let gpu = quoted(&case.model.codec.source);
        for link in LINKS {
            let number = |bytes: Option<f64>| bytes.map(|bytes| bytes.ceil().to_string()).unwrap_or_default();
            let [turn, overlap] = case.break_even(link).map(number);
            let _ = writeln!(text, "{gpu},{},{},{turn},{overlap}", link.name, link.gbytes);
        }
    }
    text
}

fn speed_up(report: &Report) -> String {
    let mut text = "gpu,link,link/(GB/s),message/byte,in_turn,overlapped\n".to_owned();
    for case in &report.cases {
        let gpu = quoted(&case.model.codec.source);
        for link in LINKS {
            for &bytes in &report.bytes {
                let [turn, overlap] = case.speed_up(link, bytes);
                let _ = writeln!(text, "{gpu},{},{},{bytes},{turn:.4},{overlap:.4}", link.name, link.gbytes);
            }
        }
    }
    text
}

fn copies(report: &Report) -> String {
    let mut text =
        "gpu,copy,dataset,size/byte,plain/(GB/s),predicted_in_turn,predicted_overlapped,measured,measured_of_in_turn,measured_of_overlapped\n"
            .to_owned();
    for case in &report.cases {
        let gpu = quoted(&case.model.codec.source);
        for compared in &case.copies {
            let copied = &compared.copied;
            let (way, dataset) = (quoted(&copied.way), quoted(&copied.dataset));
            let [turn, overlap] = compared.predicted;
            let [of_turn, of_overlap] = compared.measured_of_predicted();
            let _ = writeln!(
                text,
                "{gpu},{way},{dataset},{},{},{turn:.4},{overlap:.4},{:.4},{of_turn:.4},{of_overlap:.4}",
                copied.bytes,
                copied.plain_gbytes,
                compared.measured()
            );
        }
    }
    text
}
