//! Host memory is bounded, and nobody waits for ever.

use std::thread;
use std::time::Duration;

use mgcomp_codecs::Element;
use mgcomp_transport::copy::offload::{OffloadConfig, OffloadError, OffloadQueue};
use mgcomp_transport::copy::{CopyConfig, CopyError};
use mgcomp_transport::memory::HostBuffer;

use super::{Random, buffer, policy};

const LEN: usize = 100_000;
/// Nothing takes this long unless it hangs.
const HANGS: Duration = Duration::from_secs(100);

fn queue(link: f64, limit: u64) -> OffloadQueue {
    let copy = CopyConfig { segment_bytes: 16 << 10, window: 2, ..CopyConfig::simulated(link).unwrap() };
    OffloadQueue::start(OffloadConfig::new(copy, policy("fixed:zvc"), limit)).unwrap()
}

#[test]
fn an_offload_waits_for_others_that_shrink() {
    let queue = queue(16.0, 150_000);
    let sources: Vec<HostBuffer> = (0..5).map(|seed| buffer(&Random(seed).words(LEN, 95))).collect();
    // While its memory is held, the first one cannot shrink, and a second one does not fit beside it.
    let held = sources[0].all().hold_mut();
    let first = queue.offload(sources[0].all(), Element::F32).unwrap();
    let refused = queue.try_offload(sources[1].all(), Element::F32);
    let Err(OffloadError::Full { needed, used, limit: 150_000 }) = refused else { panic!("{refused:?}") };
    assert_eq!((needed, used), (100_256, 100_256));
    let offload = |source: &HostBuffer| queue.offload(source.all(), Element::F32).unwrap();
    let tickets: Vec<_> = thread::scope(|scope| {
        let waits = scope.spawn(|| sources[1..].iter().map(offload).collect());
        while queue.stats().waits == 0 {
            thread::yield_now();
        }
        drop(held);
        waits.join().unwrap()
    });
    let stats = queue.stats();
    assert!(stats.peak_bytes <= 150_000, "{stats:?}");
    for (ticket, source) in [first].into_iter().chain(tickets).zip(&sources) {
        let into = HostBuffer::zeroed(LEN);
        queue.prefetch(ticket, into.all()).unwrap().wait().unwrap();
        assert!(into.all().to_vec() == source.all().to_vec());
    }
    assert_eq!(queue.stats().used_bytes, 0);
}

#[test]
fn full_memory_is_an_error_where_nothing_makes_room() {
    let queue = queue(16.0, 250_000);
    let noise = buffer(&Random(1).words(LEN, 0));
    let tickets = [(); 2].map(|()| queue.offload(noise.all(), Element::F32).unwrap());
    // Does not wait for ever: what is kept stays until somebody takes it.
    let full = queue.offload(noise.all(), Element::F32).unwrap_err();
    assert!(
        matches!(full, OffloadError::Full { needed: 100_256, used: 200_512, limit: 250_000 }),
        "{full:?}"
    );
    queue.discard(tickets[0]).unwrap();
    let ticket = queue.offload(noise.all(), Element::F32).unwrap();
    queue.wait(ticket).unwrap();
    let long = HostBuffer::zeroed(250_000);
    let never = queue.offload(long.all(), Element::U8).unwrap_err();
    assert!(matches!(never, OffloadError::TooLong { needed: 250_256, limit: 250_000 }), "{never:?}");
}

#[test]
fn a_thread_that_waits_for_memory_gets_what_another_frees() {
    let queue = queue(16.0, 150_000);
    let noise = buffer(&Random(2).words(LEN, 0));
    let held = queue.offload(noise.all(), Element::F32).unwrap();
    queue.wait(held).unwrap();
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            loop {
                match queue.offload(noise.all(), Element::F32) {
                    Ok(ticket) => return queue.wait(ticket).unwrap(),
                    Err(OffloadError::Full { .. }) => thread::sleep(Duration::from_millis(1)),
                    Err(error) => panic!("{error}"),
                }
            }
        });
        let into = HostBuffer::zeroed(LEN);
        queue.prefetch(held, into.all()).unwrap().wait().unwrap();
        assert_eq!(other.join().unwrap().raw_bytes, LEN as u64);
    });
}

#[test]
fn a_queue_that_goes_ends_what_is_under_way() {
    // 100 bytes a second: nothing of this ever ends by itself.
    let queue = queue(1e-7, 1 << 30);
    let source = buffer(&Random(3).words(LEN, 50));
    let (ticket, into) = (queue.offload(source.all(), Element::F32).unwrap(), HostBuffer::zeroed(LEN));
    let mut returning = queue.prefetch(ticket, into.all()).unwrap();
    assert!(!returning.wait_for(Duration::from_millis(20)));
    drop(queue);
    assert!(matches!(returning.wait(), Err(CopyError::Closed { .. })));
    assert_eq!(into.all().to_vec(), vec![0; LEN]);
}

#[test]
fn the_cap_on_reading_device_memory_can_be_changed_while_it_holds() {
    // 4 b/s: after the first segment, which is read at once, the next one waits for hours.
    let mut copy = CopyConfig { segment_bytes: 16 << 10, ..CopyConfig::simulated(16.0).unwrap() };
    copy.read_cap_gbps = Some(4e-9);
    let queue = OffloadQueue::start(OffloadConfig::new(copy, policy("fixed:zvc"), 1 << 20)).unwrap();
    let (short, long) = (HostBuffer::zeroed(16 << 10), HostBuffer::zeroed(LEN));
    let first = queue.offload(short.all(), Element::F32).unwrap();
    queue.wait(first).unwrap();
    // A prefetch reads no device memory.
    queue.prefetch(first, short.all()).unwrap().wait().unwrap();
    let second = queue.offload(long.all(), Element::F32).unwrap();
    let mut back = queue.prefetch(second, long.all()).unwrap();
    assert!(!back.wait_for(Duration::from_millis(50)));
    assert!(queue.set_read_cap_gbps(0.0).is_err());
    // Goes on with what waits already.
    queue.set_read_cap_gbps(400.0).unwrap();
    assert!(back.wait_for(HANGS), "hangs");
    back.wait().unwrap();
    queue.set_read_cap_gbps(4e-9).unwrap();
    let ticket = queue.offload(long.all(), Element::F32).unwrap();
    assert!(matches!(
        queue.try_offload(long.slice(0..99_996).unwrap(), Element::F64),
        Err(OffloadError::Copy(_))
    ));
    drop(queue); // ends also what waits for its turn
    let _ = ticket;
}
