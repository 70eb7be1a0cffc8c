//! Start, end, and what is kept in between.

use std::io::Read;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::rig::{Ended, Rig, send_signal, text, until};

#[test]
fn what_was_set_is_there_after_a_restart() {
    let mut rig = Rig::start(&[]);
    rig.succeed(&["lambda", "set", "3.25"]);
    // Not waited for by the command, but kept when the daemon ends.
    rig.succeed(&["policy", "set", "paper", "--job", "x", "--ahead", "--volatile"]);
    rig.signal("TERM");
    assert_eq!(rig.wait_daemon(), Some(0));
    assert!(!rig.socket().exists(), "the socket stays behind");
    rig.start_daemon();
    assert_eq!(rig.json(&["lambda", "get"])[0]["lambda_gbps"], 3.25);
    assert_eq!(rig.json(&["policy", "get", "--job", "x"])[0]["policy"], "paper");
    rig.kill_daemon();
    rig.start_daemon();
    assert_eq!(rig.json(&["lambda", "get"])[0]["lambda_gbps"], 3.25, "a killed daemon has kept it too");
}

#[test]
fn settings_that_are_lost_at_the_end_are_a_failure() {
    let mut rig = Rig::start(&[]);
    std::fs::rename(rig.path("state"), rig.path("elsewhere")).unwrap();
    rig.succeed(&["lambda", "set", "3", "--volatile"]);
    rig.signal("TERM");
    assert_eq!(rig.wait_daemon(), Some(1));
    std::fs::rename(rig.path("elsewhere"), rig.path("state")).unwrap();
    rig.start_daemon();
    assert_eq!(rig.json(&["lambda", "get"])[0]["lambda_gbps"], serde_json::Value::Null);
    // What was refused is not lost.
    rig.succeed(&["lambda", "set", "1"]);
    std::fs::rename(rig.path("state"), rig.path("elsewhere")).unwrap();
    rig.fail(&["lambda", "set", "2"], &["RESOURCE_EXHAUSTED", "nothing was changed"]);
    rig.signal("TERM");
    assert_eq!(rig.wait_daemon(), Some(0));
}

