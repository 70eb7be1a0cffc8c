//! A process's page, and the thread that hands it to the daemon whenever there is one.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType};

use mgcomp_codecs::background;

use super::claims::Claims;
use super::handover::{self, Answer, NEW_SLOTS};
use super::identity::Identity;
use super::page::Page;
use super::switch::is_switched_off;

/// The variable that says where the daemon listens; empty = look for none.
const SOCKET: &str = "MGCOMP_SOCKET";
/// How long until the daemon is looked for again.
const RETRY: Duration = Duration::from_millis(250);
/// The same if it does not want this process.
const RETRY_REFUSED: Duration = Duration::from_secs(5);

/// A process's control page while it is to be seen by the daemon.
///
/// Nodes hold one for as long as they live. A program that wants its counters to outlive its nodes holds one itself.
#[derive(Debug)]
pub struct Attachment {
    shared: Arc<Shared>,
    claims: Mutex<Claims>,
    pid: u32,
    thread: Option<JoinHandle<()>>,
}

/// What the thread sees as well.
#[derive(Debug)]
struct Shared {
    page: Arc<Page>,
    file: OwnedFd,
    sockets: Vec<PathBuf>,
    /// Wakes the thread.
    wake: OwnedFd,
    over: AtomicBool,
}

/// The page of this process, shared by all who ask for it at the same time; `None` if `MGCOMP=off` says so, or if the
/// system gives no memory file or thread, which is logged.
#[must_use]
pub fn attach() -> Option<Arc<Attachment>> {
    static OF_THIS_PROCESS: Mutex<Weak<Attachment>> = Mutex::new(Weak::new());

    if is_switched_off() {
        return None;
    }
    let known = || OF_THIS_PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
    // One from before a fork belongs to the parent, whose thread is not here.
    let current = |known: &Weak<Attachment>| known.upgrade().filter(|one| one.pid == std::process::id());
    if let Some(attachment) = current(&known()) {
        return Some(attachment);
    }
    // Without the lock, which a child that is forked meanwhile would find held for ever.
    let started = Attachment::start(sockets()).map(Arc::new);
    let started = started
        .inspect_err(|error| tracing::warn!(%error, "no control page: the daemon will not see this process"));
    let started = started.ok()?;
    let mut known = known();
    // Another thread may have been sooner; then this one's goes, once the lock is free.
    if let Some(sooner) = current(&known) {
        return Some(sooner);
    }
    *known = Arc::downgrade(&started);
    Some(started)
}

