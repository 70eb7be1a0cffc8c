//! A call that fails returns when nothing uses its memory any more: also what waits behind other work of the program's.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mgcomp_codecs::Element;
use mgcomp_codecs::device::Buffer;
use mgcomp_tests::stub::{OUT_OF_MEMORY, Stub};
use mgcomp_tests::stub_nccl::StubNccl;
use mgcomp_transport::communicator::{Datatype, Operation};
use mgcomp_transport::nccl::{NcclCommunicator, NcclConfig, NcclError, Reductions, Sent};

use crate::rig::{
    Gate, HANGS, Place, SHORT, all_end, alone, config, in_time, on_ranks, with_nccl, with_nccl_that_keeps,
};

const LEN: usize = 8 << 10;
/// So long that there is no room for it where there is for the other.
const LONG: usize = 4 << 20;

/// The stream of a place, which waits until it is let go, at the latest when this is dropped.
struct Held<'a> {
    place: &'a Place,
    word: Buffer,
}

impl<'a> Held<'a> {
    fn new(place: &'a Place) -> Self {
        let word = place.holding(&[0; 8]);
        place.stream.wait_for(word.region().word(0), 1).unwrap();
        Self { place, word }
    }

    /// Makes a call that is to wait for the stream, and lets that go a little later: whoever does not wait has most likely
    /// returned by then. Says whether it has.
    fn leaves_behind<T>(&self, call: impl FnOnce() -> T) -> (T, bool) {
        let is_let_go = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(50));
                is_let_go.store(true, Ordering::SeqCst);
                self.let_go();
            });
            let end = call();
            (end, !is_let_go.load(Ordering::SeqCst) || !self.place.stream.is_idle().unwrap())
        })
    }

    fn let_go(&self) {
        let other = self.place.device.stream().unwrap();
        other.post(self.word.region().word(0), 1).unwrap();
        other.wait().unwrap();
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.let_go();
        self.place.stream.wait().unwrap();
    }
}

/// Everything is a plain call, but for reductions.
fn plain(_: u32) -> NcclConfig {
    NcclConfig { reductions: Reductions::Ordered, ..config("fixed:none") }
}

fn reduce(world: &mut NcclCommunicator, place: &Place, buffer: &Buffer) -> Result<(), NcclError> {
    let both = (buffer.region(), buffer.region());
    world.all_reduce(&place.stream, both, Datatype::U8, Operation::Sum)
}

/// What one rank has enqueued waits in its stream while the other one fails.
#[test]
fn who_hears_of_a_failure_has_waited_for_the_stream() {
    with_nccl("ends::who_hears_of_a_failure_has_waited_for_the_stream", 51, |stub, _| {
        const ILLEGAL_ADDRESS: u32 = 700;
        let together = Gate::new(2);
        let ends = on_ranks(2, plain, |world, place| {
            let buffer = place.holding(&[1; LEN]);
            let mut world = world.unwrap();
            // There is room for the numbers from here on.
            reduce(&mut world, place, &buffer).and_then(|()| world.wait(&place.stream)).unwrap();
            if world.rank() == 1 {
                together.pass();
                let failed = reduce(&mut world, place, &buffer);
                together.pass();
                return (failed, false);
            }
            let held = Held::new(place);
            // The other rank's.
            stub.fail(Some("cuLaunchKernel"), 2, ILLEGAL_ADDRESS);
            reduce(&mut world, place, &buffer).unwrap();
            together.pass();
            together.pass();
            held.leaves_behind(|| world.wait(&place.stream))
        });
        stub.fail(None, 0, 0);
        assert!(matches!(ends[0].0, Err(NcclError::Call { .. })), "{ends:?}");
        assert!(matches!(ends[1].0, Err(NcclError::Device(_))), "{ends:?}");
        assert!(!ends[0].1, "work goes on");
    });
}

/// Whether work goes on after a call that fails when it has enqueued some, on a stream that is held up.
fn goes_on(
    (stub, fails): (&Stub, &str),
    call: impl Fn(&mut NcclCommunicator, &Place, [&Buffer; 2]) -> Result<(), NcclError> + Sync,
) -> bool {
    const OUT_OF_RESOURCES: u32 = 701;
    let together = Gate::new(2);
    let ends = on_ranks(2, plain, |world, place| {
        let mut world = world.unwrap();
        let (from, into) = (place.holding(&[1; LEN]), place.room(LEN));
        reduce(&mut world, place, &from).and_then(|()| world.wait(&place.stream)).unwrap();
        together.pass();
        if world.rank() == 1 {
            together.pass();
            return (Err(NcclError::Aborted), false);
        }
        let held = Held::new(place);
        stub.fail(Some(fails), 1, OUT_OF_RESOURCES);
        let end = held.leaves_behind(|| call(&mut world, place, [&from, &into]));
        stub.fail(None, 0, 0);
        drop(held);
        // Before the communicator: the stub minds if they are in use.
        drop((from, into));
        together.pass();
        end
    });
    assert!(ends.iter().all(|(failed, _)| failed.is_err()), "{fails}: {ends:?}");
    ends[0].1
}

