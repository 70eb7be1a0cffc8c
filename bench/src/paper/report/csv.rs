//! CSV files, units in their headers.

use std::fmt::Write as _;
use std::path::Path;

use super::super::fabric::{CODECS, Distance};
use super::super::published::{TABLE_V, TABLE_VI};
use super::super::runs::Plan;
use super::tables::patterns_text;
use super::{Figure, Report, Summary, Sweep};
use crate::error::BenchError;

pub(super) fn write(report: &Report, folder: &Path) -> Result<(), BenchError> {
    let mut files = vec![
        ("settings".to_owned(), settings(report)),
        ("table5".to_owned(), table_v(report)),
        ("table6".to_owned(), table_vi(report)),
        ("figure1".to_owned(), figure_1(report)),
        ("runs".to_owned(), runs(report)),
        ("means".to_owned(), means(&Summary::all(report))),
    ];
    let outstanding = report.system().outstanding;
    let figures = report.figures();
    files.extend(figures.iter().map(|figure| (format!("figure{}", figure.number), of(figure, outstanding))));
    files.extend(report.sweep().map(|swept| ("sweep".to_owned(), sweep(&swept))));
    for (name, text) in files {
        let path = folder.join(format!("{name}.csv"));
        mgcomp_plot::write_file(&path, text.as_bytes())?;
    }
    Ok(())
}

/// What the other files are of. Figures are those of the first number of outstanding requests; there is no scale where
/// nothing was generated.
fn settings(report: &Report) -> String {
    let Plan { phases, lambdas, systems, as_paper, .. } = &report.plan;
    let outstanding = spaced(systems.iter().map(|system| system.outstanding));
    let (scale, memory_cycles, lambdas) = (spaced(report.scale()), systems[0].memory_cycles, spaced(lambdas));
    format!(
        "scale,count_as_paper,sampling/transfer,running/transfer,votes,outstanding,memory/cycle,lambda/(Gb/s)\n\
         {scale},{as_paper},{},{},{},{outstanding},{memory_cycles},{lambdas}\n",
        phases.sampling, phases.running, phases.votes
    )
}

/// Several values in one field.
fn spaced(values: impl IntoIterator<Item = impl ToString>) -> String {
    let values: Vec<String> = values.into_iter().map(|value| value.to_string()).collect();
    values.join(" ")
}

fn table_v(report: &Report) -> String {
    let mut text = "name,source,reads,writes,entropy,bdi_ratio,fpc_ratio,cpackz_ratio,paper_reads,paper_writes,paper_entropy,paper_bdi_ratio,paper_fpc_ratio,paper_cpackz_ratio,partial_payloads\n".to_owned();
    for done in &report.done {
        let (character, [bdi, fpc, cpackz]) = (&done.character, done.ratios);
        let source = if done.is_trace { "trace" } else { "generated" };
        let (reads, writes, entropy) = (character.reads, character.writes, character.entropy());
        let paper = done.bench.map_or(",,,,,".to_owned(), |bench| {
            let row = TABLE_V[bench as usize];
            let [a, b, c] = row.ratios;
            format!("{},{},{},{a},{b},{c}", row.reads, row.writes, row.entropy)
        });
        let name = quoted(&done.name);
        let _ = writeln!(
            text,
            "{name},{source},{reads},{writes},{entropy:.5},{bdi:.5},{fpc:.5},{cpackz:.5},{paper},{}",
            character.partial_payloads
        );
    }
    text
}

fn table_vi(report: &Report) -> String {
    let mut text = "name,fpc_patterns/%,cpackz_patterns/%,bdi_patterns/%,paper_fpc_patterns/%,paper_cpackz_patterns/%,paper_bdi_patterns/%\n".to_owned();
    for done in &report.done {
        let [fpc, cpackz, bdi] = done.character.dominant().map(|patterns| patterns_text(&patterns));
        let [a, b, c] = done.bench.map_or([""; 3], |bench| TABLE_VI[bench as usize]);
        let _ = writeln!(text, "{},{fpc},{cpackz},{bdi},{a},{b},{c}", quoted(&done.name));
    }
    text
}

fn figure_1(report: &Report) -> String {
    let mut text = "name,transfer,bdi/bit,fpc/bit,cpackz/bit,entropy\n".to_owned();
    for done in &report.done {
        for (i, shown) in done.shown.iter().enumerate() {
            let [bdi, fpc, cpackz] = shown.bits;
            let _ = writeln!(text, "{},{i},{bdi},{fpc},{cpackz},{:.5}", quoted(&done.name), shown.entropy);
        }
    }
    text
}

