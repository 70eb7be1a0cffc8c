//! Whatever fails, every rank hears of it in bounded time, and nothing is left.

use std::time::Duration;

use mgcomp_codecs::Element;
use mgcomp_tests::data::{self, Kind};
use mgcomp_tests::stub::{Libraries, Stub, in_process, with_stub};
use mgcomp_tests::stub_nccl::StubNccl;
use mgcomp_transport::nccl::{NcclCommunicator, NcclConfig, NcclError, UniqueId};

use crate::rig::{Gate, LEAST, Place, all_end, config, on_ranks, with_nccl, with_nccl_that_keeps};

const LEN: usize = 6000;

fn raw(rank: u32) -> Vec<u8> {
    data::bytes(Kind::Sparse, LEN, u64::from(rank))
}

/// A compressed collective and a compressed exchange; the error if there is one. What is there without one is right.
fn some_calls(world: &mut NcclCommunicator, place: &Place) -> Result<(), NcclError> {
    some_calls_after(world, place, || {})
}

/// As [`some_calls`]; all is ready for them when `then` is called.
fn some_calls_after(
    world: &mut NcclCommunicator,
    place: &Place,
    then: impl FnOnce(),
) -> Result<(), NcclError> {
    let (rank, ranks) = (world.rank(), world.size() as usize);
    let (from, into, back) = (place.holding(&raw(rank)), place.room(LEN * ranks), place.room(LEN * ranks));
    let stream = &place.stream;
    then();
    let moved = world
        .all_gather(stream, from.region(), into.region(), Element::U32)
        .and_then(|_| world.all_to_all(stream, into.region(), back.region(), Element::U32))
        .and_then(|_| world.wait(stream));
    // Whatever is on the stream ends, since the communicator was aborted if something failed.
    let waited = stream.wait();
    moved?;
    waited?;
    let mut bytes = vec![0; LEN * ranks];
    stream.download(back.region(), &mut bytes)?;
    assert!(bytes == raw(rank).repeat(ranks), "wrong bytes");
    Ok(())
}

/// What came of calls on each rank.
type Ends = Vec<Result<(), NcclError>>;

/// Makes the `at`th call of those named, or of all, fail when ranks have met, and says whether one has.
fn fail_at(stub: &Stub, (call, at, code): (Option<&str>, u64, u32)) -> (Ends, bool) {
    let ready = Gate::new(2);
    let ends = on_ranks(
        2,
        |_| config("fixed:zvc"),
        |world, place| {
            let mut world = world.unwrap();
            let then = || ready.pass_after(|| stub.fail(call, at, code));
            let end = some_calls_after(&mut world, place, then);
            // What is given back when it is over may fail too, and nobody hears of that.
            drop(world);
            end
        },
    );
    let failed = stub.failed();
    stub.fail(None, 0, 0);
    if failed.is_none() {
        assert!(ends.iter().all(Result::is_ok), "{ends:?}");
    }
    (ends, failed.is_some())
}

/// Makes one call after the other fail, until there is none to fail any more. Returns what came of those that failed.
fn fail_each(stub: &Stub, call: Option<&str>, code: u32) -> Vec<Ends> {
    let (mut all, mut at) = (Vec::new(), 1);
    loop {
        let (ends, failed) = fail_at(stub, (call, at, code));
        if !failed {
            return all;
        }
        all.push(ends);
        at += 1 + at / 6;
    }
}

/// To NCCL the environment comes before what a communicator is asked to be.
#[test]
#[allow(unsafe_code)] // sets a variable
fn where_the_environment_has_nccl_block_nobody_meets() {
    with_nccl("failures::where_the_environment_has_nccl_block_nobody_meets", 24, |_, _| {
        let place = Place::open(0);
        let meet =
            || NcclCommunicator::new(&place.device, UniqueId::new().unwrap(), (0, 1), config("fixed:zvc"));
        for (value, is_good) in [("1", false), ("yes", false), ("0", true), ("", true)] {
            // SAFETY: no other thread of this process looks at the environment now.
            unsafe { std::env::set_var("NCCL_COMM_BLOCKING", value) };
            match meet() {
                Ok(_) => assert!(is_good, "{value:?}"),
                Err(refused) => {
                    assert_eq!(refused, NcclError::Blocking { value: value.into() });
                    assert!(!is_good && refused.to_string().contains("NCCL_COMM_BLOCKING"), "{refused}");
                }
            }
        }
    });
}

