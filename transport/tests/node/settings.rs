//! Settings at their limits, and waiting for peers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mgcomp_codecs::Element;
use mgcomp_selector::{PolicySpec, Steering};
use mgcomp_transport::link::loopback::Loopback;
use mgcomp_transport::link::{Link, LinkError};
use mgcomp_transport::memory::HostBuffer;
use mgcomp_transport::message::{Invalid, Limits, Rank};
use mgcomp_transport::node::{Node, NodeConfig, NodeError, PeerState};
use mgcomp_transport::region::Access;
use mgcomp_transport::session::SessionError;

use crate::common::fabric::Fabric;
use crate::common::job::{SILENCE, config, end_of, node, nodes, wait_until_over};
use crate::common::{LIMITS, watched};

fn start(link: Box<dyn Link>, config: NodeConfig) -> Result<Node, NodeError> {
    Node::start(link, "paper".parse::<PolicySpec>().unwrap().build(&Steering::default()), config)
}

fn one_link() -> Box<dyn Link> {
    Box::new(Loopback::fabric(2, None).unwrap().remove(0))
}

#[test]
fn settings_that_cannot_work_are_refused() {
    let limits = |limits| NodeConfig { limits, ..config() };
    let error = |config| start(one_link(), config).err().unwrap();
    let none = error(limits(Limits { max_transfer_bytes: 0, ..LIMITS }));
    assert!(matches!(none, NodeError::Limits(Invalid::MaxTransfer)), "{none:?}");
    let none = error(limits(Limits { window_bytes: 0, ..LIMITS }));
    assert!(matches!(none, NodeError::Limits(Invalid::Window)), "{none:?}");
    for got in [0, 1, 65_537] {
        let wrong = error(limits(Limits { max_in_flight: got, ..LIMITS }));
        let NodeError::Limits(invalid) = wrong else { panic!("{wrong:?}") };
        assert_eq!(invalid, Invalid::InFlight { got });
    }
    let none = error(NodeConfig { piece_bytes: 0, ..config() });
    assert!(matches!(none, NodeError::PieceBytes), "{none:?}");

    let mut started = one_link();
    started.start(Arc::new(|_| {})).unwrap();
    let twice = start(started, config()).err().unwrap();
    assert!(matches!(twice, NodeError::Link(LinkError::StartedTwice)), "{twice:?}");
}

#[test]
fn the_longest_times_mean_for_ever() {
    watched(|| {
        let config = NodeConfig {
            greeting_timeout: Duration::MAX,
            silence_timeout: Duration::MAX,
            codec_threads: 0,
            ..config()
        };
        let nodes = nodes(Fabric::loopback(), 2, "paper", &config);
        assert_eq!(nodes[0].wait_for_peers(Duration::MAX), [(Rank(1), PeerState::Open)]);
        let address = nodes[1].register(HostBuffer::zeroed(9).all(), Element::U8, Access::all()).unwrap();
        assert_eq!(end_of(nodes[0].read(Rank(1), address, HostBuffer::zeroed(9).all())), Ok(9));
    });
}

#[test]
fn waiting_for_peers_ends_with_the_last_answer_or_the_time() {
    watched(|| {
        let mut links = Fabric::loopback().links(3, 1 << 20);
        let never_starts = links.pop();
        // It has said its greeting before the other's time begins.
        let _one = node(links.pop().unwrap(), "fixed:none", config());
        let config = NodeConfig { greeting_timeout: SILENCE, ..config() };
        let started = Instant::now();
        let zero = node(links.pop().unwrap(), "fixed:none", config.clone());
        let state = zero.wait_for_peers(Duration::ZERO)[1].clone();
        // Over is an answer too.
        let over = (Rank(2), PeerState::Over(SessionError::GreetingTimeout(SILENCE)));
        let is_late = started.elapsed() >= SILENCE;
        assert!(state == (Rank(2), PeerState::Greeting) || is_late && state == over, "{state:?}");
        assert_eq!(zero.wait_for_peers(Duration::MAX), [(Rank(1), PeerState::Open), over]);
        drop(never_starts);

        let alone = node(Fabric::loopback().links(1, 1 << 20).remove(0), "paper", config);
        assert_eq!(alone.wait_for_peers(Duration::MAX), []);
    });
}

#[test]
fn ranks_of_different_jobs_do_not_meet() {
    watched(|| {
        let mut links = Fabric::loopback().links(2, 1 << 20).into_iter();
        let ours = node(links.next().unwrap(), "paper", config());
        let other = NodeConfig { secret: "00112233445566778899aabbccddeeff".parse().unwrap(), ..config() };
        let theirs = node(links.next().unwrap(), "paper", other);
        for (node, peer) in [(&ours, Rank(1)), (&theirs, Rank(0))] {
            let error = wait_until_over(node, peer);
            let status = mgcomp_transport::message::Status::WrongSecret;
            assert!(
                error == SessionError::PeerRefused(status) || error == SessionError::Refused(status),
                "{error:?}"
            );
        }
    });
}
