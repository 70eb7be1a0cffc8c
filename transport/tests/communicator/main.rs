//! Communicators over every link: what arrives, what is computed, and what happens when it goes wrong.

#[path = "../common/mod.rs"]
mod common;

mod combining;
mod comparing;
mod failing;
mod in_step;
mod leaving;
mod messages;
mod moving;
mod splitting;
mod vanishing;
mod windows;

use std::thread;

use common::fabric::Fabric;
use common::job::{config, nodes};
use common::on_every_link;
use mgcomp_transport::communicator::Communicator;
use mgcomp_transport::memory::HostBuffer;
use mgcomp_transport::node::NodeConfig;

/// Every rank's own thread does `work`; returns what each came to, in the order of the ranks.
fn on_all<R: Send>(
    fabric: Fabric,
    ranks: u32,
    policy: &str,
    work: impl Fn(&Communicator) -> R + Sync,
) -> Vec<R> {
    on_all_with(fabric, ranks, policy, &config(), work)
}

fn on_all_with<R: Send>(
    fabric: Fabric,
    ranks: u32,
    policy: &str,
    config: &NodeConfig,
    work: impl Fn(&Communicator) -> R + Sync,
) -> Vec<R> {
    let communicators: Vec<_> =
        nodes(fabric, ranks, policy, config).into_iter().map(Communicator::world).collect();
    thread::scope(|scope| {
        let work = &work;
        let spawn = |communicator| scope.spawn(move || work(communicator));
        let threads: Vec<_> = communicators.iter().map(spawn).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// `len` bytes that differ from rank to rank, and compress.
fn bytes_of(rank: u32, len: usize) -> Vec<u8> {
    common::ramp(1 + rank * 1_000_003, len)
}

fn buffer_of(rank: u32, len: usize) -> HostBuffer {
    HostBuffer::from(bytes_of(rank, len))
}

on_every_link! {
    [
        messages::messages_of_every_length_arrive
        messages::messages_that_are_too_long_are_lost_alone
        messages::tags_are_told_apart_and_kept_in_order
        messages::messages_are_received_in_any_order
        messages::messages_that_are_not_received_yet_hold_up_no_collective
        messages::receives_of_one_tag_get_messages_in_order_however_they_are_waited_for
        messages::threads_that_send_with_one_tag_do_not_mix_their_messages
        moving::every_collective_moves_what_it_should
        moving::a_broadcast_only_reads_at_its_root
        moving::blocks_have_lengths_and_places_of_their_own
        moving::in_place_is_the_same
        moving::what_several_members_get_is_encoded_once
        moving::all_to_all_is_in_place_on_any_of_the_members
        combining::reductions_are_from_the_left_in_the_order_of_the_ranks
        combining::compression_changes_no_bit
        splitting::members_are_ordered_by_key_and_rank
    ]
    loopback: Fabric::loopback();
    shm: Fabric::shm();
    tcp: Fabric::tcp();
    tcp_over_3: Fabric::tcp().over(3);
    #[cfg(feature = "mpi")]
    mpi_multiple: Fabric::mpi_multiple();
    #[cfg(feature = "mpi")]
    mpi_funneled: Fabric::mpi_funneled();
}

#[cfg(feature = "mpi")]
common::mpi::mpi_agent!();