#[test]
fn any_call_of_nccl_may_fail() {
    with_nccl("failures::any_call_of_nccl_may_fail", 21, |stub, nccl| {
        let calls =
            ["ncclGroupStart", "ncclGroupEnd", "ncclSend", "ncclRecv", "ncclBroadcast", "ncclAllGather"];
        for call in calls {
            let ends = fail_each(stub, Some(call), 999);
            assert!(!ends.is_empty(), "{call}");
            for ends in ends {
                assert!(ends.iter().all(Result::is_err), "{call}: {ends:?}");
            }
            assert_eq!(nccl.live(), 0, "{call}");
        }
    });
}

#[test]
fn any_call_of_the_driver_may_fail() {
    with_nccl("failures::any_call_of_the_driver_may_fail", 22, |stub, nccl| {
        const OUT_OF_MEMORY: u32 = 2;
        stub.set("strict_free", 0);
        // A rank that has got all may be done before another one fails.
        let ends = fail_each(stub, None, OUT_OF_MEMORY);
        assert!(ends.iter().any(|ends| ends.iter().all(Result::is_err)));
        assert_eq!(nccl.live(), 0);
    });
}

#[test]
fn who_cannot_compress_sends_raw_bytes() {
    with_nccl("failures::who_cannot_compress_sends_raw_bytes", 29, |stub, _| {
        const OUT_OF_RESOURCES: u32 = 701;
        let (ends, failed) = fail_at(stub, (Some("cuLaunchKernel"), 1, OUT_OF_RESOURCES));
        assert!(failed && ends.iter().all(Result::is_ok), "{ends:?}");
    });
}

#[test]
fn who_has_no_memory_for_frames_sends_raw_bytes() {
    with_nccl("failures::who_has_no_memory_for_frames_sends_raw_bytes", 34, |stub, _| {
        const OUT_OF_MEMORY: u32 = 2;
        // The buffers of the calls are there by then, so what the first call asks for is for what leaves.
        let (ends, failed) = fail_at(stub, (Some("cuMemAlloc_v2"), 1, OUT_OF_MEMORY));
        assert!(failed && ends.iter().all(Result::is_ok), "{ends:?}");
    });
}

#[test]
fn a_rank_whose_device_is_lost_takes_the_others_along() {
    with_nccl("failures::a_rank_whose_device_is_lost_takes_the_others_along", 30, |stub, _| {
        const ILLEGAL_ADDRESS: u32 = 700;
        let (ends, failed) = fail_at(stub, (Some("cuLaunchKernel"), 1, ILLEGAL_ADDRESS));
        assert!(failed);
        assert!(ends.iter().any(|end| matches!(end, Err(NcclError::Device(_)))), "{ends:?}");
        assert!(ends.iter().any(|end| matches!(end, Err(NcclError::Call { .. }))), "{ends:?}");
    });
}

#[test]
fn when_all_is_lost_every_rank_says_so() {
    with_nccl("failures::when_all_is_lost_every_rank_says_so", 31, |stub, _| {
        // A kernel of the second call, after which the driver refuses everything.
        stub.set("faulty_launch", 6);
        let ends = on_ranks(
            2,
            |_| config("fixed:zvc"),
            |world, place| {
                let mut world = world?;
                let (from, into) = (place.holding(&raw(0)), place.room(2 * LEN));
                let stream = &place.stream;
                let mut call = || world.all_gather(stream, from.region(), into.region(), Element::U32);
                let ended = (0..4).try_for_each(|_| call().map(drop));
                ended.and_then(|()| world.wait(stream))
            },
        );
        assert!(ends.iter().all(Result::is_err), "{ends:?}");
    });
}

#[test]
fn a_frame_that_does_not_decode_is_found() {
    with_nccl("failures::a_frame_that_does_not_decode_is_found", 32, |stub, _| {
        let ready = Gate::new(2);
        let ends = on_ranks(
            2,
            |_| config("fixed:zvc"),
            |world, place| {
                let mut world = world.unwrap();
                // Kernels write a wrong byte from here on: the first one of a frame.
                let end =
                    some_calls_after(&mut world, place, || ready.pass_after(|| stub.set("wrong_byte", 1)));
                drop(world);
                end
            },
        );
        assert!(ends.iter().all(Result::is_err), "{ends:?}");
        assert!(ends.iter().any(|end| matches!(end, Err(NcclError::NotDecoded { .. }))), "{ends:?}");
    });
}

