//! Tables V and VI and Figure 1 as text, the published rows beside ours.

use super::super::published::{TABLE_V, TABLE_VI};
use super::super::runs::Done;

/// Transfers of Figure 1 that make one row of text.
const PER_ROW: usize = 50;

pub(super) fn table_v(done: &[Done]) -> Vec<String> {
    let names = name_width(done);
    let mut lines = vec![
        "\nTable V: what crosses between GPUs".into(),
        format!(
            "{:names$}  {:>9} {:>9} {:>7} {:>7} {:>7} {:>8} | paper: {:>5} {:>5} {:>7} {:>6} {:>6} {:>8} | off by, %: {:>7} {:>6} {:>6} {:>8}",
            "",
            "reads",
            "writes",
            "entropy",
            "BDI",
            "FPC",
            "C-Pack+Z",
            "reads",
            "writes",
            "entropy",
            "BDI",
            "FPC",
            "C-Pack+Z",
            "entropy",
            "BDI",
            "FPC",
            "C-Pack+Z"
        ),
    ];
    for one in done {
        let (character, [bdi, fpc, cpackz]) = (&one.character, one.ratios);
        let entropy = character.entropy();
        let mut line = format!(
            "{:<names$}  {:>9} {:>9} {entropy:>7.3} {bdi:>7.3} {fpc:>7.3} {cpackz:>8.3}",
            one.name, character.reads, character.writes
        );
        if let Some(bench) = one.bench {
            let row = TABLE_V[bench as usize];
            let [a, b, c] = row.ratios;
            let off = |ours: f64, paper: f64| 100.0 * (ours / paper - 1.0);
            line += &format!(
                " |        {:>4}k {:>5}k {:>7.2} {a:>6.2} {b:>6.2} {c:>8.2} |            {:>+7.1} {:>+6.1} {:>+6.1} {:>+8.1}",
                row.reads / 1000,
                row.writes / 1000,
                row.entropy,
                off(entropy, row.entropy),
                off(bdi, a),
                off(fpc, b),
                off(cpackz, c)
            );
        }
        lines.push(line);
    }
    lines.extend(done.iter().filter_map(partial));
    lines
}

/// How many payloads of `one` end in a part of a line, if any do.
fn partial(one: &Done) -> Option<String> {
    let (character, partial) = (&one.character, one.character.partial_payloads);
    let text = || {
        format!(
            "{}: {partial} of {} payloads end in a part of a line, which takes no more than its own bits",
            one.name,
            character.reads + character.writes
        )
    };
    (partial > 0).then(text)
}

pub(super) fn table_vi(done: &[Done]) -> Vec<String> {
    let names = name_width(done);
    let mut lines = vec![
        "\nTable VI: the three most frequent patterns, (number) %; the paper's in the second line".into(),
    ];
    lines.push(format!("{:names$}  {:<28} {:<28} {:<28}", "", "FPC", "C-Pack+Z", "BDI").trim_end().into());
    for one in done {
        let ours = one.character.dominant().map(|patterns| patterns_text(&patterns));
        lines.push(table_line(&one.name, names, &ours));
        if let Some(bench) = one.bench {
            lines.push(table_line("", names, &TABLE_VI[bench as usize].map(str::to_owned)));
        }
    }
    lines
}

fn table_line(name: &str, names: usize, [fpc, cpackz, bdi]: &[String; 3]) -> String {
    format!("{name:<names$}  {fpc:<28} {cpackz:<28} {bdi:<28}").trim_end().to_owned()
}

/// As in `(9) 96.2 (2) 2.9`.
pub(super) fn patterns_text(patterns: &[(usize, f64)]) -> String {
    let parts: Vec<String> =
        patterns.iter().map(|(number, percent)| format!("({number}) {percent:.1}")).collect();
    parts.join(" ")
}

/// Means of 50 transfers each.
pub(super) fn figure_1(done: &[Done]) -> Vec<String> {
    let mut lines = vec![format!(
        "\nFigure 1: the first transfers, means of {PER_ROW}: bits by BDI, FPC and C-Pack+Z, and entropy (each transfer: --csv, --plot)"
    )];
    for one in done {
        lines.push(format!("{}: transfers, BDI, FPC, C-Pack+Z, entropy", one.name));
        for (row, shown) in one.shown.chunks(PER_ROW).enumerate() {
            let count = shown.len() as f64;
            let bits = |codec: usize| shown.iter().map(|one| f64::from(one.bits[codec])).sum::<f64>() / count;
            let entropy = shown.iter().map(|one| one.entropy).sum::<f64>() / count;
            lines.push(format!(
                "{:>6} {:>6.0} {:>6.0} {:>6.0} {entropy:>6.3}",
                row * PER_ROW,
                bits(0),
                bits(1),
                bits(2)
            ));
        }
    }
    lines
}

fn name_width(done: &[Done]) -> usize {
    done.iter().map(|one| one.name.chars().count()).max().unwrap_or(0)
}
