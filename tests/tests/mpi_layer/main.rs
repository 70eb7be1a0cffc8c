//! The layer under MPI programs. C programs call every collective twice, once so that the layer stands before it and once
//! by its `PMPI_` name, and compare every byte; here they run on each MPI that is installed.

mod launch;

use launch::{Mpi, Run, on_every_mpi};
use mgcomp_tests::pages::{Pages, received, sent, sent_raw};
use mgcomp_transport::control::{SlotKind, SlotView};

/// Small data goes through the layer too, is compressed wherever that makes it shorter, and cut into short pieces.
const COMPRESSED: [(&str, &str); 3] =
    [("MGCOMP_POLICY", "fixed:int"), ("MGCOMP_MPI_GATE", "1024"), IN_SHORT_PIECES];
const REDUCED: [(&str, &str); 4] =
    [COMPRESSED[0], COMPRESSED[1], COMPRESSED[2], ("MGCOMP_MPI_REDUCTIONS", "on")];
const IN_SHORT_PIECES: (&str, &str) = ("MGCOMP_MPI_PIECE", "16384");
const RAW: [(&str, &str); 2] = [("MGCOMP_POLICY", "fixed:none"), ("MGCOMP_MPI_GATE", "1024")];

#[test]
fn all_collectives_over_all_kinds_of_data() {
    on_every_mpi(|mpi| {
        let run = mpi.run("kinds.c", 3, &COMPRESSED);
        run.expect_well();
        assert_eq!(run.ends.len(), 3, "{}", run.output);
        for end in &run.ends {
            assert!(end.compressed > 100 && end.plain > 20, "{end:?}");
            assert!(end.sent_bytes * 4 < end.raw_bytes, "{end:?}");
        }
    });
}

#[test]
fn fortran() {
    on_every_mpi(|mpi| {
        for program in ["fortran.f90", "fortran_2008.f90"] {
            let run = mpi.run(program, 2, &REDUCED);
            run.expect_well();
            assert!(run.ends.iter().all(|end| end.compressed > 0), "{program}: {:?}", run.ends);
            assert_eq!(run.ends.len(), 2, "{program}");
        }
    });
}

#[test]
fn fortran_as_compilers_write_its_names() {
    on_every_mpi(|mpi| {
        let run = mpi.run("spelled.c", 2, &COMPRESSED);
        run.expect_well();
        assert!(run.ends.iter().all(|end| end.compressed == 5), "{:?}", run.ends);
        assert_eq!(run.ends.len(), 2, "{}", run.output);
    });
}

#[test]
fn data_that_is_left_as_it_is() {
    on_every_mpi(|mpi| {
        let run = mpi.run("kinds.c", 2, &RAW);
        run.expect_well();
        assert!(run.ends.iter().all(|end| end.compressed == 0 && end.plain > 100), "{:?}", run.ends);
    });
}

#[test]
fn blocks_of_several_pieces() {
    on_every_mpi(|mpi| {
        // Long ones are too few for a chain of ranks.
        for piece in [("MGCOMP_MPI_PIECE", "65536"), ("MGCOMP_MPI_PIECE", "4194304")] {
            let run = mpi.run("long.c", 3, &[COMPRESSED[0], COMPRESSED[1], piece]);
            run.expect_well();
            assert!(run.ends.iter().all(|end| end.raw_bytes > 50 << 20), "{piece:?}: {:?}", run.ends);
        }
    });
}

/// Longer than a piece of any collective.
const BLOCK: u64 = 20 << 20;

/// Moves blocks in all ways; returns what the ranks have counted, in their order, if `run` runs it.
fn counted(run: impl FnOnce(&[(&str, &str)]) -> Option<Run>, policy: &str) -> Option<[Vec<SlotView>; 2]> {
    let (pages, block) = (Pages::of(2), BLOCK.to_string());
    let socket = pages.socket();
    let run = run(&[
        ("MGCOMP_POLICY", policy),
        ("MGCOMP_MPI_REDUCTIONS", "on"),
        ("MGCOMP_SOCKET", &socket),
        ("BLOCK", &block),
    ])?;
    run.expect_well();
    let mut slots = pages.slots();
    slots.sort_by_key(|slots| slots.first().map(|slot| slot.rank));
    Some(slots.try_into().unwrap())
}

