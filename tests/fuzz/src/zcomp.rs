//! The vector primitives: any bytes as vectors to store, and as what was stored.

use crate::common::Random;
use crate::common::data::kinds;
use crate::common::fence::{Fenced, Place};
use crate::input::{AS_IT_IS, Input};
use mgcomp_codecs::zcomp::{
    Compressed, Condition, Headers, Lane, Partition, VECTOR_LEN, Vector, ZcompError, zcompl, zcompl_separate,
    zcomps, zcomps_separate,
};
use mgcomp_codecs::{Cpu, Element};
use std::cell::RefCell;

const MAX_RAW_LEN: usize = 1_500;

/// Lane, layout, partitions and threads, how much of the data is headers; repetitions (two bytes) and their
/// step; then the data.
///
/// # Panics
/// If an instruction set differs from portable code, writes or reads elsewhere, or loses more than ReLU does.
pub fn run(input: &[u8]) {
    let mut input = Input(input);
    let choices = Choices::take(&mut input);
    let data = input.raw(MAX_RAW_LEN);
    vectors(&choices, &data);
    buffers(&choices, &data);
    hostile_buffers(&choices, &data);
}

struct Choices {
    lane: Lane,
    condition: Condition,
    headers: Headers,
    partitions: usize,
    threads: usize,
    /// Length of what stands for headers and of what is asked for, where they are not what was written.
    headers_len: usize,
    raw_len: usize,
}

impl Choices {
    fn take(input: &mut Input<'_>) -> Self {
        let (lane, layout) = (input.byte(), input.byte());
        let bit = |i: u8| layout >> i & 1 == 1;
        Self {
            lane: Lane::ALL[usize::from(lane) % Lane::ALL.len()],
            condition: if bit(0) { Condition::LteZ } else { Condition::EqZ },
            headers: if bit(1) { Headers::Separate } else { Headers::Interleaved },
            partitions: 1 + usize::from(layout >> 4),
            // Rarely more than one: starting threads costs more than the work.
            threads: if layout & 0b1100 == 0b1100 { 2 } else { 1 },
            headers_len: input.byte().into(),
            raw_len: input.u16().into(),
        }
    }
}

/// The same from every instruction set.
fn agreed<T: PartialEq + std::fmt::Debug>(what: &str, mut work: impl FnMut(Cpu) -> T) -> T {
    let expected = work(Cpu::Portable);
    for cpu in Cpu::available() {
        let found = work(cpu);
        assert!(found == expected, "{what} on {}: {found:02x?}, not {expected:02x?}", cpu.isa());
    }
    expected
}

/// Each vector alone, in and out of buffers that are as short as can be; and the rest as something stored.
fn vectors(choices: &Choices, data: &[u8]) {
    thread_local!(static ROOM: RefCell<Fenced> = RefCell::new(Fenced::new(2 * VECTOR_LEN)));
    let &Choices { lane, condition, .. } = choices;
    ROOM.with_borrow_mut(|room| {
        let (vectors, rest) = data.as_chunks::<VECTOR_LEN>();
        for vector in vectors {
            let len = agreed("length", |cpu| zcomps(cpu, lane, condition, vector, &mut [0; 2 * VECTOR_LEN]));
            let len = len.expect("room enough");
            let stored = agreed("stored", |cpu| {
                let written = zcomps(cpu, lane, condition, vector, room.place(Place::End, len, 0xa7));
                (written, room.harm(), room.content().to_vec())
            });
            assert_eq!((stored.0, stored.1), (Ok(len), None));
            let (read, loaded) = load(lane, room.hold(Place::End, &stored.2)).expect("what was stored");
            assert_eq!(read, len, "not all of it was read");
            check_loss(condition, vector, &loaded);
            separate(lane, condition, vector, &stored.2, room);
        }
        let _ = load(lane, room.hold(Place::End, rest));
    });
}

fn load(lane: Lane, stored: &[u8]) -> Result<(usize, Vector), ZcompError> {
    agreed("loaded", |cpu| {
        let mut vector = [0x7a; VECTOR_LEN];
        zcompl(cpu, lane, stored, &mut vector).map(|read| (read, vector))
    })
}

