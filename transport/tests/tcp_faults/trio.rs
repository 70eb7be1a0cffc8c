//! Three ranks, of which two talk to each other over a relay.

use std::net::TcpListener;

use mgcomp_codecs::Element;
use mgcomp_transport::link::tcp::{Connections, RankFile, Tcp, TcpConfig};
use mgcomp_transport::memory::HostBuffer;
use mgcomp_transport::message::{Address, Rank, Tag};
use mgcomp_transport::node::{Node, NodeConfig};
use mgcomp_transport::region::Access;

use crate::common::fabric::tcp_config;
use crate::common::job::{end_of, meet, node};
use crate::common::{SECRET, noise};
use crate::relay::Relay;

/// What each rank has registered.
pub(crate) const REGION: Address = Address::new(0, 0);
pub(crate) const LEN: usize = 32 << 20;

pub(crate) struct Trio {
    pub(crate) nodes: [Node; 3],
    /// Between ranks 0 and 1.
    pub(crate) relay: Relay,
}

impl Trio {
    /// Each two of them with so many connections.
    pub(crate) fn start(config: &NodeConfig, connections: u32) -> Self {
        let listeners: [TcpListener; 3] = std::array::from_fn(|_| Tcp::bind("127.0.0.1:0").unwrap());
        let addresses = listeners.iter().map(|listener| listener.local_addr().unwrap().to_string()).collect();
        let rank_file = RankFile { secret: SECRET, addresses };
        let relay = Relay::to(listeners[0].local_addr().unwrap(), connections);
        let connections = Connections::try_new(connections).unwrap();
        let tcp_config = TcpConfig { connections, ..tcp_config(1 << 30, None) };
        let mut rank = 0;
        let nodes = listeners.map(|listener| {
            let mut rank_file = rank_file.clone();
            if rank == 1 {
                rank_file.addresses[0] = relay.address.to_string();
            }
            let link = Tcp::new(listener, rank_file, Rank(rank), tcp_config).unwrap();
            rank += 1;
            let node = node(Box::new(link), "fixed:none", config.clone());
            node.register(HostBuffer::from(noise(rank.into(), LEN)).all(), Element::U8, Access::all())
                .unwrap();
            node
        });
        nodes.iter().for_each(meet);
        Self { nodes, relay }
    }

    /// Checks that rank 2 goes on with both others, whatever is between them.
    pub(crate) fn check_bystanders(&self) {
        let [zero, one, two] = &self.nodes;
        for (node, rank) in [(zero, 0), (one, 1)] {
            let into = HostBuffer::zeroed(100_000);
            assert_eq!(end_of(two.read(Rank(rank), REGION, into.all())), Ok(100_000));
            assert!(into.all().to_vec() == noise(u64::from(rank) + 1, 100_000));
            let receive = node.receive(Rank(2), Tag(5), into.all());
            let send = two.send(Rank(rank), Tag(5), HostBuffer::zeroed(9).all(), Element::U8);
            assert_eq!((end_of(receive), end_of(send)), (Ok(9), Ok(9)));
        }
    }
}
