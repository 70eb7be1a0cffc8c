//! Requests of the peer that are not carried out: it is told, nothing is touched, the session goes on.

use super::solo::{Solo, read, write, zeroed};
use super::world::World;
use super::*;
use crate::memory::{HostBuffer, HostSlice};
use crate::message::WriteRequest;
use crate::region::{Access, Peers};

const LIMITS: Limits = Limits { max_transfer_bytes: 64, ..WIDE };

/// Rank 0 with four regions of 32 bytes: open, open for reading, open for writing, not open to rank 1.
fn host() -> (Solo, Vec<HostSlice>) {
    let mut solo = Solo::open(LIMITS);
    let elsewhere = Peers::Only([Rank(7)].into());
    let accesses = [
        Access::all(),
        Access::read_only(),
        Access { read: Peers::Nobody, write: Peers::All },
        Access { read: elsewhere.clone(), write: elsewhere },
    ];
    let register = |(i, access)| {
        let memory = HostBuffer::from(vec![i as u8 + 1; 32]).all();
        let address = solo.regions.register(memory.clone(), Element::U8, access).unwrap();
        assert_eq!(address, Address::new(i as u16, 0));
        memory
    };
    let regions = accesses.into_iter().enumerate().map(register).collect();
    (solo, regions)
}

/// Region, offset, length, and the status of a read and of a write.
const CASES: [(u16, u32, u32, u8, u8); 15] = [
    (0, 0, 32, 0, 0),
    (0, 31, 1, 0, 0),
    (0, 0, 33, 2, 2),
    (0, 32, 1, 2, 2),
    (0, u32::MAX, 64, 2, 2),
    (0, 0, 65, 4, 4),
    (0, 0, u32::MAX, 4, 4),
    (1, 0, 1, 0, 3),
    (2, 0, 1, 3, 0),
    (3, 0, 1, 3, 3),
    (3, 99, 64, 3, 3),
    (4, 0, 1, 1, 1),
    (u16::MAX, u32::MAX, 64, 1, 1),
    // What is too long is so in any region.
    (3, 0, 65, 4, 4),
    (4, 0, 65, 4, 4),
];

#[test]
fn reads_are_checked_to_the_byte() {
    for (region, offset, length, status, _) in CASES {
        let (mut solo, _) = host();
        let address = Address::new(region, offset);
        solo.hear(
            Header::ReadRequest(ReadRequest { id: MessageId(0x0abc), address, length, raw: false }),
            b"",
        );
        solo.work();
        let mut answer = vec![0x20, 0xab, 0xc0, status];
        if status == 0 {
            answer.extend(vec![region as u8 + 1; length as usize]);
        }
        assert_eq!(solo.take_sent(), [answer], "{address}, {length} bytes");
        solo.assert_works();
        assert!(solo.session.is_idle());
    }
}

#[test]
fn writes_are_checked_to_the_byte() {
    for (region, offset, length, _, status) in CASES {
        let (mut solo, regions) = host();
        let address = Address::new(region, offset);
        let request = WriteRequest { id: MessageId(0x0abc), address, length, algorithm: Algorithm::None };
        solo.hear(Header::WriteRequest(request), &vec![0xff; length.min(100) as usize]);
        solo.work();
        assert_eq!(solo.take_sent(), [[0x40, 0xab, 0xc0, status]], "{address}, {length} bytes");
        for (i, memory) in regions.iter().enumerate() {
            let mut expected = [i as u8 + 1; 32];
            if status == 0 && i == usize::from(region) {
                expected[offset as usize..(offset + length) as usize].fill(0xff);
            }
            assert_eq!(memory.to_vec(), expected, "{address}, {length} bytes");
        }
        solo.assert_works();
        assert!(solo.session.is_idle());
    }
}

#[test]
fn reading_nothing_is_always_answered() {
    let (mut solo, _) = host();
    for (region, offset) in [(0, 0), (0, 33), (3, 0), (4, 0), (u16::MAX, u32::MAX)] {
        let address = Address::new(region, offset);
        solo.hear(Header::ReadRequest(ReadRequest { id: MessageId(1), address, length: 0, raw: false }), b"");
        assert_eq!(solo.take_sent(), [[0x20, 0x00, 0x10, 0x00]], "{address}");
    }
}

#[test]
fn a_refused_piece_fails_its_request_once_and_the_rest_is_not_asked_for() {
    // Pieces of 64 bytes, of which the peer takes two at a time: the second lies outside.
    let mut solo = Solo::open(Limits { max_in_flight: 2, ..LIMITS });
    let into = zeroed(1000);
    solo.submit(5, read(Address::new(0, 0), &into));
    assert_eq!(solo.take_sent().len(), 2);
    solo.hear_bytes(&[0x20, 0x00, 0x10, 0x02]);
    assert!(solo.take_sent().is_empty() && solo.delivered.is_empty(), "the first piece is under way");
    solo.hear_bytes(&[&[0x20, 0x00, 0x00, 0x00][..], &[1; 64]].concat());
    solo.work();
    let refused = TransferError::Refused { peer: Rank(1), status: Status::OutOfBounds };
    assert_eq!(solo.delivered, [(5, Err(refused))]);
    assert!(solo.session.is_idle());
    solo.assert_works();
}

#[test]
fn statuses_of_later_versions_are_failures_like_any_other() {
    let mut solo = Solo::open(WIDE);
    solo.submit(1, read(Address::new(0, 0), &zeroed(4)));
    solo.submit(2, write(b"abcd", Address::new(0, 0)));
    solo.work();
    solo.hear_bytes(&[0x20, 0x00, 0x00, 0xc8]);
    solo.hear_bytes(&[0x40, 0x00, 0x10, 0xc9]);
    let refused = |code| Err(TransferError::Refused { peer: Rank(1), status: Status::Unknown(code) });
    assert_eq!(solo.delivered, [(1, refused(200)), (2, refused(201))]);
    solo.assert_works();
}

#[test]
fn addresses_that_do_not_exist_are_not_asked_for() {
    let mut solo = Solo::open(WIDE);
    let last = Address::new(u16::MAX, u32::MAX);
    solo.submit(1, read(last, &zeroed(2)));
    solo.submit(2, write(b"ab", last));
    let error = || Err(TransferError::AddressRange { address: 0xffff_ffff_ffff, len: 2 });
    assert_eq!(solo.delivered, [(1, error()), (2, error())]);
    assert!(solo.take_sent().is_empty());
    solo.submit(3, read(last, &zeroed(1)));
    assert_eq!(
        solo.take_sent(),
        [[0x10, 0, 0x0f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xf0, 0, 0, 0, 0x10, 0, 0, 0]]
    );
}

#[test]
fn both_ends_agree_on_what_was_refused() {
    let mut world = World::open(7, WIDE);
    let (region, base) = world.register(1, vec![3; 100]);
    let into = HostBuffer::from(vec![9; 50]).all();
    world.submit(0, 1, read(base.checked_add(51).unwrap(), &into));
    world.submit(0, 2, write(&[8; 50], base.checked_add(51).unwrap()));
    world.submit(0, 3, write(&[8; 50], base.checked_add(50).unwrap()));
    world.run();
    let refused = Err(TransferError::Refused { peer: Rank(1), status: Status::OutOfBounds });
    assert_eq!(world.result(0, 1), Some(&refused));
    assert_eq!(world.result(0, 2), Some(&refused));
    assert_eq!(world.result(0, 3), Some(&Ok(50)));
    assert_eq!(into.to_vec(), [9; 50]);
    assert_eq!(region.all().to_vec(), [[3; 50], [8; 50]].concat());
    world.assert_idle();
}
