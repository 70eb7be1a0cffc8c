//! Ranks that are killed, stuck or left alone end the run on all.

use std::io::{BufRead, BufReader, Write};
use std::iter;
use std::process::{Child, ChildStdout, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::workbench::{Workbench, stderr};

/// Nothing here takes this long unless it hangs.
const HANGS: Duration = Duration::from_secs(120);

/// A run of three processes that have met and go on for long, the ids of ranks 1 and 2, and what it has yet to say.
type LongRun = (Child, Vec<u32>, BufReader<ChildStdout>);

fn long_run(bench: &Workbench, flags: &[&str]) -> LongRun {
    begin(bench, flags).unwrap()
}

/// The same, or what it has said if it has ended before the first row.
fn begin(bench: &Workbench, flags: &[&str]) -> Result<LongRun, Output> {
    let args = ["perf", "--ranks", "3", "--op", "all_gather", "--min", "1K", "--max", "64M"];
    let long = ["--iters", "2000", "--warmup", "0", "--json"];
    let mut command = bench.command(&[&args[..], &long, flags].concat());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut rows = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    if rows.read_line(&mut first).unwrap() == 0 {
        return Err(child.wait_with_output().unwrap());
    }
    let others = children(child.id());
    // Whole numbers on each of three ranks.
    if others.len() != 2 || !first.contains("\"bytes\":1020") {
        child.kill().unwrap();
        panic!("{first}: {:?}", child.wait_with_output());
    }
    Ok((child, others, rows))
}

/// The processes that `parent` has started and that run.
fn children(parent: u32) -> Vec<u32> {
    let path = format!("/proc/{parent}/task/{parent}/children");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().map(|id| id.parse().unwrap()).collect()
}

/// Whether the process has gone, or waits for nothing but its parent.
fn is_gone(id: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    status.is_empty() || status.contains("State:\tZ")
}

fn signal(signal: &str, id: u32) {
    let status = std::process::Command::new("kill").args([signal, &id.to_string()]).status().unwrap();
    assert!(status.success(), "kill {signal}");
}

#[track_caller]
fn all_go(ids: &[u32]) {
    let started = Instant::now();
    while !ids.iter().all(|&id| is_gone(id)) {
        assert!(started.elapsed() < HANGS, "hangs: {ids:?} are still there");
        thread::sleep(Duration::from_millis(5));
    }
}

fn has_children_files() -> bool {
    let known = std::path::Path::new("/proc/self/task").is_dir()
        && std::fs::read_dir("/proc/self/task")
            .unwrap()
            .flatten()
            .all(|task| task.path().join("children").exists());
    if !known {
        println!("SKIPPED: this system does not tell the children of a process");
    }
    known
}

#[test]
fn a_rank_that_is_killed_ends_the_run() {
    if !has_children_files() {
        return;
    }
    let bench = Workbench::new();
    for link in ["tcp", "shm"] {
        let (child, others, _rows) = long_run(&bench, &["--link", link]);
        signal("-KILL", others[1]);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let text = stderr(&output);
        assert!(text.contains("rank 2 has ended (signal: 9") && text.lines().count() == 1, "{text}");
        all_go(&others);
    }
}

#[test]
fn a_rank_that_is_killed_before_it_has_met_the_others_ends_the_run() {
    if !has_children_files() {
        return;
    }
    let bench = Workbench::new();
    for link in ["tcp", "shm"] {
        // Without an eye on it, the others would wait for it for an hour.
        let args = ["perf", "--ranks", "3", "--op", "barrier", "--timeout", "3600", "--link", link];
        // Nor would it be over before it is looked at.
        let args = [&args[..], &["--iters", "1000000"]].concat();
        let mut command = bench.command(&args);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let started = Instant::now();
        let others = loop {
            let others = children(child.id());
            assert!(started.elapsed() < HANGS, "no ranks are started");
            if others.len() == 2 {
                break others;
            }
        };
        signal("-KILL", others[1]);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("rank 2 has ended (signal: 9"), "{}", stderr(&output));
        all_go(&others);
    }
}

#[test]
fn a_rank_that_is_stuck_ends_the_run() {
    if !has_children_files() {
        return;
    }
    let bench = Workbench::new();
    // On a busy machine the ranks may need longer than that to meet.
    let runs = iter::repeat_with(|| begin(&bench, &["--link", "tcp", "--timeout", "8"]));
    let (child, others, _rows) = runs.take(10).find_map(Result::ok).expect("one that begins in time");
    signal("-STOP", others[0]);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("is not over after 8s"), "{}", stderr(&output));
    all_go(&others);
}

#[test]
fn a_rank_that_has_met_nobody_goes_with_its_parent() {
    let bench = Workbench::new();
    let mut command = bench.command(&["perf-rank", "--link", "tcp", "--timeout", "3600"]);
    let mut rank = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut orders, answers) = (rank.stdin.take().unwrap(), rank.stdout.take().unwrap());
    let secret = "5".repeat(32);
    writeln!(orders, r#"{{"begin":{{"rank":1,"ranks":2,"secret":"{secret}"}}}}"#).unwrap();
    let mut answer = String::new();
    BufReader::new(answers).read_line(&mut answer).unwrap();
    let own = answer.split('"').nth(5).unwrap();
    // Nobody listens where rank 0 is said to.
    writeln!(orders, r#"{{"join":{{"addresses":["127.0.0.1:1","{own}"]}}}}"#).unwrap();
    drop(orders);
    let started = Instant::now();
    let status = loop {
        if let Some(status) = rank.try_wait().unwrap() {
            break status;
        }
        if started.elapsed() > HANGS {
            rank.kill().unwrap();
            panic!("hangs: {:?}", rank.wait());
        }
        thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(status.code(), Some(1), "{answer}");
}

#[test]
fn ranks_go_with_the_one_that_started_them() {
    if !has_children_files() {
        return;
    }
    let bench = Workbench::new();
    let (mut child, others, _rows) = long_run(&bench, &["--link", "tcp"]);
    child.kill().unwrap();
    child.wait().unwrap();
    all_go(&others);
}