#[test]
fn who_panics_does_not_keep_the_others_waiting() {
    with_nccl("failures::who_panics_does_not_keep_the_others_waiting", 33, |_, _| {
        let ends = on_ranks(
            2,
            |_| config("fixed:zvc"),
            |world, place| {
                let mut world = world?;
                if world.rank() == 0 {
                    return some_calls(&mut world, place);
                }
                let panics = std::panic::AssertUnwindSafe(|| {
                    let _world = world;
                    panic!("on purpose");
                });
                assert!(std::panic::catch_unwind(panics).is_err());
                Ok(())
            },
        );
        assert!(matches!(ends[0], Err(NcclError::Call { .. })), "{ends:?}");
    });
}

#[test]
fn ranks_may_fail_to_meet() {
    // What has not ended within so short a limit is left.
    with_nccl_that_keeps("failures::ranks_may_fail_to_meet", 27, |stub, nccl| {
        stub.set("strict_free", 0);
        let limit = Duration::from_millis(200);
        for at in (1..40).step_by(4) {
            let opened = Gate::new(2);
            let config = |_| {
                opened.pass_after(|| stub.fail(Some("cuCtxPushCurrent_v2"), at, 999));
                NcclConfig { limit, ..config("fixed:zvc") }
            };
            on_ranks(2, config, |world, _| drop(world));
            stub.fail(None, 0, 0);
            all_end(nccl);
        }
        let config = |_| NcclConfig { limit, ..config("fixed:zvc") };
        stub.fail(Some("ncclCommInitRankConfig"), 2, 999);
        let ends = on_ranks(2, config, |world, _| world.map(drop));
        assert!(ends.iter().all(Result::is_err), "{ends:?}");
        stub.fail(None, 0, 0);
    });
}

/// The call that makes a communicator may say so of one that is there: nothing of it is left.
#[test]
fn a_meeting_that_fails_at_once_is_given_back() {
    with_nccl("failures::a_meeting_that_fails_at_once_is_given_back", 24, |_, nccl| {
        nccl.set("init_fails", 1);
        let ends = on_ranks(2, |_| config("fixed:zvc"), |world, _| world.map(drop));
        assert!(ends.iter().all(Result::is_err), "{ends:?}");
        assert_eq!(nccl.live(), 0);
        nccl.set("init_fails", 0);
    });
}

#[test]
fn a_failure_on_the_way_is_every_rank_s() {
    with_nccl("failures::a_failure_on_the_way_is_every_rank_s", 23, |_, nccl| {
        for at in 1..=12 {
            nccl.set("async_at", at);
            let ends = on_ranks(
                2,
                |_| config("fixed:zvc"),
                |world, place| {
                    let mut world = world?;
                    some_calls(&mut world, place).inspect_err(|_| {
                        let again = world.check();
                        assert!(matches!(again, Err(NcclError::Broken(_))), "{again:?}");
                    })
                },
            );
            assert!(ends.iter().all(Result::is_err), "{at}: {ends:?}");
            nccl.set("async_at", 0);
        }
    });
}

#[test]
fn a_program_may_abort() {
    with_nccl("failures::a_program_may_abort", 28, |_, _| {
        let ends = on_ranks(
            2,
            |_| config("fixed:zvc"),
            |world, place| {
                // The other one may have left already.
                let mut world = world?;
                if world.rank() == 0 {
                    return some_calls(&mut world, place);
                }
                world.abort();
                world.check()
            },
        );
        assert!(matches!(ends[0], Err(NcclError::Call { .. })), "{ends:?}");
        assert_eq!(ends[1], Err(NcclError::Broken(Box::new(NcclError::Aborted))));
    });
}

#[test]
fn a_rank_that_falls_silent_is_given_up() {
    // What has not ended within so short a limit is left.
    with_nccl_that_keeps("failures::a_rank_that_falls_silent_is_given_up", 24, |stub, nccl| {
        stub.set("strict_free", 0);
        nccl.set("silent", 1);
        let limit = Duration::from_millis(500);
        let ends = on_ranks(
            2,
            |_| NcclConfig { limit, ..config("fixed:zvc") },
            |world, place| {
                let mut world = world?;
                // One leaves, and NCCL does not notice.
                if world.rank() == 1 { Ok(()) } else { some_calls(&mut world, place) }
            },
        );
        assert!(matches!(ends[0], Err(NcclError::TimedOut { .. })), "{ends:?}");
        // One that never comes.
        let place = Place::open(0);
        let id = UniqueId::new().unwrap();
        let alone =
            NcclCommunicator::new(&place.device, id, (0, 2), NcclConfig { limit, ..config("fixed:zvc") });
        assert!(matches!(alone, Err(NcclError::TimedOut { .. })), "{alone:?}");
    });
}

