//! The program `mgcomp` from outside: files in, files out, exit codes, messages.

mod inspect;
mod profile;
mod program;
mod workbench;

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use mgcomp_codecs::{Element, codecs};
use serde_json::Value;
use workbench::{Workbench, stderr, stdout};

/// 32 zero bytes under BDI, by hand: header, one table entry, one chunk.
///
/// The CRC32C of 32 zero bytes is that of RFC 3720, B.4. The chunk is one line of form 0 in a byte of its own.
const ZEROS_FRAME: [u8; 48] = [
    b'M', b'G', 1, 1, 0, 1, 12, 0, 32, 0, 0, 0, 0, 0, 0, 0, // header
    1, 0, 0, 0, 0xaa, 0x36, 0x91, 0x8a, 0, 0, 0, 0, 0, 0, 0, 0, // ends after 1 unit; CRC32C; padding
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // one unit
];

/// Bytes with zeros, small values, repeats and noise in them.
fn mixed(len: usize) -> Vec<u8> {
    let mut state = 1u32;
    (0..len)
        .map(|i| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            match (i / 256) % 4 {
                0 => 0,
                1 => {
                    if i % 4 == 0 {
                        (i / 4) as u8
                    } else {
                        0
                    }
                }
                2 => b"abcdefgh"[i % 8],
                _ => (state >> 24) as u8,
            }
        })
        .collect()
}

#[test]
fn every_algorithm_round_trips() {
    let algorithms: Vec<&str> = codecs().map(|codec| codec.algorithm().name()).chain(["best"]).collect();
    for len in [1, 15, 64, 4095, 65_536, 70_001] {
        let bench = Workbench::with("raw", &mixed(len));
        for algorithm in &algorithms {
            for element in ["u8", "bf16", "f32", "u64"] {
                let args = ["--algorithm", algorithm, "--element", element, "--force"];
                bench.succeed(&[&["compress", "raw", "-o", "coded"], &args[..]].concat());
                bench.succeed(&["decompress", "coded", "-o", "back", "--force"]);
                assert!(bench.read("back") == bench.read("raw"), "{algorithm} {element} {len}");
            }
        }
        assert_eq!(bench.snapshot().len(), 3, "only raw, coded and back are there");
    }
}

#[test]
fn a_frame_is_as_worked_out_by_hand() {
    let bench = Workbench::with("zeros", &[0; 32]);
    bench.succeed(&["compress", "zeros", "-o", "coded", "--algorithm", "bdi"]);
    assert_eq!(bench.read("coded"), ZEROS_FRAME);
    bench.succeed(&["decompress", "coded", "-o", "back"]);
    assert_eq!(bench.read("back"), [0; 32]);
}

#[test]
fn best_is_the_smallest() {
    let bench = Workbench::with("raw", &mixed(40_000));
    let args = ["compress", "raw", "--element", "u32"];
    let mut lengths = Vec::new();
    for codec in codecs() {
        let name = codec.algorithm().name();
        bench.succeed(&[&args[..], &["-o", name, "--algorithm", name]].concat());
        lengths.push(bench.read(name).len());
    }
    bench.succeed(&[&args[..], &["-o", "by-default"]].concat());
    assert_eq!(bench.read("by-default").len(), lengths.iter().copied().min().unwrap());
    assert!(lengths.iter().any(|&len| len > bench.read("by-default").len()), "all alike: {lengths:?}");
}

#[test]
fn options_reach_the_header() {
    let bench = Workbench::with("raw", &mixed(70_000));
    for (size, log2) in [("4K", 12), ("16K", 14), ("64K", 16)] {
        bench.succeed(&["compress", "raw", "-o", "coded", "--chunk-size", size, "--force"]);
        assert_eq!(bench.read("coded")[5..7], [1, log2], "{size}");
    }
    bench.succeed(&["compress", "raw", "-o", "coded", "--no-checksum", "--element", "f64", "--force"]);
    let coded = bench.read("coded");
    assert_eq!(coded[4..6], [7, 0], "element f64, no checksums");
    bench.succeed(&["decompress", "coded", "-o", "back"]);
    assert!(bench.read("back") == bench.read("raw"));
}

