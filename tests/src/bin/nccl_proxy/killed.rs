//! A rank that is killed in the middle of a message.
#![allow(unsafe_code)] // memory that is lent to the plugin

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use mgcomp_nccl_net::abi::REMOTE_ERROR;
use mgcomp_tests::data::{Kind, bytes};
use mgcomp_tests::proxy::transfer::{Plan, exchange};
use mgcomp_tests::proxy::{HANGS, Plugin, connected, library, poll};

use super::Outcome;
use super::stream::{read_handle, write_handle};

const NEWEST: u32 = 12;
/// More than the system keeps of a connection, so whoever is killed is in the middle of one.
const SLICE: usize = 32 << 20;

/// This end hears of it, whichever it is, and all else goes on. `file` is a slice to send.
pub(crate) fn killed(file: &str) -> Outcome {
    let plugin = Plugin::start(&library(), NEWEST, 1)?;
    let (sender, receiver) = connected(plugin, plugin, |_| ())?;
    let (data, plan) = (bytes(Kind::Mixed, 3 << 20, 8), Plan { slice: 128 << 10, marker: 0 });
    exchange(sender, receiver, &data, plan)?;
    sender_is_killed(plugin, file)?;
    receiver_is_killed(plugin, file)?;
    exchange(sender, receiver, &data, plan)?;
    sender.close_send()?;
    receiver.close_recv()?;
    plugin.finalize()?;
    Ok(String::new())
}

fn sender_is_killed(plugin: Plugin, file: &str) -> Result<(), Box<dyn std::error::Error>> {
    let (listener, handle) = plugin.listen()?;
    let mut other = start(&["send", &write_handle(handle), file, &SLICE.to_string(), "60"])?;
    let end = listener.accept()?;
    let mut room = vec![0u8; SLICE];
    // SAFETY: the room stays until the end is closed.
    let mut receive = || poll("room", || unsafe { end.receive(room.as_mut_ptr(), SLICE, 0) });
    let mut received = 0;
    let failed = loop {
        let message = receive().and_then(|request| poll("a message", || end.test(request)));
        match message {
            Ok(len) => assert_eq!(len, SLICE),
            Err(error) => break error,
        }
        received += 1;
        if received == 1 {
            kill(&mut other)?;
        }
    };
    assert_eq!((failed.status, received >= 1), (REMOTE_ERROR, true));
    end.close_recv()?;
    listener.close_listen()?;
    Ok(())
}

fn receiver_is_killed(plugin: Plugin, file: &str) -> Result<(), Box<dyn std::error::Error>> {
    let data = std::fs::read(file)?;
    let mut other = start(&["receive", file, &SLICE.to_string()])?;
    let mut handle = String::new();
    BufReader::new(other.stdout.take().ok_or("it has an output")?).read_line(&mut handle)?;
    let end = plugin.connect(read_handle(handle.trim())?)?;
    let until = Instant::now() + HANGS;
    let mut sent = 0;
    let failed = loop {
        assert!(Instant::now() < until, "nobody says that the other end is gone");
        // SAFETY: the data stays until the end is closed.
        let posted = poll("room", || unsafe { end.send(data.as_ptr(), data.len()) });
        let gone = posted.and_then(|request| poll("a send", || end.test(request)));
        match gone {
            Ok(_) => sent += 1,
            Err(error) => break error,
        }
        if sent == 1 {
            kill(&mut other)?;
        }
    };
    assert_eq!((failed.status, sent >= 1), (REMOTE_ERROR, true));
    end.close_send()?;
    Ok(())
}

fn start(words: &[&str]) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?).args(words).stdout(Stdio::piped()).spawn()
}

fn kill(child: &mut Child) -> std::io::Result<()> {
    child.kill()?;
    child.wait()?;
    Ok(())
}
