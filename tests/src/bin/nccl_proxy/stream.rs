//! A stream of messages from one process to another, as fast as it goes: what figures are made with.
#![allow(unsafe_code)] // memory that is lent to the plugin

use std::time::{Duration, Instant};

use mgcomp_nccl_net::abi::HANDLE_LEN;
use mgcomp_tests::proxy::transfer::SLOTS;
use mgcomp_tests::proxy::{End, Handle, Plugin, Request, library, poll};

use super::Outcome;

const NEWEST: u32 = 12;
/// All-reduce by the protocol Simple, as `setNetAttr` says it.
const KIND: (u32, u32) = (1 << 4, 1 << 2);
/// So many times everything is compared; later a few bytes of each message.
const COMPARED_ROUNDS: usize = 2;

/// Receives what `send` sends, at the handle that it prints; says how fast that was.
pub(crate) fn receive(file: &str, slice: &str) -> Outcome {
    let (data, slice) = (std::fs::read(file)?, slice.parse::<usize>()?);
    let plugin = Plugin::start(&library(), NEWEST, 1)?;
    plugin.set_kind(KIND.0, KIND.1)?;
    let (listener, handle) = plugin.listen()?;
    println!("{}", write_handle(handle));
    let end = listener.accept()?;
    let pieces: Vec<&[u8]> = data.chunks(slice).collect();
    let mut slots = vec![vec![0u8; slice]; SLOTS];
    let mut requests = Vec::new();
    let (mut done, mut bytes, mut started) = (0, 0, Instant::now());
    loop {
        if requests.len() - done < SLOTS {
            let room = slots[requests.len() % SLOTS].as_mut_ptr();
            // SAFETY: the slot is used again only when its request is done; the process ends with the others.
            requests.extend(unsafe { end.receive(room, slice, 0) }?);
        }
        let Some(len) = end.test(requests[done])? else {
            std::thread::yield_now();
            continue;
        };
        if len == 0 {
            break;
        }
        check(&slots[done % SLOTS][..len], pieces[done % pieces.len()], done / pieces.len());
        if done == 0 {
            started = Instant::now();
        } else {
            bytes += len;
        }
        done += 1;
    }
    let gbps = bytes as f64 * 8.0 / started.elapsed().as_nanos() as f64;
    end.close_recv()?;
    Ok(format!("{gbps:.4} Gb/s, {done} messages, {bytes} bytes"))
}

fn check(found: &[u8], expected: &[u8], round: usize) {
    let ends =
        |bytes: &[u8]| [bytes.first().copied(), bytes.last().copied(), bytes.get(bytes.len() / 2).copied()];
    let equal = if round < COMPARED_ROUNDS { found == expected } else { ends(found) == ends(expected) };
    assert!(equal && found.len() == expected.len(), "a message has other bytes than were sent");
}

/// Sends the file again and again for some seconds, to whoever has printed `handle`.
pub(crate) fn send(handle: &str, file: &str, slice: &str, seconds: &str) -> Outcome {
    let (data, slice) = (std::fs::read(file)?, slice.parse::<usize>()?);
    let plugin = Plugin::start(&library(), NEWEST, 1)?;
    plugin.set_kind(KIND.0, KIND.1)?;
    let end = plugin.connect(read_handle(handle)?)?;
    let until = Instant::now() + Duration::from_secs_f64(seconds.parse()?);
    let pieces: Vec<&[u8]> = data.chunks(slice).collect();
    let mut requests: Vec<Request> = Vec::new();
    let mut done = 0;
    while Instant::now() < until {
        if requests.len() - done < SLOTS {
            // SAFETY: the data stays until the process ends.
            requests.extend(unsafe { post(end, pieces[requests.len() % pieces.len()]) }?);
        }
        if done < requests.len() && end.test(requests[done])?.is_some() {
            done += 1;
        } else {
            std::thread::yield_now();
        }
    }
    // A message without a byte is the last one, and there is one for each receive that may wait.
    for _ in 0..SLOTS {
        // SAFETY: there are no bytes.
        requests.push(poll("the last message", || unsafe { post(end, &[]) })?);
    }
    for &request in &requests[done..] {
        poll("what is under way", || end.test(request))?;
    }
    end.close_send()?;
    Ok(String::new())
}

/// # Safety
/// The bytes stay.
unsafe fn post(end: End, bytes: &[u8]) -> mgcomp_tests::proxy::Result<Option<Request>> {
    // SAFETY: as the caller says.
    unsafe { end.send(bytes.as_ptr(), bytes.len()) }
}

/// A handle as text.
pub(crate) fn write_handle(handle: Handle) -> String {
    handle.map(|byte| format!("{byte:02x}")).concat()
}

/// The handle that a text says.
pub(crate) fn read_handle(text: &str) -> Result<Handle, Box<dyn std::error::Error>> {
    let bytes =
        text.as_bytes().chunks(2).map(|digits| Ok(u8::from_str_radix(std::str::from_utf8(digits)?, 16)?));
    let bytes: Vec<u8> = bytes.collect::<Result<_, Box<dyn std::error::Error>>>()?;
    <[u8; HANDLE_LEN]>::try_from(bytes).map_err(|_| "a handle has 256 digits".into())
}
