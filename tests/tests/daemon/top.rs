//! `mgcomp top` on a terminal of the test's own.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Termios, Winsize, tcgetattr, tcsetwinsize};

use crate::rig::{Ended, Rig, send_signal, until};

/// The side of the person, and that of the program.
struct Terminal {
    person: File,
    program: OwnedFd,
    drawn: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    fn open() -> Self {
        let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&person).unwrap();
        unlockpt(&person).unwrap();
        let name = ptsname(&person, Vec::new()).unwrap();
        let program = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        tcsetwinsize(&program, Winsize { ws_row: 24, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        Self { person: person.into(), program, drawn: Arc::default() }
    }

    fn modes(&self) -> Termios {
        tcgetattr(&self.program).unwrap()
    }

    /// Whether lines are not edited and keys make no signals any more.
    fn is_raw(&self) -> bool {
        !self.modes().local_modes.intersects(LocalModes::ICANON | LocalModes::ISIG | LocalModes::ECHO)
    }

    /// Starts `top` here and waits until it has the terminal.
    fn top(&self, rig: &Rig) -> Ended {
        let end = || Stdio::from(self.program.try_clone().unwrap());
        let mut command = rig.mgcomp_command(&["top", "--interval-ms", "100", "--timeout", "100"]);
        command.arg("--socket").arg(rig.socket()).env("TERM", "xterm");
        command.stdin(end()).stdout(end()).stderr(end());
        let top = Ended(command.spawn().unwrap());
        let (mut screen, drawn) = (self.person.try_clone().unwrap(), self.drawn.clone());
        std::thread::spawn(move || {
            let mut some = [0; 4096];
            while let Ok(len @ 1..) = screen.read(&mut some) {
                drawn.lock().unwrap().extend_from_slice(&some[..len]);
            }
        });
        until("the terminal is raw", || self.is_raw());
        top
    }

    /// Waits until a text has been drawn, in one piece.
    #[track_caller]
    fn until_drawn(&self, text: &str) {
        let is_drawn = |drawn: &[u8]| drawn.windows(text.len()).any(|some| some == text.as_bytes());
        until(text, || is_drawn(&self.drawn.lock().unwrap()));
    }

    fn type_in(&self, keys: &[u8]) {
        (&self.person).write_all(keys).unwrap();
    }
}

/// What became of `top` after `end`, on a terminal that is as it was.
fn ended(rig: &Rig, end: impl FnOnce(&Terminal, &Ended)) -> ExitStatus {
    let terminal = Terminal::open();
    let before = terminal.modes();
    assert!(!terminal.is_raw());
    let mut top = terminal.top(rig);
    end(&terminal, &top);
    let status = top.wait();
    let after = terminal.modes();
    let modes = |of: &Termios| (of.input_modes, of.output_modes, of.control_modes, of.local_modes);
    assert_eq!(modes(&after), modes(&before), "the terminal is left as it was not before");
    status
}

#[test]
fn the_terminal_is_restored_whatever_ends_it() {
    let rig = Rig::start(&[]);
    for (name, number) in [("TERM", libc::SIGTERM), ("INT", libc::SIGINT), ("HUP", libc::SIGHUP)] {
        let status = ended(&rig, |_, top| send_signal(name, top.0.id()));
        assert_eq!(status.signal(), Some(number), "{name}: {status}");
    }
    for keys in [&b"q"[..], b"\x03"] {
        let status = ended(&rig, |terminal, _| terminal.type_in(keys));
        assert!(status.success(), "{keys:?}: {status}");
    }
}

#[test]
fn levels_take_turns_where_there_is_room_for_one_watcher() {
    let rig = Rig::start(&["--max-watchers", "1"]);
    let status = ended(&rig, |terminal, _| terminal.type_in(b"\t\t\tq"));
    assert!(status.success(), "{status}");
}

#[test]
fn a_terminal_that_the_view_cannot_have_is_as_it_was() {
    let rig = Rig::start(&[]);
    let terminal = Terminal::open();
    let modes = |of: &Termios| (of.input_modes, of.output_modes, of.control_modes, of.local_modes);
    let before = modes(&terminal.modes());
    let mut command = rig.mgcomp_command(&["top", "--timeout", "100"]);
    // Raw it can be made, but nothing can be drawn.
    let full = File::options().write(true).open("/dev/full").unwrap();
    command.arg("--socket").arg(rig.socket()).env("TERM", "xterm");
    command.stdin(Stdio::from(terminal.program.try_clone().unwrap())).stdout(full);
    let output = command.output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && message.contains("the terminal"), "{message}");
    assert_eq!(modes(&terminal.modes()), before);
}

#[test]
fn without_a_terminal_it_is_said_what_to_do() {
    let rig = Rig::start(&[]);
    // In a session of its own, which has none, wherever this test runs.
    let mut command = Command::new("setsid");
    command.arg("--wait").arg(rig.mgcomp_command(&[]).get_program()).args([
        "top",
        "--timeout",
        "100",
        "--socket",
    ]);
    let output = command.arg(rig.socket()).stdin(Stdio::null()).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(
        message.starts_with("mgcomp: there is no terminal") && message.contains("`mgcomp watch`"),
        "{message}"
    );
}

#[test]
fn letters_with_ctrl_change_nothing() {
    let rig = Rig::start(&[]);
    let exchange = rig.exchange("steered", "fixed:zvc");
    rig.until_stream("is seen", "steered", |_| true);
    let terminal = Terminal::open();
    let mut top = terminal.top(&rig);
    // Until there is a row, keys have nothing to change.
    terminal.until_drawn("steered");
    // Off is in effect as soon as it is typed; what comes before it has been read by then.
    terminal.type_in(b"\x0f\x15\x10\x1bo");
    terminal.type_in(b"o");
    until("compression is off", || rig.json(&["lambda", "get", "--job", "steered"])[0]["version"] != 0);
    assert_eq!(rig.json(&["lambda", "get", "--job", "steered"])[0]["version"], 1, "one key, one change");
    // Back on, nothing is left behind that would keep the node's switch from the job.
    rig.until_stream("is seen to be off", "steered", |stream| stream["in_effect"]["compress"] == false);
    until("nothing is set", || {
        // The view may have been drawn before it was off; then the key says so once more.
        terminal.type_in(b"o");
        rig.json(&["lambda", "get", "--job", "steered"])[0]["version"] == 0
    });
    terminal.type_in(b"\x03");
    assert!(top.wait().success());
    exchange.finish();
}
