//! What people see: tables, pictures, and which sizes there was time for.

#[cfg(unix)]
use std::process::Stdio;

use super::rows_of;
use super::workbench::{Workbench, stderr, stdout};

#[test]
fn a_table_and_a_picture_are_for_people() {
    let bench = Workbench::with("x.bf16.bin", &[0x80, 0x3f].repeat(5000));
    let args = ["perf", "--op", "send_recv,reduce", "--max", "4K", "--iters", "3", "--interleave"];
    let output = bench.succeed(&[&args[..], &["--data", "x.bf16.bin", "--plot", "p.svg"]].concat());
    let text = stdout(&output);
    for words in [
        "send_recv of bf16 (x.bf16.bin), 2 ranks (threads over loopback)",
        "reduce (sum) of bf16",
        " 4 KiB         2048 ",
        "  raw  ",
        "  adaptive  ",
        "none 100 %",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let picture = String::from_utf8(bench.read("p.svg")).unwrap();
    for name in
        ["send_recv raw", "send_recv adaptive", "reduce raw", "reduce adaptive", "bus bandwidth in GB/s"]
    {
        assert!(picture.contains(name), "{name}");
    }
}

#[test]
fn a_switch_that_is_off_is_said() {
    let bench = Workbench::new();
    let args = ["perf", "--op", "send_recv", "--max", "8", "--iters", "1", "--interleave"];
    let run = |more: &[&str]| {
        let output = bench.command(&[&args[..], more].concat()).env("MGCOMP", "off").output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        output
    };
    let text = stdout(&run(&[]));
    assert!(text.contains("; compression is switched off") && !text.contains("adaptive"), "{text}");
    let modes: Vec<_> = rows_of(&run(&["--json"])).iter().map(|row| row["mode"].clone()).collect();
    assert_eq!(modes, ["raw", "off"]);
}

#[cfg(unix)]
#[test]
fn a_picture_that_there_is_no_room_for_leaves_the_old_one() {
    let bench = Workbench::with("p.svg", b"old");
    let args = ["perf", "--op", "barrier,send_recv", "--max", "16", "--iters", "2", "--plot", "p.svg"];
    let before = bench.snapshot();
    let mgcomp = bench.command(&[]).get_program().to_owned();
    // One block is less than a picture. What is printed goes into pipes, which have no such limit.
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "trap '' XFSZ && ulimit -f 1 && exec \"$0\" \"$@\""]).arg(&mgcomp).args(args);
    let output = shell.current_dir(bench.folder.path()).stdin(Stdio::null()).output().unwrap();
    bench.check_exit(&output, &args, 1, &["cannot write p.svg", "File too large"]);
    assert_eq!(bench.snapshot(), before);
    bench.succeed(&args);
    assert!(bench.read("p.svg").starts_with(b"<svg"));
}

#[test]
fn sizes_that_take_too_long_are_left_out() {
    let bench = Workbench::new();
    // At 0.01 Gb/s, 64 MiB would take a minute; the shortest of 24 sizes is measured whatever the time.
    let args = [
        "perf",
        "--json",
        "--op",
        "broadcast",
        "--link-gbps",
        "0.01",
        "--latency-us",
        "10",
        "--seconds",
        "5",
    ];
    let output = bench.succeed(&args);
    let done = rows_of(&output).len();
    assert!((1..24).contains(&done), "{done}");
    let (left, next) = (24 - done, 8 << done);
    let note = format!("broadcast: {left} sizes from {next} bytes on are left out: no time (--seconds)\n");
    assert_eq!(stderr(&output), note);
}
