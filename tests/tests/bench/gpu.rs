//! `mgcomp-bench gpu` and `codec --device cuda`, on a CUDA driver that runs kernels on the CPU.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use mgcomp_codecs::Algorithm;
use mgcomp_codecs::device::algorithms;
use serde_json::Value;
use tempfile::TempDir;

use crate::{command, folder, good_rows, rows, stderr};

/// As little as touches everything.
pub(crate) const SMALL: [&str; 8] = ["--cases", "5", "--large", "30K", "--replays", "20", "--shared", "0"];

/// Hardly any checks, where times are what it is about.
const LEAST: [&str; 8] = ["--cases", "1", "--large", "1", "--replays", "3", "--shared", "0"];

/// The folders of the stubs of driver and compiler, if they were built.
fn stubs() -> Option<PathBuf> {
    let (driver, compiler) = (option_env!("MGCOMP_STUB_DRIVER")?, option_env!("MGCOMP_STUB_COMPILER")?);
    Some(env::join_paths([driver, compiler]).unwrap().into())
}

/// `command` with the stubs; none where they were not built.
fn on_stub(mut command: Command, test: &str) -> Option<Output> {
    let Some(path) = stubs() else {
        mgcomp_tests::shim::skip(
            test,
            option_env!("MGCOMP_SHIM_MISSING").unwrap_or("the shim was not built"),
        );
        return None;
    };
    command
        .env("LD_LIBRARY_PATH", path)
        .env("MGCOMP_CACHE", "")
        .env("MGCOMP_STUB_L2_LEN", "100000")
        .env_remove("MGCOMP_NVRTC");
    Some(command.output().unwrap())
}

fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row[key].as_str().unwrap()
}

fn of_kind<'a>(rows: &'a [Value], kind: &str) -> Vec<&'a Value> {
    rows.iter().filter(|row| text(row, "kind") == kind).collect()
}

#[test]
fn every_algorithm_passes_every_check() {
    let folder = folder(&[]);
    let args = [&["gpu", "--checks", "--json"], &SMALL[..]].concat();
    let Some(output) = on_stub(command(folder.path(), &args), "every_algorithm_passes_every_check") else {
        return;
    };
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let rows = rows(&output);
    assert_eq!((text(&rows[0], "kind"), text(&rows[0], "device")), ("run", "CPU shim"));
    let checks = of_kind(&rows, "check");
    assert_eq!(checks.len(), rows.len() - 1);
    let passed: BTreeSet<(&str, &str)> = checks
        .into_iter()
        .filter(|row| row["passed"] == true && row["error"].is_null() && row["buffers"].as_u64() > Some(0))
        .map(|row| (text(row, "algorithm"), text(row, "check")))
        .collect();
    let expected = algorithms().flat_map(|algorithm| {
        let names =
            ["round trips", "one large buffer", "graphs", "hostile frames", "peer copies", "repeated copies"];
        let others = match algorithm {
            Algorithm::Ibp => Some("gathers of rows"),
            Algorithm::Bpc | Algorithm::Xp => Some("entries in buddy memory"),
            _ => None,
        };
        names.into_iter().chain(others).map(move |check| (algorithm.name(), check))
    });
    assert_eq!(passed, expected.chain([("reduce", "reductions")]).collect());
}

#[test]
fn a_device_that_is_lost_ends_the_run() {
    let folder = folder(&[]);
    let mut command =
        command(folder.path(), &[&["gpu", "--json", "--algorithm", "zvc"], &SMALL[..]].concat());
    command.env("MGCOMP_STUB_FAULTY_LAUNCH", "3");
    let Some(output) = on_stub(command, "a_device_that_is_lost_ends_the_run") else { return };
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("CUDA_ERROR_ILLEGAL_ADDRESS"), "{}", stderr(&output));
    let rows = rows(&output);
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert_eq!((text(&rows[1], "check"), &rows[1]["passed"]), ("round trips", &false.into()));
}

