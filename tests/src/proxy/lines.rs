//! The protocol LL: lines of words, half data and half flag, which the receiving kernel finds by looking at the memory until
//! the flags are right, without waiting for anybody's word.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use super::transfer::SLOTS;
use super::{End, HANGS, Request, Result};

/// Word `i` of message `message`: 4 bytes of data, then 4 bytes of flag.
fn word(message: usize, i: usize) -> u64 {
    // Like small gradients: a codec finds something to do.
    let data = 0x3d00_0000u32 | (message as u32).wrapping_mul(31).wrapping_add(i as u32 * 7) & 0x3fff;
    u64::from(data) | (message as u64 + 1) << 32
}

/// Slots that the plugin writes while a thread looks at them.
struct Slots(Vec<Vec<AtomicU64>>);

impl Slots {
    fn new(words: usize) -> Self {
        Self((0..SLOTS).map(|_| (0..words).map(|_| AtomicU64::new(0)).collect()).collect())
    }

    fn of(&self, message: usize) -> &[AtomicU64] {
        &self.0[message % SLOTS]
    }
}

/// Sends `messages` messages of `words` words each, and has them found by their flags at the other end. Requests for receives
/// come in as `marker`.
///
/// # Errors
/// What the plugins say.
///
/// # Panics
/// If a word with a right flag has wrong data, or it hangs.
pub fn exchange(sender: End, receiver: End, messages: usize, words: usize, marker: usize) -> Result<()> {
    let (slots, found) = (Slots::new(words), AtomicUsize::new(0));
    thread::scope(|scope| {
        let sending = scope.spawn(|| send(sender, messages, words));
        let looking = scope.spawn(|| look(&slots, messages, &found));
        let received = receive(receiver, &slots, messages, &found, marker);
        if received.is_err() {
            found.store(usize::MAX, Ordering::Release);
        }
        looking.join().expect("all flags have the right data");
        received.and(sending.join().expect("sending does not panic"))
    })
}

/// The kernel: takes each word as soon as it has the flag of its message.
fn look(slots: &Slots, messages: usize, found: &AtomicUsize) {
    let started = Instant::now();
    for message in 0..messages {
        for (i, place) in slots.of(message).iter().enumerate() {
            loop {
                let seen = place.load(Ordering::Acquire);
                if seen >> 32 == message as u64 + 1 {
                    assert_eq!(seen, word(message, i), "word {i} of message {message}");
                    break;
                }
                if found.load(Ordering::Acquire) == usize::MAX {
                    return;
                }
                assert!(started.elapsed() < HANGS, "word {i} of message {message} does not come");
                thread::yield_now();
            }
        }
        // The receiver may have given up meanwhile, which must stay.
        let _ = found.compare_exchange(message, message + 1, Ordering::Release, Ordering::Relaxed);
    }
}

fn send(end: End, messages: usize, words: usize) -> Result<()> {
    let mut slots = vec![vec![0u64; words]; SLOTS];
    let mut requests: Vec<Request> = Vec::new();
    let (mut filled, mut done) = (0, 0);
    let started = Instant::now();
    while done < messages {
        if filled == requests.len() && filled < messages && filled - done < SLOTS {
            let slot = slots[filled % SLOTS].iter_mut().enumerate();
            slot.for_each(|(i, place)| *place = word(filled, i));
            filled += 1;
        }
        if requests.len() < filled {
            let slot = &slots[requests.len() % SLOTS];
            // SAFETY: the slot is not written before its request is done.
            requests.extend(unsafe { end.send(slot.as_ptr().cast(), words * 8) }?);
        }
        if done < requests.len() && end.test(requests[done])?.is_some() {
            done += 1;
        } else {
            assert!(started.elapsed() < HANGS, "sending hangs");
            thread::yield_now();
        }
    }
    Ok(())
}

fn receive(end: End, slots: &Slots, messages: usize, found: &AtomicUsize, marker: usize) -> Result<()> {
    let mut requests: Vec<Request> = Vec::new();
    let mut done = 0;
    let started = Instant::now();
    while done < messages || found.load(Ordering::Acquire) < messages {
        let posted = requests.len();
        // A slot is free when its message was found and its request is done.
        let free = done.min(found.load(Ordering::Acquire)) + SLOTS;
        if posted < messages.min(free) {
            let slot = slots.of(posted);
            // SAFETY: the words may be written while others look at them, and stay until the request is done.
            requests.extend(unsafe { end.receive(slot.as_ptr().cast_mut().cast(), slot.len() * 8, marker) }?);
        }
        if done < requests.len()
            && let Some(bytes) = end.test(requests[done])?
        {
            assert_eq!(bytes, slots.of(done).len() * 8, "the length of message {done}");
            done += 1;
        } else {
            assert!(started.elapsed() < HANGS, "receiving hangs");
            thread::yield_now();
        }
    }
    Ok(())
}
