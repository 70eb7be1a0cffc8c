//! Daemons that do not answer.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use crate::rig::{Ended, Rig, text, until};

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
    let mut begun = None;
    // On a busy machine it may give up before it has begun.
    until("a watcher has begun", || {
        let mut command = rig.mgcomp_command(&["watch", "--interval-ms", "100", "--json", "--timeout", "2"]);
        command.arg("--socket").arg(rig.socket()).stdout(std::process::Stdio::piped());
        let mut watcher = Ended(command.spawn().unwrap());
        let mut lines = std::io::BufReader::new(watcher.0.stdout.take().unwrap());
        let told = lines.read(&mut [0]).unwrap();
        begun = (told > 0).then_some((watcher, lines));
        begun.is_some()
    });
    let (mut watcher, mut lines) = begun.unwrap();

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

/// Runs a command against whoever does this with each connection.
#[track_caller]
fn fails_at(answer: impl FnOnce(UnixStream) + Send + 'static, words: &str) {
    let rig = Rig::empty();
    let listener = UnixListener::bind(rig.socket()).unwrap();
    let answers = std::thread::spawn(move || answer(listener.accept().unwrap().0));
    rig.fail(&["jobs"], &[&words.replace("SOCKET", &rig.socket().display().to_string())]);
    answers.join().unwrap();
}

const NO_DAEMON: &str = "mgcomp: what is at SOCKET does not speak as mgcomp-daemon does: ";

/// The first bytes of a client, and no more of them: enough for one who answers at once.
fn read_some(stream: &mut UnixStream) {
    stream.read_exact(&mut [0; 24]).unwrap();
}

#[test]
fn what_is_no_daemon_is_told() {
    // Whether the client has begun to speak when it ends is by chance, so it is tried some times.
    for _ in 0..5 {
        for said in
            ["SSH-2.0-OpenSSH\r\n", "* OK\r\n", "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"]
        {
            let answer = move |mut stream: UnixStream| drop(stream.write_all(said.as_bytes()));
            fails_at(answer, NO_DAEMON);
            let answer = move |mut stream: UnixStream| {
                read_some(&mut stream);
                answer(stream);
            };
            fails_at(answer, NO_DAEMON);
        }
    }
}

/// As one does that stops, has too many connections, or is killed.
#[test]
fn a_daemon_that_closes_is_not_taken_for_none() {
    const CLOSED: &str = "mgcomp: the daemon at SOCKET closed the connection without an answer: ";
    // A frame of no settings; a word that the connection ends, with no error.
    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    const GO_AWAY: [u8; 17] = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    for _ in 0..5 {
        for said in [vec![], SETTINGS.to_vec(), [&SETTINGS[..], &GO_AWAY].concat()] {
            let later = said.clone();
            fails_at(move |mut stream| drop(stream.write_all(&said)), CLOSED);
            let answer = move |mut stream: UnixStream| {
                read_some(&mut stream);
                let _ = stream.write_all(&later);
            };
            fails_at(answer, CLOSED);
        }
    }
}