/// Checks a device whose kernels have a bug; returns the checks that failed, with what they say.
fn failures(variable: &str) -> Option<Vec<(String, String)>> {
    let folder = folder(&[]);
    let mut command =
        command(folder.path(), &[&["gpu", "--json", "--algorithm", "zvc"], &SMALL[..]].concat());
    command.env(variable, "1");
    let output = on_stub(command, variable)?;
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("of 4 checks failed: nothing is timed"), "{}", stderr(&output));
    let rows = rows(&output);
    assert!(of_kind(&rows, "time").is_empty(), "{rows:?}");
    let checks = of_kind(&rows, "check").into_iter().filter(|row| row["passed"] == false);
    Some(checks.map(|row| (text(row, "check").to_owned(), text(row, "error").to_owned())).collect())
}

#[test]
fn a_wrong_byte_fails_the_checks_and_nothing_is_timed() {
    let Some(failures) = failures("MGCOMP_STUB_WRONG_BYTE") else { return };
    let names: Vec<&str> = failures.iter().map(|(check, _)| check.as_str()).collect();
    assert!(names.contains(&"round trips") && names.contains(&"one large buffer"), "{failures:?}");
    // `MG` is how a frame starts.
    assert!(
        failures.iter().any(|(_, error)| error.contains("byte 0 of the frame is 0x4c, not 0x4d")),
        "{failures:?}"
    );
}

#[test]
fn a_byte_behind_a_buffer_fails_the_checks() {
    let Some(failures) = failures("MGCOMP_STUB_STRAY_BYTE") else { return };
    let names: Vec<&str> = failures.iter().map(|(check, _)| check.as_str()).collect();
    assert_eq!(names, ["round trips", "one large buffer", "graphs", "hostile frames"], "{failures:?}");
    assert!(failures.iter().all(|(_, error)| error.contains("was written")), "{failures:?}");
}

/// Times one file and writes the results.
fn time(folder: &TempDir, nvcomp: &OsStr) -> Option<Output> {
    let args =
        ["gpu", "--json", "--algorithm", "zvc", "--bytes", "2000", "5M", "--rounds", "1", "--data", "x.f32"];
    let more = ["--results", "r", "--cases", "1", "--large", "1", "--replays", "1", "--links-from", "1M"];
    let more = [&more[..], &["--shared", "0"]].concat();
    let mut command = command(folder.path(), &[&args[..], &more].concat());
    command.arg("--nvcomp").arg(nvcomp);
    on_stub(command, "time")
}

#[test]
fn the_library_that_is_named_is_the_one_that_is_loaded() {
    let test = "the_library_that_is_named_is_the_one_that_is_loaded";
    let Some(compiler) = option_env!("MGCOMP_STUB_COMPILER") else {
        return mgcomp_tests::shim::skip(test, option_env!("MGCOMP_SHIM_MISSING").unwrap_or_default());
    };
    let folder = folder(&[("x.f32", &[1; 4000])]);
    // A library that is not nvCOMP, by a name that is no text, in the working folder.
    let name = OsStr::from_bytes(b"lib\xff.so");
    fs::copy(Path::new(compiler).join("libnvrtc.so.13"), folder.path().join(name)).unwrap();
    let Some(output) = time(&folder, name) else { return };
    let rows = rows(&output);
    let why = text(of_kind(&rows, "skipped")[0], "why");
    assert_eq!(why, "lib\u{fffd}.so has no nvcompGetProperties: it is no nvCOMP 6");
}