#[test]
fn the_name_tells_the_element() {
    let bench = Workbench::with("weights.bf16.bin", &mixed(5000));
    for name in ["ids.i64.bin", "plain"] {
        bench.write(name, &mixed(5000));
    }
    let element_of = |args: &[&str]| {
        bench.succeed(&[&["compress", "-o", "coded", "--force"], args].concat());
        Element::ALL.into_iter().find(|element| element.number() == bench.read("coded")[4])
    };
    assert_eq!(element_of(&["weights.bf16.bin"]), Some(Element::Bf16));
    assert_eq!(element_of(&["ids.i64.bin"]), Some(Element::U64));
    assert_eq!(element_of(&["plain"]), Some(Element::U8));
    assert_eq!(element_of(&["weights.bf16.bin", "--element", "f32"]), Some(Element::F32));
}

#[test]
fn nothing_is_a_frame_too() {
    let bench = Workbench::with("empty", &[]);
    for algorithm in codecs().map(|codec| codec.algorithm().name()).chain(["best"]) {
        bench.succeed(&["compress", "empty", "-o", "coded", "--algorithm", algorithm, "--force"]);
        let coded = bench.read("coded");
        assert_eq!(
            (&coded[..2], &coded[8..]),
            (&b"MG"[..], &[0; 8][..]),
            "{algorithm}: a header of 0 raw bytes"
        );
        bench.succeed(&["decompress", "coded", "-o", "back", "--force"]);
        assert!(bench.read("back").is_empty(), "{algorithm}");
        bench.succeed(&["inspect", "coded"]);
    }
}

#[test]
fn bad_input_is_named() {
    let bench = Workbench::with("frame", &ZEROS_FRAME);
    bench.write("empty", &[]);
    fs::create_dir(bench.path("folder")).unwrap();
    for command in ["compress", "decompress"] {
        bench.fail(&[command, "absent", "-o", "out"], &["cannot read absent", "No such file"]);
        bench.fail(&[command, "folder", "-o", "out"], &["cannot read folder", "directory"]);
        bench.fail(&[command, "frame", "-o", "folder"], &["cannot write folder", "directory"]);
        bench.fail(
            &[command, "frame", "-o", "absent/out"],
            &["cannot write absent/out: there is no folder absent"],
        );
        bench.fail(&[command, "frame", "-o", "frame/out"], &["cannot write frame/out", "Not a directory"]);
        if cfg!(unix) {
            bench.fail(&[command, "/dev/zero", "-o", "out"], &["cannot read /dev/zero", "device"]);
            bench.fail(
                &[command, "frame", "-o", "/dev/null", "--force"],
                &["cannot write /dev/null", "device"],
            );
        }
    }
    bench.fail(&["decompress", "empty", "-o", "out"], &["cannot read empty: it is empty"]);
    bench.fail(&["decompress", "-", "-o", "out"], &["cannot read standard input: it is empty"]);
    for name in ["absent", "empty", "folder"] {
        bench.fail(&["inspect", name], &["cannot read", name]);
    }
}

#[test]
fn an_unreadable_file_is_named() {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let bench = Workbench::with("secret", &ZEROS_FRAME);
        fs::set_permissions(bench.path("secret"), fs::Permissions::from_mode(0o000)).unwrap();
        if fs::read(bench.path("secret")).is_ok() {
            println!("SKIPPED: this user may read everything");
            return;
        }
        bench.fail(&["compress", "secret", "-o", "out"], &["cannot read secret", "Permission denied"]);
    }
}

#[test]
fn damaged_frames_are_refused_with_the_place() {
    let cases: [(usize, u8, &str); 10] = [
        (0, b'X', "byte 0"),
        (2, 0, "frame version 0 (byte 2)"),
        (3, 15, "byte 3: unknown algorithm"),
        (3, 0, "byte 3: this version cannot decode a frame of algorithm none"),
        (4, 10, "byte 4: unknown element"),
        (5, 0x80, "byte 5: unknown flags"),
        (6, 17, "byte 6: chunk size 2^17"),
        (7, 1, "byte 7"),
        (16, 3, "byte 16: chunk 0 runs from unit 0 to 3"),
        (32, 15, "chunk 0 at byte 32"),
    ];
    for (at, value, place) in cases {
        let mut frame = ZEROS_FRAME;
        frame[at] = value;
        let bench = Workbench::with("frame", &frame);
        bench.fail(&["decompress", "frame", "-o", "out"], &["cannot decode frame", place]);
        bench.fail(&["inspect", "frame"], &["frame", place]);
    }
    let bench = Workbench::with("frame", &[&ZEROS_FRAME[..], &[0]].concat());
    bench.fail(&["decompress", "frame", "-o", "out"], &["it ends at byte 48, but 49 bytes are there"]);
}

