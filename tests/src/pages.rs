//! Control pages of programs, taken as the daemon takes them; they say what was counted after the programs have ended.

use std::fs::File;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use mgcomp_codecs::Algorithm;
use mgcomp_transport::control::handover::take;
use mgcomp_transport::control::{Count, Page, SlotKind, SlotView, sockets};
use tempfile::TempDir;

/// How long until it is looked again.
const PAUSE: Duration = Duration::from_millis(5);

/// Where programs hand their pages over.
#[derive(Debug)]
pub struct Pages {
    folder: TempDir,
    /// The thread ends once this is dropped.
    over: mpsc::Sender<()>,
    thread: JoinHandle<Vec<Taken>>,
}

/// A page, and the connection that it came by: a process whose connection ends offers its page again.
type Taken = (UnixStream, Page);

impl Pages {
    /// Takes those of so many processes, as they come.
    ///
    /// # Panics
    /// If the system gives no socket.
    #[must_use]
    pub fn of(processes: usize) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("socket");
        let listener = UnixListener::bind(&socket).expect("a socket");
        listener.set_nonblocking(true).expect("a socket");
        let (over, waits) = mpsc::channel();
        let thread = thread::spawn(move || {
            let mut pages = Vec::new();
            while pages.len() < processes {
                match listener.accept() {
                    Ok((stream, _)) => pages.push(taken(stream)),
                    Err(_) if waits.recv_timeout(PAUSE) == Err(mpsc::RecvTimeoutError::Timeout) => {}
                    Err(_) => return pages,
                }
            }
            File::create(all_taken(&socket)).expect("a file");
            pages
        });
        Self { folder, over, thread }
    }

    /// What `MGCOMP_SOCKET` has to be for the programs.
    ///
    /// # Panics
    /// If folders have names that are no text.
    #[must_use]
    pub fn socket(&self) -> String {
        self.folder.path().join("socket").to_str().expect("a path that is text").to_owned()
    }

    /// What the processes have counted, each in its slots.
    ///
    /// # Panics
    /// If something was handed over that is no page.
    #[must_use]
    pub fn slots(self) -> Vec<Vec<SlotView>> {
        drop(self.over);
        let pages = self.thread.join().expect("pages");
        let slots = |(_, page): &Taken| (0..page.used()).filter_map(|slot| page.view(slot)).collect();
        pages.iter().map(slots).collect()
    }
}

fn taken(stream: UnixStream) -> Taken {
    let page = Page::adopt(take(&stream).expect("an offer")).expect("a page");
    (stream, page)
}

/// What is there once all pages are taken.
fn all_taken(socket: &Path) -> PathBuf {
    socket.with_extension("taken")
}

/// Waits, in a program, until all pages are taken: one that ends sooner than its thread has begun hands over nothing.
pub fn until_taken() {
    while !sockets().iter().any(|socket| all_taken(socket).exists()) {
        thread::sleep(PAUSE);
    }
}

/// What a process has sent, over all peers and streams.
#[must_use]
pub fn sent(slots: &[SlotView]) -> Count {
    sum(slots.iter().filter(|slot| slot.kind == SlotKind::Sent).map(SlotView::sent))
}

/// What of that went raw.
#[must_use]
pub fn sent_raw(slots: &[SlotView]) -> Count {
    let raw = usize::from(Algorithm::None.number());
    sum(slots.iter().filter(|slot| slot.kind == SlotKind::Sent).map(|slot| slot.algorithms[raw]))
}

/// What it has received.
#[must_use]
pub fn received(slots: &[SlotView]) -> Count {
    sum(slots.iter().filter(|slot| slot.kind == SlotKind::Received).map(|slot| slot.decoded))
}

fn sum(counts: impl Iterator<Item = Count>) -> Count {
    counts.fold(Count::default(), |sum, count| Count {
        transfers: sum.transfers + count.transfers,
        raw_bytes: sum.raw_bytes + count.raw_bytes,
        coded_bytes: sum.coded_bytes + count.coded_bytes,
    })
}