#[test]
fn who_watches_is_told_how_it_ends() {
    for (signal, code, word) in [
        ("TERM", Some(0), "the daemon stops"),
        ("KILL", None, "the connection to the daemon at SOCKET is broken: "),
    ] {
        let mut rig = Rig::start(&[]);
        let mut command = rig.mgcomp_command(&["watch", "--interval-ms", "100", "--timeout", "100"]);
        command.arg("--socket").arg(rig.socket()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut watcher = command.spawn().unwrap();
        let told = watcher.stdout.as_mut().unwrap().read(&mut [0]).unwrap();
        rig.signal(signal);
        let daemon = rig.wait_daemon();
        let output = watcher.wait_with_output().unwrap();
        assert_eq!((told, daemon, output.status.code()), (1, code, Some(1)), "{signal}");
        let word = word.replace("SOCKET", &rig.socket().display().to_string());
        assert!(text(&output.stderr).contains(&word), "{signal}: {}", text(&output.stderr));
    }
}

#[test]
fn a_second_daemon_is_refused() {
    let rig = Rig::start(&[]);
    let output = rig.daemon_command().output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = text(&output.stderr);
    assert!(message.contains("another mgcomp-daemon uses"), "{message}");
    rig.succeed(&["jobs"]);
    // With a socket of its own it is the folder that is taken. Nothing stays beside that socket.
    let mut other = Command::new(rig.daemon_command().get_program());
    other.arg("--socket").arg(rig.path("other")).arg("--state-dir").arg(rig.path("state"));
    let output = other.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let left = std::fs::read_dir(rig.path(".")).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(left.into_iter().all(|name| !name.to_string_lossy().starts_with("other")));
    // Those of the daemon that runs are still there.
    let third = rig.daemon_command().output().unwrap();
    assert_eq!(third.status.code(), Some(1), "{}", text(&third.stderr));
}

#[test]
fn every_problem_with_the_configuration_is_told_at_once() {
    let rig = Rig::empty();
    std::fs::write(rig.path("bad.toml"), "listen = '0.0.0.0:7411'\nsokcet = 1\nlog = 'loud'\n").unwrap();
    let mut command = rig.daemon_command();
    let command = command.arg("--config").arg(rig.path("bad.toml")).env("MGCOMP_DAEMON_LGO", "debug");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let message = text(&output.stderr);
    for word in ["sokcet", "loud", "token_file", "tls_cert", "environment MGCOMP_DAEMON_LGO: is no setting"] {
        assert!(message.contains(word), "{word}: {message}");
    }
}

#[test]
fn a_reload_keeps_what_is_good_and_refuses_what_is_not() {
    let mut rig = Rig::empty();
    let config = rig.path("daemon.toml");
    std::fs::write(&config, "max_watchers = 1\n").unwrap();
    rig.start_with(&["--config", config.to_str().unwrap()]);

    let watch = || rig.mgcomp(&["watch", "--interval-ms", "100", "--count", "1"]);

    // What is wrong changes nothing: there is room for one watcher still, and for no other beside it.
    std::fs::write(&config, "max_watchers = 'none'\n").unwrap();
    rig.signal("HUP");
    let first = rig.watcher();
    assert!(text(&watch().stderr).contains("RESOURCE_EXHAUSTED"));
    std::fs::write(&config, "max_watchers = 5\nlog = 'debug'\n").unwrap();
    rig.signal("HUP");
    until("there is room for more", || watch().status.success());
    drop(first);
    rig.signal("TERM");
    assert_eq!(rig.wait_daemon(), Some(0));
}

#[test]
fn the_service_manager_is_told() {
    let rig = Rig::empty();
    let manager = UnixDatagram::bind(rig.path("notify")).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let told = || {
        let mut bytes = [0; 64];
        let len = manager.recv(&mut bytes).unwrap();
        text(&bytes[..len])
    };
    let mut command = rig.daemon_command();
    command.env("NOTIFY_SOCKET", rig.path("notify")).stderr(Stdio::null());
    let mut daemon = Ended(command.spawn().unwrap());
    assert_eq!(told(), "READY=1");
    rig.succeed(&["jobs"]);
    send_signal("TERM", daemon.0.id());
    assert_eq!(told(), "STOPPING=1");
    assert_eq!(daemon.wait().code(), Some(0));
}

#[test]
fn damaged_settings_are_not_overwritten() {
    let rig = Rig::empty();
    std::fs::create_dir(rig.path("state")).unwrap();
    let path = rig.path("state").join("settings.json");
    std::fs::write(&path, "{\"version\":1,").unwrap();
    let output = rig.daemon_command().output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("move it away"), "{}", text(&output.stderr));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"version\":1,");
}

#[test]
fn a_setting_that_cannot_be_kept_is_refused() {
    let rig = Rig::start(&[]);
    rig.succeed(&["lambda", "set", "1"]);
    // As good as a full disk, and to be had without one.
    std::fs::rename(rig.path("state"), rig.path("elsewhere")).unwrap();
    rig.fail(&["lambda", "set", "2"], &["RESOURCE_EXHAUSTED", "nothing was changed"]);
    assert_eq!(rig.json(&["lambda", "get"])[0]["lambda_gbps"], 1.0);
    rig.succeed(&["lambda", "set", "3", "--volatile"]);
    assert_eq!(rig.json(&["lambda", "get"])[0]["lambda_gbps"], 3.0);
    std::fs::rename(rig.path("elsewhere"), rig.path("state")).unwrap();
    let kept = || std::fs::read_to_string(rig.path("state").join("settings.json")).unwrap();
    until("it is kept when there is room again", || kept().contains("\"lambda_gbps\":3.0"));
}
