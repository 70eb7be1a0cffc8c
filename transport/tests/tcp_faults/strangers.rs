//! Ten thousand who connect and say nothing.

use std::collections::VecDeque;
use std::io::Read;
use std::net::{Shutdown, SocketAddr, TcpStream};

use mgcomp_codecs::Element;
use mgcomp_transport::link::tcp::{RankFile, Tcp};
use mgcomp_transport::memory::HostBuffer;
use mgcomp_transport::message::{Rank, Tag};

use crate::common::SECRET;
use crate::common::fabric::tcp_config;
use crate::common::footprint::descriptors_and_rss_kib;
use crate::common::job::{config, end_of, meet, node};
use crate::leaving_nothing;

const ATTEMPTS: usize = 10_000;
/// So many come at once: the system lets no more wait to be accepted, and others would try again a second later.
const GROUP: usize = 50;
/// Of them, those that stay connected at once.
const STAYING: usize = 100;
/// What a rank may have for strangers beside: those whose hello is awaited, and some more that it is about to close.
const AWAITED: usize = 64 + 16;
const MOST_KIB: u64 = 64 << 10;

#[test]
fn ten_thousand_silent_strangers_take_next_to_nothing_and_harm_nobody() {
    leaving_nothing(|| {
        let listeners = [0, 1].map(|_| Tcp::bind("127.0.0.1:0").unwrap());
        let address = listeners[0].local_addr().unwrap();
        let addresses = listeners.iter().map(|listener| listener.local_addr().unwrap().to_string()).collect();
        let rank_file = RankFile { secret: SECRET, addresses };
        let mut rank = 0;
        let nodes = listeners.map(|listener| {
            let link = Tcp::new(listener, rank_file.clone(), Rank(rank), tcp_config(1 << 30, None)).unwrap();
            rank += 1;
            node(Box::new(link), "fixed:none", config())
        });
        nodes.iter().for_each(meet);
        let before = descriptors_and_rss_kib();
        let mut staying = VecDeque::new();
        for group in 1..=ATTEMPTS / GROUP {
            staying.push_back(group_of_strangers(address));
            if staying.len() > STAYING {
                staying.pop_front();
            }
            if group % 20 == 0 {
                let receive = nodes[1].receive(Rank(0), Tag(1), HostBuffer::zeroed(100).all());
                let send = nodes[0].send(Rank(1), Tag(1), HostBuffer::zeroed(100).all(), Element::U8);
                assert_eq!((end_of(receive), end_of(send)), (Ok(100), Ok(100)), "after {group} groups");
                if let (Some(before), Some(now)) = (before, descriptors_and_rss_kib()) {
                    assert!(now.0 <= before.0 + STAYING + AWAITED, "{} descriptors", now.0);
                    assert!(now.1 <= before.1 + MOST_KIB, "{} KiB after {} KiB", now.1, before.1);
                }
            }
        }
    });
}

/// Connects as often as a group has members, without a word. Returns the one that stays, when all the others are gone.
fn group_of_strangers(address: SocketAddr) -> TcpStream {
    let staying = TcpStream::connect(address).unwrap();
    (2..GROUP).for_each(|_| drop(TcpStream::connect(address).unwrap()));
    let mut last = TcpStream::connect(address).unwrap();
    last.shutdown(Shutdown::Write).unwrap();
    let _ = last.read(&mut [0]); // its end, in good order or not
    staying
}
