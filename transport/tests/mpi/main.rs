//! Programs under mpirun that use the library and MPI at once, each rank a process of its own.

#[path = "../common/mod.rs"]
mod common;

#[cfg(feature = "mpi")]
mod ends;
#[cfg(feature = "mpi")]
mod mixed;
#[cfg(feature = "mpi")]
mod series;
#[cfg(feature = "mpi")]
mod under;

#[cfg(not(feature = "mpi"))]
#[test]
fn links_over_mpi() {
    println!("SKIPPED: built without the feature `mpi`");
}

/// Makes a test of each `part::program` at each level of threads, on so many ranks; `run` those that go well.
#[cfg(feature = "mpi")]
macro_rules! programs {
    ($($how:ident $part:ident::$program:ident on $ranks:literal;)*) => {
        /// What `under::run` starts.
        fn program(name: &str) -> fn(&under::Job) {
            match name {
                $(stringify!($program) => $part::$program,)*
                other => panic!("there is no program {other}"),
            }
        }

        mod mpi_multiple {
            $(#[test]
            fn $program() {
                crate::under::$how(stringify!($program), $ranks, "multiple");
            })*
        }

        mod mpi_funneled {
            $(#[test]
            fn $program() {
                crate::under::$how(stringify!($program), $ranks, "funneled");
            })*
        }
    };
}

#[cfg(feature = "mpi")]
programs! {
    run series::collectives_give_the_bits_of_loopback on 3;
    run series::two_ranks_do_too on 2;
    run mixed::own_traffic_of_the_program_is_undisturbed on 4;
    run mixed::links_know_who_is_on_the_same_machine on 3;
    run mixed::communicators_are_made_and_given_back_meanwhile on 2;
    finalize ends::mpi_is_finalized_while_a_node_lives on 3;
    run ends::a_rank_that_leaves_is_noticed on 3;
    run ends::a_rank_that_does_not_go_on_is_noticed on 2;
    run ends::whoever_comes_late_hears_of_the_end on 2;
    run ends::a_rank_that_is_stopped_is_given_up_and_finds_out on 2;
    run ends::threads_that_may_not_call_mpi_are_told on 1;
    ruin ends::a_rank_that_is_killed_ends_the_job on 3;
    ruin ends::a_rank_that_exits_ends_the_job on 3;
}

#[cfg(feature = "mpi")]
#[test]
#[ignore = "runs under mpirun, which the other tests start"]
fn mpi_program() {
    under::serve();
}

#[cfg(feature = "mpi")]
#[test]
fn mpi_for_one_thread_makes_no_link() {
    under::run("one_thread", 2, "single");
}

#[cfg(feature = "mpi")]
#[test]
fn mpi_examples_go_well() {
    under::run_example("remote_read", 2);
    under::run_example("gradient_all_reduce", 3);
    under::run_example("halo_exchange", 4);
}
