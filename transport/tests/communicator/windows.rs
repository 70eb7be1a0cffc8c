//! Long messages over an imitated link that is short and fast, where their parts wait for earlier ones to be received.

use std::thread;
use std::time::{Duration, Instant};

use mgcomp_codecs::Element;
use mgcomp_transport::communicator::Communicator;
use mgcomp_transport::memory::HostBuffer;
use mgcomp_transport::node::NodeConfig;

use super::common::fabric::Fabric;
use super::common::job::config;
use super::common::watched;
use super::{buffer_of, bytes_of, on_all_with};

const LEN: usize = 4 << 20;

fn on_each_link(policy: &str, work: impl Fn(&Communicator) + Sync) {
    // Nobody looks at the time by himself for a minute.
    let config = NodeConfig { silence_timeout: Duration::from_secs(600), ..config() };
    for fabric in [Fabric::loopback(), Fabric::shm(), Fabric::tcp()] {
        on_all_with(fabric.shaped(10.0, 20), 2, policy, &config, |world| {
            // What a link is like is known when something was sent.
            let (own, peer) = (world.rank(), 1 - world.rank());
            let (send, into) = (buffer_of(own, LEN), HostBuffer::zeroed(LEN));
            let got = world.send_receive((peer, &send.all()), (peer, &into.all()), 1, Element::F32);
            assert_eq!(got, Ok(LEN as u64));
            assert!(into.all().to_vec() == bytes_of(peer, LEN));
            work(world);
        });
    }
}

#[test]
fn a_message_that_is_received_late_holds_up_the_next_for_a_moment_only() {
    watched(|| {
        for policy in ["fixed:none", "fixed:xp"] {
            on_each_link(policy, |world| {
                if world.rank() == 0 {
                    let sends = [(1, LEN), (2, 100), (3, LEN)].map(|(tag, len)| {
                        world.start_send(1, tag, &buffer_of(tag, len).all(), Element::F32).unwrap()
                    });
                    return sends.into_iter().for_each(|send| send.wait().unwrap());
                }
                for (tag, len) in [(2, 100), (3, LEN), (1, LEN)] {
                    let into = HostBuffer::zeroed(len);
                    let mut receive = world.start_receive(0, tag, &into.all()).unwrap();
                    let begun = Instant::now();
                    while !receive.is_finished() {
                        assert!(begun.elapsed() < Duration::from_secs(30), "{tag} waits for the time");
                        thread::sleep(Duration::from_millis(1));
                    }
                    assert_eq!(receive.wait(), Ok(len as u64));
                    assert!(into.all().to_vec() == bytes_of(tag, len));
                }
            });
        }
    });
}

#[test]
fn messages_both_ways_and_collectives_between_them_arrive() {
    watched(|| {
        on_each_link("adaptive", |world| {
            let (own, peer) = (world.rank(), 1 - world.rank());
            let places: Vec<_> = (0..4).map(|_| HostBuffer::zeroed(LEN)).collect();
            let receives: Vec<_> =
                places.iter().map(|place| world.start_receive(peer, 1, &place.all()).unwrap()).collect();
            let sends: Vec<_> = (0..4)
                .map(|n| {
                    world.start_send(peer, 1, &buffer_of(10 * own + n, LEN).all(), Element::F32).unwrap()
                })
                .collect();
            let all = HostBuffer::zeroed(2 * LEN);
            world.all_gather(&buffer_of(own, LEN).all(), &all.all(), Element::F32).unwrap();
            assert!(all.all().to_vec() == [bytes_of(0, LEN), bytes_of(1, LEN)].concat());
            for (n, (receive, place)) in (0..).zip(receives.into_iter().zip(&places)) {
                assert_eq!(receive.wait(), Ok(LEN as u64));
                assert!(place.all().to_vec() == bytes_of(10 * peer + n, LEN));
            }
            sends.into_iter().for_each(|send| send.wait().unwrap());
        });
    });
}
