//! What goes wrong.
#![allow(unsafe_code)] // memory that is lent to the plugin

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use mgcomp_nccl_net::abi::{INVALID_ARGUMENT, INVALID_USAGE, PTR_HOST, REMOTE_ERROR, Status};
use mgcomp_tests::data::{Kind, bytes};
use mgcomp_tests::proxy::relay::{Fault, Relay, address, seal};
use mgcomp_tests::proxy::transfer::{Plan, exchange};
use mgcomp_tests::proxy::{End, HANGS, Plugin, Request, Result as Called, connected, library, poll, said};

use super::Outcome;

const NEWEST: u32 = 12;
const PLAN: Plan = Plan { slice: 128 << 10, marker: 0 };

fn status<T: std::fmt::Debug>(called: Called<T>) -> Status {
    called.expect_err("an error").status
}

/// Whoever is no rank of the job disturbs nobody.
pub(crate) fn strangers() -> Outcome {
    let plugin = Plugin::start(&library(), NEWEST, 1)?;
    let (listener, handle) = plugin.listen()?;
    let target = address(&handle);
    let _silent = TcpStream::connect(target)?;
    let mut half = TcpStream::connect(target)?;
    half.write_all(b"mgcnccl\0\x01")?;
    drop(TcpStream::connect(target)?);
    TcpStream::connect(target)?.write_all(&[b'x'; 5000])?;
    let mut web = TcpStream::connect(target)?;
    web.write_all(format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", "h".repeat(100)).as_bytes())?;

    // Ranks of another job know another secret.
    let mut other = handle;
    other[40] ^= 1;
    seal(&mut other);
    let refused = thread::spawn(move || plugin.connect(other).map(|_| ()));
    let until = Instant::now() + HANGS;
    while !refused.is_finished() {
        assert!(listener.try_accept()?.is_none(), "nobody was let in");
        assert!(Instant::now() < until, "nobody was turned away");
    }
    assert_eq!(status(refused.join().expect("no panic")), INVALID_USAGE);
    assert!(said().iter().any(|text| text.contains("is no rank of this job")), "the log says why");

    // No answer, but the end, to what is no word of the protocol.
    web.set_read_timeout(Some(Duration::from_secs(60)))?;
    assert!(matches!(web.read(&mut [0; 16]), Ok(0) | Err(_)));

    let accepting = thread::spawn(move || listener.accept());
    let sender = plugin.connect(handle)?;
    let receiver = accepting.join().expect("no panic")?;
    exchange(sender, receiver, &bytes(Kind::Mixed, 1 << 20, 1), PLAN)?;
    Ok(String::new())
}

/// Handles that are none.
pub(crate) fn handles() -> Outcome {
    let plugin = Plugin::start(&library(), NEWEST, 1)?;
    let (_listener, handle) = plugin.listen()?;
    assert_eq!(status(plugin.connect([0; 128])), INVALID_USAGE);
    let said = said();
    assert!(said.iter().any(|text| text.contains("does every rank load this plugin?")), "{said:?}");
    for cut in [8, 20, 48, 63] {
        let mut short = handle;
        short[cut..].fill(0);
        if short == handle {
            continue; // its checksum happens to end with a zero
        }
        assert!(matches!(status(plugin.connect(short)), INVALID_ARGUMENT | INVALID_USAGE), "cut at {cut}");
    }
    let mut newer = handle;
    newer[8] += 1;
    seal(&mut newer);
    assert_eq!(status(plugin.connect(newer)), INVALID_USAGE);
    // Nobody listens there any more.
    let (gone, handle) = plugin.listen()?;
    gone.close_listen()?;
    assert_eq!(status(plugin.connect(handle)), REMOTE_ERROR);
    Ok(String::new())
}

/// A message that ends in the middle ends both sides, soon, and for good.
pub(crate) fn cut() -> Outcome {
    let plugin = Plugin::start(&library(), NEWEST, 1)?;
    let data = bytes(Kind::Dense, 16 << 20, 2);
    for after in [80, 96, 200_000, 3_000_001] {
        let through = |handle: &mut _| drop(Relay::before(handle, Fault::CutAfter(after)));
        let (sender, receiver) = connected(plugin, plugin, through)?;
        assert_eq!(status(exchange(sender, receiver, &data, PLAN)), REMOTE_ERROR, "after {after} bytes");
        // SAFETY: the bytes are there for longer than the ends.
        let again =
            unsafe { (sender.send(data.as_ptr(), 100), receiver.receive(data.as_ptr().cast_mut(), 0, 0)) };
        assert_eq!((status(again.0), status(again.1)), (REMOTE_ERROR, REMOTE_ERROR));
        sender.close_send()?;
        receiver.close_recv()?;
    }
    Ok(String::new())
}

/// Envelopes and frames that were damaged on their way are noticed.
pub(crate) fn damage() -> Outcome {
    let plugin = Plugin::start(&library(), NEWEST, 1)?;
    let data = super::transfers::sample("weights.bf16.bin").repeat(4);
    // In the first envelope of a socket, behind its hello; in the frame behind that.
    for byte in [64, 69, 75, 95, 96, 100, 150, 5000] {
        let through = |handle: &mut _| drop(Relay::before(handle, Fault::Damage(byte)));
        let (sender, receiver) = connected(plugin, plugin, through)?;
        let sending = {
            let data = data.clone();
            // It ends when the receiver has closed.
            thread::spawn(move || mgcomp_tests::proxy::transfer::send(sender, &data, PLAN).map_err(drop))
        };
        let received = mgcomp_tests::proxy::transfer::receive(receiver, &data, PLAN);
        assert_eq!(status(received), REMOTE_ERROR, "byte {byte}");
        receiver.close_recv()?;
        let _ = sending.join().expect("no panic");
        sender.close_send()?;
    }
    Ok(String::new())
}

/// A rank that uses the plugin below this one by itself is refused.
pub(crate) fn mixed() -> Outcome {
    let inner = std::env::var_os("MGCOMP_NET_INNER").ok_or("this is about the plugin below")?;
    let plugin = Plugin::start(&library(), NEWEST, 1)?;
    let plain = Plugin::start(inner.as_ref(), NEWEST, 1)?;
    let data = bytes(Kind::Dense, 1000, 6);
    // Some are longer than what is said first, others are not.
    for len in [1000, 20, 3] {
        let (sender, receiver) = connected(plain, plugin, |_| ())?;
        let mut room = vec![0u8; 1000];
        // SAFETY: both stay until the ends are closed.
        let (sent, received) =
            unsafe { (sender.send(data.as_ptr(), len)?, receiver.receive(room.as_mut_ptr(), 1000, 0)) };
        let sent = sent.expect("there is room");
        poll("a send", || sender.test(sent))?;
        let refused =
            received.and_then(|request| poll("a receive", || receiver.test(request.expect("room"))));
        assert_eq!(status(refused), INVALID_USAGE, "{len} bytes");
        sender.close_send()?;
        receiver.close_recv()?;
    }
    Ok(String::new())
}

/// A plugin that cannot be loaded is an error at the start; says what the log says.
pub(crate) fn missing() -> Outcome {
    assert_eq!(status(Plugin::start(&library(), NEWEST, 1)), INVALID_USAGE);
    Ok(said().concat())
}

/// Calls that NCCL does not make.
pub(crate) fn misuse() -> Outcome {
    let plugin = Plugin::start(&library(), NEWEST, 1)?;
    let (sender, receiver) = connected(plugin, plugin, |_| ())?;
    let made_up = |handle| End { plugin, handle };
    let mut memory = vec![0u8; 256];
    for handle in [0, 1, 8, sender.handle + (1 << 20), sender.handle ^ 1 << 45, usize::MAX, receiver.handle] {
        // SAFETY: there are no bytes.
        assert_eq!(status(unsafe { made_up(handle).send(std::ptr::null(), 0) }), INVALID_ARGUMENT);
        assert_eq!(status(made_up(handle).close_send()), INVALID_ARGUMENT);
        assert_eq!(status(sender.test(Request(handle))), INVALID_ARGUMENT);
    }
    assert_eq!(status(sender.close_recv()), INVALID_ARGUMENT);
    assert_eq!(status(sender.try_accept()), INVALID_ARGUMENT);
    assert!(sender.register(&mut memory, PTR_HOST).is_ok());
    assert_eq!(status(sender.register(&mut memory, 2)), INVALID_ARGUMENT, "memory of a device");
    // SAFETY: what has no bytes, or more than there can be, is refused before any is touched.
    let none = unsafe { (sender.send(std::ptr::null(), 5), sender.send(memory.as_ptr(), usize::MAX)) };
    assert_eq!((status(none.0), status(none.1)), (INVALID_ARGUMENT, INVALID_ARGUMENT));

    // A request that is done is none any more.
    // SAFETY: the memory stays until the end.
    let (sent, received) = unsafe {
        (sender.send(memory.as_ptr(), 100)?, receiver.receive(memory.as_mut_ptr().add(128), 100, 0)?)
    };
    let (sent, received) = (sent.expect("there is room"), received.expect("there is room"));
    poll("a send", || sender.test(sent))?;
    poll("a receive", || receiver.test(received))?;
    assert_eq!(status(sender.test(sent)), INVALID_ARGUMENT);
    assert_eq!(status(receiver.test(received)), INVALID_ARGUMENT);

    // A message that is longer than the room for it.
    // SAFETY: as above.
    unsafe {
        sender.send(memory.as_ptr(), 100)?;
        let short = receiver.receive(memory.as_mut_ptr().add(128), 99, 0);
        let short = short.and_then(|request| poll("too long", || receiver.test(request.expect("room"))));
        assert_eq!(status(short), INVALID_USAGE);
    }
    for end in [sender, made_up(receiver.handle)] {
        let close = || if end.handle == sender.handle { end.close_send() } else { end.close_recv() };
        close()?;
        assert_eq!(status(close()), INVALID_ARGUMENT, "closed twice");
    }
    plugin.finalize()?;
    assert_eq!(status(plugin.finalize()), INVALID_ARGUMENT, "finalized twice");
    assert!(plugin.listen().is_err());
    Ok(String::new())
}