/// That all blocks are counted as raw and nothing else is, each once.
#[track_caller]
fn expect_raw(ranks: &[Vec<SlotView>; 2]) {
    // Broadcast, allgather, both alltoalls, gather, scatter, and the allreduce, half of which is an allgather.
    let blocks = [[1, 2, 2, 0, 1, 1], [0, 2, 2, 1, 0, 1]];
    for (slots, blocks) in ranks.iter().zip(blocks) {
        for (stream, blocks) in (0..).zip(blocks) {
            let of_stream = |slot: &&SlotView| slot.kind == SlotKind::Sent && slot.stream == stream;
            let bytes: u64 = slots.iter().filter(of_stream).map(|slot| slot.sent().raw_bytes).sum();
            assert_eq!(bytes, blocks * BLOCK, "stream {stream}: {slots:#?}");
        }
        let all = blocks.iter().sum::<u64>() * BLOCK;
        for count in [sent(slots), sent_raw(slots)] {
            assert_eq!((count.raw_bytes, count.coded_bytes), (all, all));
        }
    }
    for (from, to) in [(0, 1), (1, 0)] {
        let (sent, received) = (sent(&ranks[from]), received(&ranks[to]));
        assert_eq!((received.raw_bytes, received.coded_bytes), (sent.raw_bytes, sent.coded_bytes));
    }
}

#[test]
fn all_bytes_that_go_as_they_are_are_counted_once() {
    on_every_mpi(|mpi| {
        let ranks = counted(|variables| Some(mpi.run("moved.c", 2, variables)), "fixed:none");
        expect_raw(&ranks.unwrap());
    });
}

#[test]
fn so_are_those_in_the_memory_of_devices() {
    on_every_mpi(|mpi| {
        let run = |variables: &[(&str, &str)]| {
            let variables = [variables, &[("ON_DEVICE", "1")]].concat();
            mpi.run_with_device("moved.c", 2, &variables, "so_are_those_in_the_memory_of_devices")
        };
        if let Some(ranks) = counted(run, "fixed:none") {
            expect_raw(&ranks);
        }
    });
}

#[test]
fn what_is_compressed_is_counted_as_that_on_both_sides() {
    on_every_mpi(|mpi| {
        let ranks = counted(|variables| Some(mpi.run("moved.c", 2, variables)), "fixed:int").unwrap();
        for (from, to) in [(0, 1), (1, 0)] {
            let (sent, received) = (sent(&ranks[from]), received(&ranks[to]));
            assert_eq!((received.raw_bytes, received.coded_bytes), (sent.raw_bytes, sent.coded_bytes));
            assert!(sent.coded_bytes * 4 < sent.raw_bytes, "{sent:?}");
        }
    });
}

#[test]
fn large_counts() {
    on_every_mpi(|mpi| {
        let run = mpi.run("large.c", 2, &COMPRESSED);
        run.expect_well();
        let is_skipped = run.output.contains("SKIPPED");
        assert!(is_skipped || run.ends.iter().all(|end| end.compressed > 100), "{:?}", run.ends);
    });
}

/// `cargo test -p mgcomp-tests --test mpi_layer -- --ignored`
#[test]
#[ignore = "takes 5 GB of memory, 9 GB with an MPI that has large counts"]
fn more_than_two_gib() {
    on_every_mpi(|mpi| {
        let run = mpi.run("huge.c", 2, &REDUCED);
        run.expect_well();
        assert!(run.ends.iter().all(|end| end.raw_bytes > 1 << 30), "{:?}", run.ends);
    });
}

#[test]
fn reductions() {
    on_every_mpi(|mpi| {
        let run = mpi.run("reductions.c", 3, &REDUCED);
        run.expect_well();
        assert_eq!(run.ends.len(), 3, "{}", run.output);
        assert!(run.ends.iter().all(|end| end.compressed > 100 && end.plain > 100), "{:?}", run.ends);
    });
}

