//! The side that connects, and whom it finds there.

use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use mgcomp_codecs::Element;
use mgcomp_transport::link::tcp::{Connections, RankFile, Tcp, TcpConfig};
use mgcomp_transport::link::{LinkError, LinkEvent};
use mgcomp_transport::memory::HostBuffer;
use mgcomp_transport::message::{Address, Rank, Status, Tag};
use mgcomp_transport::node::{Node, NodeConfig, PeerState};
use mgcomp_transport::session::{SessionError, TransferError};

use crate::bystanders::{RANKS, rank_file};
use crate::common::end::End;
use crate::common::fabric::{Fabric, tcp_config};
use crate::common::job::{SHORT, config, end_of, meet as meet_all, node, wait_until_over};
use crate::common::{SECRET, noise, wait_until, watched};
use crate::raw::{Raw, hello};

/// Rank 1 of the job, with a node, and the listener on which it expects rank 0.
fn rank_1(config: NodeConfig) -> (Node, TcpListener) {
    let listeners: [_; 2] = std::array::from_fn(|_| Tcp::bind("127.0.0.1:0").unwrap());
    let rank_file = rank_file(&listeners);
    let [expects, own] = listeners;
    let link = Tcp::new(own, rank_file, Rank(1), tcp_config(64 << 20, None)).unwrap();
    (node(Box::new(link), "paper", config), expects)
}

/// Has rank 1 connect to a rank 0 that answers with `answer`; returns why the session ended.
fn meet(answer: impl FnOnce(&mut Raw)) -> SessionError {
    let (node, listener) = rank_1(config());
    let waiting = node.read(Rank(0), Address::new(0, 0), HostBuffer::zeroed(1).all());
    let mut raw = Raw::over(listener.accept().unwrap().0);
    // Its hello shows who it is.
    let greeting = raw.message();
    assert_eq!((greeting.len(), &greeting[24..32]), (64, &[0, 0, 0, 1, 0, 0, 0, RANKS as u8][..]));
    answer(&mut raw);
    let error = wait_until_over(&node, Rank(0));
    assert_eq!(end_of(waiting), Err(TransferError::Session { peer: Rank(0), error: error.clone() }));
    // Such an answer is the last word: it is not asked for again, which would be 50 ms later.
    thread::sleep(Duration::from_millis(200));
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    error
}

