//! Messages arrive whole and in order.

use std::thread;

use mgcomp_transport::link::Link;
use mgcomp_transport::message::Rank;

use crate::ROOMY;
use crate::common::end::{End, numbered};
use crate::common::fabric::Fabric;

/// Mostly small, empty ones among them, and now and then a big one.
fn mixed_len(number: u64) -> usize {
    match number % 500 {
        0 => 0,
        1 => (3 << 20) + 5,
        n if n % 50 == 2 => 300_001,
        n => (n as usize % 7) * 211,
    }
}

pub(crate) fn messages_of_all_sizes_arrive_in_order(fabric: Fabric) {
    const COUNT: u64 = 3000;
    let run = |mut end: End, peer: Rank| {
        // Some go out ahead of what comes in, so that both directions are busy at once.
        let ahead = 100;
        for number in 0..COUNT + ahead {
            if number < COUNT {
                end.send(peer, &numbered(number, mixed_len(number)));
            }
            if let Some(number) = number.checked_sub(ahead) {
                end.expect(peer, number, mixed_len(number));
            }
        }
        end
    };
    let mut ends = End::start_all(fabric.links(2, 64 << 20)).into_iter();
    let (a, b) = (ends.next().unwrap(), ends.next().unwrap());
    let a = thread::spawn(move || run(a, Rank(1)));
    let b = thread::spawn(move || run(b, Rank(0)));
    // Both ends live until both have all.
    let ends = (a.join().unwrap(), b.join().unwrap());
    drop(ends);
}

pub(crate) fn eight_ranks_talk_all_to_all(fabric: Fabric) {
    const COUNT: u64 = 100;
    let len = |from: Rank, number: u64| (from.0 as usize * 31 + number as usize * 97) % 4096;
    let run = |link: Box<dyn Link>| {
        thread::spawn(move || {
            let mut end = End::start(link);
            end.meet();
            let position = end.link.position();
            for number in 0..COUNT {
                for peer in position.peers() {
                    end.send(peer, &numbered(number, len(position.rank, number)));
                }
            }
            for number in 0..COUNT {
                position.peers().for_each(|peer| end.expect(peer, number, len(peer, number)));
            }
            end
        })
    };
    let threads: Vec<_> = fabric.links(8, ROOMY).into_iter().map(run).collect();
    let ends: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    drop(ends);
}

pub(crate) fn a_message_of_256_mib_arrives(fabric: Fabric) {
    const LEN: usize = 256 << 20;
    let mut ends = End::start_all(fabric.links(2, ROOMY));
    ends[1].send(Rank(0), &numbered(1, 3));
    ends[1].send(Rank(0), &numbered(2, LEN));
    ends[1].send(Rank(0), &numbered(3, 3));
    ends[0].expect(Rank(1), 1, 3);
    ends[0].expect(Rank(1), 2, LEN);
    ends[0].expect(Rank(1), 3, 3);
}
