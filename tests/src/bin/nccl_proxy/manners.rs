//! How the plugin is as a guest.
#![allow(unsafe_code)] // a fork, and memory that is lent to the plugin

use std::fs;
use std::io;
use std::thread;
use std::time::Instant;

use mgcomp_nccl_net::abi::{MAX_REQUESTS, PTR_HOST};
use mgcomp_tests::data::{Kind, bytes};
use mgcomp_tests::proxy::transfer::{Plan, exchange};
use mgcomp_tests::proxy::{End, HANGS, Plugin, connected, library, poll};

use super::Outcome;

const NEWEST: u32 = 12;

/// Requests that are more than there is room for are refused, and wait for nobody.
pub(crate) fn crowd() -> Outcome {
    let plugin = Plugin::start(&library(), NEWEST, 1)?;
    let (sender, receiver) = connected(plugin, plugin, |_| ())?;
    let mut room = vec![0u8; 100 * (MAX_REQUESTS + 1)];
    let data = bytes(Kind::Dense, room.len(), 3);
    let (mut sends, mut receives) = (Vec::new(), Vec::new());
    for i in 0..=MAX_REQUESTS {
        // SAFETY: both stay until all is done.
        unsafe {
            sends.extend(sender.send(data[i * 100..].as_ptr(), 100)?);
            receives.extend(receiver.receive(room[i * 100..].as_mut_ptr(), 100, 0)?);
        }
    }
    assert_eq!((sends.len(), receives.len()), (MAX_REQUESTS, MAX_REQUESTS));
    // In any order.
    for &request in receives.iter().rev() {
        assert_eq!(poll("a receive", || receiver.test(request))?, 100);
    }
    for &request in sends.iter().rev() {
        assert_eq!(poll("a send", || sender.test(request))?, 100);
    }
    assert!(room[..100 * MAX_REQUESTS] == data[..100 * MAX_REQUESTS]);
    Ok(String::new())
}

/// Ends are closed with requests under way, and the memory is gone right after.
pub(crate) fn close() -> Outcome {
    let plugin = Plugin::start(&library(), NEWEST, 1)?;
    for turn in 0..20 {
        let (sender, receiver) = connected(plugin, plugin, |_| ())?;
        let data = bytes(Kind::Mixed, 2 << 20, turn);
        let mut room = vec![0u8; data.len()];
        for piece in 0..8 {
            let at = piece << 18;
            // SAFETY: both stay until the ends are closed.
            unsafe {
                sender.send(data[at..].as_ptr(), 1 << 18)?;
                receiver.receive(room[at..].as_mut_ptr(), 1 << 18, 0)?;
            }
        }
        sender.close_send()?;
        receiver.close_recv()?;
    }
    Ok(String::new())
}

/// Memory that can be taken away: who touches it then, is killed.
struct Pages {
    start: *mut u8,
    len: usize,
}