#[test]
fn a_call_that_fails_halfway_leaves_nothing_under_way() {
    with_nccl("ends::a_call_that_fails_halfway_leaves_nothing_under_way", 52, |stub, _| {
        // What goes to the rank itself is on its way.
        let moved = goes_on((stub, "ncclSend"), |world, place, [from, into]| {
            world.all_to_all(&place.stream, from.region(), into.region(), Element::U8).map(drop)
        });
        // The numbers are on their way to the kernel, on a stream that the program does not know.
        let reduced = goes_on((stub, "cuLaunchKernel"), |world, place, [from, into]| {
            let numbers = (from.region(), into.region());
            world.all_reduce(&place.stream, numbers, Datatype::U8, Operation::Sum)
        });
        assert_eq!([moved, reduced], [false; 2], "work goes on");
    });
}

/// A plain call that fails behind something else, of which only its own stream knows.
fn fail_behind<'a>(
    (stub, place): (&Stub, &'a Place),
    world: &mut NcclCommunicator,
    buffer: &Buffer,
) -> Held<'a> {
    let held = Held::new(place);
    stub.fail(Some("ncclBroadcast"), 1, 999);
    let failed = world.broadcast(&place.stream, 0, buffer.region(), Element::U8);
    stub.fail(None, 0, 0);
    assert!(failed.is_err());
    assert!(!place.stream.is_idle().unwrap());
    held
}

/// The stub ends the process if something is freed that is in use, or to free it waits for all that the device does.
#[test]
fn what_something_else_holds_up_is_waited_for_up_to_the_limit() {
    let test = "ends::what_something_else_holds_up_is_waited_for_up_to_the_limit";
    with_nccl_that_keeps(test, 53, |stub, _| {
        let place = Place::open(0);
        let buffer = place.holding(&[1; LEN]);
        // One that goes well, and is under way on streams of the communicator's.
        let (world, held) = in_time(|| {
            let mut world = alone(&place, plain(0), SHORT);
            let held = Held::new(&place);
            reduce(&mut world, &place, &buffer).map(|()| (world, held))
        });
        drop(world);
        assert!(!place.stream.is_idle().unwrap());
        drop(held);
        assert!(stub.left().contains(" allocations"), "what was in use was freed: {}", stub.left());
        stub.set("strict_free", 0);
        let mut world = alone(&place, plain(0), SHORT);
        let held = fail_behind((stub, &place), &mut world, &buffer);
        drop(world);
        assert!(!place.stream.is_idle().unwrap());
        drop(held);
        // Streams that a communicator hears of when it has failed already, and one that it cannot wait for.
        for fails in [None, Some("cuStreamWaitEvent")] {
            let mut world = alone(&place, plain(0), SHORT);
            world.abort();
            let held = Held::new(&place);
            stub.fail(fails, u64::from(fails.is_some()), OUT_OF_MEMORY);
            assert!(matches!(world.wait(&place.stream), Err(NcclError::Broken(_))));
            stub.fail(None, 0, 0);
            drop(world);
            assert!(!place.stream.is_idle().unwrap());
            drop(held);
        }
    });
}

#[test]
fn what_ends_later_is_given_back() {
    with_nccl_that_keeps("ends::what_ends_later_is_given_back", 58, |stub, nccl| {
        let fail = || {
            let place = Place::open(0);
            let buffer = place.holding(&[1; LEN]);
            // The failing call takes all of the limit, and what ends later has as much again.
            let mut world = alone(&place, plain(0), 3 * SHORT);
            let held = fail_behind((stub, &place), &mut world, &buffer);
            // The failure is long past.
            held.leaves_behind(|| drop(world));
        };
        let leaves_nothing = || {
            let before = stub.left();
            fail();
            all_end(nccl);
            stub.left() == before
        };
        // The machine may be too busy to end anything within the limit, but not all the time.
        assert!((0..4).any(|_| leaves_nothing()), "left in the driver: {}", stub.left());
    });
}