#[test]
fn reductions_that_nobody_asked_for_are_mpi_s() {
    on_every_mpi(|mpi| {
        // Two values have the same sum in either order.
        let run = mpi.run("reductions.c", 2, &COMPRESSED);
        run.expect_well();
        assert!(run.ends.iter().all(|end| end.compressed + end.plain == 0), "{:?}", run.ends);
    });
}

#[test]
fn the_policy_may_choose() {
    on_every_mpi(|mpi| mpi.run("threads.c", 2, &[("MGCOMP_MPI_GATE", "1024")]).expect_well());
}

#[test]
fn what_mpi_refuses() {
    on_every_mpi(|mpi| mpi.run("errors.c", 3, &REDUCED).expect_well());
}

#[test]
fn what_other_runtimes_may_have_is_left_alone() {
    for library in ["libze_loader.so.1", "libamdhip64.so.6"] {
        on_every_mpi(|mpi| {
            let run = mpi.run_with_library(library, "threads.c", 2, &COMPRESSED);
            run.expect_well();
            assert_eq!(run.ends.len(), 2, "{}", run.output);
            // MPI itself brings to the host what is exchanged in place.
            assert!(run.ends.iter().all(|end| end.plain > 10 * end.compressed), "{:?}", run.ends);
            assert!(run.output.contains("HIP or Level Zero"), "{}", run.output);
        });
    }
}

#[test]
fn what_handlers_throw_is_caught_by_the_program() {
    on_every_mpi(|mpi| mpi.run("throws.cpp", 2, &COMPRESSED).expect_well());
}

#[test]
fn what_is_damaged_on_its_way_is_told_and_holds_up_nobody() {
    on_every_mpi(|mpi| {
        // Of blocks that differ, some are short enough to go by MPI's own collective.
        let variables = [COMPRESSED[0], ("MGCOMP_MPI_GATE", "65536"), IN_SHORT_PIECES, REDUCED[3]];
        let run = mpi.run_before("damage.c", "damaged.c", 3, &variables);
        run.expect_well();
        assert!(run.output.contains("a collective has failed"), "{}", run.output);
    });
}

/// Does 60 of a collective where messages take so many microseconds, raw and compressed; returns how many blocks of these went compressed and raw,
/// from ranks that send any.
fn compared(mpi: &Mpi, op: &str, raw_us: u32, compressed_us: u32) -> Vec<(u64, u64)> {
    let (raw_us, compressed_us) = (raw_us.to_string(), compressed_us.to_string());
    let variables = [
        ("OP", op),
        ("TIMES", "60"),
        ("RAW_US", &raw_us),
        ("COMPRESSED_US", &compressed_us),
        ("MGCOMP_MPI_GATE", "65536"),
        ("MGCOMP_MPI_PIECE", "65536"),
        ("MGCOMP_MPI_REDUCTIONS", "on"),
    ];
    let run = mpi.run_before("slow.c", "compared.c", 2, &variables);
    run.expect_well();
    assert_eq!(run.ends.len(), 2, "{}", run.output);
    let counts = run.ends.iter().map(|end| (end.compressed, end.plain));
    counts.filter(|(compressed, plain)| compressed + plain > 0).collect()
}

#[test]
fn what_is_slower_as_a_whole_goes_as_it_is() {
    on_every_mpi(|mpi| {
        // A block has two pieces, but for a broadcast's, and an allreduce is two exchanges. What looks as if it took more than 50 ms without compression, and
        // much more than now, is not compared.
        let ops = [
            ("bcast", 12_000),
            ("allgather", 6_000),
            ("alltoall", 6_000),
            ("allreduce", 4_500),
            ("reduce_scatter_block", 6_000),
        ];
        for (op, compressed_us) in ops {
            // Some are compressed at first and in comparisons.
            let mut counts = Vec::new();
            let mut is_found = || {
                counts = compared(mpi, op, 4_000, compressed_us);
                counts.iter().all(|(compressed, plain)| *compressed > 0 && plain > compressed)
            };
            // Where something else keeps the cores busy, that may take most of the time.
            assert!((0..5).any(|_| is_found()), "{op}: {counts:?}");
        }
    });
}