#[test]
fn times_are_written_and_say_of_what() {
    let sparse: Vec<u8> = (0..4000u32).flat_map(|i| (u32::from(i % 4 == 0) * i).to_le_bytes()).collect();
    let folder = folder(&[("x.f32", &sparse)]);
    let Some(output) = time(&folder, OsStr::new("/nowhere/libnvcomp.so.6")) else { return };
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let rows = rows(&output);
    let times = of_kind(&rows, "time");
    let found: Vec<_> = times.iter().map(|row| (row["bytes"].as_u64(), text(row, "method"))).collect();
    assert_eq!(found, [(Some(2000), "graph"), (Some(5 << 20), "stream")]);
    for row in times {
        // One in four elements, and a bit for each: 18 of 64 bytes, and the framing.
        let ratio = row["ratio"].as_f64().unwrap();
        assert!((3.0..64.0 / 18.0).contains(&ratio), "{row}");
        assert_eq!((text(row, "subject"), text(row, "element")), ("zvc", "f32"));
    }
    // The same ratio on every way. The device is alone, so its peers are itself and a context of its own.
    for (kind, count, keys) in [
        ("link", 1, ["to_host_gbps", "to_host_plain_gbps", "to_device_gbps", "to_device_plain_gbps"]),
        ("offload", 1, ["offload_gbps", "offload_raw_gbps", "return_gbps", "return_raw_gbps"]),
        ("peer", 2, ["gbps", "plain_gbps", "of_codec", "plain_gbps"]),
    ] {
        let ways = of_kind(&rows, kind);
        assert_eq!((ways.len(), ways[0]["bytes"].as_u64()), (count, Some(5 << 20)), "{kind}");
        assert!((3.0..64.0 / 18.0).contains(&ways[0]["ratio"].as_f64().unwrap()), "{}", ways[0]);
        assert!(keys.iter().all(|key| ways[0][*key].as_f64() > Some(0.0)), "{}", ways[0]);
    }
    for kind in ["peer", "short"] {
        let to: Vec<_> = of_kind(&rows, kind).into_iter().map(|row| text(row, "to")).collect();
        assert_eq!(to, ["the same device", "a context of the same device"], "{kind}");
    }
    for short in of_kind(&rows, "short") {
        assert!(["us", "driver_us"].iter().all(|key| short[*key].as_f64() > Some(0.0)), "{short}");
        assert_eq!(short["bytes"], 4096);
    }
    let skipped = of_kind(&rows, "skipped");
    assert_eq!(text(skipped[0], "what"), "nvCOMP");
    assert!(text(skipped[0], "why").starts_with("/nowhere/libnvcomp.so.6 does not load"), "{skipped:?}");
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder.path().join("r")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let extensions: Vec<_> = files.iter().map(|file| file.extension().unwrap()).collect();
    assert_eq!(extensions, ["json", "md", "svg"]);
    let name = files[0].file_stem().unwrap().to_str().unwrap();
    assert!(name.ends_with("_cpu-shim") && name.starts_with("20"), "{name}");
    let json = fs::read_to_string(&files[0]).unwrap();
    assert_eq!(json.as_bytes(), output.stdout);
    break_even_takes(&files[0], &rows, folder.path());
}

#[test]
fn short_copies_between_devices_are_timed_as_kernels_are() {
    let folder = folder(&[("x.f32", &[0, 0, 0, 0, 1, 2, 3, 4].repeat(500))]);
    let args =
        ["gpu", "--json", "--algorithm", "zvc", "--rounds", "2", "--data", "x.f32", "--bytes", "4000", "5M"];
    let more = ["--results", "r", "--cases", "1", "--large", "1", "--replays", "1", "--links-from", "1"];
    let more = [&more[..], &["--shared", "0", "--nvcomp", "none"]].concat();
    let command = command(folder.path(), &[&args[..], &more].concat());
    let Some(output) = on_stub(command, "short_copies_between_devices_are_timed_as_kernels_are") else {
        return;
    };
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let rows = rows(&output);
    let peers = of_kind(&rows, "peer");
    // What goes through the host is not recorded.
    let found: Vec<_> = peers.iter().map(|row| (row["bytes"].as_u64(), text(row, "method"))).collect();
    let (short, long) = (Some(4000), Some(5 << 20));
    assert_eq!(found, [(short, "graph"), (short, "stream"), (long, "stream"), (long, "stream")]);
    for row in peers {
        let keys = ["gbps", "plain_gbps", "of_codec", "alone_us", "plain_alone_us"];
        assert!(keys.iter().all(|key| row[*key].as_f64() > Some(0.0)), "{row}");
        let took = row["bytes"].as_f64().unwrap() / row["gbps"].as_f64().unwrap() / 1e3;
        let is_alone = (took / row["alone_us"].as_f64().unwrap() - 1.0).abs() < 0.02;
        assert!(is_alone || text(row, "method") == "graph", "{row}");
    }
}

