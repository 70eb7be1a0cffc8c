//! Daemons that do not answer.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use crate::rig::{Rig, text};

/// Far longer than the limits that are set here, and far shorter than for ever.
const HANGS: Duration = Duration::from_secs(60);

/// Runs what must give up on whoever is at `place`.
#[track_caller]
fn gives_up(rig: &Rig, args: &[&str], place: &str, seconds: &str) {
    let started = Instant::now();
    let output = rig.mgcomp_command(args).output().unwrap();
    let expected = format!("mgcomp: the daemon at {place} has not answered within {seconds} s\n");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), expected), "{args:?}");
    assert!(started.elapsed() < HANGS, "{args:?}");
}

#[test]
fn a_port_that_says_nothing_is_given_up() {
    let rig = Rig::empty();
    let (unix, tcp) = (UnixListener::bind(rig.socket()).unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let (socket, address) = (rig.socket().display().to_string(), tcp.local_addr().unwrap().to_string());
    let commands: [&[&str]; 8] = [
        &["status"],
        &["jobs"],
        &["top"],
        &["watch"],
        &["off"],
        &["lambda", "get"],
        &["histogram", "raw-bytes"],
        &["calibrate", "--daemon"],
    ];
    for command in commands {
        let args = [command, &["--socket", &socket, "--timeout", "0.2"]].concat();
        gives_up(&rig, &args, &socket, "0.2");
    }
    for address in [address.clone(), format!("https://{address}")] {
        let place = address.trim_start_matches("https://");
        gives_up(&rig, &["jobs", "--address", &address, "--timeout", "0.2"], place, "0.2");
    }
    gives_up(&rig, &["jobs", "--socket", &socket], &socket, "5");
    for wrong in ["0", "-1", "nan", "soon"] {
        let args = ["jobs", "--socket", &socket, &format!("--timeout={wrong}")];
        assert_eq!(rig.mgcomp_command(&args).output().unwrap().status.code(), Some(2), "{wrong}");
    }
    drop((unix, tcp));
}

#[test]
fn a_daemon_that_is_stopped_is_given_up_but_streams_that_run_are_not() {
    let rig = Rig::start(&[]);
    let exchange = rig.exchange("a", "fixed:zvc");
    rig.until_stream("is seen", "a", |_| true);
    let mut command = rig.mgcomp_command(&["watch", "--interval-ms", "100", "--json", "--timeout", "2"]);
    command.arg("--socket").arg(rig.socket()).stdout(std::process::Stdio::piped());
    let mut watcher = crate::rig::Ended(command.spawn().unwrap());
    let mut lines = std::io::BufReader::new(watcher.0.stdout.take().unwrap());
    assert!(lines.read(&mut [0]).unwrap() > 0);

    rig.signal("STOP");
    let socket = rig.socket().display().to_string();
    gives_up(&rig, &["jobs", "--socket", &socket, "--timeout", "3"], &socket, "3");
    rig.signal("CONT");
    // It has been silent for longer than it may be for an answer.
    for _ in 0..2 {
        std::io::BufRead::read_line(&mut lines, &mut String::new()).unwrap();
    }
    assert!(watcher.0.try_wait().unwrap().is_none(), "the watcher has ended");
    exchange.finish();
}

#[test]
fn what_is_no_daemon_is_told() {
    let rig = Rig::empty();
    let listener = UnixListener::bind(rig.socket()).unwrap();
    let answers = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.write_all(b"SSH-2.0-OpenSSH\r\n");
    });
    let socket = rig.socket().display().to_string();
    rig.fail(&["jobs"], &[&format!("mgcomp: what is at {socket} does not speak as mgcomp-daemon does: ")]);
    answers.join().unwrap();
}
