//! Values that nothing can have are refused with the right status, and change nothing.

use serde_json::Value;

use crate::rig::{Rig, text, until};

const NO_JOB: &str = "mgcomp: job absent: no such job: `mgcomp jobs` lists those that run";
const AHEAD: &str = ", and `--ahead` sets it before it runs\n";

#[test]
fn bad_values_change_nothing() {
    let rig = Rig::start(&[]);
    rig.succeed(&["lambda", "set", "6"]);
    let before = rig.json(&["lambda", "get"]);
    for lambda in ["-1", "NaN", "inf", "-inf", "1e300", "4294967297"] {
        rig.fail(&["lambda", "set", lambda], &["INVALID_ARGUMENT", "lambda is"]);
    }
    for policy in ["lz4", "fixed:lz4", "fixed:", "", "adaptive ", "paper:1,2,3", "paper:5,100,2"] {
        rig.fail(&["policy", "set", policy], &["INVALID_ARGUMENT", "policy"]);
    }
    for cap in ["0", "-1", "NaN", "inf", "1e-10", "1000001"] {
        rig.fail(&["read-cap", "set", cap], &["INVALID_ARGUMENT", "read_cap_gbps is"]);
    }
    // What is no size is refused by the command itself.
    for size in ["0", "-1", "much", "17G"] {
        let output = rig.mgcomp(&["size-gate", "set", size]);
        assert_eq!(output.status.code(), Some(2), "{size}");
    }
    // Peers have no cap of their own.
    let to_peer = rig.mgcomp(&["read-cap", "set", "1", "--job", "a", "--peer", "1", "--ahead"]);
    assert_eq!(to_peer.status.code(), Some(2));
    let huge = "x".repeat(100_000);
    rig.fail(&["policy", "set", &huge], &["OUT_OF_RANGE"]);
    rig.fail(&["lambda", "set", "1", "--job", &"j".repeat(65)], &["INVALID_ARGUMENT", "at most 64"]);
    rig.fail(&["lambda", "set", "1", "--job", "a b"], &["INVALID_ARGUMENT", "no spaces"]);
    rig.fail(&["lambda", "set", "1", "--job", "absent"], &[&format!("{NO_JOB}{AHEAD}")]);
    rig.fail(&["off", "--job", "absent"], &[&format!("{NO_JOB}{AHEAD}")]);
    let looks: [&[&str]; 4] = [&["lambda", "get"], &["jobs"], &["watch"], &["histogram", "raw-bytes"]];
    for look in looks {
        rig.fail(&[look, &["--job", "absent"]].concat(), &[&format!("{NO_JOB}\n")]);
    }
    rig.fail(&["lambda", "set", "1", "--expected-version", "77"], &["ABORTED", "stale"]);
    assert_eq!(rig.json(&["lambda", "get"]), before);
}

/// As a shell passes on a variable that is not set.
#[test]
fn an_empty_job_is_not_the_whole_node() {
    let rig = Rig::start(&[]);
    let commands: [&[&str]; 11] = [
        &["off"],
        &["on"],
        &["lambda", "set", "6"],
        &["lambda", "get"],
        &["policy", "set", "paper"],
        &["size-gate", "set", "64K"],
        &["read-cap", "set", "1"],
        &["off", "--ahead"],
        &["jobs"],
        &["watch", "--count", "1"],
        &["histogram", "raw-bytes"],
    ];
    for command in commands {
        for job in [&["--job", ""][..], &["--job="]] {
            let output = rig.mgcomp(&[command, job].concat());
            let message = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{command:?}: {message}");
            assert!(message.contains("--job <ID>"), "{command:?}: {message}");
        }
    }
    assert!(rig.succeed(&["status"]).ends_with("nothing is set: each program goes by its own settings\n"));
}

#[test]
fn settings_are_shown_as_they_are() {
    let rig = Rig::start(&[]);
    let get = |args: &[&str]| rig.json(&[&["lambda", "get"], args].concat()).remove(0);
    assert_eq!((&get(&[])["scope"], &get(&[])["lambda_gbps"]), (&"node".into(), &Value::Null));
    rig.succeed(&["lambda", "set", "2.5"]);
    rig.succeed(&["lambda", "set", "0.1", "--job", "later", "--ahead"]);
    let (node, job) = (get(&[]), get(&["--job", "later"]));
    assert_eq!(node["lambda_gbps"], 2.5);
    assert_eq!((&job["scope"], &job["job"]), (&"job".into(), &"later".into()));
    assert_eq!(job["lambda_gbps"], 0.1);
    let version = job["version"].to_string();
    rig.succeed(&["lambda", "unset", "--job", "later", "--expected-version", &version]);
    rig.fail(&["lambda", "get", "--job", "later"], &["job later: no such job"]);
    assert_eq!(rig.succeed(&["lambda", "get"]), "node: lambda 2.5 Gb/s\n");
    assert_eq!(rig.succeed(&["policy", "get"]), "node: policy as each program says\n");
    assert_eq!(rig.succeed(&["read-cap", "set", "384"]), "node: read cap 384 Gb/s\n");
    assert_eq!(rig.json(&["read-cap", "get"])[0]["own_read_cap_gbps"], 384.0);
}

