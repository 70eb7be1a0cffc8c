//! What a call from C costs on top of the same call from Rust: `cargo run --release -p mgcomp-c --example overhead`.
//!
//! Both are made from here, in turn; the best of many rounds counts. The answers are compared as well.
#![allow(unsafe_code)] // calls what C calls

use std::hint::black_box;
use std::mem::MaybeUninit;
use std::ptr;
use std::time::Instant;

use mgcomp::buddy::{self, mgcompBuddyAllocation, mgcompBuddyForm, mgcompBuddyPool, mgcompBuddyTarget};
use mgcomp::chunk::mgcompMeasureChunk;
use mgcomp::error::mgcompResult;
use mgcomp::frame::{mgcompBoundFrame, mgcompDecodeFrame, mgcompEncodeFrame};
use mgcomp::number::{mgcompAlgorithm, mgcompElement};
use mgcomp::table::{mgcompBuildTable, mgcompGatherRows, mgcompTable};
use mgcomp::workers::mgcompWorkers;
use mgcomp_codecs::frame::{self, Frame, Options};
use mgcomp_codecs::{Algorithm, Element, codec};
use mgcomp_transport::buddy::{BuddyPool, Form, Target};
use mgcomp_transport::table::{Table, TableOptions};

const ROUNDS: usize = 2000;
const CALLS: u32 = 200;
const ROW: usize = 64;
const ZVC: MaybeUninit<mgcompAlgorithm> = MaybeUninit::new(mgcompAlgorithm::Zvc);
const F32: MaybeUninit<mgcompElement> = MaybeUninit::new(mgcompElement::F32);

/// Nanoseconds of a call, in the best round.
fn compare(name: &str, mut from_c: impl FnMut(), mut from_rust: impl FnMut()) {
    let round = |work: &mut dyn FnMut()| {
        let start = Instant::now();
        (0..CALLS).for_each(|_| work());
        start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
    };
    let (mut c, mut rust) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..ROUNDS {
        c = c.min(round(&mut from_c));
        rust = rust.min(round(&mut from_rust));
    }
    println!("{name:<28} {c:>9.1} {rust:>9.1} {:>9.1}", c - rust);
}

fn good(result: mgcompResult) {
    assert_eq!(result, mgcompResult::Success);
}

fn main() {
    println!("{:<28} {:>9} {:>9} {:>9}", "call", "C/ns", "Rust/ns", "more/ns");
    sizes();
    frames();
    tables();
    buddies();
}

fn sizes() {
    let raw = [0u8; 256];
    let mut bytes = 0usize;
    compare(
        "size of a chunk of 256 B",
        // SAFETY: `raw` and `bytes` are there.
        || good(unsafe { mgcompMeasureChunk(ZVC, F32, raw.as_ptr().cast(), raw.len(), &raw mut bytes) }),
        || {
            black_box(codec(Algorithm::Zvc).unwrap().chunk_len(Element::F32, black_box(&raw)));
        },
    );
    assert_eq!(bytes, codec(Algorithm::Zvc).unwrap().chunk_len(Element::F32, &raw));
    compare(
        "bound of a frame",
        // SAFETY: `bytes` is there.
        || good(unsafe { mgcompBoundFrame(black_box(1000), ptr::null(), &raw mut bytes) }),
        || {
            black_box(frame::max_frame_len(black_box(1000), Options::for_len(1000)));
        },
    );
    assert_eq!(bytes, frame::max_frame_len(1000, Options::for_len(1000)));
}

fn frames() {
    let raw = [0u8; 256];
    let (mut room, mut bytes, mut back) = ([0u8; 512], 0usize, [1u8; 256]);
    let options = Options::for_len(raw.len());
    let zvc = codec(Algorithm::Zvc).unwrap();
    let mut other = [0u8; 512];
    let len = frame::encode_to(zvc, Element::F32, &raw, options, &mut other).unwrap();
    let (address, capacity) = (room.as_mut_ptr().cast(), room.len());
    compare(
        "encode a frame of 256 B",
        || {
            let (raw, len, none) = (raw.as_ptr().cast(), raw.len(), ptr::null());
            // SAFETY: `raw`, `room` and `bytes` are there.
            good(unsafe { mgcompEncodeFrame(ZVC, F32, raw, len, none, address, capacity, &raw mut bytes) });
        },
        || drop(black_box(frame::encode_to(zvc, Element::F32, black_box(&raw), options, &mut other))),
    );
    assert_eq!(room[..bytes], other[..len]);
    let alone = mgcompWorkers { id: 0 };
    let (mut again, mut raw_bytes) = ([1u8; 256], 0usize);
    compare(
        "decode a frame of 256 B",
        || {
            let (into, capacity) = (back.as_mut_ptr().cast(), back.len());
            let out = &raw mut raw_bytes;
            // SAFETY: `room`, `back` and `raw_bytes` are there.
            good(unsafe { mgcompDecodeFrame(address.cast_const(), bytes, alone, into, capacity, out) });
        },
        || Frame::parse(black_box(&other[..len])).unwrap().decode_into(&mut again).unwrap(),
    );
    assert_eq!((back, again), (raw, raw));
}

fn tables() {
    let rows: Vec<u8> = (0..64_000u32).map(|i| (i % 50) as u8).collect();
    let (mut lent, mut handle) = (rows.clone(), mgcompTable { id: 0 });
    // SAFETY: `lent` stays until the program ends.
    good(unsafe {
        mgcompBuildTable(lent.as_mut_ptr().cast(), lent.len(), ROW, ptr::null(), &raw mut handle)
    });
    let table = Table::build(rows, ROW, &TableOptions::default()).unwrap();
    let indices = [77u64, 500];
    let (mut c, mut rust) = ([0u8; 2 * ROW], [0u8; 2 * ROW]);
    compare(
        "gather 2 rows of 64 B",
        || {
            let (out, len) = (c.as_mut_ptr().cast(), c.len());
            // SAFETY: `indices` and `c` are there.
            good(unsafe { mgcompGatherRows(handle, indices.as_ptr(), 2, out, len, ptr::null_mut()) });
        },
        || drop(black_box(table.gather(black_box(&indices), &mut rust))),
    );
    assert_eq!(c, rust);
    good(mgcomp::table::mgcompDestroyTable(handle));
}

fn buddies() {
    let (mut handle, mut allocation) = (mgcompBuddyPool { id: 0 }, mgcompBuddyAllocation { id: 0 });
    let (form, target) = (MaybeUninit::new(mgcompBuddyForm::Bpc), MaybeUninit::new(mgcompBuddyTarget::Two));
    // SAFETY: the places for handles are there.
    unsafe {
        good(buddy::mgcompCreateBuddyPool(1 << 20, 1 << 20, &raw mut handle));
        good(buddy::mgcompAllocateBuddy(handle, 4096, form, F32, target, &raw mut allocation));
    }
    let mut pool = BuddyPool::new(1 << 20, 1 << 20).unwrap();
    let own = pool.alloc_as(4096, Form::Bpc, Target::Two).unwrap();
    let (mut c, mut rust) = ([1u8; 128], [1u8; 128]);
    compare(
        "read 128 B of buddy memory",
        || {
            let (out, len) = (c.as_mut_ptr().cast(), c.len());
            // SAFETY: `c` is there.
            good(unsafe { buddy::mgcompReadBuddy(handle, allocation, 256, out, len) });
        },
        || pool.read(own, 256..384, black_box(&mut rust)).unwrap(),
    );
    assert_eq!(c, rust);
}
