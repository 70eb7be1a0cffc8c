//! Programs that go on using MPI themselves.

use mgcomp_codecs::Element;
use mgcomp_transport::communicator::{Datatype, Operation};
use mgcomp_transport::link::Link as _;
use mgcomp_transport::memory::HostBuffer;
use mgcomp_transport::message::Rank;
use mpi::collective::SystemOperation;
use mpi::topology::Communicator as _;
use mpi::traits::{CommunicatorCollectives, Destination, Source};

use super::under::Job;
use crate::common::noise;

/// Messages from anybody with any tag, and collectives, between the library's and while those are under way.
pub(super) fn own_traffic_of_the_program_is_undisturbed(job: &Job) {
    let ours = job.communicator("adaptive");
    let (rank, ranks) = (job.world.rank(), job.world.size());
    for round in 0..40u32 {
        let len = [16, 5000, 300_000, 1 << 21][round as usize % 4];
        let numbers = HostBuffer::from(noise(u64::from(round) << 8 | rank as u64, len));
        let (sum, again) = (HostBuffer::zeroed(len), HostBuffer::zeroed(len));
        let reducing = ours.start_all_reduce(&numbers.all(), &sum.all(), Datatype::U32, Operation::Sum);

        let next = job.world.process_at_rank((rank + 1) % ranks);
        let sent = [round, rank as u32];
        // Whatever anybody sends: nothing of the library's may end up here.
        let received = mpi::request::scope(|scope| {
            let sending = next.immediate_send_with_tag(scope, &sent[..], round as i32 % 3);
            let (received, status) = job.world.any_process().receive_vec::<u32>();
            assert_eq!(status.tag(), round as i32 % 3);
            sending.wait();
            received
        });
        assert_eq!(received, [round, ((rank + ranks - 1) % ranks) as u32]);

        reducing.wait().unwrap();
        ours.all_reduce(&numbers.all(), &again.all(), Datatype::U32, Operation::Sum).unwrap();
        assert!(sum.all().to_vec() == again.all().to_vec(), "round {round}");
        let expected = (0..ranks as u64).map(|rank| noise(u64::from(round) << 8 | rank, len));
        assert!(sum.all().to_vec() == expected.reduce(add).unwrap(), "round {round}");

        let mut total = 0;
        job.world.all_reduce_into(&(rank + 1), &mut total, SystemOperation::sum());
        assert_eq!(total, ranks * (ranks + 1) / 2);
        job.world.barrier();
    }
    ours.barrier().unwrap();
}

/// These have been started on one.
pub(super) fn links_know_who_is_on_the_same_machine(job: &Job) {
    let link = job.link();
    assert_eq!((link.ranks_here(), link.position().ranks), (3, 3));
    assert_eq!([0, 1, 2, 3].map(|peer| link.is_cores_work(Rank(peer))), [true, true, true, false]);
}

fn add(mut a: Vec<u8>, b: Vec<u8>) -> Vec<u8> {
    for (a, b) in a.chunks_exact_mut(4).zip(b.chunks_exact(4)) {
        let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
        let sum = word(a).wrapping_add(word(b));
        a.copy_from_slice(&sum.to_le_bytes());
    }
    a
}

/// A link ends while the program makes communicators, some of them for links.
pub(super) fn communicators_are_made_and_given_back_meanwhile(job: &Job) {
    for round in 0..30 {
        let ours = job.communicator("fixed:none");
        let copy = job.world.duplicate();
        let buffer = HostBuffer::from(vec![ours.rank() as u8; 10_000]);
        ours.broadcast(round % 2, &buffer.all(), Element::U8).unwrap();
        assert!(buffer.all().to_vec().iter().all(|&byte| u32::from(byte) == round % 2));
        if job.multiple {
            std::thread::scope(|scope| {
                scope.spawn(|| drop(ours));
                drop(copy.duplicate());
            });
        } else {
            drop(ours);
            drop(copy.duplicate());
        }
    }
}
