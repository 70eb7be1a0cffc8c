//! mgcomp as a guest in a program that knows nothing of it: signals, forks, threads, and transfers over 4 GiB.
#![cfg(target_os = "linux")]

mod quota;

use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Nothing here takes this long unless it hangs.
const HANGS: Duration = Duration::from_secs(300);

const PROGRAM: &str = env!("CARGO_BIN_EXE_host_program");

/// Runs the program; returns what it says after `OK`. That it must say so.
#[track_caller]
fn run(scenario: &str, link: &str) -> String {
    run_as(Command::new(PROGRAM), scenario, link)
}

/// The same where `command` runs the program.
#[track_caller]
fn run_as(mut command: Command, scenario: &str, link: &str) -> String {
    let mut child = command.args([scenario, link]).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let reader = thread::spawn(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text).map(|_| text)
    });
    let until = Instant::now() + HANGS;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() >= until {
            let _ = child.kill();
            let _ = child.wait();
            panic!("hangs: {scenario} over {link}");
        }
        thread::sleep(Duration::from_millis(5));
    };
    assert!(status.success(), "{scenario} over {link}: {status}");
    let text = reader.join().unwrap().unwrap();
    let word = text.trim().strip_prefix("OK").map(str::trim);
    word.unwrap_or_else(|| panic!("{scenario} over {link}: {text}")).to_owned()
}

const LINKS: [&str; 3] = ["loopback", "shm", "tcp"];

#[test]
fn children_can_do_nothing_and_say_so_at_once() {
    LINKS.iter().for_each(|link| drop(run("fork", link)));
}

#[test]
fn no_signal_comes_when_peers_go() {
    ["shm", "tcp"].iter().for_each(|link| drop(run("pipe", link)));
}

#[test]
fn signals_come_to_who_waits_for_them() {
    LINKS.iter().for_each(|link| drop(run("signals", link)));
}

#[test]
fn nodes_leave_no_thread_behind() {
    LINKS.iter().for_each(|link| drop(run("threads", link)));
}

#[test]
fn a_stalled_peer_holds_nobody_up_who_leaves() {
    ["shm", "tcp"].iter().for_each(|link| drop(run("stalled", link)));
}

#[test]
fn threads_run_where_the_program_may() {
    LINKS.iter().for_each(|link| drop(run("one-core", link)));
}

/// A group of processes that may use one core at a time has one codec thread a node, however many cores there are.
#[test]
fn codec_threads_are_no_more_than_a_quota_allows() {
    let free = run("usual-threads", "loopback");
    if free == "1" {
        println!("SKIPPED: there is one codec thread here without a quota");
        return;
    }
    let groups = match quota::Groups::make() {
        Ok(groups) => groups,
        Err(why) => return println!("SKIPPED: no group of processes can have a quota here: {why}"),
    };
    let threads = |quota_us| {
        groups.set_quota(quota_us);
        run_as(groups.inside(PROGRAM), "usual-threads", "loopback")
    };
    // Of 100,000 µs, in the group around that of the process.
    assert_eq!([None, Some(100_000), Some(199_000)].map(threads), [&*free, "1", "1"]);
    assert_eq!(threads(Some(50_000)), "1", "half a core");
    assert_eq!(threads(Some(100_000_000)), free, "more than there is");
}

#[test]
fn codec_threads_can_be_none() {
    LINKS.iter().for_each(|link| drop(run("no-codec-threads", link)));
}

/// Takes 5 GiB of memory and half a minute or more, so only when asked for: `MGCOMP_LARGE=1`.
#[test]
fn transfers_over_4_gib_work() {
    if std::env::var_os("MGCOMP_LARGE").is_none_or(|value| value != "1") {
        println!("SKIPPED: takes 5 GiB of memory; MGCOMP_LARGE=1 runs it");
        return;
    }
    for link in LINKS {
        let word = run("large", link);
        if word.starts_with("SKIPPED") {
            println!("{word}");
        }
    }
}
