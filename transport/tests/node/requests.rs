//! Requests, their handles, and requests that are refused.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use mgcomp_codecs::Element;
use mgcomp_transport::memory::HostBuffer;
use mgcomp_transport::message::{Address, Rank, Status, Tag};
use mgcomp_transport::node::{Handle, Node, NodeConfig, TransferResult};
use mgcomp_transport::region::{Access, Peers, RegionError};
use mgcomp_transport::session::TransferError;

use crate::common::fabric::Fabric;
use crate::common::job::{config, end_of, nodes};
use crate::common::{HANGS, noise, wait_until};

fn buffer(len: usize) -> mgcomp_transport::memory::HostSlice {
    HostBuffer::zeroed(len).all()
}

pub(crate) fn requests_finish_in_any_order(fabric: Fabric) {
    let nodes = nodes(fabric, 2, "fixed:zvc", &config());
    let address = nodes[1].register(buffer(5000), Element::U8, Access::all()).unwrap();
    // The first request waits for a receive; all that are made later finish before it.
    let mut first = nodes[0].send(Rank(1), Tag(1), buffer(10), Element::U8);
    let second = nodes[0].send(Rank(1), Tag(2), buffer(20), Element::U8);
    let third = nodes[0].read(Rank(1), address, buffer(5000));
    let fourth = nodes[0].write(Rank(1), buffer(100), Element::U8, address);
    assert_eq!((end_of(fourth), end_of(third)), (Ok(100), Ok(5000)));
    assert_eq!(end_of(nodes[1].receive(Rank(0), Tag(2), buffer(20))), Ok(20));
    assert_eq!(end_of(second), Ok(20));
    assert!(!first.is_finished());
    assert_eq!(end_of(nodes[1].receive(Rank(0), Tag(1), buffer(10))), Ok(10));
    assert_eq!(end_of(first), Ok(10));
}

pub(crate) fn handles_tell_when_they_are_finished(fabric: Fabric) {
    let nodes = nodes(fabric, 2, "fixed:none", &config());
    let mut receive = nodes[1].receive(Rank(0), Tag(3), buffer(8));
    assert_eq!(receive.wait_for(Duration::ZERO), None);
    assert_eq!(receive.wait_for(Duration::from_millis(10)), None);
    assert!(!receive.is_finished());
    // Nobody keeps the handle of the send: it goes out all the same.
    drop(nodes[0].send(Rank(1), Tag(3), buffer(8), Element::U8));
    assert_eq!(receive.wait_for(Duration::MAX), Some(Ok(8)));
    assert_eq!(receive.wait_for(Duration::ZERO), Some(Ok(8)));
    assert!(receive.is_finished());
    assert_eq!(receive.wait(), Ok(8));

    let mut polled = nodes[1].receive(Rank(0), Tag(3), buffer(8));
    drop(nodes[0].send(Rank(1), Tag(3), buffer(7), Element::U8));
    wait_until("the receive is finished", || polled.is_finished());
    assert_eq!(polled.wait(), Ok(7));
}

pub(crate) fn who_does_not_wait_is_served_all_the_same(fabric: Fabric) {
    let nodes = nodes(fabric, 2, "fixed:none", &config());
    let content = noise(7, 100_000);
    let memory = HostBuffer::from(content.clone());
    let address = nodes[1].register(memory.all(), Element::U8, Access::all()).unwrap();
    let wait_shortly = || {
        let receive = nodes[1].receive(Rank(0), Tag(1), buffer(8));
        drop(nodes[0].post(Rank(1), Tag(1), buffer(8), Element::U8));
        assert_eq!(receive.wait(), Ok(8));
    };
    // A thread that waits may serve the link itself, and others are to do so when it has left: after rests of any length, also
    // where those before were short.
    for rest_us in [0, 400, 400, 1500, 400, 6000, 400, 400] {
        wait_shortly();
        thread::sleep(Duration::from_micros(400));
        wait_shortly();
        thread::sleep(Duration::from_micros(rest_us));
        let back = HostBuffer::zeroed(content.len());
        assert_eq!(end_of(nodes[0].read(Rank(1), address, back.all())), Ok(100_000));
        assert_eq!(back.all().read(<[u8]>::to_vec), content);
    }
    // More than a socket takes at once, which nobody waits for on the side that sends it.
    let long = 16 << 20;
    for _ in 0..4 {
        wait_shortly();
        drop(nodes[1].post(Rank(0), Tag(2), buffer(long), Element::U8));
        assert_eq!(end_of(nodes[0].receive(Rank(1), Tag(2), buffer(long))), Ok(long as u64));
    }
}

/// Waits for a request when it is dropped, as what a thread keeps to itself is when that ends.
struct WaitsAtItsEnd(Receiver<Handle>, Sender<[TransferResult; 2]>);

impl Drop for WaitsAtItsEnd {
    fn drop(&mut self) {
        let mut received = self.0.try_iter();
        let (mut asked, waited) = (received.next().unwrap(), received.next().unwrap());
        let waited = waited.wait();
        while !asked.is_finished() {
            thread::yield_now();
        }
        let _ = self.1.send([waited, asked.wait()]);
    }
}

thread_local! {
    static AT_ITS_END: RefCell<Option<WaitsAtItsEnd>> = const { RefCell::new(None) };
}

