//! `mgcomp-bench paper`, with traces and figures made by hand.

mod traces;

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::{folder, run, stderr};

/// Generates next to nothing.
const SMALL: [&str; 2] = ["--scale", "0.001"];

fn paper(folder: &Path, args: &[&str]) -> Output {
    run(folder, &[&["paper"], args].concat())
}

#[track_caller]
fn good_rows(folder: &Path, args: &[&str]) -> Vec<Value> {
    crate::good_rows(folder, &[&["paper"], args].concat())
}

/// A record as the traces have it.
fn record(kind: u8, from: u8, to: u8, time: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind, from, to, 0];
    bytes.extend((payload.len() as u32).to_le_bytes());
    bytes.extend(0x40u64.to_le_bytes());
    bytes.extend(time.to_le_bytes());
    bytes.extend(payload);
    bytes
}

/// 16 words that BDI makes 180 bits (base 4 bytes, deltas of 1), and FPC and C-Pack+Z 512 and 274.
fn near_words() -> Vec<u8> {
    (0..16u32).flat_map(|i| (0x1234_5600 + i).to_le_bytes()).collect()
}

/// The first row of this sort.
fn find<'a>(rows: &'a [Value], row: &str) -> &'a Value {
    rows.iter().find(|found| found["row"] == row).unwrap()
}

/// The run of `scheme`, at this λ if it is the paper's.
fn run_row<'a>(rows: &'a [Value], scheme: &str, lambda: Option<f64>) -> &'a Value {
    let found = rows
        .iter()
        .find(|row| row["row"] == "run" && row["scheme"] == scheme && row["lambda_gbps"].as_f64() == lambda);
    found.unwrap()
}

#[test]
fn a_read_goes_over_the_fabric_as_worked_out_by_hand() {
    let folder = folder(&[("one.bin", &record(0, 1, 2, 7, &near_words()))]);
    let rows = good_rows(folder.path(), &["--trace", "one.bin", "--lambda", "6"]);
    // Cycles: the request 1, memory 100, then compression, the answer on the bus, and decompression.
    let expected = [
        ("none", None, 1 + 100 + 4, 16 + 68),
        ("bdi", None, 1 + 100 + 2 + 2 + 1, 16 + 4 + 23),
        // 512 bits: compressed in vain, then raw.
        ("fpc", None, 1 + 100 + 3 + 4, 16 + 68),
        // 274 bits are 35 bytes.
        ("cpackz", None, 1 + 100 + 16 + 2 + 9, 16 + 4 + 35),
        // A sample: charged as C-Pack+Z, sent as BDI.
        ("paper", Some(6.0), 1 + 100 + 16 + 2 + 9, 16 + 4 + 23),
    ];
    for (scheme, lambda, cycles, bytes) in expected {
        let row = run_row(&rows, scheme, lambda);
        assert_eq!((&row["cycles"], &row["fabric_bytes"]), (&cycles.into(), &bytes.into()), "{scheme}");
    }
    let bdi = run_row(&rows, "bdi", None);
    // 43 bytes at 1.5, 11 and 250 pJ per bit, and 1.3 pJ for the line.
    let energy = ["energy_inter_die_pj", "energy_board_pj", "energy_node_pj"].map(|key| bdi[key].as_f64());
    assert_eq!(energy, [517.3, 3785.3, 86001.3].map(Some));
    let table = find(&rows, "table5");
    let ratios = ["bdi", "fpc", "cpackz"].map(|key| table[key].as_f64().unwrap());
    assert_eq!(ratios, [2.8444, 1.0, 1.8686]);
    assert_eq!(
        (&table["reads"], &table["writes"], &table["source"]),
        (&1.into(), &0.into(), &"trace".into())
    );
    let figure = find(&rows, "figure1");
    let bits = ["bdi_bits", "fpc_bits", "cpackz_bits"].map(|key| figure[key][0].as_u64().unwrap());
    assert_eq!(bits, [180, 512, 274]);
    // Three bytes are the same in all words, one is another in each: entropy ¾ · 2 + ¼ · 6 of 6 bits.
    assert_eq!(figure["entropy"], serde_json::json!([0.5]));
}

