//! The rows as tables that a reader can open.

use std::fmt::Write as _;

use super::row::{Row, Run, Timed};
use crate::machine::size;

/// All that was found, under a heading that says on what.
pub(super) fn table(run: &Run, rows: &[Row]) -> String {
    let mut text = format!("# {}, {}\n\n", run.device, run.date);
    let _ = writeln!(text, "{}\n", run.to_string().replace('\n', "; host: "));
    text += "Written by `mgcomp-bench gpu`; [README.md](README.md) says what the figures mean.\n";
    checks(rows, &mut text);
    times(rows, &mut text);
    links(rows, &mut text);
    offloads(rows, &mut text);
    peers(rows, &mut text);
    short(rows, &mut text);
    shared(rows, &mut text);
    gathers(rows, &mut text);
    buddies(rows, &mut text);
    reduced(rows, &mut text);
    skipped(rows, &mut text);
    text
}

fn checks(rows: &[Row], text: &mut String) {
    *text += "\n## Checks\n\n| algorithm | check | buffers | bytes | result |\n|---|---|---:|---:|---|\n";
    for row in rows {
        let Row::Check(row) = row else { continue };
        let result = row.error.as_deref().unwrap_or("ok").replace('|', "/");
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {result} |",
            row.algorithm, row.check, row.buffers, row.bytes
        );
    }
}

fn times(rows: &[Row], text: &mut String) {
    let times: Vec<&Timed> =
        rows.iter().filter_map(|row| if let Row::Time(timed) = row { Some(timed) } else { None }).collect();
    for group in times.chunk_by(|a, b| (&a.dataset, a.bytes) == (&b.dataset, b.bytes)) {
        let first = group[0];
        let _ = write!(
            text,
            "\n## {} ({}), {}\n\n\
             | subject | timed by | ratio | encode µs | × copy | decode µs | × copy | estimate µs | × copy | copy µs |\n\
             |---|---|---:|---:|---:|---:|---:|---:|---:|---:|\n",
            first.dataset,
            first.element,
            size(first.bytes)
        );
        for row in group {
            let optional = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.3}"));
            let _ = writeln!(
                text,
                "| {} | {} | {:.3} | {:.2} | {:.3} | {:.2} | {:.3} | {} | {} | {:.2} |",
                row.subject,
                if row.method == super::Method::Graph { "graph" } else { "stream" },
                row.ratio,
                row.encode_us,
                row.encode_fraction,
                row.decode_us,
                row.decode_fraction,
                optional(row.estimate_us),
                optional(row.estimate_fraction),
                row.copy_us,
            );
        }
    }
}

fn links(rows: &[Row], text: &mut String) {
    let mut lines = String::new();
    for row in rows {
        let Row::Link(row) = row else { continue };
        let _ = writeln!(
            lines,
            "| {} | {} | {} | {:.3} | {:.2} | {:.2} | {:.2} | {:.2} |",
            row.dataset,
            size(row.bytes),
            row.subject,
            row.ratio,
            row.to_host_gbps,
            row.to_host_plain_gbps,
            row.to_device_gbps,
            row.to_device_plain_gbps,
        );
    }
    if !lines.is_empty() {
        *text += "\n## Between device and pinned memory of the host, GB/s\n\n\
                  | data | bytes | subject | ratio | to host | plain | to device | plain |\n\
                  |---|---:|---|---:|---:|---:|---:|---:|\n";
        *text += &lines;
    }
}

fn offloads(rows: &[Row], text: &mut String) {
    let mut heading = Some(
        "\n## Offloaded to the host and brought back by the library's queue, GB/s\n\n\
         | data | bytes | subject | ratio | offload | raw | return | raw |\n\
         |---|---:|---|---:|---:|---:|---:|---:|\n",
    );
    for row in rows {
        let Row::Offload(row) = row else { continue };
        *text += heading.take().unwrap_or_default();
        let _ = writeln!(
            text,
            "| {} | {} | {} | {:.3} | {:.2} | {:.2} | {:.2} | {:.2} |",
            row.dataset,
            size(row.bytes),
            row.subject,
            row.ratio,
            row.offload_gbps,
            row.offload_raw_gbps,
            row.return_gbps,
            row.return_raw_gbps,
        );
    }
}

