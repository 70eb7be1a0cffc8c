//! Members that vanish while they tell each other what collectives took, or which communicators they make, or while another one is late.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use mgcomp_codecs::Element;
use mgcomp_selector::LinkFacts;
use mgcomp_transport::communicator::{CollectiveRequest, Communicator, CommunicatorError};
use mgcomp_transport::link::{
    Drive, Link, LinkError, LinkEvent, LinkSink, Message, Position, SendError, Sent,
};
use mgcomp_transport::memory::HostBuffer;
use mgcomp_transport::message::{Header, Rank, Status};
use mgcomp_transport::node::{Node, NodeConfig, PeerState};
use mgcomp_transport::session::{SessionError, TransferError};

use super::common::fabric::Fabric;
use super::common::job::{config, meet, node, wait_until_over};
use super::common::{wait_until, watched};
use super::{buffer_of, bytes_of};

/// Each rank's block: all three together are compared.
const BYTES: usize = 16 << 10;
/// What a rank tells another of collectives, and of communicators; nothing else in a test with either is that long.
const REPORT_BYTES: u32 = 24;
const WORDS_BYTES: u32 = 16;
/// How long ranks may be silent. Those that are left wait for each other too, so it is long, and cases of silence run side by side.
const SILENCE: Duration = Duration::from_secs(15);
/// Who vanishes.
const GONE: Rank = Rank(2);

/// How a rank vanishes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Manner {
    /// As a machine without power: nobody closes anything.
    Silently,
    /// As a process that is killed: its connections end.
    Closing,
}

impl Manner {
    fn explains(self, error: &SessionError) -> bool {
        match self {
            Self::Silently => *error == SessionError::Silent(SILENCE),
            Self::Closing => matches!(error, SessionError::Link(_)),
        }
    }
}

/// The link of a rank that vanishes in the middle of its reports.
struct Vanishing {
    inner: Box<dyn Link>,
    manner: Manner,
    /// How long they are.
    report_bytes: u32,
    /// Those that still leave.
    left: AtomicU32,
    gone: Arc<AtomicBool>,
}

impl Vanishing {
    fn is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }

    /// Whether this message leaves.
    fn leaves(&self, message: &Message) -> bool {
        let is_report =
            matches!(&message.header, Header::TaggedSend(send) if send.length == self.report_bytes);
        if is_report && !self.is_gone() {
            let is_left = |left: u32| left.checked_sub(1);
            let is_last = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, is_left).is_err();
            if is_last && !self.gone.swap(true, Ordering::SeqCst) && self.manner == Manner::Closing {
                self.position().peers().for_each(|peer| self.inner.close(peer));
            }
        }
        !self.is_gone()
    }
}

impl Link for Vanishing {
    fn position(&self) -> Position {
        self.inner.position()
    }

    fn ranks_here(&self) -> u32 {
        self.inner.ranks_here()
    }

    fn owns_arrived(&self) -> bool {
        self.inner.owns_arrived()
    }

    fn driver(&self) -> Option<Weak<dyn Drive>> {
        self.inner.driver()
    }

    fn start(&mut self, sink: LinkSink) -> Result<(), LinkError> {
        let gone = self.gone.clone();
        self.inner.start(Arc::new(move |event: LinkEvent| {
            if !gone.load(Ordering::SeqCst) {
                sink(event);
            }
        }))
    }

    fn send(&self, to: Rank, message: Message) -> Result<Sent, SendError> {
        if self.leaves(&message) { self.inner.send(to, message) } else { Ok(Sent::Written) }
    }

    fn send_with_next(&self, to: Rank, message: Message) -> Result<Sent, SendError> {
        if self.leaves(&message) { self.inner.send_with_next(to, message) } else { Ok(Sent::Written) }
    }

    fn moved_since(&self, peer: Rank, since: Instant) -> bool {
        !self.is_gone() && self.inner.moved_since(peer, since)
    }

    fn facts(&self, peer: Rank) -> Option<LinkFacts> {
        self.inner.facts(peer)
    }

