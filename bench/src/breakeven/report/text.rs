//! Tables for people.

use super::super::codec::Codec;
use super::super::compared::Compared;
use super::super::model::{LINKS, Model};
use super::{Case, Report};
use crate::machine::size;

pub(super) fn lines(report: &Report) -> Vec<String> {
    let mut lines = vec![
        "a MODEL: from which message size on compression on a GPU pays; only what is called measured was measured"
            .into(),
    ];
    for case in &report.cases {
        lines.extend(table(case, &report.bytes));
        if !case.copies.is_empty() {
            lines.extend(copies(&case.copies));
        }
    }
    lines
}

fn table(case: &Case, bytes: &[usize]) -> Vec<String> {
    let sizes: String = bytes.iter().map(|&bytes| format!(" {:>13}", size(bytes))).collect();
    let mut lines = head(&case.model);
    lines.push("break-even and speed-up one after the other / overlapped".into());
    lines.push(format!("{:<11} {:>6} {:>23} {sizes}", "link", "GB/s", "pays from"));
    for link in LINKS {
        let [turn, overlap] = case.break_even(link).map(shown);
        let gain = |&bytes: &usize| {
            let [turn, overlap] = case.speed_up(link, bytes);
            format!("   {turn:>5.2}/{overlap:<5.2}")
        };
        let gains: String = bytes.iter().map(gain).collect();
        lines.push(format!("{:<11} {:>6} {turn:>11}/{overlap:<11} {gains}", link.name, link.gbytes));
    }
    lines
}

/// What the model goes by.
fn head(model: &Model) -> Vec<String> {
    let Model { codec, launch_s, efficiency, .. } = model;
    let conditions = format!("launch {} µs; links at {efficiency} of their rate", launch_s * 1e6);
    if codec.is_measured() {
        let mut lines = vec![format!("\n{}, measured by size; {conditions}", codec.source)];
        lines.extend(by_size(codec));
        return lines;
    }
    let (_, rates) = codec.last();
    vec![format!(
        "\n{}: ratio {}, encode {} GB/s, decode {} GB/s, {conditions}",
        codec.source, rates.ratio, rates.encode_gbytes, rates.decode_gbytes
    )]
}

fn by_size(codec: &Codec) -> Vec<String> {
    let mut lines =
        vec![format!("{:>13} {:>6} {:>11} {:>11}", "size", "ratio", "encode GB/s", "decode GB/s")];
    lines.extend(codec.sizes().iter().map(|(bytes, rates)| {
        let (encode, decode) = (rates.encode_gbytes, rates.decode_gbytes);
        format!("{:>13} {:>6.3} {encode:>11.2} {decode:>11.2}", size(*bytes as usize), rates.ratio)
    }));
    lines
}

/// The model is held against what was measured.
fn copies(copies: &[Compared]) -> Vec<String> {
    let mut lines = vec![
        "copies MEASURED beside what the model says of a link as fast as the plain copy, each charged the stages that it has (to \
         the host and offload: encoding, to the device and return: decoding, to devices: both): speed-up, and of the predicted \
         one, one after the other / overlapped"
            .into(),
        format!(
            "{:<36} {:>11} {:>10} {:>13} {:>9} {:>13}  {}",
            "copy", "size", "plain GB/s", "predicted", "measured", "of predicted", "data"
        ),
    ];
    lines.extend(copies.iter().map(|compared| {
        let copied = &compared.copied;
        let [turn, overlap] = compared.predicted;
        let [of_turn, of_overlap] = compared.measured_of_predicted();
        format!(
            "{:<36} {:>11} {:>10.2} {turn:>7.2}/{overlap:<5.2} {:>9.2} {of_turn:>7.2}/{of_overlap:<5.2}  {}",
            copied.way,
            size(copied.bytes),
            copied.plain_gbytes,
            compared.measured(),
            copied.dataset
        )
    }));
    lines
}

/// A size in words; "never" where there is none.
fn shown(bytes: Option<f64>) -> String {
    let Some(bytes) = bytes else { return "never".into() };
    let kib = bytes / 1024.0;
    match kib {
        kib if kib < 1.0 => format!("{bytes:.0} B"),
        kib if kib < 1024.0 => format!("{kib:.1} KiB"),
        kib => format!("{:.1} MiB", kib / 1024.0),
    }
}