fn peers(rows: &[Row], text: &mut String) {
    let mut heading = Some(
        "\n## From one device to another, GB/s\n\n\
         | data | bytes | to | subject | ratio | compressed | plain | time of encoding and decoding | one alone, us | plain |\n\
         |---|---:|---|---|---:|---:|---:|---:|---:|---:|\n",
    );
    for row in rows {
        let Row::Peer(row) = row else { continue };
        *text += heading.take().unwrap_or_default();
        let _ = writeln!(
            text,
            "| {} | {} | {}{} | {} | {:.3} | {:.2} | {:.2} | {} | {:.2} | {:.2} |",
            row.dataset,
            size(row.bytes),
            row.to,
            if row.is_direct { "" } else { ", through the host" },
            row.subject,
            row.ratio,
            row.gbps,
            row.plain_gbps,
            row.of_codec.map_or_else(String::new, |part| format!("{part:.3}")),
            row.alone_us,
            row.plain_alone_us,
        );
    }
}

fn short(rows: &[Row], text: &mut String) {
    let mut heading = Some(
        "\n## Copies below the gate, microseconds of the host a call\n\n\
         | bytes | to | copier | driver |\n\
         |---:|---|---:|---:|\n",
    );
    for row in rows {
        let Row::Short(row) = row else { continue };
        *text += heading.take().unwrap_or_default();
        let (bytes, us, driver_us) = (size(row.bytes), row.us, row.driver_us);
        let _ = writeln!(text, "| {bytes} | {} | {us:.3} | {driver_us:.3} |", row.to);
    }
}

fn shared(rows: &[Row], text: &mut String) {
    let mut heading = Some(
        "\n## Memory of another process, GB/s\n\n\
         | bytes | by | event | from there | within its own |\n\
         |---:|---|---|---:|---:|\n",
    );
    for row in rows {
        let Row::Shared(row) = row else { continue };
        *text += heading.take().unwrap_or_default();
        let event = if row.event { "yes" } else { "no" };
        let (bytes, gbps, plain_gbps) = (size(row.bytes), row.gbps, row.plain_gbps);
        let _ = writeln!(text, "| {bytes} | {} | {event} | {gbps:.2} | {plain_gbps:.2} |", row.by);
    }
}

fn gathers(rows: &[Row], text: &mut String) {
    let mut lines = String::new();
    for row in rows {
        let Row::Gather(row) = row else { continue };
        let _ = writeln!(
            lines,
            "| {} | {} | {} | {:.1} | {:.3} | {:.2} | {:.2} | {:.2} |",
            row.dataset,
            row.row_bytes,
            row.rows,
            row.saved_percent,
            row.link_bytes_per_byte,
            row.packed_gbps,
            row.plain_gbps,
            row.speed_up,
        );
    }
    if !lines.is_empty() {
        *text += "\n## Rows gathered from pinned memory of the host\n\n\
                  | rows | bytes of a row | rows of a gather | % saved | link bytes a byte | packed GB/s | plain GB/s | speed-up |\n\
                  |---|---:|---:|---:|---:|---:|---:|---:|\n";
        *text += &lines;
    }
}

fn buddies(rows: &[Row], text: &mut String) {
    let mut lines = String::new();
    for row in rows {
        let Row::Buddy(row) = row else { continue };
        let _ = writeln!(
            lines,
            "| {} | {} | {} | {:.1} | {:.2} | {:.2} | {:.3} | {:.2} | {:.3} | {:.2} |",
            row.form,
            size(row.bytes),
            row.target,
            row.overflow_percent,
            row.capacity,
            row.write_gbps,
            row.write_of_copy,
            row.read_gbps,
            row.read_of_copy,
            row.copy_gbps,
        );
    }
    if !lines.is_empty() {
        *text += "\n## Buddy memory in pinned memory of the host\n\n\
                  | entries | size | target | % overflow | raw bytes by device bytes | write GB/s | of copy | read GB/s | of copy | copy GB/s |\n\
                  |---|---:|---|---:|---:|---:|---:|---:|---:|---:|\n";
        *text += &lines;
    }
}

