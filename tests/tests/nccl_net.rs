//! The NCCL network plugin under a replay of NCCL's proxy.
#![cfg(target_os = "linux")]

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mgcomp_tests::pages::{Pages, received, sent, sent_raw};
use mgcomp_transport::control::Count;

/// Nothing takes this long unless it hangs.
const HANGS: Duration = Duration::from_secs(200);

/// Runs a scenario in a process of its own, with variables set; returns what it says after `OK`. That it must say so.
#[track_caller]
fn run(scenario: &[&str], variables: &[(&str, &str)]) -> String {
    run_logged(scenario, variables)[0].clone()
}

/// The same, and what the log says to whoever has asked for none.
#[track_caller]
fn run_logged(scenario: &[&str], variables: &[(&str, &str)]) -> [String; 2] {
    let mut child = Command::new(env!("CARGO_BIN_EXE_nccl_proxy"))
        .args(scenario)
        .envs([("NCCL_SOCKET_IFNAME", "=lo"), ("NCCL_SOCKET_FAMILY", "AF_INET")])
        .env_remove("MGCOMP_LOG")
        .envs(variables.iter().copied())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let until = Instant::now() + HANGS;
    // What it says is a line, and the log is not much longer: a pipe takes that at once.
    while child.try_wait().unwrap().is_none() {
        if Instant::now() >= until {
            let _ = child.kill();
            let _ = child.wait();
            panic!("hangs: {scenario:?} with {variables:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    let [text, log] = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    let word = text.trim().strip_prefix("OK").filter(|_| output.status.success());
    let failed = || panic!("{scenario:?} with {variables:?}: {} {text} {log}", output.status);
    [word.unwrap_or_else(failed).trim().to_owned(), log]
}

const VERSIONS: [&str; 5] = ["8", "9", "10", "11", "12"];

#[test]
fn every_version_says_what_it_is() {
    run(&["versions"], &[]);
}

#[test]
fn tensors_are_compressed_and_every_byte_comes() {
    for version in VERSIONS {
        let of_1000: u32 = run(&["slices", version], &[("MGCOMP_POLICY", "fixed:xp")]).parse().unwrap();
        assert!((300..700).contains(&of_1000), "version {version}: {of_1000} of 1,000 bytes went out");
    }
}

#[test]
fn nothing_is_compressed_when_it_is_switched_off() {
    let off = [("MGCOMP", "off"), ("MGCOMP_NET_CONNECTIONS", "1")];
    let of_1000: u32 = run(&["slices", "12"], &off).parse().unwrap();
    assert_eq!(of_1000, 1000, "an envelope is less than a thousandth");
}

#[test]
fn lengths_and_data_of_all_kinds_come() {
    for (version, policy) in
        [("8", "fixed:bdi"), ("10", "fixed:none"), ("11", "adaptive"), ("12", "fixed:zvc")]
    {
        run(&["kinds", version], &[("MGCOMP_POLICY", policy), ("MGCOMP_NET_CONNECTIONS", "3")]);
    }
}

/// What the sender counts as raw, and in all, with these variables set; the receiver counts as much in all.
#[track_caller]
fn counted(pages: usize, variables: &[(&str, &str)]) -> [Count; 2] {
    let pages = Pages::of(pages);
    let socket = pages.socket();
    let said = run(&["counts"], &[variables, &[("MGCOMP_SOCKET", socket.as_str())]].concat());
    let (messages, bytes) = said.split_once(' ').unwrap();
    let [transfers, raw_bytes] = [messages, bytes].map(|number| number.parse::<u64>().unwrap());
    // A plugin below counts envelopes as bytes of messages.
    let pages = pages.slots();
    let are_all = |count: &Count| (count.transfers, count.raw_bytes) == (transfers, raw_bytes);
    let only = |of: fn(&[_]) -> Count| {
        let mut those = pages.iter().filter(|slots| are_all(&of(slots)));
        let page = those.next().unwrap_or_else(|| panic!("not {said} in {pages:#?}"));
        assert!(those.next().is_none(), "{said} in several of {pages:#?}");
        page
    };
    let sender = only(sent);
    assert_eq!(sent(sender), received(only(received)));
    [sent_raw(sender), sent(sender)]
}

#[test]
fn every_message_is_counted_once_however_it_goes() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("libnccl-net-inner.so");
    std::fs::copy(mgcomp_tests::proxy::library(), &inner).unwrap();
    // The plugin below is one for both, with a page of its own.
    for (pages, below) in [(2, &[][..]), (3, &[("MGCOMP_NET_INNER", inner.to_str().unwrap())])] {
        let [raw, all] = counted(pages, &[below, &[("MGCOMP_POLICY", "fixed:none")]].concat());
        assert_eq!((raw, raw.coded_bytes), (all, all.raw_bytes));
        // A third is of the protocol LL, and of what may be, short messages.
        let [raw, all] = counted(pages, &[below, &[("MGCOMP_POLICY", "fixed:xp")]].concat());
        assert_eq!(raw.coded_bytes, raw.raw_bytes);
        assert!(raw.raw_bytes * 3 >= all.raw_bytes && raw.raw_bytes < all.raw_bytes, "{raw:?} of {all:?}");
        assert!(all.coded_bytes < all.raw_bytes, "{all:?}");
    }
}

#[test]
fn memory_that_is_looked_at_is_never_seen_half_written() {
    for version in VERSIONS {
        run(&["lines", version], &[("MGCOMP_POLICY", "fixed:xp")]);
    }
}

#[test]
fn another_plugin_carries_what_this_one_makes() {
    // The same one from another file: the lowest sends by TCP.
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("libnccl-net-inner.so");
    std::fs::copy(mgcomp_tests::proxy::library(), &inner).unwrap();
    let inner = [("MGCOMP_NET_INNER", inner.to_str().unwrap()), ("MGCOMP_POLICY", "fixed:xp")];
    for version in ["8", "12"] {
        let of_1000: u32 = run(&["slices", version], &inner).parse().unwrap();
        assert!((300..700).contains(&of_1000), "version {version}: {of_1000} of 1,000 bytes went out");
    }
    for scenario in ["kinds", "lines"] {
        run(&[scenario, "12"], &inner);
    }
    // The longest message of NCCL's is 32 bytes longer there, where it has a header.
    let longest = |variables: &[(&str, &str)]| run(&["longest"], variables).parse::<u64>().unwrap();
    assert_eq!([longest(&[]), longest(&inner)], [1 << 40, (1 << 40) - 32]);
    for scenario in
        ["crowd", "close", "abort", "deregister", "child", "listeners", "threads", "fork", "mixed"]
    {
        run(&[scenario], &inner);
    }
    let none = [("MGCOMP_NET_INNER", "libnccl-net-none.so")];
    assert!(run(&["missing"], &none).contains("libnccl-net-none.so"));
}

#[test]
fn the_plugin_is_never_below_itself() {
    let library = mgcomp_tests::proxy::library();
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(&library, folder.path().join("libnccl-net-inner.so")).unwrap();
    // By names that the system finds: itself, and another that finds itself.
    let itself = library.file_name().unwrap().to_str().unwrap();
    for (name, folder, longest) in [
        (itself, library.parent().unwrap(), 1u64 << 40),
        ("libnccl-net-inner.so", folder.path(), (1 << 40) - 32),
    ] {
        let variables = [("MGCOMP_NET_INNER", name), ("LD_LIBRARY_PATH", folder.to_str().unwrap())];
        assert_eq!(run(&["longest"], &variables).parse::<u64>().unwrap(), longest, "{name}");
    }
}

#[test]
fn what_keeps_a_job_from_starting_is_said_unasked() {
    let none = [("MGCOMP_NET_INNER", "libnccl-net-none.so")];
    let off = [("MGCOMP_POLICY", "fixed:nothing")];
    for (variables, why) in [(none, "libnccl-net-none.so"), (off, "fixed:nothing")] {
        let [_, log] = run_logged(&["missing"], &variables);
        assert!(log.contains("ERROR") && log.contains(why), "{log}");
    }
}

#[test]
fn strangers_disturb_nobody() {
    let [_, log] = run_logged(&["strangers"], &[]);
    assert!(!log.contains("refused a connection: who made it"), "{log}");
}

#[test]
fn handles_that_are_none_are_refused() {
    let [_, log] = run_logged(&["handles"], &[]);
    assert!(log.contains("does every rank load this plugin?"), "{log}");
}

#[test]
fn a_message_that_ends_in_the_middle_is_an_error() {
    let [_, log] = run_logged(&["cut"], &[("MGCOMP_NET_CONNECTIONS", "1")]);
    assert_eq!(log, "", "that a rank has left is no news");
}

#[test]
fn a_rank_that_is_killed_in_the_middle_of_a_message_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("slice");
    std::fs::write(&file, mgcomp_tests::data::bytes(mgcomp_tests::data::Kind::Dense, 32 << 20, 7)).unwrap();
    for policy in ["fixed:none", "fixed:xp"] {
        run(&["killed", file.to_str().unwrap()], &[("MGCOMP_POLICY", policy)]);
    }
}

#[test]
fn what_is_closed_is_closed_though_a_child_has_its_sockets() {
    for policy in ["fixed:none", "fixed:xp"] {
        run(&["child"], &[("MGCOMP_POLICY", policy)]);
    }
}

#[test]
fn listeners_go_with_their_context() {
    run(&["listeners"], &[]);
}

#[test]
fn damaged_messages_are_errors() {
    run(&["damage"], &[("MGCOMP_POLICY", "fixed:xp"), ("MGCOMP_NET_CONNECTIONS", "1")]);
}

#[test]
fn calls_that_make_no_sense_are_refused() {
    run(&["misuse"], &[]);
}

#[test]
fn too_many_requests_are_told_to_come_again() {
    run(&["crowd"], &[]);
    run(&["crowd"], &[("MGCOMP_NET_CONNECTIONS", "16")]);
}

#[test]
fn ends_are_closed_with_requests_under_way() {
    run(&["close"], &[("MGCOMP_POLICY", "fixed:xp")]);
}

#[test]
fn memory_is_let_go_of_when_it_is_deregistered() {
    for policy in ["fixed:xp", "fixed:none"] {
        run(&["abort"], &[("MGCOMP_POLICY", policy)]);
        run(&["deregister"], &[("MGCOMP_POLICY", policy)]);
    }
}

#[test]
fn no_thread_is_left_behind() {
    run(&["threads"], &[("MGCOMP_POLICY", "fixed:zvc")]);
}

#[test]
fn children_can_do_nothing_and_say_so() {
    run(&["fork"], &[("MGCOMP_POLICY", "fixed:zvc")]);
}