#[test]
fn wrong_flags_are_refused_before_any_work() {
    let folder = folder(&[]);
    let cases: [(&[&str], &str); 13] = [
        (&["--lambda", "-1"], "lambda is -1, but must not be negative"),
        (&["--lambda", "nan"], "lambda is not a number"),
        (&["--lambda", "six"], "lambda \"six\" does not read as a number"),
        (&["--sampling", "0", "--votes", "0"], "the sampling phase has 0 transfers"),
        (&["--running", "0"], "the running phase has 0 transfers"),
        (&["--votes", "0"], "0 votes would win"),
        (&["--votes", "8"], "8 votes are needed, but a sampling phase has only 7"),
        (&["--outstanding", "0"], "0 is not in 1..=65536"),
        (&["--scale", "0"], "\"0\" is no share of the paper's sizes"),
        (&["--scale", "1.5"], "\"1.5\" is no share of the paper's sizes"),
        (&["--trace", "missing.bin", "--scale", "0.5"], "--scale cannot be used with --trace and no --bench"),
        (&["--bench", "LU"], "unknown benchmark \"LU\""),
        (&["--memory-cycles", "-5"], "unexpected argument"),
    ];
    for (args, message) in cases {
        let output = paper(folder.path(), args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert_eq!(output.stdout, b"", "{args:?}");
        assert!(stderr(&output).contains(message), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn runs_are_the_same_every_time() {
    let folder = folder(&[]);
    let args = [&["--lambda", "0", "6", "--outstanding", "16", "64"], &SMALL[..]].concat();
    let [first, second] = [0, 1].map(|_| good_rows(folder.path(), &args));
    assert_eq!(first, second);
    // Settings, tables and Figure 1, then six schemes on two systems, for seven benchmarks, then the sweep and means.
    assert_eq!(first.len(), 1 + 3 * 7 + 7 * 6 * 2 + 6 * 2 + 2);
    let means = &first[first.len() - 2..];
    assert_eq!([&means[0]["outstanding"], &means[1]["outstanding"]], [16, 64]);
    assert_eq!(means[1]["workloads"], 7);
}

#[test]
fn published_numbers_stand_beside_ours_in_json() {
    let folder = folder(&[]);
    let rows = good_rows(folder.path(), &SMALL);
    let patterns = serde_json::json!({
        "fpc": "(9) 96 (2) <3 (1) <1", "cpackz": "(3) 95 (2) 4 (1) <1", "bdi": "(9) 99 (3) <1",
    });
    let table = find(&rows, "table6");
    assert_eq!((&table["name"], &table["paper"]), (&"AES".into(), &patterns));
    let averages = serde_json::json!({
        "traffic_percent": -62.0, "performance_percent": 33.0, "energy_inter_die_percent": -45.0,
    });
    let means = find(&rows, "means");
    assert_eq!((&means["lambda_gbps"], &means["paper"]), (&6.0.into(), &averages));
    // Nothing is published of other λ.
    let others = good_rows(folder.path(), &[&["--lambda", "4"], &SMALL[..]].concat());
    assert_eq!(others.last().unwrap()["paper"], Value::Null);
}

#[test]
fn published_means_stand_beside_the_papers_seven_benchmarks_alone() {
    let folder = folder(&[("one.bin", &record(0, 1, 2, 7, &near_words()))]);
    let small = |flags: &[&'static str]| [flags, &["--outstanding", "64"], &SMALL[..]].concat();
    let seven = small(&["--bench", "AES", "BS", "FIR", "GD", "KM", "MT", "SC"]);
    let other_phases = [&seven[..], &["--sampling", "1", "--running", "1", "--votes", "1"]].concat();
    let cases: [(&[&str], &[&str], bool); 6] = [
        (&seven, &["6"], true),
        (&seven, &["4", "8"], false),
        (&other_phases, &["6"], false),
        (&small(&["--bench", "FIR"]), &["6"], false),
        (&["--trace", "one.bin", "--outstanding", "64"], &["6"], false),
        (&[&seven[..], &["--trace", "one.bin"]].concat(), &["6"], false),
    ];
    for (number, (workloads, lambdas, is_beside)) in cases.into_iter().enumerate() {
        let out = format!("out{number}");
        let files = ["--csv", out.as_str(), "--plot", out.as_str()];
        let shown = [workloads, &["--lambda"], lambdas].concat();
        let args = [&shown[..], &files].concat();
        let rows = good_rows(folder.path(), &args);
        assert_eq!(!rows.last().unwrap()["paper"].is_null(), is_beside, "{args:?}");
        let read = |name: &str| fs::read_to_string(folder.path().join(&out).join(name)).unwrap();
        assert_eq!(read("means.csv").ends_with(",-62,33,-45\n"), is_beside, "{args:?}");
        for (figure, level) in [
            ("figure6-traffic", "paper's mean at λ = 6, -62 %"),
            ("figure6-time", "paper's mean at λ = 6, +33 % performance"),
            ("figure6-time", "paper's mean at λ = 6, +53 % performance"),
            ("figure7-inter-die", "paper's mean at λ = 6, -45 %"),
        ] {
            // Marks of text that SVG writes otherwise do not matter here.
            let svg = read(&format!("{figure}.svg")).replace("&#39;", "'").replace("&apos;", "'");
            assert_eq!(svg.contains(level), is_beside, "{figure}: {level}: {args:?}");
            assert_eq!(svg.contains("paper's mean"), is_beside, "{figure}: {args:?}");
        }
        let text = String::from_utf8(paper(folder.path(), &shown).stdout).unwrap();
        assert_eq!(text.contains("; paper -62 %"), is_beside, "{text}");
        assert_eq!(text.contains("\npaper's mean at λ = 6, +53 % performance: 0.654"), is_beside, "{text}");
        assert_eq!(text.contains("the paper's -62 % is nearer"), is_beside, "{text}");
        // That nothing is published of Figure 5 holds for all.
        assert_eq!(text.matches("nothing beside: the paper draws its Figure 5 without numbers").count(), 3);
    }
}

#[test]
fn scales_are_told_of_what_is_generated() {
    let folder = folder(&[("one.bin", &record(0, 1, 2, 7, &near_words()))]);
    let traces = ["--trace", "one.bin", "--lambda", "6", "--csv", "out", "--plot", "out"];
    let read = |name: &str| fs::read_to_string(folder.path().join("out").join(name)).unwrap();
    let rows = good_rows(folder.path(), &traces);
    assert_eq!(rows[0]["scale"], Value::Null);
    assert!(read("settings.csv").lines().nth(1).unwrap().starts_with(",false,7,"));
    let svg = read("figure5-time.svg");
    assert!(svg.contains("model of IPDPS 2019, a trace, 64 requests outstanding per GPU"), "{svg}");
    let text = String::from_utf8(paper(folder.path(), &traces).stdout).unwrap();
    assert!(!text.contains("generated"), "{text}");
    let both = [&traces[..], &["--bench", "FIR", "--scale", "0.02"]].concat();
    assert_eq!(good_rows(folder.path(), &both)[0]["scale"], 0.02);
    assert!(read("settings.csv").lines().nth(1).unwrap().starts_with("0.02,false,7,"));
    let svg = read("figure5-time.svg").replace("&#39;", "'").replace("&apos;", "'");
    assert!(svg.contains("model of IPDPS 2019, 0.02 of the paper's sizes and a trace, 64 requests"), "{svg}");
}

#[test]
fn schemes_have_one_colour_in_all_figures() {
    let folder = folder(&[]);
    let args = ["--bench", "FIR", "--lambda", "6", "--plot", "out"];
    good_rows(folder.path(), &[&args[..], &SMALL].concat());
    let names = |figure: &str| -> Vec<String> {
        let svg = fs::read_to_string(folder.path().join(format!("out/{figure}.svg"))).unwrap();
        let texts = svg.lines().filter_map(|line| line.strip_suffix("</text>")?.rsplit('>').next());
        let known = ["BDI", "FPC", "C-Pack+Z", "λ=6"];
        texts.filter(|text| known.contains(text)).map(str::to_owned).collect()
    };
    // Colours go by the place in the legend.
    assert_eq!(names("figure5-time"), ["BDI", "FPC", "C-Pack+Z"]);
    for figure in ["figure6-time", "figure7-board"] {
        assert_eq!(names(figure), ["BDI", "FPC", "C-Pack+Z", "λ=6"], "{figure}");
    }
}

#[test]
fn reasons_follow_from_what_was_run() {
    let folder = folder(&[("sc_ones.bin", &record(0, 1, 2, 7, &1u32.to_le_bytes().repeat(16)))]);
    let text = |args: &[&str]| String::from_utf8(paper(folder.path(), args).stdout).unwrap();
    let ones = text(&["--trace", "sc_ones.bin", "--lambda", "4"]);
    // 68, 112 and 192 bits.
    let order = "\nsc_ones: the order of codecs is BDI > FPC > C-Pack+Z, the paper's BDI > C-Pack+Z > FPC.";
    assert!(ones.contains(order), "{ones}");
    assert!(ones.contains("BDI 7.53 for 2.69, FPC 4.57 for 1.03, C-Pack+Z 2.67 for 1.82."), "{ones}");
    for wrong in ["as in the paper", "same order", "λ = 0 ", "λ = 32 "] {
        assert!(!ones.contains(wrong), "{wrong}: {ones}");
    }
    // What the adaptive scheme sends is that of the runs, however it was set.
    let bs = ["--bench", "BS", "--lambda", "6", "--scale", "0.002", "--outstanding", "64"];
    let sends_bdi = |votes: &str| {
        let args = [&bs[..], &["--votes", votes]].concat();
        let rows = good_rows(folder.path(), &args);
        let run = run_row(&rows, "paper", Some(6.0));
        let sent: Vec<f64> =
            run["sent"].as_array().unwrap().iter().map(|sent| sent.as_f64().unwrap()).collect();
        let (percent, traffic) = (100.0 * sent[1] / sent.iter().sum::<f64>(), &run["fabric_share"]);
        let traffic = traffic.as_f64().unwrap();
        let told = format!("λ = 6 sends BDI most often ({percent:.0} % of payloads): traffic {traffic:.3}");
        let text = text(&args);
        assert!(text.contains(&told), "{told}: {text}");
        told
    };
    assert_ne!(sends_bdi("3"), sends_bdi("7"));
}

#[test]
fn outstanding_requests_are_swept() {
    let folder = folder(&[]);
    let rows = good_rows(folder.path(), &[&["--bench", "FIR"], &SMALL[..]].concat());
    let of = |row: &str, outstanding: u64| {
        rows.iter().filter(|found| found["row"] == row && found["outstanding"] == outstanding).count()
    };
    assert_eq!([64, 16, 32, 128, 256].map(|outstanding| of("run", outstanding)), [13, 5, 5, 5, 5]);
    assert_eq!([64, 16, 32, 128, 256].map(|outstanding| of("means", outstanding)), [1; 5]);
    let times = |scheme: &str| -> Vec<f64> {
        let found = rows.iter().filter(|row| row["row"] == "sweep" && row["scheme"] == scheme);
        found.map(|row| row["time_share"].as_f64().unwrap()).collect()
    };
    // From 16 to 256: less traffic is less time with each number, and the more there are, the less a slow codec holds up.
    let [none, bdi, slow] = ["none", "bdi", "cpackz"].map(times);
    assert!(none.len() == 5 && bdi.iter().zip(&none).all(|(bdi, none)| bdi < none), "{bdi:?} {none:?}");
    assert!(slow[4] < slow[0], "{slow:?}");
    assert_eq!(none[2], 1.0);
}

#[test]
fn counting_as_the_paper_does_changes_fpc_alone() {
    let folder = folder(&[]);
    let args = [&["--bench", "KM", "--lambda", "6"], &SMALL[..]].concat();
    let ours = good_rows(folder.path(), &args);
    let paper = good_rows(folder.path(), &[&args[..], &["--count-as-paper"]].concat());
    let ratio = |rows: &[Value], key: &str| find(rows, "table5")[key].as_f64().unwrap();
    assert!(ratio(&paper, "fpc") > 1.03 * ratio(&ours, "fpc"));
    assert_eq!(ratio(&paper, "bdi"), ratio(&ours, "bdi"));
    assert_eq!(ratio(&paper, "cpackz"), ratio(&ours, "cpackz"));
}

#[test]
fn results_say_what_they_are_of() {
    let folder = folder(&[]);
    let more =
        ["--bench", "FIR", "--lambda", "32", "6", "--outstanding", "64", "16", "--memory-cycles", "50"];
    let phases = ["--sampling", "5", "--running", "40", "--votes", "2", "--count-as-paper", "--csv", "out"];
    let rows = good_rows(folder.path(), &[&more[..], &phases, &SMALL].concat());
    let settings = serde_json::json!({
        "row": "settings", "scale": 0.001, "count_as_paper": true, "sampling": 5, "running": 40, "votes": 2,
        "outstanding": [64, 16], "memory_cycles": 50, "lambda_gbps": [6.0, 32.0],
    });
    assert_eq!(rows[0], settings);
    let text = fs::read_to_string(folder.path().join("out/settings.csv")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let head = "scale,count_as_paper,sampling/transfer,running/transfer,votes,outstanding,memory/cycle,lambda/(Gb/s)";
    assert_eq!(lines, [head, "0.001,true,5,40,2,64 16,50,6 32"]);
    let rows = good_rows(folder.path(), &["--bench", "FIR", "--lambda", "6", "--scale", "0.001"]);
    let (sampling, running, votes) = (&rows[0]["sampling"], &rows[0]["running"], &rows[0]["votes"]);
    assert_eq!((sampling, running, votes), (&7.into(), &300.into(), &3.into()));
    assert_eq!((&rows[0]["count_as_paper"], &rows[0]["outstanding"][4]), (&false.into(), &256.into()));
}

#[test]
fn text_has_all_tables_and_figures_and_the_published_numbers() {
    let folder = folder(&[]);
    let output = paper(folder.path(), &SMALL);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let parts =
        ["Table V:", "Table VI:", "Figure 1:", "Figure 5:", "Figure 6:", "Figure 7:", "Why they differ"];
    let places: Vec<usize> = parts.iter().map(|part| text.find(part).expect(part)).collect();
    assert!(places.is_sorted());
    for published in ["37.10", "(9) 96 (2) <3 (1) <1", "paper -62 %", "paper +33 %", "paper -45 %"] {
        assert!(text.contains(published), "{published}");
    }
    for bench in ["AES", "BS", "FIR", "GD", "KM", "MT", "SC"] {
        assert!(text.contains(&format!("\n{bench}: ")), "no word on {bench}");
    }
    assert!(text.contains("64 requests outstanding"));
    // All of the sweep, 0 to 64.
    assert!(text.contains("λ=0") && text.contains("λ=64"));
}

#[test]
fn files_hold_figures() {
    let folder = folder(&[]);
    let args = [&["--csv", "out", "--plot", "out"], &SMALL[..]].concat();
    let output = paper(folder.path(), &args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let read = |name: &str| fs::read(folder.path().join("out").join(name)).expect(name);
    let rows = |name: &str| String::from_utf8(read(name)).unwrap().lines().count();
    // Seven benchmarks and their mean under three codecs, nine λ, and all of them.
    assert_eq!(["figure5.csv", "figure6.csv", "figure7.csv"].map(rows), [1 + 24, 1 + 72, 1 + 96]);
    // Thirteen schemes with 64 requests outstanding, and five with 16, 32, 128 and 256.
    assert_eq!(["table5.csv", "table6.csv", "runs.csv"].map(rows), [8, 8, 1 + 7 * (13 + 4 * 5)]);
    assert_eq!(["means.csv", "sweep.csv"].map(rows), [1 + 5, 1 + 5 * 5]);
    let starts = |name: &str, line: usize, start: &str| {
        let text = String::from_utf8(read(name)).unwrap();
        assert!(text.lines().nth(line).unwrap().starts_with(start), "{name}: {text}");
    };
    starts("figure5.csv", 0, "name,scheme,outstanding,payload_traffic/none,");
    starts("figure5.csv", 1, "AES,BDI,64,");
    starts("means.csv", 1, "6,64,7,");
    let means = String::from_utf8(read("means.csv")).unwrap();
    assert!(means.lines().skip(1).all(|line| line.ends_with(",-62,33,-45")), "{means}");
    let patterns = String::from_utf8(read("table6.csv")).unwrap();
    assert!(
        patterns
            .lines()
            .nth(2)
            .unwrap()
            .ends_with(",(2) 52 (1) 35 (9) 11,(2) 52 (1) 35 (3) 11,(1) 89 (9) 9 (6) <1")
    );
    for name in
        ["figure1-sc-sizes", "figure1-fir-entropy", "figure5-time", "figure6-traffic", "figure7-inter-die"]
    {
        assert!(read(&format!("{name}.svg")).starts_with(b"<svg "), "{name}");
        assert!(read(&format!("{name}.png")).starts_with(b"\x89PNG\r\n\x1a\n"), "{name}");
    }
    fs::write(folder.path().join("file"), "").unwrap();
    let output = paper(folder.path(), &[&["--csv", "file"], &SMALL[..]].concat());
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    // A folder that is there and takes no file, from root neither.
    if cfg!(target_os = "linux") {
        let output = paper(folder.path(), &[&["--csv", "/proc"], &SMALL[..]].concat());
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
        assert!(stderr(&output).contains("cannot write /proc"), "{}", stderr(&output));
    }
}