/// The model goes by both sizes of `file`, which holds `rows`, and is held against each copy.
fn break_even_takes(file: &Path, rows: &[Value], folder: &Path) {
    let args = ["breakeven", "--algorithm", "zvc", "--results", file.to_str().unwrap()];
    let said = good_rows(folder, &args);
    let sizes: Vec<_> = said[0]["by_size"].as_array().unwrap().iter().map(|size| &size["bytes"]).collect();
    assert_eq!(sizes, [2000, 5 << 20]);
    let copies: Vec<&Value> = said.iter().filter(|row| row["row"] == "copy").collect();
    let found: Vec<_> = copies.iter().map(|copy| text(copy, "copy")).collect();
    let ways = ["to the host", "to the device", "offload", "return"];
    let peers = ["to the same device", "to a context of the same device through the host"];
    assert_eq!(found, [&ways[..], &peers].concat());
    let link = of_kind(rows, "link")[0];
    let speed_up = link["to_host_gbps"].as_f64().unwrap() / link["to_host_plain_gbps"].as_f64().unwrap();
    assert!((copies[0]["measured"].as_f64().unwrap() / speed_up - 1.0).abs() < 1e-9, "{link}");
}

#[test]
fn gathers_are_timed_beside_plain_ones() {
    let folder = folder(&[("x.u32", &[7; 500])]);
    let args = ["gpu", "--json", "--algorithm", "ibp", "--bytes", "500", "--rounds", "1", "--data", "x.u32"];
    let more = ["--gather-rows", "40", "--results", "r"];
    let Some(output) = on_stub(command(folder.path(), &[&args[..], &LEAST, &more].concat()), "gathers")
    else {
        return;
    };
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let rows = rows(&output);
    let gathers = of_kind(&rows, "gather");
    // A row of 1024 bytes lies in 8 pieces, and half of one in 4, or in 5 where it is a little more.
    let expected =
        [("0 % saved", 0.0, [1.0; 2]), ("50 % saved", 50.0, [0.5, 0.625]), ("90 % saved", 90.0, [0.125; 2])];
    assert_eq!(gathers.len(), expected.len());
    for (row, (name, saved, on_link)) in gathers.into_iter().zip(expected) {
        assert_eq!((text(row, "dataset"), row["rows"].as_u64()), (name, Some(40)));
        assert!((row["saved_percent"].as_f64().unwrap() - saved).abs() < 1.0, "{row}");
        let read = row["link_bytes_per_byte"].as_f64().unwrap();
        assert!((on_link[0]..=on_link[1]).contains(&read), "{row}");
    }
    let table = fs::read_dir(folder.path().join("r")).unwrap().map(|entry| entry.unwrap().path());
    let table = table.into_iter().find(|path| path.extension().is_some_and(|end| end == "md")).unwrap();
    assert!(fs::read_to_string(table).unwrap().contains("## Rows gathered from pinned memory"));
}

/// The run that shares memory with another process, of a driver with these settings.
fn share(settings: &[&str]) -> Option<Output> {
    let folder = folder(&[]);
    let args = [&["gpu", "--checks", "--json", "--algorithm", "zvc", "--rounds", "3"], &SMALL[..6]].concat();
    let mut command = command(folder.path(), &[&args[..], &["--shared", "300001"]].concat());
    // Only streams with threads wait for another process.
    command.env("MGCOMP_STUB_THREADS", "3").env("MGCOMP_STUB_STRICT_FREE", "1");
    command.envs(settings.iter().map(|name| (format!("MGCOMP_STUB_{name}"), "1")));
    on_stub(command, "shared")
}

/// Rows of memory in another process, and of what was left out, where the driver does without something.
fn shared(without: &[&str]) -> Option<[Vec<Value>; 2]> {
    let output = share(without)?;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let rows = rows(&output);
    Some(["shared", "skipped"].map(|kind| of_kind(&rows, kind).into_iter().cloned().collect()))
}

