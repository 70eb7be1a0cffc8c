//! Reads that are to go raw, and for whom what is done is.

use super::solo::{Solo, read, send, write, zeroed};
use super::*;
use crate::message::{DataReady, Fetch, ReadRequest};
use crate::region::Access;

const LEN: u32 = 64;

/// The one thing that is to be done.
fn only_job(solo: &mut Solo) -> Action {
    let job = solo.jobs.pop_front().unwrap();
    assert!(solo.jobs.is_empty());
    job
}

#[test]
fn a_read_says_whether_it_is_to_go_raw() {
    for raw in [true, false] {
        let mut solo = Solo::open(WIDE);
        let from = Address::new(3, 0x1000);
        let into = Payload::from_memory(zeroed(LEN as usize));
        solo.submit(7, Request::Read { from, into, raw });
        let [Header::ReadRequest(asked)] = solo.take_headers()[..] else { panic!("no read") };
        assert_eq!(asked, ReadRequest { id: asked.id, address: from, length: LEN, raw });
    }
}

#[test]
fn who_answers_a_read_is_told_whether_it_is_to_go_raw() {
    let mut solo = Solo::open(WIDE);
    let address = solo.regions.register(zeroed(LEN as usize), Element::F32, Access::all()).unwrap();
    for raw in [true, false] {
        solo.hear(Header::ReadRequest(ReadRequest { id: MessageId(1), address, length: LEN, raw }), b"");
        let job = only_job(&mut solo);
        let Action::Encode { purpose, .. } = &job else { panic!("{job:?}") };
        assert_eq!(*purpose, Purpose::Answer { raw });
        solo.work_on(job);
    }
}

#[test]
fn parts_of_a_read_and_of_a_write_say_what_asked_for_them() {
    let mut solo = Solo::open(WIDE);
    solo.submit(7, write(&[1; LEN as usize], Address::new(3, 0)));
    let Action::Encode { purpose, .. } = only_job(&mut solo) else { panic!("nothing to encode") };
    assert_eq!(purpose, Purpose::Write { request: RequestId(7) });
    solo.submit(8, send(&[1; LEN as usize], 5));
    let Action::Encode { purpose, .. } = only_job(&mut solo) else { panic!("nothing to encode") };
    assert_eq!(purpose, Purpose::Send { request: RequestId(8) });
    // One that the peer fetches.
    let mut narrow = Solo::open(Limits { max_transfer_bytes: LEN - 1, ..WIDE });
    narrow.submit(6, send(&[1; LEN as usize], 5));
    narrow.hear(Header::Fetch(Fetch { id: MessageId(0), offer: OfferId(0), offset: 0, length: 1 }), b"");
    let Action::Encode { purpose, .. } = only_job(&mut narrow) else { panic!("nothing to encode") };
    assert_eq!(purpose, Purpose::Send { request: RequestId(6) });

    solo.take_sent();
    solo.submit(9, read(Address::new(3, 0), &zeroed(LEN as usize)));
    let [Header::ReadRequest(ReadRequest { id, .. })] = solo.take_headers()[..] else { panic!("no read") };
    let data = DataReady { id, algorithm: Algorithm::None, status: Status::Good };
    solo.hear(Header::DataReady(data), &[2; LEN as usize]);
    let Action::Decode { read, .. } = only_job(&mut solo) else { panic!("nothing to decode") };
    assert_eq!(read, Some(RequestId(9)));
}