#[test]
fn answers_that_are_no_greeting_end_the_session() {
    watched(|| {
        let mut refusal = vec![0; 64];
        refusal[..8].copy_from_slice(&[0x50, 8, 0, 9, b'M', b'G', b'C', b'W']);
        assert_eq!(meet(|raw| raw.record(&refusal)), SessionError::Refused(Status::WrongSecret));

        // Whoever is there is another rank, or of another job.
        for (rank, ranks, status) in [(2, RANKS, 9), (1, RANKS, 9), (0, RANKS + 1, 10)] {
            let error = meet(|raw| {
                raw.record(&hello(rank, ranks));
                raw.expect_refusal(status);
            });
            assert_eq!(error, SessionError::PeerRefused(Status::from_code(status)));
        }
        let mut other_secret = hello(0, RANKS);
        other_secret[20] ^= 1;
        let error = meet(|raw| {
            raw.record(&other_secret);
            raw.expect_refusal(8);
        });
        assert_eq!(error, SessionError::PeerRefused(Status::WrongSecret));

        let error = meet(|raw| {
            raw.record(&[0x40, 0, 0, 0]);
            raw.expect_refusal(14);
        });
        assert!(matches!(error, SessionError::Violation(_)), "{error:?}");

        let error = meet(|raw| raw.bytes(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
        assert!(matches!(error, SessionError::Link(LinkError::RecordTooLong { .. })), "{error:?}");
    });
}

#[test]
fn silence_and_absence_end_the_session_in_time() {
    watched(|| {
        let (node, listener) = rank_1(NodeConfig { greeting_timeout: SHORT, ..config() });
        let held = listener.accept().unwrap(); // says nothing
        assert_eq!(wait_until_over(&node, Rank(0)), SessionError::GreetingTimeout(SHORT));
        drop(held);

        // Nobody listens at all: the port is one that tests do not get.
        let own = Tcp::bind("127.0.0.1:0").unwrap();
        let mut rank_file = rank_file(&[]);
        rank_file.addresses[0] = "127.0.0.1:9".to_owned();
        let config = TcpConfig { connect_timeout: SHORT, ..tcp_config(1 << 20, None) };
        let link = Tcp::new(own, rank_file.clone(), Rank(1), config).unwrap();
        let mut end = End::start(Box::new(link));
        match end.event(Rank(0)) {
            LinkEvent::Closed { peer: Rank(0), error: LinkError::Unreachable { peer, address, .. } } => {
                assert_eq!((peer, &address), (Rank(0), &rank_file.addresses[0]));
            }
            other => panic!("{other:?}"),
        }
        // So it is with those who should have connected.
        match end.event(Rank(2)) {
            LinkEvent::Closed { peer: Rank(2), error } => {
                assert!(matches!(error, LinkError::Unreachable { peer: Rank(2), .. }), "{error:?}");
            }
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn a_rank_that_listens_late_is_found() {
    watched(|| {
        // An address of its own, so that no other test gets the port in the meantime.
        let late = match Tcp::bind("127.0.0.2:0") {
            Ok(late) => late,
            Err(error) => return println!("SKIPPED: 127.0.0.2 is no address of this machine: {error}"),
        };
        let address = late.local_addr().unwrap();
        let rank_file = rank_file(std::slice::from_ref(&late));
        drop(late);
        let own = Tcp::bind("127.0.0.1:0").unwrap();
        let link = Tcp::new(own, rank_file, Rank(1), tcp_config(1 << 20, None)).unwrap();
        let end = End::start(Box::new(link));
        thread::sleep(SHORT / 5);
        let mut raw = Raw::over(Tcp::bind(address).unwrap().accept().unwrap().0);
        assert_eq!(raw.message()[..2], [0x50, 0]);
        drop(end);
        raw.expect_end();
    });
}

/// Somebody who takes connections and ends them, with or without a look at what they say.
fn take_and_end(listener: &TcpListener, connections: u32) {
    for connection in 0..connections {
        let mut raw = Raw::over(listener.accept().unwrap().0);
        if connection % 2 == 0 {
            raw.message();
        }
    }
}

/// A process of an earlier job may still have the port, and end only when others have connected to it.
#[test]
fn a_connection_that_ends_before_a_word_has_come_is_made_again() {
    watched(|| {
        for connections in [1, 3] {
            // An address of its own, so that no other test gets the port in the meantime.
            let old = match Tcp::bind("127.0.0.3:0") {
                Ok(old) => old,
                Err(error) => return println!("SKIPPED: 127.0.0.3 is no address of this machine: {error}"),
            };
            let own = Tcp::bind("127.0.0.1:0").unwrap();
            let address = old.local_addr().unwrap();
            let addresses = [&old, &own].map(|listener| listener.local_addr().unwrap().to_string()).to_vec();
            let rank_file = RankFile { secret: SECRET, addresses };
            let with_several = TcpConfig {
                connections: Connections::try_new(connections).unwrap(),
                ..tcp_config(64 << 20, None)
            };
            let connecting = Tcp::new(own, rank_file.clone(), Rank(1), with_several).unwrap();
            let connecting = node(Box::new(connecting), "paper", config());
            // Each of them twice.
            take_and_end(&old, 2 * connections);
            drop(old);
            let listener = Tcp::bind(address).unwrap();
            let link = Tcp::new(listener, rank_file, Rank(0), tcp_config(64 << 20, None)).unwrap();
            let nodes = [node(Box::new(link), "paper", config()), connecting];
            nodes.iter().for_each(meet_all);
            // The hello has its place among the turns: what follows over all connections comes as it was sent.
            for (from, to) in [(0, 1), (1, 0)] {
                for len in [10, 70_000, 70_001, 20, 70_002, 70_003] {
                    let (sent, into) = (noise(len as u64, len), HostBuffer::zeroed(len));
                    let receive = nodes[to].receive(Rank(from as u32), Tag(1), into.all());
                    let all = HostBuffer::from(sent.clone()).all();
                    let send = nodes[from].send(Rank(to as u32), Tag(1), all, Element::U8);
                    assert_eq!((end_of(receive), end_of(send)), (Ok(len as u64), Ok(len as u64)));
                    assert!(into.all().to_vec() == sent);
                }
            }
        }
    });
}

#[test]
fn who_ends_every_connection_unheard_is_given_up_in_time() {
    watched(|| {
        let listeners: [_; 2] = std::array::from_fn(|_| Tcp::bind("127.0.0.1:0").unwrap());
        let (address, rank_file) = (listeners[0].local_addr().unwrap(), rank_file(&listeners));
        let [expects, own] = listeners;
        let goes_on = Arc::new(AtomicBool::new(true));
        let went_on = goes_on.clone();
        let ending = thread::spawn(move || {
            while went_on.load(Ordering::SeqCst) {
                drop(expects.accept().unwrap());
            }
        });
        let config = TcpConfig { connect_timeout: SHORT, ..tcp_config(1 << 20, None) };
        let mut end = End::start(Box::new(Tcp::new(own, rank_file, Rank(1), config).unwrap()));
        match end.event(Rank(0)) {
            LinkEvent::Closed { peer: Rank(0), error: LinkError::Unreachable { peer, text, .. } } => {
                assert_eq!(peer, Rank(0));
                assert!(!text.is_empty());
            }
            other => panic!("{other:?}"),
        }
        goes_on.store(false, Ordering::SeqCst);
        drop(TcpStream::connect(address));
        ending.join().unwrap();
    });
}

/// Whose waits are all over at once, and who never rests, still sees to a rank that comes and to one that goes.
#[test]
fn ranks_that_keep_each_other_busy_see_to_others() {
    watched(|| {
        let mut links = Fabric::tcp().links(3, 1 << 20);
        let late = links.pop().unwrap();
        let nodes: Vec<Node> = links.into_iter().map(|link| node(link, "paper", config())).collect();
        let goes_on = AtomicBool::new(true);
        let exchange = |own: usize, says: bool| -> bool {
            let (peer, said) = (Rank(1 - own as u32), HostBuffer::zeroed(1));
            let receive = nodes[own].receive(peer, Tag(1), said.all());
            drop(nodes[own].post(peer, Tag(1), HostBuffer::from(vec![u8::from(says)]).all(), Element::U8));
            // This thread serves the sockets meanwhile.
            assert_eq!(receive.wait(), Ok(1));
            said.all().to_vec() == [1]
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                while goes_on.load(Ordering::Relaxed) {
                    exchange(0, true);
                }
                exchange(0, false);
            });
            scope.spawn(|| while exchange(1, true) {});
            thread::sleep(SHORT / 5);
            let state = |of: usize| nodes[of].peer_state(Rank(2)).unwrap();
            let late = node(late, "paper", config());
            wait_until("all have met", || (0..2).all(|of| state(of) == PeerState::Open));
            drop(late);
            wait_until("it is gone", || (0..2).all(|of| matches!(state(of), PeerState::Over(_))));
            goes_on.store(false, Ordering::Relaxed);
        });
    });
}