#[test]
fn every_prefix_of_a_frame_is_truncated() {
    let bench = Workbench::new();
    for len in 1..ZEROS_FRAME.len() {
        bench.write("frame", &ZEROS_FRAME[..len]);
        bench.fail(&["decompress", "frame", "-o", "out"], &["cannot decode frame: frame truncated", "byte"]);
    }
}

#[test]
fn mutated_frames_give_an_error_or_the_same_bytes() {
    let bench = Workbench::new();
    for at in 0..ZEROS_FRAME.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut frame = ZEROS_FRAME;
            frame[at] ^= flip;
            bench.write("frame", &frame);
            let output = bench.run(&["decompress", "frame", "-o", "-"]);
            match output.status.code() {
                Some(0) => assert_eq!(output.stdout, [0; 32], "byte {at} ^ {flip:#x}"),
                Some(1) => assert!(stderr(&output).starts_with("mgcomp: cannot decode frame"), "{at}"),
                other => panic!("byte {at} ^ {flip:#x}: {other:?}, {}", stderr(&output)),
            }
        }
    }
}

/// A frame of 2 MB that claims 4 GiB of raw bytes, each chunk in one unit.
fn boastful_frame() -> Vec<u8> {
    let chunks = 1u32 << 16;
    let mut frame = vec![b'M', b'G', 1, 4, 6, 0, 16, 0];
    frame.extend((u64::from(chunks) << 16).to_le_bytes());
    frame.extend((1..=chunks).flat_map(u32::to_le_bytes));
    frame.resize(frame.len() + chunks as usize * 16, 0);
    frame
}

#[test]
fn a_boastful_frame_costs_no_memory() {
    let bench = Workbench::with("frame", &boastful_frame());
    let words = ["cannot decode frame", "chunk 0 at byte 262160"];
    bench.fail(&["decompress", "frame", "-o", "out"], &words);
    if !cfg!(target_os = "linux") {
        println!("SKIPPED: memory limits are set the way Linux shells do it");
        return;
    }
    let mgcomp = bench.command(&[]).get_program().to_owned();
    for args in [&["decompress", "frame", "-o", "out"][..], &["inspect", "frame"]] {
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -v 524288 && exec \"$0\" \"$@\""]).arg(&mgcomp).args(args);
        let output = shell.current_dir(bench.folder.path()).output().unwrap();
        bench.check_exit(&output, args, 1, &["chunk 0 at byte 262160"]);
    }
}

#[test]
fn files_are_overwritten_only_on_demand() {
    let bench = Workbench::with("raw", &mixed(5000));
    bench.write("coded", b"precious");
    bench.fail(&["compress", "raw", "-o", "coded"], &["cannot write coded: it exists already", "--force"]);
    bench.succeed(&["compress", "raw", "-o", "coded", "--force"]);
    bench.write("back", b"precious");
    bench.fail(&["decompress", "coded", "-o", "back"], &["cannot write back: it exists already", "--force"]);
    bench.succeed(&["decompress", "coded", "-o", "back", "--force"]);
    assert!(bench.read("back") == mixed(5000));
    assert_eq!(bench.snapshot().len(), 3);
}

#[test]
fn a_failure_leaves_the_old_file() {
    let mut frame = ZEROS_FRAME;
    frame[20] ^= 1;
    let bench = Workbench::with("frame", &frame);
    bench.write("back", b"precious");
    bench.fail(&["decompress", "frame", "-o", "back", "--force"], &["checksum"]);
}

#[test]
fn nothing_is_left_of_what_is_interrupted() {
    let bench = Workbench::new();
    let mut child = bench.command(&["decompress", "-", "-o", "out"]).stdin(Stdio::piped()).spawn().unwrap();
    // Once it has taken more than a pipe holds, it has looked whether it can write.
    child.stdin.as_mut().unwrap().write_all(&[0; 1 << 20]).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(bench.snapshot().is_empty());
}

