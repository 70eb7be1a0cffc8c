//! What ranks leave where they end: children that they have forked, and listeners that nobody has connected to.
#![allow(unsafe_code)] // a fork, and memory that is lent to the plugin

use std::net::TcpStream;
use std::thread;

use mgcomp_nccl_net::abi::loaded::CallError;
use mgcomp_nccl_net::abi::{INVALID_ARGUMENT, MAX_REQUESTS, REMOTE_ERROR, Status};
use mgcomp_tests::data::{Kind, bytes};
use mgcomp_tests::proxy::relay::address;
use mgcomp_tests::proxy::{End, Plugin, connected, library, poll};

use super::Outcome;

const NEWEST: u32 = 12;

/// A child that has copies of all files of this process, and does nothing. It ends when this goes.
struct Child(libc::pid_t);

impl Child {
    fn fork() -> std::io::Result<Self> {
        // SAFETY: the child makes calls of the system alone, and never returns.
        let child = unsafe { libc::fork() };
        if child == 0 {
            loop {
                // SAFETY: it takes numbers, and the second none.
                unsafe {
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                    libc::pause();
                }
            }
        }
        if child < 0 { Err(std::io::Error::last_os_error()) } else { Ok(Self(child)) }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: a child that was not waited for, so nobody else has its number; nobody wants its status.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), 0);
        }
    }
}

/// Whatever is closed is closed for the other side, whoever has copies of its sockets.
pub(crate) fn child() -> Outcome {
    let plugin = Plugin::start(&library(), NEWEST, 1)?;
    let connect = || connected(plugin, plugin, |_| ());
    let [ended, idle, full] = [connect()?, connect()?, connect()?];
    let (listener, handle) = plugin.listen()?;
    let _child = Child::fork()?;
    sender_ends(ended)?;
    receiver_ends(idle, 0)?;
    receiver_ends(full, MAX_REQUESTS)?;
    listener.close_listen()?;
    assert_eq!(plugin.connect(handle).expect_err("nobody listens").status, REMOTE_ERROR);
    Ok(String::new())
}

/// What was sent before still comes.
fn sender_ends((sender, receiver): (End, End)) -> Result<(), CallError> {
    const LEN: usize = 100_000;
    let data = bytes(Kind::Mixed, 3 * LEN, 10);
    for piece in data.chunks(LEN) {
        // SAFETY: the data stays for longer than the end.
        let sent = poll("room", || unsafe { sender.send(piece.as_ptr(), LEN) })?;
        poll("a send", || sender.test(sent))?;
    }
    sender.close_send()?;
    let mut room = vec![0u8; LEN];
    let start = room.as_mut_ptr();
    // SAFETY: the room stays for longer than the end.
    let receive = || poll("room", || unsafe { receiver.receive(start, LEN, 0) });
    for piece in data.chunks(LEN) {
        let received = receive()?;
        assert_eq!(poll("a receive", || receiver.test(received))?, LEN);
        // SAFETY: the room has so many bytes, and the request is done.
        assert!(unsafe { std::slice::from_raw_parts(start, LEN) } == piece);
    }
    let failed = receive().and_then(|request| poll("the end", || receiver.test(request)));
    assert_eq!(status(failed), REMOTE_ERROR);
    receiver.close_recv()
}

/// The sender hears of it, also where it waits for room since `before` messages were sent that nobody takes.
fn receiver_ends((sender, receiver): (End, End), before: usize) -> Result<(), CallError> {
    const LEN: usize = 1 << 20;
    let data = bytes(Kind::Dense, LEN, 11);
    // SAFETY: the data stays for longer than the end.
    let send = || unsafe { sender.send(data.as_ptr(), LEN) };
    let mut requests = Vec::new();
    for _ in 0..before {
        requests.extend(send()?);
    }
    receiver.close_recv()?;
    let failed = loop {
        let request = match requests.is_empty() {
            true => poll("room", send),
            false => Ok(requests.remove(0)),
        };
        let sent = request.and_then(|request| poll("a send", || sender.test(request)));
        if sent.is_err() {
            break sent;
        }
    };
    assert_eq!(status(failed), REMOTE_ERROR);
    sender.close_send()
}

/// Listeners that NCCL leaves, as where it aborts before anybody has connected, go with their context.
pub(crate) fn listeners() -> Outcome {
    let [ends, stays] = [Plugin::start(&library(), NEWEST, 1)?, Plugin::start(&library(), NEWEST, 2)?];
    let (left, handle) = ends.listen()?;
    let (kept, kept_handle) = stays.listen()?;
    let mut early = handle;
    assert!(stays.try_connect(&mut early)?.is_none(), "nobody has answered");
    ends.finalize()?;
    assert_eq!(status(left.try_accept()), INVALID_ARGUMENT);
    assert_eq!(status(poll("who came before", || stays.try_connect(&mut early))), REMOTE_ERROR);
    assert_eq!(status(stays.connect(handle)), REMOTE_ERROR);

    let accepting = thread::spawn(move || kept.accept());
    let sender = stays.connect(kept_handle)?;
    let receiver = accepting.join().expect("no panic")?;
    sender.close_send()?;
    receiver.close_recv()?;
    stays.finalize()?;
    assert!(TcpStream::connect(address(&kept_handle)).is_err(), "nobody listens any more");
    Ok(String::new())
}

fn status<T: std::fmt::Debug>(called: Result<T, CallError>) -> Status {
    called.expect_err("an error").status
}
