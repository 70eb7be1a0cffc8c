//! Copies of tensors of another library, on its streams.
#![allow(unsafe_code)] // memory and streams that mgcomp has not made

use mgcomp_codecs::Element;
use mgcomp_codecs::device::Stream;
use mgcomp_tests::data::{self, Kind};
use mgcomp_tests::foreign::{Block, Foreign, ForeignStream};
use mgcomp_transport::peer_copy::{CopyPath, PeerCopier};

use crate::peer_rig::{Ends, config};
use crate::rig::with_threads;

/// Where tensors begin in their blocks: as an allocator aligns them, as views of words and of bytes do.
const OFFSETS: [u64; 4] = [512, 4, 2 * 512 + 12, 1];
/// Shorter than the gate, and of several segments.
const LENS: [u64; 3] = [60, 70_000, 90_001];

/// Copies a tensor between copies of its library, all on one of its streams, and nobody waits in between.
fn round(
    copier: &mut PeerCopier,
    (theirs, stream): (&ForeignStream<'_>, &Stream),
    libraries: &[Foreign; 2],
    (offset, raw): (u64, &[u8]),
) -> CopyPath {
    let len = raw.len() as u64;
    let room = |library| Foreign::block(library, offset + len + 700);
    let blocks: [Block<'_>; 4] =
        [room(&libraries[0]), room(&libraries[0]), room(&libraries[1]), room(&libraries[1])];
    let [staged, source, into, last] = blocks.each_ref().map(|block| block.tensor(offset..offset + len));
    theirs.write(raw, staged);
    theirs.write(&vec![1; raw.len()], source);
    theirs.write(&vec![2; raw.len()], into);
    theirs.write(&vec![3; raw.len()], last);
    theirs.copy(staged, source);
    // SAFETY: `read` waits for all of it before the blocks go.
    let (from, to) = unsafe { (source.lend(), into.lend()) };
    let copy = copier.copy(stream, Element::U32, from, to).unwrap();
    // The source is the library's again, and the destination is there.
    theirs.fill(&blocks[1], 0xee);
    theirs.copy(into, last);
    assert!(theirs.read(last) == raw && theirs.read(into) == raw, "{len} bytes at {offset}, {:?}", copy.path);
    copier.report(stream, &copy).unwrap();
    copy.path
}

#[test]
fn tensors_are_copied_in_the_order_of_their_stream() {
    with_threads("foreign::tensors_are_copied_in_the_order_of_their_stream", 21, |stub| {
        for ends in [Ends::Peers, Ends::Strangers, Ends::One] {
            let devices = ends.open(stub);
            let libraries = devices.each_ref().map(Foreign::on);
            for (policy, is_coded) in
                [("fixed:zvc", Some(true)), ("fixed:none", Some(false)), ("adaptive", None)]
            {
                let mut copier = PeerCopier::new(&devices[0], &devices[1], config(policy)).unwrap();
                for (library, device) in libraries.iter().zip(&devices) {
                    for theirs in [library.stream(), library.default_stream()] {
                        // SAFETY: dropped before theirs.
                        let stream = unsafe { theirs.lend(device) };
                        for (offset, seed) in OFFSETS.into_iter().zip(0..) {
                            for len in LENS {
                                let raw = data::bytes(Kind::Sparse, len as usize, seed);
                                let way = round(&mut copier, (&theirs, &stream), &libraries, (offset, &raw));
                                let is_coded = if len == LENS[0] { Some(false) } else { is_coded };
                                let is_right = is_coded.is_none_or(|is_coded| way.is_coded() == is_coded);
                                assert!(is_right, "{ends:?} {policy} {len} {way:?}");
                            }
                        }
                    }
                }
            }
        }
    });
}

#[test]
fn nothing_of_the_other_library_goes_with_a_copier() {
    with_threads("foreign::nothing_of_the_other_library_goes_with_a_copier", 22, |stub| {
        let devices = Ends::Peers.open(stub);
        let libraries = devices.each_ref().map(Foreign::on);
        let raw = data::bytes(Kind::Sparse, 70_000, 3);
        let theirs = libraries[1].stream();
        let blocks = libraries.each_ref().map(|library| library.block(70_100));
        let [source, into] = blocks.each_ref().map(|block| block.tensor(4..70_004));
        theirs.write(&raw, source);
        theirs.write(&vec![0; raw.len()], into);
        // SAFETY: dropped before theirs.
        let stream = unsafe { theirs.lend(&devices[1]) };
        drop(PeerCopier::new(&devices[0], &devices[1], config("fixed:zvc")).unwrap()); // the kernels stay
        let before = stub.left();
        let mut copier = PeerCopier::new(&devices[0], &devices[1], config("fixed:zvc")).unwrap();
        // SAFETY: `read` waits for all of it before the blocks go.
        let (from, to) = unsafe { (source.lend(), into.lend()) };
        let copy = copier.copy(&stream, Element::U32, from, to).unwrap();
        assert!(copy.path.is_coded());
        // The copy is under way, and comes to its end all the same.
        drop((copier, stream));
        assert_eq!(stub.left(), before);
        assert!(theirs.read(into) == raw && theirs.read(source) == raw);
    });
}
