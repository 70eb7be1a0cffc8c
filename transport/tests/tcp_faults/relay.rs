//! Stands in a connection's way, and does to it what networks do.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often it looks at what it is to do.
const LOOK: Duration = Duration::from_millis(5);
const CHUNK_BYTES: usize = 16 << 10;

/// What a relay does with what comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conduct {
    /// Passes it on.
    Pass,
    /// Passes it on in chunks, each after a while.
    Slow(Duration),
    /// Takes nothing, and keeps the connection.
    Hold,
    /// Changes a bit of the next whole chunk on the way back, then passes on.
    Flip,
    /// Ends all connections in good order.
    Cut,
    /// Ends the last connection that was made in good order, and passes on what comes over others.
    CutLast,
    /// Ends all connections by a reset.
    Reset,
}

/// A relay of one connection, or of several.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    connections: u32,
    conduct: Arc<Mutex<Conduct>>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// Passes so many connections on to `target`.
    pub(crate) fn to(target: SocketAddr, connections: u32) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let conduct = Arc::new(Mutex::new(Conduct::Pass));
        let shared = conduct.clone();
        let thread = thread::spawn(move || {
            let mut passing = Vec::new();
            for number in 1..=connections {
                let (client, _) = listener.accept().unwrap();
                let (shared, is_last) = (shared.clone(), number == connections);
                passing.push(thread::spawn(move || relay(&client, target, is_last, &shared)));
            }
            drop(listener);
            passing.into_iter().for_each(|passing| passing.join().unwrap());
        });
        Self { address, connections, conduct, thread: Some(thread) }
    }

    pub(crate) fn conduct(&self, conduct: Conduct) {
        *self.conduct.lock().unwrap() = conduct;
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.conduct(Conduct::Cut);
        // Or it waits for those that never came.
        (0..self.connections).for_each(|_| drop(TcpStream::connect(self.address)));
        let ended = self.thread.take().map(JoinHandle::join);
        if !thread::panicking() {
            ended.unwrap().unwrap();
        }
    }
}

/// Passes the bytes of one connection on until it ends.
fn relay(client: &TcpStream, target: SocketAddr, is_last: bool, conduct: &Mutex<Conduct>) {
    let Ok(server) = TcpStream::connect(target) else { return }; // it is over, and nobody is there any more
    // What all are to do, or this one alone.
    let now = move || match *conduct.lock().unwrap() {
        Conduct::CutLast if is_last => Conduct::Cut,
        Conduct::CutLast => Conduct::Pass,
        now => now,
    };
    thread::scope(|scope| {
        for (from, to, is_back) in [(client, &server, false), (&server, client, true)] {
            let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            scope.spawn(move || pass(from, to, is_back, &now, conduct));
        }
    });
    if now() == Conduct::Reset {
        // Closing a socket that lingers for no time resets its connection.
        for stream in [client, &server] {
            rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO)).unwrap();
        }
    }
}

/// Passes bytes on in one direction until either end closes, or it is told to end.
fn pass(
    mut from: TcpStream,
    mut to: TcpStream,
    is_back: bool,
    conduct_now: &impl Fn() -> Conduct,
    conduct: &Mutex<Conduct>,
) {
    for stream in [&from, &to] {
        stream.set_read_timeout(Some(LOOK)).unwrap();
        stream.set_write_timeout(Some(LOOK)).unwrap();
    }
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let now = conduct_now();
        match now {
            Conduct::Cut => break drop((from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both))),
            Conduct::Reset => break,
            Conduct::Hold => thread::sleep(LOOK),
            Conduct::Pass | Conduct::Slow(_) | Conduct::Flip | Conduct::CutLast => {
                let got = match from.read(&mut chunk) {
                    Ok(0) => break drop(to.shutdown(Shutdown::Write)),
                    Ok(got) => got,
                    Err(error) if is_wait(&error) => continue,
                    Err(_) => break drop(to.shutdown(Shutdown::Both)),
                };
                if let Conduct::Slow(pause) = now {
                    thread::sleep(pause);
                }
                if now == Conduct::Flip && is_back && got == CHUNK_BYTES {
                    chunk[got / 2] ^= 4;
                    *conduct.lock().unwrap() = Conduct::Pass;
                }
                if !give(&mut to, &chunk[..got], conduct_now) {
                    break;
                }
            }
        }
    }
}

/// Writes all of it; returns whether that was possible. Not longer than there is a connection to keep.
fn give(to: &mut TcpStream, mut bytes: &[u8], conduct_now: &impl Fn() -> Conduct) -> bool {
    while !bytes.is_empty() {
        match to.write(bytes) {
            Ok(given) => bytes = &bytes[given..],
            Err(error) if is_wait(&error) => {
                if matches!(conduct_now(), Conduct::Cut | Conduct::Reset) {
                    return true; // it ends where it looks next
                }
            }
            Err(_) => return false,
        }
    }
    true
}

fn is_wait(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