#[test]
fn who_waits_after_a_failure_has_waited_for_the_stream() {
    with_nccl("ends::who_waits_after_a_failure_has_waited_for_the_stream", 56, |stub, _| {
        let place = Place::open(0);
        let buffer = place.room(LEN);
        // An error does not mean that the stream records.
        for fails in [None, Some("cuStreamGetCaptureInfo")] {
            let mut world = alone(&place, plain(0), HANGS);
            let held = Held::new(&place);
            world.broadcast(&place.stream, 0, buffer.region(), Element::U8).unwrap();
            world.abort();
            // This does nothing, and waits for nothing.
            let refused = world.broadcast(&place.stream, 0, buffer.region(), Element::U8);
            assert!(matches!(refused, Err(NcclError::Broken(_))), "{refused:?}");
            assert!(!place.stream.is_idle().unwrap());
            stub.fail(fails, u64::from(fails.is_some()), OUT_OF_MEMORY);
            let (waited, goes_on) = held.leaves_behind(|| world.wait(&place.stream));
            assert_eq!(stub.failed().as_deref(), fails);
            stub.fail(None, 0, 0);
            assert_eq!(waited, Err(NcclError::Broken(Box::new(NcclError::Aborted))));
            assert!(!goes_on, "work goes on after {fails:?}");
        }
    });
}

#[test]
fn reductions_of_few_numbers_are_only_enqueued() {
    with_nccl("ends::reductions_of_few_numbers_are_only_enqueued", 57, |_, _| {
        let place = Place::open(0);
        let buffer = place.holding(&[1; LEN]);
        let mut world = alone(&place, plain(0), HANGS);
        let held = Held::new(&place);
        let reduced = reduce(&mut world, &place, &buffer);
        assert!(!place.stream.is_idle().unwrap());
        drop(held);
        reduced.and_then(|()| world.wait(&place.stream)).unwrap();
    });
}

/// What comes of a call of rank 0, on whose stream a plain receive waits for a rank that has gone since. Before, both have
/// gathered something of that length.
fn after_a_receive_in_vain(
    (nccl, policy): (&StubNccl, &str),
    call: impl Fn(&mut NcclCommunicator, &Place, &Buffer) -> Result<Sent, NcclError> + Sync,
) -> NcclError {
    let together = Gate::new(2);
    let on_rank = |world: Result<NcclCommunicator, NcclError>, place: &Place| {
        let mut world = world.unwrap();
        let (buffer, few) = (place.holding(&[0; 2 * LONG]), place.room(100));
        gather(&mut world, place, (&buffer, LEN)).unwrap();
        world.wait(&place.stream).unwrap();
        together.pass();
        if world.rank() == 1 {
            together.pass();
            world.abort();
            together.pass();
            return NcclError::Aborted;
        }
        let begun = nccl.begun();
        world.receive(&place.stream, 1, few.region(), Element::U8).unwrap();
        let started = Instant::now();
        while nccl.begun() == begun && started.elapsed() < HANGS {
            thread::yield_now();
        }
        together.pass();
        together.pass();
        call(&mut world, place, &buffer).unwrap_err()
    };
    on_ranks(2, |_| config(policy), on_rank).swap_remove(0)
}

fn gather(
    world: &mut NcclCommunicator,
    place: &Place,
    (buffer, len): (&Buffer, usize),
) -> Result<Sent, NcclError> {
    let (from, into) = (buffer.slice(0..len as u64), buffer.slice(0..2 * len as u64));
    world.all_gather(&place.stream, from, into, Element::U32)
}

/// Else the driver would do so, and nothing would end that: who could abort would be the one who waits.
#[test]
fn nothing_waits_for_a_rank_that_has_gone_without_a_limit() {
    with_nccl("ends::nothing_waits_for_a_rank_that_has_gone_without_a_limit", 54, |stub, nccl| {
        // To free memory waits for all that uses the device.
        stub.set("strict_free", 0);
        let grown = after_a_receive_in_vain((nccl, "fixed:zvc"), |world, place, buffer| {
            gather(world, place, (buffer, LONG))
        });
        assert!(matches!(grown, NcclError::Call { .. }), "{grown:?}");
        // What looks at data comes behind the receive, and the event behind it fails: the fifth, after one for the stream of the
        // call, two around the encoder, and one for the stream that looks.
        let looked = after_a_receive_in_vain((nccl, "paper"), |world, place, buffer| {
            stub.fail(Some("cuEventRecord"), 5, OUT_OF_MEMORY);
            world.broadcast(&place.stream, 0, buffer.slice(0..LEN as u64), Element::U32)
        });
        stub.fail(None, 0, 0);
        assert!(matches!(looked, NcclError::Device(_)), "{looked:?}");
    });
}

#[test]
fn what_a_communicator_has_used_is_free_when_it_has_ended() {
    with_nccl("ends::what_a_communicator_has_used_is_free_when_it_has_ended", 55, |_, _| {
        for round in 0..100 {
            on_ranks(1, plain, |world, place| {
                let buffer = place.room(LEN);
                let mut world = world.unwrap();
                world.broadcast(&place.stream, 0, buffer.region(), Element::U8).unwrap();
                drop(world);
                // The stub minds if it is in use.
                drop(buffer);
                assert!(place.stream.is_idle().unwrap(), "{round}");
            });
        }
    });
}