/// One row for each workload and scheme, and the means.
fn of(figure: &Figure, outstanding: u32) -> String {
    let keys: Vec<String> = figure.matrices.iter().map(|matrix| matrix.quantity.key()).collect();
    let mut text = format!("name,scheme,outstanding,{}\n", keys.join(","));
    let Some(first) = figure.matrices.first() else { return text };
    let means: Vec<Vec<f64>> = figure.matrices.iter().map(super::Matrix::means).collect();
    for (column, scheme) in first.columns.iter().enumerate() {
        for (row, (name, _)) in first.rows.iter().enumerate() {
            let values: Vec<String> =
                figure.matrices.iter().map(|matrix| format!("{:.5}", matrix.rows[row].1[column])).collect();
            let _ = writeln!(text, "{},{scheme},{outstanding},{}", quoted(name), values.join(","));
        }
        let values: Vec<String> = means.iter().map(|means| format!("{:.5}", means[column])).collect();
        let _ = writeln!(text, "mean,{scheme},{outstanding},{}", values.join(","));
    }
    text
}

/// Time without compression and with the figures' number of outstanding requests is 1.
fn sweep(sweep: &Sweep) -> String {
    let mut text = format!("outstanding,scheme,time/(none with {} outstanding)\n", sweep.base);
    for (outstanding, values) in &sweep.rows {
        for (scheme, value) in sweep.schemes.iter().zip(values) {
            let _ = writeln!(text, "{outstanding},{},{value:.5}", scheme.label());
        }
    }
    text
}

/// One row for each number of outstanding requests.
fn means(all: &[Summary]) -> String {
    let mut text = "lambda/(Gb/s),outstanding,workloads,payload_traffic/none,fabric_traffic/none,time/none,performance/%".to_owned();
    for distance in Distance::ALL {
        let _ = write!(text, ",energy_{}/none", distance.name());
    }
    text += ",paper_traffic/%,paper_performance/%,paper_energy_inter-die/%\n";
    for summary in all {
        let Summary { lambda, outstanding, workloads, payload, traffic, time, energy, .. } = summary;
        let _ = write!(text, "{lambda},{outstanding},{workloads},{payload:.5},{traffic:.5},{time:.5}");
        let _ = write!(text, ",{:.2}", summary.performance_percent());
        for energy in energy {
            let _ = write!(text, ",{energy:.5}");
        }
        let paper = summary
            .published()
            .map_or([const { String::new() }; 3], |paper| paper.map(|value| value.to_string()));
        let _ = writeln!(text, ",{}", paper.join(","));
    }
    text
}

fn runs(report: &Report) -> String {
    let mut text =
        "name,scheme,outstanding,memory/cycle,time/cycle,bus/cycle,raw/byte,payload/byte,fabric/byte"
            .to_owned();
    for algorithm in ["none"].into_iter().chain(CODECS.map(mgcomp_codecs::Algorithm::name)) {
        let _ = write!(text, ",sent_{algorithm}");
    }
    text += ",codecs/pJ";
    for distance in Distance::ALL {
        let _ = write!(text, ",energy_{}/pJ", distance.name());
    }
    text += "\n";
    for done in &report.done {
        for run in &done.runs {
            let (outcome, system) = (&run.outcome, run.system);
            let numbers = [
                u64::from(system.outstanding),
                system.memory_cycles,
                outcome.cycles,
                outcome.bus_cycles,
                outcome.raw_bytes,
                outcome.payload_bytes,
                outcome.fabric_bytes,
            ];
            let _ = write!(text, "{},{}", quoted(&done.name), run.scheme.label());
            for number in numbers.iter().chain(&outcome.sent) {
                let _ = write!(text, ",{number}");
            }
            let _ = write!(text, ",{:.0}", outcome.codec_pj());
            for distance in Distance::ALL {
                let _ = write!(text, ",{:.0}", outcome.energy_pj(distance));
            }
            text += "\n";
        }
    }
    text
}

/// A name, which may hold commas and quotes, as a field of a file.
pub(crate) fn quoted(name: &str) -> String {
    if name.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", name.replace('"', "\"\""))
    } else {
        name.to_owned()
    }
}
