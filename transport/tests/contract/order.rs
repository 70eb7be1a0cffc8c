//! Messages arrive whole and in order.

use std::fs;
use std::sync::{Mutex, PoisonError};
use std::thread;

use bytes::Bytes;
use mgcomp_codecs::Algorithm;
use mgcomp_transport::link::{Link, Message};
use mgcomp_transport::message::{Header, MessageId, Rank, Tag, TaggedSend};
use mgcomp_transport::payload::Payload;

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

/// What may wait for the next message comes before it; it comes without one too, and before the end.
pub(crate) fn what_waits_for_the_next_message_comes(fabric: Fabric) {
    let mut ends = End::start_all(fabric.links(2, 64 << 20));
    let wait_for_next = |end: &End, number| {
        end.link.send_with_next(Rank(1), numbered(number, 0)).unwrap();
    };
    wait_for_next(&ends[0], 0);
    ends[1].expect(Rank(0), 0, 0);
    for first in (1..1000).step_by(3) {
        // Also more than is held back at a time, and long messages behind it.
        let waiting = if first == 1 { 200 } else { 2 };
        (0..waiting).for_each(|number| wait_for_next(&ends[0], number));
        ends[0].send(Rank(1), &numbered(first, mixed_len(first)));
        (0..waiting).for_each(|number| ends[1].expect(Rank(0), number, 0));
        ends[1].expect(Rank(0), first, mixed_len(first));
    }
    wait_for_next(&ends[0], 7);
    ends[0].link.close(Rank(1));
    ends[1].expect(Rank(0), 7, 0);
    ends[1].expect_closed(Rank(0));
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

/// Bytes of memory that a message of a gibibyte may take on its way, with room for other tests meanwhile. Over MPI three
/// processes have it at once: the two ranks, and the test.
const MEMORY_BYTES: u64 = 5 << 30;

pub(crate) fn a_message_of_1_gib_arrives(fabric: Fabric) {
    const LEN: usize = 1 << 30;
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if available_bytes().is_some_and(|available| available < MEMORY_BYTES) {
        println!("SKIPPED: a message of 1 GiB needs {MEMORY_BYTES} bytes of memory");
        return;
    }
    // Almost all of it is memory that is never touched, and so takes no room.
    let mut content = vec![0; LEN];
    content.iter_mut().step_by((1 << 20) + 77).zip(1..).for_each(|(byte, i)| *byte = i as u8);
    content[LEN - 1] = 0xff;
    let content = Bytes::from(content);
    let header = Header::TaggedSend(TaggedSend {
        id: MessageId(1),
        algorithm: Algorithm::None,
        continued: false,
        unawaited: false,
        tag: Tag(1),
        length: LEN as u32,
    });
    let mut ends = End::start_all(fabric.taking_1_gib().links(2, 2 << 30));
    ends[1].send(Rank(0), &Message { header, payload: Payload::from_bytes(content.clone()) });
    ends[1].send(Rank(0), &numbered(2, 3));
    let (message, _) = ends[0].message(Rank(1));
    assert_eq!(message.header, header);
    assert!(message.payload.bytes() == Some(&content), "the bytes differ");
    drop(message);
    ends[0].expect(Rank(1), 2, 3);
}

/// Memory that the system could hand out now; none where it does not say.
fn available_bytes() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(1024 * line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?)
}