/// Though it counts as the nearest multiple of a power of two.
#[test]
fn a_lambda_is_shown_as_it_was_given() {
    let mut rig = Rig::start(&[]);
    let exchange = rig.exchange("a", "paper");
    rig.until_stream("is seen", "a", |_| true);
    assert_eq!(rig.succeed(&["lambda", "set", "0.1"]), "node: lambda 0.1 Gb/s\n");
    let shown = |rig: &Rig| {
        assert_eq!(rig.succeed(&["lambda", "get"]), "node: lambda 0.1 Gb/s\n");
        let status = rig.json(&["status"]).remove(0)["settings"].clone();
        for shown in ["own", "effective"] {
            assert_eq!(status[0][shown]["lambda_gbps"], 0.1, "{shown}: {status}");
        }
        assert_eq!(rig.json(&["lambda", "get"])[0]["lambda_gbps"], 0.1);
        rig.until_stream("programs go by it", "a", |stream| {
            ["effective", "in_effect"].iter().all(|shown| stream[shown]["lambda_gbps"] == 0.1)
        });
        assert_eq!(rig.json(&["jobs"])[0]["effective"]["lambda_gbps"], 0.1);
        status
    };
    let before = shown(&rig);
    rig.kill_daemon();
    rig.start_daemon();
    assert_eq!(shown(&rig), before);
    exchange.finish();
}

#[test]
fn the_status_says_what_is_set_and_whether_it_is_kept() {
    let rig = Rig::start(&[]);
    let text = rig.succeed(&["status"]);
    assert!(text.starts_with(&format!("mgcomp-daemon {} on ", env!("CARGO_PKG_VERSION"))), "{text}");
    assert!(text.ends_with("nothing is set: each program goes by its own settings\n"), "{text}");
    rig.succeed(&["lambda", "set", "2.5", "--job", "later", "--peer", "3", "--ahead"]);
    rig.succeed(&["policy", "set", "paper"]);
    rig.succeed(&["size-gate", "set", "64K"]);
    let text = rig.succeed(&["status"]);
    let table = "\n\nscope              set there\n\
                 node               policy paper, size gate 64 KiB\n\
                 job later, peer 3  lambda 2.5 Gb/s\n";
    assert!(text.ends_with(table), "{text}");
    let status = || rig.json(&["status"]).remove(0);
    let settings = status()["settings"].clone();
    assert_eq!([&settings[0]["scope"], &settings[1]["scope"]], ["node", "peer"]);
    assert_eq!(
        (&settings[0]["own"]["least_bytes"], &settings[1]["own"]["policy"]),
        (&65_536.into(), &Value::Null)
    );
    assert_eq!(settings[1]["effective"]["policy"], "paper");
    assert_eq!(status()["persist_error"], Value::Null);

    std::fs::rename(rig.path("state"), rig.path("elsewhere")).unwrap();
    rig.succeed(&["lambda", "set", "3", "--volatile"]);
    until("it is said that nothing is kept", || !status()["persist_error"].is_null());
    assert!(rig.succeed(&["status"]).contains("\nSETTINGS CANNOT BE KEPT in "));
    std::fs::rename(rig.path("elsewhere"), rig.path("state")).unwrap();
    until("all is well again", || status()["persist_error"].is_null());
}

#[test]
fn shells_and_manuals_get_what_they_want() {
    let rig = Rig::empty();
    let run = |args: &[&str]| {
        let output = rig.mgcomp_command(args).output().unwrap();
        assert!(output.status.success(), "{args:?}");
        crate::rig::text(&output.stdout)
    };
    for shell in ["bash", "zsh", "fish"] {
        assert!(run(&["completions", shell]).contains("lambda"), "{shell}");
    }
    assert!(run(&["man"]).contains(".TH mgcomp 1"));
    assert!(run(&["man", "lambda"]).contains("weight of latency"));
    let output = rig.mgcomp_command(&["man", "nonsense"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}