#[test]
fn what_is_faster_as_a_whole_is_compressed() {
    on_every_mpi(|mpi| {
        for op in ["bcast", "allgather", "alltoall", "allreduce", "reduce_scatter_block"] {
            let counts = compared(mpi, op, 15_000, 1_000);
            // The first ones are not, whose rate is to be seen, and some in comparisons.
            assert!(
                counts.iter().all(|(compressed, plain)| *plain > 0 && compressed > plain),
                "{op}: {counts:?}"
            );
        }
    });
}

#[test]
fn communicators_come_and_go() {
    on_every_mpi(|mpi| mpi.run("many.c", 2, &COMPRESSED).expect_well());
}

#[test]
fn communicators_are_used_while_they_are_freed() {
    on_every_mpi(|mpi| {
        for program in ["freed.c", "freed_2008.f90"] {
            let run = mpi.run(program, 2, &COMPRESSED);
            run.expect_well();
            // All that are called before, of which each rank sends to the other in half: what is called meanwhile is MPI's affair.
            assert!(
                run.ends.iter().all(|end| end.compressed == 150 && end.plain == 0),
                "{program}: {:?}",
                run.ends
            );
            assert_eq!(run.ends.len(), 2, "{program}: {}", run.output);
        }
    });
}

#[test]
fn communicators_are_used_when_they_go_after_they_were_freed() {
    on_every_mpi(|mpi| {
        let run = mpi.run("freed_late.c", 2, &COMPRESSED);
        run.expect_well();
        // Every second communicator is used before it is freed.
        assert!(run.ends.iter().all(|end| end.compressed == 60 && end.plain == 0), "{:?}", run.ends);
        assert_eq!(run.ends.len(), 2, "{}", run.output);
    });
}

#[test]
fn communicators_between_groups() {
    on_every_mpi(|mpi| {
        let run = mpi.run("between.c", 3, &COMPRESSED);
        run.expect_well();
        assert!(run.ends.iter().all(|end| end.compressed + end.plain == 0), "{:?}", run.ends);
    });
}

#[test]
fn two_threads() {
    on_every_mpi(|mpi| mpi.run("threads.c", 2, &COMPRESSED).expect_well());
}

#[test]
fn tools_behind_the_layer_begin_and_end() {
    on_every_mpi(|mpi| {
        for program in ["between.c", "threads.c"] {
            let run = mpi.run_before("tool.c", program, 2, &COMPRESSED);
            run.expect_well();
            for said in ["the tool begins", "the tool ends"] {
                assert_eq!(run.output.matches(said).count(), 2, "{program}: {}", run.output);
            }
            assert_eq!(run.ends.len(), 2, "{program}: {}", run.output);
        }
    });
}

#[test]
fn calls_before_and_after() {
    on_every_mpi(|mpi| {
        for when in ["early bcast", "late bcast", "late gatherv", "late allreduce"] {
            let (with, without) = (mpi.run_with("late.c", when, true), mpi.run_with("late.c", when, false));
            assert_eq!(with.is_well, without.is_well, "{when}: {}\n{}", with.output, without.output);
            assert!(!with.output.contains("egmentation"), "{when}: {}", with.output);
        }
    });
}

#[test]
fn switched_off_it_does_nothing() {
    on_every_mpi(|mpi| {
        let run = mpi.run("between.c", 2, &[("MGCOMP", "off")]);
        run.expect_well();
        assert_eq!(
            run.output.matches("is loaded, and switched off (MGCOMP=off)").count(),
            2,
            "{}",
            run.output
        );
        assert!(run.ends.is_empty(), "{}", run.output);
    });
}