    fn is_cores_work(&self, peer: Rank) -> bool {
        self.inner.is_cores_work(peer)
    }

    fn part_bytes(&self) -> usize {
        self.inner.part_bytes()
    }

    fn close(&self, peer: Rank) {
        // Who is gone says no farewell.
        if !self.is_gone() {
            self.inner.close(peer);
        }
    }
}

/// Three ranks, of which the last one vanishes when it has sent so many reports of this length.
fn three(fabric: Fabric, manner: Manner, reports: u32, report_bytes: u32) -> Vec<Communicator> {
    let config = NodeConfig { silence_timeout: SILENCE, ..config() };
    let mut links = fabric.links(3, 1 << 30);
    let inner = links.pop().unwrap();
    let (left, gone) = (AtomicU32::new(reports), Arc::default());
    links.push(Box::new(Vanishing { inner, manner, report_bytes, left, gone }));
    let nodes: Vec<Node> = links.into_iter().map(|link| node(link, "adaptive", config.clone())).collect();
    nodes.iter().for_each(meet);
    nodes.into_iter().map(Communicator::world).collect()
}

/// Three ranks that gather until the last one vanishes.
fn vanishes(fabric: Fabric, manner: Manner, reports: u32) {
    let worlds = three(fabric, manner, reports, REPORT_BYTES);
    thread::scope(|scope| {
        for world in &worlds {
            scope.spawn(move || gathers_until_one_is_gone(world, manner));
        }
    });
}

fn gathers_until_one_is_gone(world: &Communicator, manner: Manner) {
    let rank = world.rank();
    let (mut mine, mut all) = (buffer_of(rank, BYTES), HostBuffer::zeroed(3 * BYTES));
    let mut done = 0;
    let error = loop {
        match world.all_gather(&mine.all(), &all.all(), Element::U32) {
            Ok(()) => done += 1,
            Err(error) => break error,
        }
        assert!(done < 64, "rank {rank}: nobody vanishes");
    };
    if rank == GONE.0 {
        // To itself it is the others that have gone.
        let is_session = matches!(&error, CommunicatorError::Transfer(TransferError::Session { .. }));
        assert!(is_session, "{error:?}");
        return;
    }
    let other = Rank(1 - rank);
    let is_clear = match &error {
        CommunicatorError::Transfer(TransferError::Session { peer, error }) => {
            *peer == GONE && manner.explains(error)
        }
        // That one has found out first.
        CommunicatorError::Transfer(TransferError::GivenUp { peer, status }) => {
            *peer == other && *status == Status::Internal
        }
        _ => false,
    };
    assert!(is_clear, "rank {rank}, {manner:?}: {error:?}");
    assert_eq!(world.barrier(), Err(CommunicatorError::Broken(Box::new(error))));
    let over = wait_until_over(world.node(), GONE);
    assert!(manner.explains(&over), "rank {rank}, {manner:?}: {over:?}");
    wait_until("nobody uses the buffers", || mine.is_only() && all.is_only());

    // The two that are left go on with each other.
    for len in [10, 100_000] {
        let (from, into) = (buffer_of(rank, len), HostBuffer::zeroed(len));
        let received = world.send_receive((other.0, &from.all()), (other.0, &into.all()), 1, Element::U8);
        assert_eq!(received, Ok(len as u64));
        assert!(into.all().to_vec() == bytes_of(other.0, len));
    }
    assert_eq!(world.node().peer_state(other), Some(PeerState::Open));
}

/// None of its reports leaves, one of two, or the first of the second time.
fn vanishes_at_each_place(manner: Manner) {
    thread::scope(|scope| {
        scope.spawn(|| vanishes(Fabric::loopback(), manner, 0));
        scope.spawn(|| vanishes(Fabric::loopback(), manner, 1));
        scope.spawn(|| vanishes(Fabric::tcp(), manner, 1));
        scope.spawn(|| vanishes(Fabric::tcp(), manner, 3));
    });
}

#[test]
fn a_member_that_falls_silent_while_reports_are_exchanged_is_given_up() {
    watched(|| vanishes_at_each_place(Manner::Silently));
}

