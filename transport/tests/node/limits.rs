//! Transfers longer than a piece, a transfer, a window.

use mgcomp_codecs::Element;
use mgcomp_transport::link::Link;
use mgcomp_transport::link::shm::Shm;
use mgcomp_transport::link::tcp::{RankFile, Tcp, TcpConfig};
use mgcomp_transport::memory::HostBuffer;
use mgcomp_transport::message::{Limits, Rank, Tag};
use mgcomp_transport::node::{Node, NodeConfig};
use mgcomp_transport::region::Access;

use crate::common::fabric::{Fabric, shm_config, shm_job};
use crate::common::job::{config, end_of, meet, node, nodes};
use crate::common::{HANGS, SECRET, noise, ramp, watched};

fn limits(max_transfer_bytes: u32, window_bytes: u64, max_in_flight: u32) -> Limits {
    Limits { max_transfer_bytes, window_bytes, max_in_flight }
}

pub(crate) fn long_transfers_are_cut_to_the_limits(fabric: Fabric) {
    let cases = [
        (limits(1000, 2500, 3), 300),
        (limits(300, 2500, 3), 1000),
        (limits(1 << 20, 700, 65_536), 1 << 20), // the window is the least
        (limits(1 << 20, 1 << 20, 2), 777),      // the fewest at a time
        (limits(u32::MAX - 64, u64::MAX, 65_536), u32::MAX),
    ];
    for (limits, piece_bytes) in cases {
        let nodes = nodes(fabric, 2, "paper", &NodeConfig { limits, piece_bytes, ..config() });
        let data = [ramp(3, 30_000), noise(5, 33_333)].concat();
        let region = HostBuffer::from(data.clone());
        let address = nodes[1].register(region.all(), Element::U32, Access::all()).unwrap();
        let back = HostBuffer::zeroed(data.len());
        assert_eq!(end_of(nodes[0].read(Rank(1), address, back.all())), Ok(data.len() as u64));
        assert!(back.all().to_vec() == data, "{limits:?}");

        let turned: Vec<u8> = data.into_iter().rev().collect();
        let source = HostBuffer::from(turned.clone());
        let written = nodes[0].write(Rank(1), source.all(), Element::U8, address);
        assert_eq!(end_of(written), Ok(turned.len() as u64));
        assert!(region.all().to_vec() == turned, "{limits:?}");
    }
}

pub(crate) fn sends_of_any_length_arrive(fabric: Fabric) {
    // The receiver's limits count: rank 0 takes less than rank 1.
    let config = |max_transfer_bytes, window_bytes| NodeConfig {
        limits: limits(max_transfer_bytes, window_bytes, 8),
        piece_bytes: 100,
        ..config()
    };
    let mut links = fabric.links(2, 1 << 30).into_iter();
    let mut node = |config| node(links.next().unwrap(), "paper", config);
    let (small, large) = (node(config(1000, 5000)), node(config(5000, 4000)));
    let send =
        |from: &Node, to, len| from.send(to, Tag(1), HostBuffer::from(ramp(1, len)).all(), Element::U32);
    // What is longer than a transfer or a window is fetched in pieces.
    for (from, to, limit) in [(&large, &small, 1000), (&small, &large, 4000)] {
        let (sender, receiver) = (from.position().rank, to.position().rank);
        for len in [limit, limit + 1, 10 * limit + 7] {
            let sent = send(from, receiver, len);
            let into = HostBuffer::zeroed(len);
            assert_eq!(end_of(to.receive(sender, Tag(1), into.all())), Ok(len as u64));
            assert_eq!(end_of(sent), Ok(len as u64));
            assert!(into.all().to_vec() == ramp(1, len));
        }
    }
    // More sends than the window holds are offered, and do not hold up reads.
    let sends: Vec<_> = (0..13).map(|_| send(&large, Rank(0), 900)).collect();
    let address = small.register(HostBuffer::zeroed(3000).all(), Element::U8, Access::all()).unwrap();
    assert_eq!(end_of(large.read(Rank(0), address, HostBuffer::zeroed(3000).all())), Ok(3000));
    for _ in 0..13 {
        assert_eq!(end_of(small.receive(Rank(1), Tag(1), HostBuffer::zeroed(900).all())), Ok(900));
    }
    sends.into_iter().for_each(|send| assert_eq!(end_of(send), Ok(900)));
}