#[test]
fn the_input_is_never_the_output() {
    let bench = Workbench::with("frame", &ZEROS_FRAME);
    fs::create_dir(bench.path("folder")).unwrap();
    for command in ["compress", "decompress"] {
        for output in ["frame", "./frame", "folder/../frame"] {
            bench.fail(&[command, "frame", "-o", output, "--force"], &["it is the input as well"]);
        }
    }
}

#[cfg(unix)]
#[test]
fn links_stay_links() {
    let bench = Workbench::with("raw", &[7; 100]);
    bench.write("real", b"old");
    std::os::unix::fs::symlink("real", bench.path("link")).unwrap();
    std::os::unix::fs::symlink("raw", bench.path("same")).unwrap();
    bench.succeed(&["compress", "raw", "-o", "link", "--force"]);
    assert!(bench.path("link").is_symlink());
    assert_eq!(bench.read("real")[..2], *b"MG");
    bench
        .fail(&["compress", "raw", "-o", "same", "--force"], &["cannot write same: it is the input as well"]);
}

#[test]
fn wrong_usage_exits_with_2() {
    let bench = Workbench::with("raw", &[7; 100]);
    for args in [
        &["compress", "raw"][..],
        &["compress", "raw", "-o", "out", "--algorithm", "none"],
        &["compress", "raw", "-o", "out", "--algorithm", "lzma"],
        &["compress", "raw", "-o", "out", "--element", "float32"],
        &["compress", "raw", "-o", "out", "--chunk-size", "16384"],
        &["shrink", "raw"],
        // This machine would be measured, and not what is named.
        &["calibrate", "--socket", "nowhere"],
        &["calibrate", "--address", "localhost:7410"],
        &[],
    ] {
        let output = bench.run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert_eq!(bench.snapshot().len(), 1, "{args:?}");
    }
    bench.fail_with(&["man", "shrink"], 2, &["there is no command \"shrink\""]);
}

#[test]
fn numbers_that_are_out_of_range_are_told_the_range() {
    let bench = Workbench::with("raw", &[7; 100]);
    for (args, range) in [
        (&["compress", "raw", "-o", "out", "--threads", "-1"][..], "1..=1024"),
        (&["compress", "raw", "-o", "out", "--threads", "0"], "1..=1024"),
        (&["profile", "raw", "--threshold", "-1"], "10..=50"),
        (&["watch", "--interval-ms", "0"], "100..=60000"),
        (&["top", "--interval-ms", "60001"], "100..=60000"),
        (&["demo", "--ranks", "-1"], "2..=64"),
        (&["perf", "--iters", "-1"], "1..=1000000"),
    ] {
        let output = bench.run(args);
        let message = stderr(&output);
        assert!(output.status.code() == Some(2) && message.contains(range), "{args:?}: {message}");
    }
    for (command, range) in [
        ("compress", "1 to 1024"),
        ("profile", "10 to 50"),
        ("watch", "100 to 60000"),
        ("top", "100 to 60000"),
    ] {
        let help = stdout(&bench.succeed(&[command, "--help"]));
        assert!(help.contains(range), "{command}: {help}");
    }
}

/// Refused before anybody is connected to, so that no token goes out in clear.
#[test]
fn certificates_are_no_use_without_tls() {
    let bench = Workbench::with("pem", b"");
    let fail = |address: &str, files: &[&str]| {
        let args = [&["jobs", "--address", address][..], files].concat();
        bench.fail_with(&args, 2, &["for TLS", address, "https://"]);
    };
    fail("http://localhost:1", &["--ca", "pem"]);
    for address in ["http://localhost:1", "http://10.0.0.1:1", "localhost:1", "127.0.0.1:1", "[::1]:1"] {
        fail(address, &["--cert", "pem", "--key", "pem"]);
    }
}