#[test]
fn memory_of_another_process_is_checked_and_timed() {
    let Some([shared_rows, skipped]) = shared(&[]) else { return };
    let found: Vec<_> = shared_rows.iter().map(|row| (text(row, "by"), row["event"] == true)).collect();
    assert_eq!((found, skipped.len()), (vec![("a handle", true), ("a file", true)], 0));
    for row in &shared_rows {
        assert!(row["bytes"] == 300_001 && row["gbps"].as_f64() > Some(0.0), "{row}");
        assert!(row["plain_gbps"].as_f64() > Some(0.0), "{row}");
    }
    // What the driver does not do is said, and no failure.
    let Some([shared_rows, skipped]) = shared(&["NO_IPC"]) else { return };
    assert_eq!((shared_rows.len(), text(&shared_rows[0], "by")), (1, "a file"));
    assert!(shared_rows[0]["event"] == false, "{shared_rows:?}");
    assert!(text(&skipped[0], "why").contains("cuIpcGetMemHandle"), "{skipped:?}");
    let Some([shared_rows, skipped]) = shared(&["NO_VMM"]) else { return };
    assert_eq!((shared_rows.len(), text(&shared_rows[0], "by")), (1, "a handle"));
    assert!(text(&skipped[0], "why").contains("cuMemCreate"), "{skipped:?}");
}

#[test]
fn a_wrong_byte_in_another_process_fails_the_run() {
    // By a handle, and where there is none, by a file.
    for settings in [&["WRONG_IMPORT"][..], &["WRONG_IMPORT", "NO_IPC"]] {
        let Some(output) = share(settings) else { return };
        assert_eq!(output.status.code(), Some(1), "{settings:?}: {}", stderr(&output));
        let by = if settings.len() == 1 { "a handle" } else { "a file" };
        let error = stderr(&output);
        assert!(error.contains(&format!("in another process, by {by},")), "{error}");
        assert!(error.contains("byte 0 of what the first process wrote is another one"), "{error}");
    }
}

#[test]
fn buddy_memory_is_timed_beside_a_copy() {
    let folder = folder(&[("x.u32", &[7; 500])]);
    let args =
        ["gpu", "--json", "--algorithm", "bpc", "xp", "--bytes", "500", "--rounds", "1", "--data", "x.u32"];
    let more = ["--buddy-entries", "512", "--results", "r"];
    let Some(output) = on_stub(command(folder.path(), &[&args[..], &LEAST, &more].concat()), "buddy") else {
        return;
    };
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let rows = rows(&output);
    let buddies = of_kind(&rows, "buddy");
    assert_eq!(buddies.len(), 6);
    // Half of 128 bytes and four bits; three quarters of 32 KiB, of which there are two, and 32 bytes for their states.
    let forms = [("bpc", "2", 1.984, 6.0), ("xp", "4/3", 1.333, 100.0)];
    let expected = forms.into_iter().flat_map(|form| [0.0, 10.0, 30.0].map(|overflow| (form, overflow)));
    for (row, ((form, target, capacity, chance), overflow)) in buddies.into_iter().zip(expected) {
        assert_eq!((text(row, "form"), text(row, "target")), (form, target));
        assert_eq!(row["bytes"].as_u64(), Some(65_536));
        let chance = if overflow == 0.0 { 0.01 } else { chance };
        assert!((row["overflow_percent"].as_f64().unwrap() - overflow).abs() < chance, "{row}");
        assert!((row["capacity"].as_f64().unwrap() - capacity).abs() < 0.001, "{row}");
        assert!(
            row["write_of_copy"].as_f64() > Some(0.0) && row["read_of_copy"].as_f64() > Some(0.0),
            "{row}"
        );
    }
    let table = fs::read_dir(folder.path().join("r")).unwrap().map(|entry| entry.unwrap().path());
    let table = table.into_iter().find(|path| path.extension().is_some_and(|end| end == "md")).unwrap();
    assert!(fs::read_to_string(table).unwrap().contains("## Buddy memory in pinned memory"));
}

