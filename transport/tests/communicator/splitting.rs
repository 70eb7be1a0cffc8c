//! Communicators made from others.

use mgcomp_codecs::Element;
use mgcomp_transport::memory::HostBuffer;

use super::{buffer_of, bytes_of, on_all};
use crate::common::fabric::Fabric;
use crate::common::watched;

pub(super) fn members_are_ordered_by_key_and_rank(fabric: Fabric) {
    let found = on_all(fabric, 6, "adaptive", |world| {
        let own = world.rank();
        // Even ranks backwards, odd ones as they are; rank 4 takes no part.
        let color = (own != 4).then_some(own % 2);
        let key = if own % 2 == 0 { -(own as i32) } else { 0 };
        let part = world.split(color, key).unwrap();

        // Messages of the two do not mix: the same tag in both, the other way round.
        let Some(part) = part else {
            assert_eq!(own, 4);
            world.barrier().unwrap();
            assert!(world.split(None, 0).unwrap().is_none());
            return Vec::new();
        };
        let (rank, size) = (part.rank(), part.size());
        let next = (rank + 1) % size;
        let before = (rank + size - 1) % size;
        let into = HostBuffer::zeroed(1000);
        let received =
            part.send_receive((next, &buffer_of(own, 1000).all()), (before, &into.all()), 0, Element::U8);
        assert_eq!(received, Ok(1000));

        let members = HostBuffer::zeroed(4 * size as usize);
        let own_word = HostBuffer::from(own.to_le_bytes().to_vec());
        part.all_gather(&own_word.all(), &members.all(), Element::U32).unwrap();
        let members: Vec<u32> = members.all().read(|bytes| {
            bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
        });
        assert!(into.all().to_vec() == bytes_of(members[before as usize], 1000));
        world.barrier().unwrap();

        // A part of a part, of one member.
        let alone = part.split(Some(rank), 0).unwrap().unwrap();
        assert_eq!((alone.rank(), alone.size()), (0, 1));
        alone.barrier().unwrap();
        assert!(world.split(None, 0).unwrap().is_none());
        members
    });
    let (even, odd) = (vec![2, 0], vec![1, 3, 5]);
    assert_eq!(found, [even.clone(), odd.clone(), even, odd.clone(), vec![], odd]);
}

#[test]
fn communicators_that_are_split_at_the_same_time_do_not_mix() {
    watched(|| {
        on_all(Fabric::loopback(), 2, "adaptive", |world| {
            // Two of the same members, each split by a thread of its own.
            let parents = [0, 1].map(|_| world.split(Some(0), 0).unwrap().unwrap());
            std::thread::scope(|scope| {
                for (which, parent) in parents.iter().enumerate() {
                    scope.spawn(move || {
                        for round in 0..100 {
                            let child = parent.split(Some(0), 0).unwrap().unwrap();
                            let word =
                                |rank: u32| [which as u32, round, rank, 7].map(u32::to_le_bytes).concat();
                            let (mine, all) = (HostBuffer::from(word(child.rank())), HostBuffer::zeroed(32));
                            child.all_gather(&mine.all(), &all.all(), Element::U32).unwrap();
                            assert_eq!(all.all().to_vec(), [word(0), word(1)].concat(), "{which} {round}");
                        }
                    });
                }
            });
        });
    });
}