#[test]
fn dashes_are_the_standard_streams() {
    let bench = Workbench::new();
    let pass = |args: &[&str], input: &[u8]| {
        let mut command = bench.command(args);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // compress and decompress read all before they write, so that one after the other is enough.
        stdin.write_all(input).unwrap();
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        output.stdout
    };
    let raw = mixed(300_000);
    let coded = pass(&["compress", "-", "-o", "-"], &raw);
    assert_eq!(coded[..2], *b"MG");
    assert!(coded.len() < raw.len());
    assert!(pass(&["decompress", "-", "-o", "-"], &coded) == raw);
    assert!(bench.snapshot().is_empty());
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_output_is_an_error() {
    let bench = Workbench::with("raw", &mixed(5000));
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let args = ["compress", "raw", "-o", "-"];
    let output = bench.command(&args).stdout(full).output().unwrap();
    bench.check_exit(&output, &args, 1, &["cannot write standard output", "No space left"]);
}

#[cfg(unix)]
#[test]
fn a_reader_that_leaves_is_no_failure() {
    let bench = Workbench::with("raw", &mixed(1 << 20));
    bench.succeed(&["compress", "raw", "-o", "coded", "--chunk-size", "4K"]);
    for args in [&["inspect", "coded", "--chunks"][..], &["decompress", "coded", "-o", "-"], &["--help"]] {
        let mut child = bench.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
        assert_eq!(stderr(&output), "", "{args:?}");
    }
}

#[cfg(unix)]
#[test]
fn measured_speeds_are_kept_and_shown() {
    let bench = Workbench::new();
    bench.fail(&["calibrate"], &["no folder to keep the speeds in", "MGCOMP_CACHE"]);
    let relative = bench.command(&["calibrate"]).env("MGCOMP_CACHE", "a/b").output().unwrap();
    assert_eq!(relative.status.code(), Some(1));
    assert!(stderr(&relative).contains("MGCOMP_CACHE is \"a/b\", which is no absolute path"));
    assert_eq!(bench.run(&["calibrate", "--json", "--output", "x"]).status.code(), Some(2));

    // What was measured before makes way, without a word; a link stays one.
    bench.write("real", b"old");
    std::os::unix::fs::symlink("real", bench.path("speeds.json")).unwrap();
    let shown = bench.succeed(&["calibrate", "--output", "speeds.json"]);
    let shown = stdout(&shown);
    assert!(shown.ends_with("kept in speeds.json\n"), "{shown}");
    assert!(bench.path("speeds.json").is_symlink());
    let kept: Value = serde_json::from_slice(&bench.read("real")).unwrap();
    let pairs = codecs().count() * Element::ALL.len();
    assert_eq!(kept["codecs"].as_array().unwrap().len(), pairs);
    // A line for each element below the two of the head.
    let rows: Vec<&str> = shown.lines().skip(2).take(Element::ALL.len()).collect();
    for (row, element) in rows.iter().zip(Element::ALL) {
        assert!(row.starts_with(element.name()), "{row}");
        let rates = row.split([' ', '/']).filter_map(|word| word.parse::<f64>().ok());
        assert_eq!(rates.filter(|&rate| rate > 0.0).count(), 2 * codecs().count(), "{row}");
    }

    let printed = stdout(&bench.succeed(&["calibrate", "--output", "-"]));
    let printed: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(printed["processor"], kept["processor"]);
    assert!(!bench.path("-").exists());
}

/// All of it before anything is measured, which would take seconds.
#[cfg(unix)]
#[test]
fn speeds_go_nowhere_but_to_files() {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    let bench = Workbench::new();
    let calibrate = |path: &'static str| ["calibrate", "--output", path];
    fs::create_dir(bench.path("folder")).unwrap();
    let _listener = UnixListener::bind(bench.path("socket")).unwrap();
    symlink("nowhere", bench.path("lost")).unwrap();
    for (link, to) in [("to-folder", "folder"), ("to-socket", "socket"), ("to-null", "/dev/null")] {
        symlink(to, bench.path(link)).unwrap();
    }
    let no_file = ["folder", "socket", "to-folder", "to-socket", "to-null"];
    for path in no_file {
        bench.fail(&calibrate(path), &["cannot write", path, "not a file"]);
    }
    bench.fail(&calibrate("lost"), &["cannot write lost: it is a link that leads nowhere"]);
    bench.fail(&calibrate("no/such/file"), &["cannot write no/such/file: there is no folder no/such"]);
    assert!(bench.path("lost").is_symlink() && !bench.path("no").exists());

    // In a folder of its own and not by `fail`, which reads all files to compare them.
    let pipes = Workbench::new();
    let made = Command::new("mkfifo").arg(pipes.path("pipe")).status();
    assert!(made.is_ok_and(|made| made.success()));
    let output = pipes.run(&calibrate("pipe"));
    pipes.check_exit(&output, &calibrate("pipe"), 1, &["cannot write pipe", "not a file"]);
}