pub(crate) fn sends_are_received_in_any_order(fabric: Fabric) {
    const LEN: usize = 8 << 20;
    const SENDS: u32 = 6;
    // Room for two of them, and a short one on top.
    let limits = limits(LEN as u32, 2 * LEN as u64 + 1000, 65_536);
    let nodes = nodes(fabric, 2, "adaptive", &NodeConfig { limits, ..config() });
    let data = |n| if n % 2 == 0 { ramp(n, LEN) } else { noise(n.into(), LEN) };
    let send =
        |n: u32, bytes| nodes[0].send(Rank(1), Tag(n.into()), HostBuffer::from(bytes).all(), Element::U32);
    let sends: Vec<_> = (0..SENDS).map(|n| send(n, data(n))).collect();
    let last = send(SENDS, ramp(1, 1000));
    let into = HostBuffer::zeroed(LEN);
    let receive = |n: u32| end_of(nodes[1].receive(Rank(0), Tag(n.into()), into.all()));
    assert_eq!((receive(SENDS), end_of(last)), (Ok(1000), Ok(1000)));
    for (n, sent) in (0..SENDS).zip(sends).rev() {
        assert_eq!(receive(n), Ok(LEN as u64));
        assert!(into.all().to_vec() == data(n), "send {n}");
        assert_eq!(end_of(sent), Ok(LEN as u64));
    }
}

/// Two ranks of which each takes what its own limit allows, and so does its end of the link.
fn check_own_limits(link: impl Fn(Rank, Limits) -> Box<dyn Link>) {
    const LEN: usize = 1 << 20; // a piece
    let takes = [256 << 10, 64 << 20].map(|longest| limits(longest, 64 << 20, 65_536));
    let start = |(rank, limits)| node(link(rank, limits), "fixed:none", NodeConfig { limits, ..config() });
    let nodes: Vec<_> = (0..).map(Rank).zip(takes).map(start).collect();
    nodes.iter().for_each(meet);
    let slice = |bytes| HostBuffer::from(bytes).all();
    for (here, there) in [(&nodes[0], &nodes[1]), (&nodes[1], &nodes[0])] {
        let (rank, peer) = (here.position().rank, there.position().rank);
        let region = HostBuffer::from(noise(1, LEN));
        let address = there.register(region.all(), Element::U8, Access::all()).unwrap();
        let into = HostBuffer::zeroed(LEN);
        assert_eq!(end_of(here.read(peer, address, into.all())), Ok(LEN as u64), "rank {rank} reads");
        assert!(into.all().to_vec() == noise(1, LEN));
        let written = here.write(peer, slice(noise(2, LEN)), Element::U8, address);
        assert_eq!(end_of(written), Ok(LEN as u64), "rank {rank} writes");
        assert!(region.all().to_vec() == noise(2, LEN));
        for len in [300_000, LEN] {
            let receive = there.receive(rank, Tag(1), into.slice(0..len).unwrap());
            let sent = here.send(peer, Tag(1), slice(noise(3, len)), Element::U8);
            assert_eq!(
                (end_of(receive), end_of(sent)),
                (Ok(len as u64), Ok(len as u64)),
                "rank {rank} sends"
            );
            assert!(into.slice(0..len).unwrap().to_vec() == noise(3, len));
        }
    }
}

#[test]
fn who_takes_little_asks_for_no_more_over_tcp() {
    watched(|| {
        let listeners = [(); 2].map(|()| Tcp::bind("127.0.0.1:0").unwrap());
        let addresses = listeners.iter().map(|listener| listener.local_addr().unwrap().to_string()).collect();
        let rank_file = RankFile { secret: SECRET, addresses };
        check_own_limits(|rank, limits| {
            let config = TcpConfig { connect_timeout: HANGS, ..TcpConfig::new(limits) };
            let listener = listeners[rank.0 as usize].try_clone().unwrap();
            Box::new(Tcp::new(listener, rank_file.clone(), rank, config).unwrap())
        });
    });
}

#[test]
fn who_takes_little_asks_for_no_more_over_shared_memory() {
    watched(|| {
        let job = shm_job(2);
        check_own_limits(|rank, limits| Box::new(Shm::new(job.clone(), rank, shm_config(limits)).unwrap()));
    });
}