impl Pages {
    fn new(len: usize) -> io::Result<Self> {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: the system chooses a place where nothing is.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, access, kind, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { start: start.cast(), len })
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: so many bytes are there, and are zeros at first; they are taken away by `take`, which ends this.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }

    /// Takes it away. The addresses are nobody else's for as long as the process.
    fn take(self) -> io::Result<()> {
        // SAFETY: nothing of this program looks there any more.
        let taken = unsafe { libc::mprotect(self.start.cast(), self.len, libc::PROT_NONE) };
        if taken == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// As NCCL aborts: memory is deregistered with requests under way in it and is gone right after, and the ends are closed last.
pub(crate) fn abort() -> Outcome {
    const PIECE: usize = 1 << 18;
    let plugin = Plugin::start(&library(), NEWEST, 1)?;
    for turn in 0..20 {
        let (sender, receiver) = connected(plugin, plugin, |_| ())?;
        let (mut data, mut room) = (Pages::new(8 * PIECE)?, Pages::new(8 * PIECE)?);
        data.bytes().copy_from_slice(&bytes(Kind::Mixed, 8 * PIECE, turn));
        let memory = [
            (sender, sender.register(data.bytes(), PTR_HOST)?),
            (receiver, receiver.register(room.bytes(), PTR_HOST)?),
        ];
        let (mut sent, mut received) = (Vec::new(), Vec::new());
        for piece in 0..8 {
            // SAFETY: both stay until they are deregistered.
            unsafe {
                sent.extend(sender.send(data.start.add(piece * PIECE), PIECE)?);
                received.extend(receiver.receive(room.start.add(piece * PIECE), PIECE, 0)?);
            }
        }
        if turn % 2 == 1 {
            // Then others are being decoded, most likely.
            poll("a receive", || {
                // So that it sends on.
                sent.pop_if(|request| matches!(sender.test(*request), Ok(Some(_))));
                receiver.test(received[0])
            })?;
        }
        for (end, memory) in memory {
            end.deregister(memory)?;
        }
        data.take()?;
        room.take()?;
        sender.close_send()?;
        receiver.close_recv()?;
        // An end that is closed has nothing any more.
        for (end, memory) in memory {
            end.deregister(memory)?;
        }
    }
    Ok(String::new())
}

/// Memory is deregistered while other memory of the end is used: nothing stops that.
pub(crate) fn deregister() -> Outcome {
    let plugin = Plugin::start(&library(), NEWEST, 1)?;
    let (sender, receiver) = connected(plugin, plugin, |_| ())?;
    let data = bytes(Kind::Mixed, 16 << 20, 9);
    thread::scope(|scope| {
        let moving = scope.spawn(|| exchange(sender, receiver, &data, Plan { slice: 1 << 18, marker: 0 }));
        let mut others = [0u8; 64];
        while !moving.is_finished() {
            for end in [sender, receiver] {
                let memory = end.register(&mut others, PTR_HOST)?;
                end.deregister(memory)?;
                end.deregister(std::ptr::null_mut())?;
            }
        }
        moving.join().expect("no panic")
    })?;
    sender.close_send()?;
    receiver.close_recv()?;
    let nothing = End { plugin, handle: 0 };
    nothing.deregister(std::ptr::null_mut())?;
    Ok(String::new())
}

fn tasks() -> std::io::Result<usize> {
    Ok(fs::read_dir("/proc/self/task")?.count())
}

/// With the last context, all threads go.
pub(crate) fn threads() -> Outcome {
    let before = tasks()?;
    for _ in 0..3 {
        let plugins = [Plugin::start(&library(), NEWEST, 1)?, Plugin::start(&library(), NEWEST, 2)?];
        let (sender, receiver) = connected(plugins[0], plugins[1], |_| ())?;
        let data = bytes(Kind::Sparse, 4 << 20, 4);
        exchange(sender, receiver, &data, Plan { slice: 1 << 18, marker: 0 })?;
        sender.close_send()?;
        receiver.close_recv()?;
        plugins[0].finalize()?;
        plugins[1].finalize()?;
    }
    // What offers the process to a daemon is one thread, for as long as the process.
    // A thread that was joined may be seen for a moment longer.
    let started = Instant::now();
    while tasks()? > before + 1 {
        assert!(started.elapsed() < HANGS, "{} threads, {before} before", tasks()?);
        thread::yield_now();
    }
    Ok(String::new())
}

/// A child can do nothing with what its parent has, and is told so at once; the parent goes on.
pub(crate) fn fork() -> Outcome {
    let plugin = Plugin::start(&library(), NEWEST, 1)?;
    let (sender, receiver) = connected(plugin, plugin, |_| ())?;
    let data = bytes(Kind::Sparse, 4 << 20, 5);
    exchange(sender, receiver, &data, Plan { slice: 1 << 18, marker: 0 })?;
    // SAFETY: the child only makes calls that return at once, and ends without running anything else.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: nothing is sent.
        let sent = unsafe { sender.send(data.as_ptr(), 100) };
        let refused = [
            sent.is_err(),
            plugin.listen().is_err(),
            sender.close_send().is_err(),
            sender.deregister(std::ptr::null_mut()).is_err(),
            plugin.finalize().is_err(),
        ];
        // SAFETY: ends the process.
        unsafe { libc::_exit(i32::from(refused != [true; 5])) };
    }
    let mut status = 0;
    // SAFETY: the place for the status is one.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!((waited, status), (child, 0), "the child is refused everything");
    exchange(sender, receiver, &data, Plan { slice: 1 << 18, marker: 0 })?;
    Ok(String::new())
}