#[test]
fn the_codec_table_is_of_the_device() {
    let folder = folder(&[("x.u32", &[7; 5000])]);
    let args =
        ["codec", "--device", "cuda", "--algorithm", "bdi", "--bytes", "1000", "--data", "x.u32", "--json"];
    let Some(output) = on_stub(command(folder.path(), &args), "the_codec_table_is_of_the_device") else {
        return;
    };
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let rows = rows(&output);
    let kinds: Vec<&str> = rows.iter().map(|row| text(row, "kind")).collect();
    assert_eq!(kinds, ["run", "time"]);
    assert_eq!((text(&rows[1], "subject"), text(&rows[1], "dataset")), ("bdi", "x.u32"));
}

#[test]
fn what_means_nothing_to_devices_is_refused() {
    let folder = folder(&[("x.u32", &[7; 500])]);
    let flags: [&[&str]; 3] = [&["--isa", "portable"], &["--threads", "2"], &["--checksum"]];
    for flag in flags {
        let args = [&["codec", "--device", "cuda", "--data", "x.u32"], flag].concat();
        let output = command(folder.path(), &args).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{flag:?}");
        assert_eq!(stderr(&output), format!("mgcomp-bench: {} is not for devices\n", flag[0]));
    }
}

#[test]
fn without_a_device_there_is_an_error() {
    if mgcomp_codecs::device::devices().is_ok() {
        return mgcomp_tests::shim::skip("without_a_device_there_is_an_error", "there is a device");
    }
    let folder = folder(&[]);
    for args in [&["gpu"][..], &["gpu", "--checks"], &["codec", "--device", "cuda:0"]] {
        let output = command(folder.path(), args).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert_eq!(output.stdout, b"", "{args:?}");
        let expected = "mgcomp-bench: no CUDA driver: libcuda.so.1 is missing or does not load\n";
        assert_eq!(stderr(&output), expected, "{args:?}");
    }
}

#[test]
fn checks_refuse_what_only_times_have_a_use_for() {
    let folder = folder(&[]);
    let flags = [
        ["--bytes", "1M"],
        ["--links-from", "1M"],
        ["--data", "x:u8"],
        ["--gather-rows", "1"],
        ["--buddy-entries", "1"],
        ["--samples", "."],
        ["--seconds", "1"],
        ["--nvcomp", "x"],
    ];
    for flag in flags {
        let output = command(folder.path(), &[&["gpu", "--checks"][..], &flag].concat()).output().unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{flag:?}");
        let said = stderr(&output);
        assert!(said.contains("cannot be used with") && said.contains(flag[0]), "{flag:?}: {said}");
    }
}

/// The table of bench/gpu/README.md: algorithm and what it says of GPUs.
fn told() -> Vec<(String, String)> {
    let readme =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/gpu/README.md")).unwrap();
    let table = readme
        .split("| kernels | on the CPU shim | on a GPU |")
        .nth(1)
        .expect("the table in bench/gpu/README.md");
    let cells = |line: &str| -> Option<(String, String)> {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        Some((cells.get(1)?.trim_matches('`').to_owned(), (*cells.get(3)?).to_owned()))
    };
    table.lines().skip(2).take_while(|line| line.starts_with('|')).filter_map(cells).collect()
}

#[test]
fn the_readme_tells_what_has_run_where() {
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/results");
    let told = told();
    let names: Vec<&str> = told.iter().map(|(name, _)| name.as_str()).collect();
    let expected: Vec<&str> = algorithms().map(Algorithm::name).collect();
    assert_eq!(names, expected, "the table in bench/gpu/README.md");
    for (name, where_run) in &told {
        if where_run == "no" {
            continue;
        }
        // Else the file of results, as a link.
        let file = where_run.split(['(', ')']).nth(1).unwrap_or_else(|| panic!("{name}: {where_run}"));
        let file = results.join(file.trim_start_matches("bench/results/")).with_extension("json");
        let rows: Vec<Value> = fs::read_to_string(&file)
            .unwrap_or_else(|e| panic!("{}: {e}", file.display()))
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_ne!(text(&rows[0], "device"), "CPU shim", "{name}");
        let checks = of_kind(&rows, "check").into_iter().filter(|row| text(row, "algorithm") == name);
        let passed: Vec<bool> = checks.map(|row| row["passed"] == true).collect();
        assert!(passed.len() >= 4 && passed.iter().all(|passed| *passed), "{name} in {}", file.display());
    }
}
