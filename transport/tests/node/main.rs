//! Nodes: what a program sees of its peers' memory, over links in one process.

#[path = "../common/mod.rs"]
mod common;

mod comparing;
mod ends;
mod limits;
mod order;
mod overheard;
mod requests;
mod settings;
mod statistics;
mod transfers;

use common::fabric::Fabric;
use common::on_every_link;

on_every_link! {
    [
        transfers::data_of_all_kinds_survives_every_policy
        transfers::many_threads_use_one_node
        transfers::empty_and_unaligned_buffers_work
        transfers::nodes_without_codec_threads_do_all_the_same
        transfers::memory_in_use_holds_up_nothing_else
        transfers::sends_are_matched_in_order_by_tag
        limits::long_transfers_are_cut_to_the_limits
        limits::sends_of_any_length_arrive
        limits::sends_are_received_in_any_order
        requests::requests_finish_in_any_order
        requests::handles_tell_when_they_are_finished
        requests::who_does_not_wait_is_served_all_the_same
        requests::a_thread_may_wait_at_its_end
        requests::what_is_refused_touches_nothing
        requests::regions_may_go_while_they_are_read
        ends::others_go_on_when_a_node_goes
        ends::disconnecting_ends_one_session
        ends::requests_in_flight_end_with_their_node
        ends::a_node_that_is_dropped_at_once_ends
        ends::a_node_may_be_dropped_while_a_receive_waits_for_memory
        ends::what_was_posted_arrives_though_its_node_has_gone
        statistics::what_was_sent_adds_up
        statistics::what_never_left_is_not_counted
        statistics::a_node_that_is_to_compress_nothing_does_not_ask_its_policy
        statistics::decisions_are_remembered
        statistics::peers_say_how_long_frames_took_to_decode
        statistics::paper_samples_seven_of_307
    ]
    loopback: Fabric::loopback();
    loopback_shaped: Fabric::loopback().shaped(4.0, 200);
    shm: Fabric::shm();
    tcp: Fabric::tcp();
    tcp_over_2: Fabric::tcp().over(2);
}