/// The parts of what was `stored` interleaved, each where it belongs.
fn separate(lane: Lane, condition: Condition, vector: &Vector, stored: &[u8], room: &mut Fenced) {
    let (header, kept) = stored.split_at(lane.header_len());
    agreed("stored apart", |cpu| {
        let mut own = [0; 8];
        let own = &mut own[..header.len()];
        let to = room.place(Place::End, kept.len(), 0xa7);
        assert_eq!(zcomps_separate(cpu, lane, condition, vector, own, to), Ok(kept.len()));
        assert!(own == header && to == kept, "header {own:02x?}, elements {to:02x?}");
    });
    agreed("loaded apart", |cpu| {
        let mut loaded = [0x7a; VECTOR_LEN];
        let read = zcompl_separate(cpu, lane, header, room.hold(Place::End, kept), &mut loaded);
        assert_eq!(read, Ok(kept.len()));
        loaded
    });
}

/// `EqZ` loses nothing; `LteZ` only clears elements.
fn check_loss(condition: Condition, raw: &[u8], loaded: &[u8]) {
    let fine = match condition {
        Condition::EqZ => raw == loaded,
        Condition::LteZ => raw.iter().zip(loaded).all(|(raw, loaded)| raw == loaded || *loaded == 0),
    };
    assert!(fine, "{condition:?}: {raw:02x?} came back as {loaded:02x?}");
}

fn buffers(choices: &Choices, raw: &[u8]) {
    let &Choices { lane, condition, headers, partitions, threads, .. } = choices;
    let compressed = agreed("compressed", |cpu| {
        Compressed::new(cpu, lane, headers, condition, raw, partitions, threads).expect("partitions, threads")
    });
    assert!(compressed.partitions.len() <= partitions && compressed.raw_len() == raw.len());
    let expanded = agreed("expanded", |cpu| expand(cpu, &compressed, threads));
    check_loss(condition, raw, &expanded.expect("what was compressed"));
}

/// The data as two partitions that nobody made.
fn hostile_buffers(choices: &Choices, data: &[u8]) {
    let &Choices { lane, headers, threads, headers_len, raw_len, .. } = choices;
    let (own, data) = data.split_at(headers_len.min(data.len()));
    let (first_own, last_own) = own.split_at(own.len() / 2);
    let (first, last) = data.split_at(data.len() / 2);
    let first_len = raw_len / 2 / VECTOR_LEN * VECTOR_LEN;
    let part = |raw_len, headers: &[u8], data: &[u8]| Partition {
        raw_len,
        headers: headers.to_vec(),
        data: data.to_vec(),
    };
    let partitions = vec![part(first_len, first_own, first), part(raw_len - first_len, last_own, last)];
    let compressed = Compressed { lane, headers, partitions };
    let _ = agreed("hostile", |cpu| expand(cpu, &compressed, threads));
}

fn expand(cpu: Cpu, compressed: &Compressed, threads: usize) -> Result<Vec<u8>, ZcompError> {
    thread_local!(static RAW: RefCell<Fenced> = RefCell::new(Fenced::new(1 << 16)));
    RAW.with_borrow_mut(|fenced| {
        let raw = fenced.place(Place::End, compressed.raw_len(), 0x96);
        let result = compressed.expand_into(cpu, raw, threads).map(|()| raw.to_vec());
        assert_eq!(fenced.harm(), None, "{}: written before the raw bytes", cpu.isa());
        result
    })
}

/// Every kind of data in some lanes and layouts, and what it was compressed to.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (i, kind) in kinds().enumerate() {
        let raw = kind.fill(&mut Random(i as u64), Element::ALL[i % Element::ALL.len()], 300 + i);
        let (lane, layout) = ((i % Lane::ALL.len()) as u8, (37 * i % 251) as u8);
        seeds.push([&[lane, layout, 0, 0, 0][..], &AS_IT_IS, &raw].concat());
        // One vector as it is stored, then as two partitions.
        let (Some(vector), mut stored) = (raw.first_chunk(), [0; 2 * VECTOR_LEN]) else { continue };
        let condition = Condition::EqZ;
        if let Ok(len) = zcomps(Cpu::Portable, Lane::ALL[usize::from(lane)], condition, vector, &mut stored) {
            seeds.push([&[lane, layout & !0b10, 0, 64, 0][..], &AS_IT_IS, &stored[..len]].concat());
        }
    }
    seeds
}
