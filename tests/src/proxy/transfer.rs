//! The proxy's loops: eight slots, of which each is filled, sent, received, compared and used again.

use std::thread;
use std::time::Instant;

use super::{End, HANGS, Request, Result};

/// Slots of a connection.
pub const SLOTS: usize = 8;
/// What fills memory that nothing has been received to.
const EMPTY: u8 = 0xa5;

/// How messages follow each other.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The most bytes of a message, and the room for each.
    pub slice: usize,
    /// How requests for receives come in: 1 if nobody has to be told that they are done.
    pub marker: usize,
}

/// Cuts `len` bytes into messages: most as long as a slice, some shorter, as they are at the end of what NCCL's kernels do.
#[must_use]
pub fn cut(len: usize, slice: usize) -> Vec<std::ops::Range<usize>> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < len {
        let piece = match pieces.len() % 7 {
            3 => slice / 2,
            5 => (slice / 16 / 3 * 16).max(16.min(slice)),
            _ => slice,
        };
        let end = len.min(at + piece.max(1));
        pieces.push(at..end);
        at = end;
    }
    pieces
}

/// Bounds how long a loop waits for something to happen.
struct Watch(Instant);

impl Watch {
    fn idle(&self, what: &str) {
        assert!(self.0.elapsed() < HANGS, "{what} hangs");
        thread::yield_now();
    }
}

/// Sends all of `data`, in pieces.
///
/// # Errors
/// What the plugin says.
///
/// # Panics
/// If it says what is not so, or hangs.
pub fn send(end: End, data: &[u8], plan: Plan) -> Result<()> {
    let mut slots = vec![vec![0u8; plan.slice]; SLOTS];
    let sent = send_from(&mut slots, end, data, plan);
    keep(slots, &sent);
    sent
}

/// Memory of requests that came to nothing is the plugin's until the end is closed, so it stays.
fn keep(slots: Vec<Vec<u8>>, result: &Result<()>) {
    if result.is_err() {
        std::mem::forget(slots);
    }
}

fn send_from(slots: &mut [Vec<u8>], end: End, data: &[u8], plan: Plan) -> Result<()> {
    let pieces = cut(data.len(), plan.slice);
    let mut requests: Vec<Request> = Vec::with_capacity(pieces.len());
    let (mut filled, mut done) = (0, 0);
    let watch = Watch(Instant::now());
    while done < pieces.len() {
        let mut moved = false;
        let posted = requests.len();
        if filled == posted && filled < pieces.len() && filled - done < SLOTS {
            let piece = &data[pieces[filled].clone()];
            slots[filled % SLOTS][..piece.len()].copy_from_slice(piece);
            filled += 1;
        }
        if posted < filled {
            let slot = &slots[posted % SLOTS];
            // SAFETY: the slot is not written before its request is done, and stays if it never is.
            if let Some(request) = unsafe { end.send(slot.as_ptr(), pieces[posted].len()) }? {
                requests.push(request);
                moved = true;
            }
        }
        if done < requests.len()
            && let Some(bytes) = end.test(requests[done])?
        {
            assert_eq!(bytes, pieces[done].len(), "what message {done} is said to be");
            slots[done % SLOTS].fill(EMPTY);
            (done, moved) = (done + 1, true);
        }
        if !moved {
            watch.idle("sending");
        }
    }
    Ok(())
}

/// Receives what [`send`] sends, and compares every byte with `data`.
///
/// # Errors
/// What the plugin says.
///
/// # Panics
/// If a byte differs, or it hangs.
pub fn receive(end: End, data: &[u8], plan: Plan) -> Result<()> {
    let mut slots = vec![vec![EMPTY; plan.slice + 16]; SLOTS];
    let received = receive_to(&mut slots, end, data, plan);
    keep(slots, &received);
    received
}

fn receive_to(slots: &mut [Vec<u8>], end: End, data: &[u8], plan: Plan) -> Result<()> {
    let pieces = cut(data.len(), plan.slice);
    let mut requests: Vec<Request> = Vec::with_capacity(pieces.len());
    let mut done = 0;
    let watch = Watch(Instant::now());
    while done < pieces.len() {
        let mut moved = false;
        let posted = requests.len();
        if posted < pieces.len() && posted - done < SLOTS {
            let room = slots[posted % SLOTS].as_mut_ptr();
            // SAFETY: the slot is nobody else's before its request is done, and stays if it never is.
            if let Some(request) = unsafe { end.receive(room, plan.slice, plan.marker) }? {
                requests.push(request);
                moved = true;
            }
        }
        if done < requests.len()
            && let Some(bytes) = end.test(requests[done])?
        {
            let slot = &mut slots[done % SLOTS];
            let piece = &data[pieces[done].clone()];
            assert_eq!(bytes, piece.len(), "the length of message {done}");
            assert!(slot[..bytes] == *piece, "the bytes of message {done}");
            assert!(slot[bytes..].iter().all(|&byte| byte == EMPTY), "bytes behind message {done}");
            slot.fill(EMPTY);
            (done, moved) = (done + 1, true);
        }
        if !moved {
            watch.idle("receiving");
        }
    }
    Ok(())
}

/// Sends and receives `data` from two threads.
///
/// # Errors
/// What the plugins say, the receiver's first.
///
/// # Panics
/// As [`receive`].
pub fn exchange(sender: End, receiver: End, data: &[u8], plan: Plan) -> Result<()> {
    thread::scope(|scope| {
        let sending = scope.spawn(move || send(sender, data, plan));
        let received = receive(receiver, data, plan);
        received.and(sending.join().expect("sending does not panic"))
    })
}