pub(crate) fn a_thread_may_wait_at_its_end(fabric: Fabric) {
    let mut nodes = nodes(fabric, 2, "fixed:none", &config());
    let receiver = nodes.pop().unwrap();
    let sender = nodes.pop().unwrap();
    let post = move |tag| drop(sender.post(Rank(1), Tag(tag), buffer(8), Element::U8));
    let ((keep, kept), (tell, told)) = (mpsc::channel(), mpsc::channel());
    post(0);
    let ending = thread::spawn(move || {
        // First, and so the last to be dropped: what the link keeps for the thread is gone by then.
        AT_ITS_END.set(Some(WaitsAtItsEnd(kept, tell)));
        assert_eq!(receiver.receive(Rank(0), Tag(0), buffer(8)).wait(), Ok(8));
        for tag in [2, 1] {
            keep.send(receiver.receive(Rank(0), Tag(tag), buffer(8))).unwrap();
        }
        receiver
    });
    for tag in [1, 2] {
        thread::sleep(Duration::from_millis(100));
        post(tag);
    }
    assert_eq!(told.recv_timeout(HANGS), Ok([Ok(8), Ok(8)]));
    drop(ending.join().unwrap());
}

pub(crate) fn what_is_refused_touches_nothing(fabric: Fabric) {
    // Small pieces: what is refused is refused as a whole, or in every piece.
    let nodes = nodes(fabric, 3, "fixed:bdi", &NodeConfig { piece_bytes: 64, ..config() });
    let content = noise(1, 1000);
    let memory = HostBuffer::from(content.clone());
    let only_2 = Access { read: Peers::Only(BTreeSet::from([Rank(2)])), write: Peers::Nobody };
    let open = nodes[1].register(memory.all(), Element::U32, Access::all()).unwrap();
    let closed = nodes[1].register(memory.all(), Element::U32, only_2).unwrap();
    let peer = Rank(1);

    let refused = |status| Err(TransferError::Refused { peer, status });
    let into = HostBuffer::from(vec![0xaa; 64]);
    let read = |node: &Node, at: Address| end_of(node.read(peer, at, into.all()));
    let write = |node: &Node, at: Address| end_of(node.write(peer, into.all(), Element::U32, at));
    let (nowhere, behind) = (Address::new(7, 0), open.checked_add(1000 - 63).unwrap());
    for (at, status) in
        [(nowhere, Status::UnknownRegion), (behind, Status::OutOfBounds), (closed, Status::NotOpened)]
    {
        assert_eq!(write(&nodes[0], at), refused(status));
        assert_eq!(read(&nodes[0], at), refused(status));
        assert_eq!(into.all().to_vec(), [0xaa; 64]);
    }
    assert_eq!(write(&nodes[2], closed), refused(Status::NotOpened));
    assert_eq!(read(&nodes[2], closed), Ok(64));
    assert_eq!(into.all().to_vec(), content[..64]);

    let last = Address::from_bits((1 << 48) - 1).unwrap();
    let past = TransferError::AddressRange { address: last.bits(), len: 64 };
    assert_eq!((read(&nodes[0], last), write(&nodes[0], last)), (Err(past.clone()), Err(past)));

    let send = nodes[0].send(peer, Tag(9), buffer(65), Element::U8);
    let small = end_of(nodes[1].receive(Rank(0), Tag(9), buffer(64)));
    assert_eq!(small, Err(TransferError::BufferTooSmall { peer: Rank(0), len: 65, capacity: 64 }));
    assert_eq!(end_of(send), refused(Status::ReceiveTooSmall));

    for nobody in [Rank(0), Rank(3), Rank(u32::MAX)] {
        let error = TransferError::NoSuchPeer { peer: nobody, last: 2, local: Rank(0) };
        assert_eq!(end_of(nodes[0].read(nobody, open, buffer(1))), Err(error));
        assert_eq!(nodes[0].peer_state(nobody), None);
        nodes[0].disconnect(nobody); // of no effect
    }
    // After all this the sessions are as good as new, and the memory is as it was.
    let whole = HostBuffer::zeroed(1000);
    assert_eq!(end_of(nodes[0].read(peer, open, whole.all())), Ok(1000));
    assert_eq!((whole.all().to_vec(), memory.all().to_vec()), (content.clone(), content));
    assert_eq!(end_of(nodes[0].read(peer, open, buffer(0))), Ok(0));
    assert_eq!(end_of(nodes[0].write(peer, buffer(0), Element::U8, open)), Ok(0));
}

pub(crate) fn regions_may_go_while_they_are_read(fabric: Fabric) {
    let nodes = nodes(fabric, 2, "paper", &NodeConfig { piece_bytes: 1000, ..config() });
    let content = noise(3, 2 << 20);
    let memory = HostBuffer::from(content.clone());
    let mut refusals = 0;
    for _ in 0..10 {
        let address = nodes[1].register(memory.all(), Element::U8, Access::read_only()).unwrap();
        let into = HostBuffer::zeroed(content.len());
        let reading = nodes[0].read(Rank(1), address, into.all());
        nodes[1].unregister(address).unwrap();
        assert_eq!(nodes[1].unregister(address), Err(RegionError::Unknown(address)));
        match end_of(reading) {
            Ok(_) => assert!(into.all().to_vec() == content, "a read that went well brought other bytes"),
            Err(error) => {
                let status = Status::UnknownRegion;
                assert_eq!(error, TransferError::Refused { peer: Rank(1), status });
                refusals += 1;
            }
        }
        let again = end_of(nodes[0].read(Rank(1), address, buffer(1)));
        assert_eq!(again, Err(TransferError::Refused { peer: Rank(1), status: Status::UnknownRegion }));
    }
    println!("{refusals} of 10 reads were cut off");
}