/// Where a daemon may be listening, the most likely first.
#[must_use]
pub fn sockets() -> Vec<PathBuf> {
    let var = |name| std::env::var_os(name);
    match var(SOCKET) {
        Some(path) if path.is_empty() => Vec::new(),
        Some(path) => vec![path.into()],
        None => {
            let of_user = var("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
            let of_user = of_user.map(|folder| PathBuf::from(folder).join("mgcomp.sock"));
            of_user.into_iter().chain([PathBuf::from("/run/mgcomp/mgcomp.sock")]).collect()
        }
    }
}

impl Attachment {
    /// A new page, offered to the daemon on whichever of `sockets` it listens.
    ///
    /// Programs use [`attach`]; this is for tests and benches, which play many programs.
    ///
    /// # Errors
    /// What the system says if it gives no memory file or thread.
    pub fn start(sockets: Vec<PathBuf>) -> io::Result<Self> {
        let (page, file) = Page::create(&Identity::of_this_process())?;
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let over = AtomicBool::new(false);
        let shared = Arc::new(Shared { page: Arc::new(page), file, sockets, wake, over });
        let thread = match shared.sockets.is_empty() {
            true => None,
            false => {
                let shared = shared.clone();
                Some(background::spawn("mgcomp-control", move || shared.run())?)
            }
        };
        Ok(Self { shared, claims: Mutex::default(), pid: std::process::id(), thread })
    }

    /// The page.
    #[must_use]
    pub fn page(&self) -> &Arc<Page> {
        &self.shared.page
    }

    pub(super) fn claims(&self) -> &Mutex<Claims> {
        &self.claims
    }

    /// Lets the daemon know that there are slots that it has not seen.
    pub(super) fn tell_of_slots(&self) {
        self.shared.wake();
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        if self.pid != std::process::id() {
            return; // in a child, where the thread does not exist
        }
        self.shared.over.store(true, Ordering::Release);
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn wake(&self) {
        // Fails only when the counter is full, and then the thread is about to wake anyway.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Until it is over: finds the daemon, tells it of the page, and finds it again when it was gone.
    fn run(&self) {
        let (mut said_no, mut out_of_reach) = (false, false);
        while !self.over.load(Ordering::Acquire) {
            let wait = match self.find(&mut out_of_reach) {
                None => RETRY,
                Some(socket) => match self.talk(&socket) {
                    Ok(()) => RETRY,
                    Err(reason) => {
                        if !said_no {
                            tracing::warn!(reason, "the daemon does not take this process");
                        }
                        said_no = true;
                        RETRY_REFUSED
                    }
                },
            };
            self.sleep(wait);
        }
    }

    /// The first socket on which the daemon listens. Of one that it could not listen on for this process is told, once.
    fn find(&self, was_told: &mut bool) -> Option<OwnedFd> {
        self.sockets.iter().find_map(|path| {
            let failed = connect(path).map_err(|error| {
                if !may_come(error) && !std::mem::replace(was_told, true) {
                    tracing::warn!(path = %path.display(), %error, "the daemon's socket is out of reach");
                }
            });
            failed.ok()
        })
    }

    /// Until the daemon is gone, or all is over. An error says why it does not want this process.
    fn talk(&self, socket: &OwnedFd) -> Result<(), String> {
        let ended = self.offer_and_hear(socket);
        // Children that the program has forked hold the socket as well, and to close it here would not end it.
        let _ = rustix::net::shutdown(socket, Shutdown::Both);
        ended
    }

    fn offer_and_hear(&self, socket: &OwnedFd) -> Result<(), String> {
        if handover::offer(socket, self.file.as_fd()).is_err() {
            return Ok(());
        }
        let mut answered = Some(Vec::new());
        while !self.over.load(Ordering::Acquire) {
            let mut polled = [PollFd::new(socket, PollFlags::IN), PollFd::new(&self.wake, PollFlags::IN)];
            if rustix::event::poll(&mut polled, None).is_err() {
                continue; // a signal
            }
            let (heard, woken) = (!polled[0].revents().is_empty(), !polled[1].revents().is_empty());
            if heard {
                let mut bytes = [0; 256];
                match rustix::net::recv(socket, &mut bytes[..], RecvFlags::DONTWAIT) {
                    Ok((0, _)) => return Ok(()),
                    Ok((len, _)) => hear(&mut answered, &bytes[..len])?,
                    Err(Errno::AGAIN | Errno::INTR) => {}
                    Err(_) => return Ok(()),
                }
            }
            if woken {
                self.clear_wake();
                // A full buffer holds more of these bytes already.
                let _ = rustix::net::send(socket, &[NEW_SLOTS], SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
            }
        }
        Ok(())
    }

    fn sleep(&self, time: Duration) {
        let timeout = Timespec::try_from(time).unwrap_or_default();
        let mut polled = [PollFd::new(&self.wake, PollFlags::IN)];
        if self.over.load(Ordering::Acquire) {
            return;
        }
        let _ = rustix::event::poll(&mut polled, Some(&timeout));
        self.clear_wake();
    }

    fn clear_wake(&self) {
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
    }
}

/// Takes in bytes of the daemon; after its answer they mean nothing.
fn hear(answered: &mut Option<Vec<u8>>, bytes: &[u8]) -> Result<(), String> {
    let Some(so_far) = answered else { return Ok(()) };
    so_far.extend_from_slice(bytes);
    match handover::read_answer(so_far) {
        Answer::Incomplete => Ok(()),
        Answer::Adopted => {
            *answered = None;
            Ok(())
        }
        Answer::Refused(reason) => Err(reason),
        Answer::Nonsense => Err("its answer makes no sense".to_owned()),
    }
}

/// A connection to whoever listens at `path`; never waits.
/// Whether somebody may listen later where connecting has failed like this.
fn may_come(error: Errno) -> bool {
    matches!(error, Errno::NOENT | Errno::CONNREFUSED | Errno::AGAIN | Errno::INTR)
}

fn connect(path: &std::path::Path) -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::time::Instant;

    use super::*;

    /// The next process that comes, and its page.
    fn adopt(listener: &UnixListener) -> (UnixStream, Page) {
        let (mut stream, _) = listener.accept().unwrap();
        let page = Page::adopt(handover::take(&stream).unwrap()).unwrap();
        stream.write_all(&handover::answer(None)).unwrap();
        (stream, page)
    }

    #[test]
    fn the_daemon_gets_the_page_again_when_it_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let attachment = Attachment::start(vec![path.clone()]).unwrap();
        for _ in 0..2 {
            let listener = UnixListener::bind(&path).unwrap();
            let (mut stream, page) = adopt(&listener);
            assert_eq!(page.identity().unwrap().pid, std::process::id());
            attachment.tell_of_slots();
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            assert_eq!(byte, [NEW_SLOTS]);
            drop((listener, stream));
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn it_ends_at_once_whatever_the_daemon_does() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let started = Instant::now();
        let nobody = Attachment::start(vec![path.clone()]).unwrap();
        drop(nobody);
        let listener = UnixListener::bind(&path).unwrap();
        // Listens, but never says anything.
        let attachment = Attachment::start(vec![path]).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        drop(attachment);
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        assert!(rest.starts_with(&handover::GREETING));
        assert!(started.elapsed() < Duration::from_secs(20), "hung");
    }

    #[test]
    fn the_daemon_sees_the_end_though_a_child_holds_the_socket() {
        let nobody = Attachment::start(Vec::new()).unwrap();
        nobody.shared.over.store(true, Ordering::Release);
        let (program, mut daemon) = UnixStream::pair().unwrap();
        let _of_child = program.try_clone().unwrap();
        nobody.shared.talk(&program.into()).unwrap();
        // Far longer than it takes.
        daemon.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut rest = Vec::new();
        daemon.read_to_end(&mut rest).unwrap();
        assert!(rest.starts_with(&handover::GREETING));
    }

    #[test]
    fn nonsense_from_a_daemon_is_not_believed() {
        let mut answered = Some(Vec::new());
        assert!(hear(&mut answered, b"HTTP/1.1 400 Bad Request").is_err());
        let mut answered = Some(Vec::new());
        assert_eq!(hear(&mut answered, &handover::answer(None)), Ok(()));
        assert_eq!((hear(&mut answered, b"whatever"), answered), (Ok(()), None));
        let refused = handover::answer(Some("too many processes"));
        assert_eq!(hear(&mut Some(Vec::new()), &refused), Err("too many processes".to_owned()));
    }
}
