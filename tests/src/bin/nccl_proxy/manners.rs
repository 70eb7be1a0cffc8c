//! How the plugin is as a guest.
#![allow(unsafe_code)] // a fork

use std::fs;
use std::thread;
use std::time::Instant;

use mgcomp_nccl_net::abi::MAX_REQUESTS;
use mgcomp_tests::data::{Kind, bytes};
use mgcomp_tests::proxy::transfer::{Plan, exchange};
use mgcomp_tests::proxy::{HANGS, Plugin, connected, library, poll};

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
            plugin.finalize().is_err(),
        ];
        // SAFETY: ends the process.
        unsafe { libc::_exit(i32::from(refused != [true; 4])) };
    }
    let mut status = 0;
    // SAFETY: the place for the status is one.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!((waited, status), (child, 0), "the child is refused everything");
    exchange(sender, receiver, &data, Plan { slice: 1 << 18, marker: 0 })?;
    Ok(String::new())
}