fn reduced(rows: &[Row], text: &mut String) {
    let mut heading = Some(
        "\n## Numbers combined in device memory\n\n\
         | operation | datatype | ranks | size | copy µs | reduction µs | copy GB/s of memory | reduction GB/s of memory | fraction |\n\
         |---|---|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for row in rows {
        let Row::Reduce(row) = row else { continue };
        *text += heading.take().unwrap_or_default();
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {:.2} | {:.2} | {:.1} | {:.1} | {:.3} |",
            row.operation,
            row.datatype,
            row.ranks,
            size(row.bytes),
            row.copy_us,
            row.reduce_us,
            row.copy_memory_gbps,
            row.reduce_memory_gbps,
            row.fraction,
        );
    }
}

fn skipped(rows: &[Row], text: &mut String) {
    let mut heading = Some("\n## Skipped\n\n");
    for row in rows {
        let Row::Skipped(row) = row else { continue };
        *text += heading.take().unwrap_or_default();
        let _ = writeln!(text, "* {}: {}", row.what, row.why);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::row::tests::timed;
    use super::super::row::{Buddied, Checked, Gathered, Reduced, Skipped};
    use super::*;

    pub(in crate::gpu::report) fn run() -> Run {
        Run {
            version: "1",
            date: "2026-01-02".into(),
            device: "D".into(),
            capability: "9.0".into(),
            sm_count: 3,
            l2_bytes: 1 << 20,
            memory_bytes: 1 << 30,
            driver_cuda: "13.0".into(),
            nvrtc: None,
            cpu: "C".into(),
        }
    }

    #[test]
    fn every_row_is_in_a_table() {
        let rows = [
            Row::Run(run()),
            Row::Check(Checked {
                check: "graphs",
                algorithm: "zvc",
                passed: true,
                buffers: 5,
                bytes: 6,
                error: None,
            }),
            Row::Time(timed("zvc", "x", 4096)),
            Row::Time(timed("xp", "x", 4096)),
            Row::Gather(Gathered {
                dataset: "y".into(),
                row_bytes: 7,
                rows: 8,
                rounds: 3,
                saved_percent: 50.0,
                link_bytes_per_byte: 0.5,
                plain_gbps: 1.0,
                packed_gbps: 2.0,
                speed_up: 2.0,
            }),
            Row::Buddy(Buddied {
                form: "xp",
                target: "2",
                bytes: 4096,
                rounds: 3,
                overflow_percent: 10.0,
                capacity: 1.97,
                copy_gbps: 4.0,
                write_gbps: 1.0,
                read_gbps: 2.0,
                write_of_copy: 0.25,
                read_of_copy: 0.5,
            }),
            Row::Reduce(Reduced {
                operation: "sum",
                datatype: "f32",
                ranks: 2,
                bytes: 4096,
                rounds: 3,
                copy_us: 1.0,
                reduce_us: 2.0,
                copy_memory_gbps: 8.0,
                reduce_memory_gbps: 6.0,
                fraction: 0.75,
            }),
            Row::Skipped(Skipped { what: "a".into(), why: "b".into() }),
        ];
        let text = table(&run(), &rows);
        assert!(text.starts_with("# D, 2026-01-02\n"), "{text}");
        assert!(text.contains("| zvc | graphs | 5 | 6 | ok |"), "{text}");
        assert_eq!(text.matches("## x (bf16), 4 KiB").count(), 1, "{text}");
        assert!(text.contains("| xp | stream | 2.000 | 1.50 | "), "{text}");
        assert!(text.contains("| y | 7 | 8 | 50.0 | 0.500 | 2.00 | 1.00 | 2.00 |"), "{text}");
        let buddy = "| xp | 4 KiB | 2 | 10.0 | 1.97 | 1.00 | 0.250 | 2.00 | 0.500 | 4.00 |";
        assert!(text.contains(buddy), "{text}");
        assert!(text.contains("| sum | f32 | 2 | 4 KiB | 1.00 | 2.00 | 8.0 | 6.0 | 0.750 |"), "{text}");
        assert!(text.ends_with("## Skipped\n\n* a: b\n"), "{text}");
        assert!(!text.contains("## Between"), "{text}");
    }
}