#[test]
fn ranks_that_want_different_things_do_nothing() {
    on_every_mpi(|mpi| {
        for (program, variable, value) in [
            ("kinds.c", "MGCOMP_MPI_GATE", "$((1000 + ${OMPI_COMM_WORLD_RANK:-$PMI_RANK}))"),
            ("between.c", "MGCOMP_MPI_PIECE", "$((65536 << ${OMPI_COMM_WORLD_RANK:-$PMI_RANK}))"),
        ] {
            let run = mpi.run(program, 2, &[(variable, value)]);
            run.expect_well();
            assert!(run.output.contains("mgcomp does nothing: rank 1 has another"), "{}", run.output);
            assert!(run.ends.is_empty(), "{}", run.output);
        }
    });
}

#[test]
fn settings_that_make_no_sense_are_named() {
    on_every_mpi(|mpi| {
        let run = mpi.run("between.c", 2, &[("MGCOMP_MPI_GATE", "much")]);
        run.expect_well();
        assert!(run.output.contains("MGCOMP_MPI_GATE=\"much\" is no number of bytes"), "{}", run.output);
        assert!(run.ends.is_empty(), "{}", run.output);
        for piece in ["16383", "4194305", "-1"] {
            let run = mpi.run("between.c", 2, &[("MGCOMP_MPI_PIECE", piece)]);
            run.expect_well();
            let error = format!("MGCOMP_MPI_PIECE={piece:?} is no number of bytes from 16384 to 4194304");
            assert!(run.output.contains(&error), "{}", run.output);
            assert!(run.ends.is_empty(), "{}", run.output);
        }
        let run = mpi.run("between.c", 2, &[("MGCOMP_MPI_REDUCTIONS", "yes")]);
        assert!(run.output.contains("MGCOMP_MPI_REDUCTIONS=\"yes\" is neither on nor off"), "{}", run.output);
        assert!(run.ends.is_empty(), "{}", run.output);
        let run = mpi.run("between.c", 2, &[("MGCOMP_POLICY", "zz")]);
        run.expect_well();
        assert!(run.output.contains("unknown policy \"zz\""), "{}", run.output);
        assert_eq!(run.output.matches("mgcomp does nothing in this process").count(), 2, "{}", run.output);
    });
}

#[test]
fn an_mpi_that_nobody_knows_is_left_alone() {
    for (mpi, name, is_loaded) in [
        ("unknown_mpi.c", "libunknown.so", false),
        ("unknown_mpi.c", "libunknown.so", true),
        ("unknown_mpi.c", "libmpi.so.12", false),
        ("unknown_mpi.c", "libmpi.so.12", true),
        ("unknown_bare_mpi.c", "libunknown.so", false),
    ] {
        let Some(run) = Mpi::unknown(mpi, name, is_loaded) else { return };
        assert!(run.is_well, "{mpi} {name} {is_loaded}: {}", run.output);
        assert!(
            run.output.contains("mgcomp does nothing: this MPI is neither"),
            "{mpi} {name} {is_loaded}: {}",
            run.output
        );
    }
}

#[test]
fn mpi_that_is_loaded_for_all_of_the_program_after_it_was_used_in_a_part() {
    on_every_mpi(|mpi| {
        let run = mpi.run_loaded("promoted.f90", 2, &COMPRESSED);
        run.expect_well();
        let calls = if mpi.fortran_calls_c() { 2 } else { 0 };
        assert!(run.ends.iter().all(|end| end.compressed == calls), "{:?}", run.ends);
        assert_eq!(run.ends.len(), 2, "{}", run.output);
    });
}

#[test]
fn mpi_that_is_loaded_for_a_part_of_the_program_alone() {
    on_every_mpi(|mpi| {
        for program in ["kinds.c", "fortran.f90", "fortran_2008.f90"] {
            let run = mpi.run_loaded(program, 2, &REDUCED);
            run.expect_well();
            assert_eq!(run.ends.len(), 2, "{program}: {}", run.output);
            // Open MPI's own functions translate from Fortran there, and go straight to what is behind the layer.
            let is_seen = program.ends_with(".c") || mpi.fortran_calls_c();
            assert!(run.ends.iter().all(|end| (end.compressed > 0) == is_seen), "{program}: {:?}", run.ends);
        }
    });
}