#[test]
fn a_member_that_is_killed_while_reports_are_exchanged_ends_the_collectives_of_all() {
    watched(|| vanishes_at_each_place(Manner::Closing));
}

/// Of its last word, that it has the number of the new communicators, only rank 0 hears: that one has a communicator with rank 1, which
/// knows of none.
#[test]
fn who_hears_of_no_new_communicator_tells_those_who_may_have_it() {
    watched(|| {
        // It gathers three times, and tells each of two others. Over this link, what is sent to it is done when it is written.
        let worlds = three(Fabric::tcp(), Manner::Silently, 5, WORDS_BYTES);
        thread::scope(|scope| {
            for world in &worlds {
                scope.spawn(move || {
                    let rank = world.rank();
                    let split = world.split(Some(rank / 2), 0);
                    if rank == GONE.0 {
                        return; // which may have heard of all others
                    }
                    if rank == 1 {
                        assert!(matches!(split, Err(CommunicatorError::Transfer(_))), "{split:?}");
                        return;
                    }
                    let both = split.unwrap().unwrap();
                    assert_eq!((both.rank(), both.size()), (0, 2));
                    let given_up = TransferError::GivenUp { peer: Rank(1), status: Status::Internal };
                    assert_eq!(both.barrier(), Err(CommunicatorError::Transfer(given_up)));
                });
            }
        });
    });
}

/// Rank 1 does nothing before rank 0 is done.
fn vanishes_while_another_is_late(fabric: Fabric, manner: Manner, (start, late_hears_in): (Start, HearsIn)) {
    let worlds = three(fabric, manner, 0, REPORT_BYTES);
    let [waiting, late, vanishing] = &worlds[..] else { panic!("{} ranks", worlds.len()) };
    let (mine, all) = (buffer_of(0, BYTES), HostBuffer::zeroed(3 * BYTES));
    let mut request = start(waiting, &mine, &all);
    drop(vanishing.start_send(1, 0, &buffer_of(2, REPORT_BYTES as usize).all(), Element::U8));
    wait_until("the member that waits hears of it", || request.is_finished());
    let error = request.wait().unwrap_err();
    let CommunicatorError::Transfer(TransferError::Session { peer: GONE, error: over }) = &error else {
        panic!("{manner:?}: {error:?}");
    };
    assert!(manner.explains(over), "{manner:?}: {over:?}");
    assert_eq!(waiting.barrier(), Err(CommunicatorError::Broken(Box::new(error))));
    // And so does who comes late, from whichever is first.
    let mut ended = start(late, &mine, &all).wait();
    if late_hears_in == HearsIn::TheNext && ended == Ok(()) {
        ended = late.barrier();
    }
    assert!(matches!(ended, Err(CommunicatorError::Transfer(_))), "{manner:?}: {ended:?}");
}

type Start = fn(&Communicator, &HostBuffer, &HostBuffer) -> CollectiveRequest;

/// In which collective a member hears at the latest that another has vanished.
#[derive(Clone, Copy, PartialEq)]
enum HearsIn {
    /// It needs what the other does not send.
    This,
    /// It only sends, which may be done before it hears.
    TheNext,
}

#[test]
fn who_waits_for_a_late_member_hears_that_another_has_vanished() {
    let gather: Start = |world, mine, all| world.start_gather(0, &mine.all(), &all.all(), Element::U32);
    let all_gather: Start = |world, mine, all| world.start_all_gather(&mine.all(), &all.all(), Element::U32);
    let (gather, all_gather) = ((gather, HearsIn::TheNext), (all_gather, HearsIn::This));
    watched(move || {
        vanishes_while_another_is_late(Fabric::loopback(), Manner::Closing, gather);
        vanishes_while_another_is_late(Fabric::tcp(), Manner::Closing, all_gather);
        thread::scope(|scope| {
            for (fabric, start) in [(Fabric::loopback(), all_gather), (Fabric::tcp(), gather)] {
                scope.spawn(move || vanishes_while_another_is_late(fabric, Manner::Silently, start));
            }
        });
    });
}