#[test]
fn ranks_with_different_settings_all_hear_of_it() {
    with_nccl("failures::ranks_with_different_settings_all_hear_of_it", 25, |_, _| {
        let least =
            |rank: u32| NcclConfig { least_bytes: LEAST + u64::from(rank / 2), ..config("fixed:zvc") };
        let errors = on_ranks(3, least, |world, _| world.unwrap_err());
        let what = "the least length to compress";
        let other = |rank, own, theirs| NcclError::Settings { what, rank, own, theirs };
        let expected = [other(2, LEAST, LEAST + 1), other(2, LEAST, LEAST + 1), other(0, LEAST + 1, LEAST)];
        // A rank that was told first aborts, and others may hear of that first.
        for (error, expected) in errors.iter().zip(&expected) {
            assert!(error == expected || matches!(error, NcclError::Call { .. }), "{error}");
        }
        assert!(errors.iter().zip(&expected).any(|(error, expected)| error == expected));
        let policy = |rank: u32| config(if rank == 0 { "fixed:none" } else { "fixed:zvc" });
        let errors = on_ranks(2, policy, |world, _| world.unwrap_err());
        assert!(errors.iter().any(|error| error.to_string().starts_with("whether to compress is ")));
        // Policies of what each sends may differ.
        let policy = |rank: u32| config(if rank == 0 { "fixed:bdi" } else { "fixed:zvc" });
        on_ranks(2, policy, |world, place| some_calls(&mut world.unwrap(), place).unwrap());
    });
}

#[test]
fn ranks_that_disagree_about_a_call_all_hear_of_it() {
    with_nccl("failures::ranks_that_disagree_about_a_call_all_hear_of_it", 26, |_, _| {
        let errors = on_ranks(
            2,
            |_| config("fixed:zvc"),
            |world, place| {
                let mut world = world.unwrap();
                let buffer = place.room(20_000);
                // Another length on each.
                let part = buffer.slice(0..10_000 + u64::from(world.rank()));
                let error = world.broadcast(&place.stream, 0, part, Element::U32).unwrap_err();
                place.stream.wait().unwrap();
                error
            },
        );
        for error in &errors {
            let known = matches!(error, NcclError::OtherCall { .. } | NcclError::Call { .. });
            assert!(known, "{error}");
        }
        assert!(errors.iter().any(|error| matches!(error, NcclError::OtherCall { .. })));
        let errors = on_ranks(
            2,
            |_| config("fixed:zvc"),
            |world, place| {
                let mut world = world.unwrap();
                let buffer = place.room(20_000);
                let part = buffer.slice(0..10_000 + u64::from(world.rank()));
                let (stream, element) = (&place.stream, Element::U32);
                let result = match world.rank() {
                    0 => world.send(stream, 1, part, element).map(drop),
                    _ => world.receive(stream, 0, part, element),
                };
                let result = result.and_then(|()| world.wait(stream));
                stream.wait().unwrap();
                result.unwrap_err()
            },
        );
        let expected = NcclError::WrongLength { rank: 0, got: 10_000, expected: 10_001 };
        assert_eq!(errors[1], expected);
    });
}

#[test]
fn a_library_that_is_missing_or_too_old_is_an_error() {
    let test = "failures::a_library_that_is_missing_or_too_old_is_an_error";
    with_stub(test, Libraries::DriverCompilerAndNccl, |_| {
        let nccl = StubNccl::load();
        nccl.set("version", 21300);
        let error = UniqueId::new().unwrap_err();
        assert_eq!(error, NcclError::TooOld { found: 21300, needed: 21400 });
    });
}

#[test]
fn without_a_library_nothing_is_done() {
    in_process("failures::without_a_library_nothing_is_done", Libraries::Driver, || match UniqueId::new() {
        Err(NcclError::NotLoaded { file, .. }) => assert_eq!(file.to_str(), Some("libnccl.so")),
        Ok(_) => println!("SKIPPED: this machine has NCCL"),
        Err(error) => panic!("{error}"),
    });
}
