//! What every link promises, checked on each of them.

#[path = "../common/mod.rs"]
mod common;

mod closing;
mod order;
mod pressure;
mod shaping;
mod start;

use common::fabric::Fabric;
use common::on_every_link;

/// Messages that a rank may have queued for a peer, in bytes, where a test does not care.
const ROOMY: u64 = 1 << 30;

// A new link takes one line here, and two in `common/fabric.rs` to make it.
on_every_link! {
    [
        start::positions_are_those_of_the_fabric
        start::starting_twice_fails_and_changes_nothing
        start::messages_wait_for_a_late_starter
        order::messages_of_all_sizes_arrive_in_order
        order::eight_ranks_talk_all_to_all
        order::what_waits_for_the_next_message_comes
        pressure::a_peer_that_does_not_look_fills_the_queue
        pressure::a_peer_that_does_not_look_at_one_hears_the_others
        pressure::movement_is_seen_and_stalling_too
        closing::what_was_queued_comes_before_the_end
        closing::whoever_closes_hears_nothing_more
        closing::others_go_on_when_two_part
        closing::nothing_goes_to_nobody
        closing::dropped_links_end_and_let_go
        closing::a_link_that_never_met_anybody_ends_too
        closing::what_nobody_took_does_not_reach_the_next_link
    ]
    loopback: Fabric::loopback();
    loopback_shaped: Fabric::loopback().shaped(4.0, 1000);
    tcp: Fabric::tcp();
    tcp_shaped: Fabric::tcp().shaped(4.0, 1000);
    tcp_over_4: Fabric::tcp().over(4);
    tcp_over_4_shaped: Fabric::tcp().over(4).shaped(4.0, 1000);
    shm: Fabric::shm();
    shm_tight: Fabric::shm_tight();
    shm_shaped: Fabric::shm().shaped(4.0, 1000);
    #[cfg(feature = "cuda")]
    cuda: Fabric::cuda();
    #[cfg(all(feature = "cuda", target_os = "linux"))]
    cuda_ipc: Fabric::cuda_ipc();
    #[cfg(feature = "mpi")]
    mpi_multiple: Fabric::mpi_multiple();
    #[cfg(feature = "mpi")]
    mpi_funneled: Fabric::mpi_funneled();
}

#[cfg(feature = "mpi")]
common::mpi::mpi_agent!();

/// Contracts that only some links can keep, or keep in bearable time.
macro_rules! contract_of_some {
    ($($(#[$condition:meta])* $name:ident: $part:ident::$test:ident, $fabric:expr;)*) => {$(
        $(#[$condition])*
        #[test]
        fn $name() {
            common::watched(|| {
                if $fabric.is_possible() {
                    $part::$test($fabric);
                }
            });
        }
    )*};
}

contract_of_some! {
    loopback_carries_256_mib_at_once: order::a_message_of_256_mib_arrives, Fabric::loopback();
    loopback_carries_1_gib_at_once: order::a_message_of_1_gib_arrives, Fabric::loopback();
    tcp_carries_256_mib_at_once: order::a_message_of_256_mib_arrives, Fabric::tcp();
    tcp_carries_1_gib_at_once: order::a_message_of_1_gib_arrives, Fabric::tcp();
    shm_carries_256_mib_at_once: order::a_message_of_256_mib_arrives, Fabric::shm();
    shm_carries_1_gib_at_once: order::a_message_of_1_gib_arrives, Fabric::shm();
    loopback_holds_few_small_messages: pressure::messages_of_no_payload_fill_the_queue_too, Fabric::loopback();
    tcp_over_4_carries_256_mib_at_once: order::a_message_of_256_mib_arrives, Fabric::tcp().over(4);
    tcp_holds_few_small_messages: pressure::messages_of_no_payload_fill_the_queue_too, Fabric::tcp();
    shm_holds_few_small_messages: pressure::messages_of_no_payload_fill_the_queue_too, Fabric::shm();
    #[cfg(feature = "cuda")]
    cuda_carries_256_mib_at_once: order::a_message_of_256_mib_arrives, Fabric::cuda();
    #[cfg(feature = "cuda")]
    cuda_holds_few_small_messages: pressure::messages_of_no_payload_fill_the_queue_too, Fabric::cuda();
    #[cfg(all(feature = "cuda", target_os = "linux"))]
    cuda_ipc_carries_256_mib_at_once: order::a_message_of_256_mib_arrives, Fabric::cuda_ipc();
    #[cfg(all(feature = "cuda", target_os = "linux"))]
    cuda_ipc_holds_few_small_messages: pressure::messages_of_no_payload_fill_the_queue_too, Fabric::cuda_ipc();
    #[cfg(feature = "mpi")]
    mpi_carries_256_mib_at_once: order::a_message_of_256_mib_arrives, Fabric::mpi_multiple();
    #[cfg(feature = "mpi")]
    mpi_multiple_carries_1_gib_at_once: order::a_message_of_1_gib_arrives, Fabric::mpi_multiple();
    #[cfg(feature = "mpi")]
    mpi_funneled_carries_1_gib_at_once: order::a_message_of_1_gib_arrives, Fabric::mpi_funneled();
    #[cfg(feature = "mpi")]
    mpi_holds_few_small_messages: pressure::messages_of_no_payload_fill_the_queue_too, Fabric::mpi_funneled();
    loopback_is_no_faster_than_its_rate: shaping::rate_is_kept, Fabric::loopback().shaped(0.1, 0);
    tcp_is_no_faster_than_its_rate: shaping::rate_is_kept, Fabric::tcp().shaped(0.1, 0);
    shm_is_no_faster_than_its_rate: shaping::rate_is_kept, Fabric::shm().shaped(0.1, 0);
    loopback_has_its_latency: shaping::latency_is_kept, Fabric::loopback().shaped(100.0, 50_000);
    tcp_has_its_latency: shaping::latency_is_kept, Fabric::tcp().shaped(100.0, 50_000);
    shm_has_its_latency: shaping::latency_is_kept, Fabric::shm().shaped(100.0, 50_000);
    loopback_shares_a_port: shaping::all_peers_share_a_port, Fabric::loopback().shaped(0.1, 1000);
    tcp_shares_a_port: shaping::all_peers_share_a_port, Fabric::tcp().shaped(0.1, 1000);
    shm_shares_a_port: shaping::all_peers_share_a_port, Fabric::shm().shaped(0.1, 1000);
    shm_tells_its_rate: shaping::messages_that_are_taken_at_once_tell_the_rate, Fabric::shm();
}
