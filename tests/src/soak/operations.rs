//! Random operations of a communicator, and what they must leave.

use std::error::Error;

use mgcomp_codecs::Element;
use mgcomp_transport::communicator::{Block, Communicator, CommunicatorError, Datatype, Operation};
use mgcomp_transport::memory::HostBuffer;

use crate::data::{Kind, Random, bytes};

/// Why a rank does not go on.
#[derive(Debug)]
pub(super) enum Failure {
    /// Something failed, as it must when a rank is gone.
    Failed(String),
    /// Something went well and is not right.
    Wrong(String),
}

impl Failure {
    pub(super) fn from_error(error: impl Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl<E: Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::from_error(error)
    }
}

/// One operation: everything about it that all members must agree on.
struct Draw {
    seed: u64,
    kind: Kind,
    /// Bytes of a member's block, a multiple of 8.
    len: usize,
    root: u32,
    element: Element,
}

impl Draw {
    /// The block of a member.
    fn block(&self, rank: u32) -> Vec<u8> {
        self.block_of(rank, self.len)
    }

    fn block_of(&self, rank: u32, len: usize) -> Vec<u8> {
        bytes(self.kind, len, self.seed.wrapping_add(u64::from(rank)))
    }
}

/// Does operation number `step`, the same on all members.
pub(super) fn step(world: &Communicator, seed: u64, step: u64) -> Result<(), Failure> {
    let mut random = Random::new(seed.wrapping_add(step.wrapping_mul(0x9e37_79b9)));
    // As many short ones as long ones.
    let longest = 8 << random.below(19);
    let draw = Draw {
        seed: random.bits(),
        kind: Kind::ALL[random.below(Kind::ALL.len())],
        len: random.below(longest) / 8 * 8,
        root: random.below(world.size() as usize) as u32,
        element: [Element::U8, Element::F16, Element::F32, Element::U64][random.below(4)],
    };
    match random.below(9) {
        0 => Ok(world.barrier()?),
        1 => broadcast(world, &draw),
        2 => gather_and_scatter(world, &draw),
        3 => all_gather(world, &draw),
        4 => all_gather_v(world, &draw),
        5 => all_to_all(world, &draw),
        6 => reduce(world, &draw, random.below(4)),
        7 => in_a_ring(world, &draw),
        _ => in_halves(world, &draw),
    }
}

fn broadcast(world: &Communicator, draw: &Draw) -> Result<(), Failure> {
    let buffer = HostBuffer::from(draw.block(world.rank()));
    world.broadcast(draw.root, &buffer.all(), draw.element)?;
    check("broadcast", draw, &buffer, &draw.block(draw.root))
}

fn gather_and_scatter(world: &Communicator, draw: &Draw) -> Result<(), Failure> {
    let own = HostBuffer::from(draw.block(world.rank()));
    let is_root = world.rank() == draw.root;
    let all = HostBuffer::zeroed(if is_root { draw.len * world.size() as usize } else { 0 });
    world.gather(draw.root, &own.all(), &all.all(), draw.element)?;
    if is_root {
        check("gather", draw, &all, &joined(world, draw))?;
    }
    let back = HostBuffer::zeroed(draw.len);
    world.scatter(draw.root, &all.all(), &back.all(), draw.element)?;
    check("scatter", draw, &back, &draw.block(world.rank()))
}

fn all_gather(world: &Communicator, draw: &Draw) -> Result<(), Failure> {
    let own = HostBuffer::from(draw.block(world.rank()));
    let all = HostBuffer::zeroed(draw.len * world.size() as usize);
    let request = world.start_all_gather(&own.all(), &all.all(), draw.element);
    // Messages go on meanwhile.
    ring(world, draw, draw.len.min(1000))?;
    request.wait()?;
    check("all_gather", draw, &all, &joined(world, draw))
}

fn all_gather_v(world: &Communicator, draw: &Draw) -> Result<(), Failure> {
    let ranks = world.size() as usize;
    let len = |rank: usize| draw.len / ranks * rank;
    let mut blocks = Vec::new();
    let mut end = 0;
    for rank in 0..ranks {
        blocks.push(Block { offset: end, len: len(rank) });
        end += len(rank);
    }
    let own = world.rank();
    let send = HostBuffer::from(draw.block_of(own, len(own as usize)));
    let all = HostBuffer::zeroed(end);
    world.all_gather_v(&send.all(), &all.all(), &blocks, draw.element)?;
    let expected: Vec<u8> =
        (0..world.size()).flat_map(|rank| draw.block_of(rank, len(rank as usize))).collect();
    check("all_gather_v", draw, &all, &expected)
}

fn all_to_all(world: &Communicator, draw: &Draw) -> Result<(), Failure> {
    let ranks = world.size();
    // The block of member i for member j is that of a member i + ranks · j.
    let of = |from: u32, to: u32| draw.block_of(from + ranks * to, draw.len / ranks as usize);
    let send: Vec<u8> = (0..ranks).flat_map(|to| of(world.rank(), to)).collect();
    let receive = HostBuffer::zeroed(send.len());
    world.all_to_all(&HostBuffer::from(send).all(), &receive.all(), draw.element)?;
    let expected: Vec<u8> = (0..ranks).flat_map(|from| of(from, world.rank())).collect();
    check("all_to_all", draw, &receive, &expected)
}

fn reduce(world: &Communicator, draw: &Draw, which: usize) -> Result<(), Failure> {
    let ranks = world.size();
    let (datatype, operation, combine): (_, _, Combine) = match which {
        0 => (Datatype::U32, Operation::Sum, |a, b| words(a, b, u32::wrapping_add)),
        1 => (Datatype::F32, Operation::Sum, |a, b| {
            words(a, b, |a, b| (f32::from_bits(a) + f32::from_bits(b)).to_bits())
        }),
        2 => (Datatype::I32, Operation::Min, |a, b| words(a, b, |a, b| (a as i32).min(b as i32) as u32)),
        _ => (Datatype::U32, Operation::Max, |a, b| words(a, b, u32::max)),
    };
    let numbers = |rank: u32| {
        let block = draw.block_of(rank, draw.len / 4 / ranks as usize * 4 * ranks as usize);
        if datatype == Datatype::F32 { floats(&block) } else { block }
    };
    // From the left, in the order of the ranks.
    let expected = (1..ranks).fold(numbers(0), |left, rank| combine(&left, &numbers(rank)));
    let send = HostBuffer::from(numbers(world.rank()));
    let len = send.len();
    let result = HostBuffer::zeroed(len);
    world.all_reduce(&send.all(), &result.all(), datatype, operation)?;
    check("all_reduce", draw, &result, &expected)?;
    let share = len / ranks as usize;
    let block = HostBuffer::zeroed(share);
    world.reduce_scatter(&send.all(), &block.all(), datatype, operation)?;
    check("reduce_scatter", draw, &block, &expected[world.rank() as usize * share..][..share])?;
    world.reduce(draw.root, &send.all(), &result.all(), datatype, operation)?;
    check("reduce", draw, &result, &expected)
}

type Combine = fn(&[u8], &[u8]) -> Vec<u8>;

fn words(a: &[u8], b: &[u8], combine: impl Fn(u32, u32) -> u32) -> Vec<u8> {
    let word = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_le_bytes);
    let pairs = a.chunks_exact(4).zip(b.chunks_exact(4));
    pairs.flat_map(|(a, b)| combine(word(a), word(b)).to_le_bytes()).collect()
}

/// Numbers of ordinary size out of bytes of any kind, whose sum depends on the order.
fn floats(bytes: &[u8]) -> Vec<u8> {
    words(bytes, bytes, |word, _| ((word >> 8) as f32 * 0.37 - 1e6).to_bits())
}

fn in_a_ring(world: &Communicator, draw: &Draw) -> Result<(), Failure> {
    ring(world, draw, draw.len)
}

/// Every member sends `len` bytes to the next one.
fn ring(world: &Communicator, draw: &Draw, len: usize) -> Result<(), Failure> {
    let (rank, ranks) = (world.rank(), world.size());
    let before = (rank + ranks - 1) % ranks;
    let send = HostBuffer::from(draw.block_of(rank, len));
    let into = HostBuffer::zeroed(len);
    let (next, from) = (((rank + 1) % ranks, &send.all()), (before, &into.all()));
    let got = world.send_receive(next, from, draw.seed as u32 % 3, draw.element)?;
    if got != len as u64 {
        return Err(Failure::Wrong(format!("a message of {len} bytes came as one of {got}")));
    }
    check("send_receive", draw, &into, &draw.block_of(before, len))
}

/// Even and odd members apart.
fn in_halves(world: &Communicator, draw: &Draw) -> Result<(), Failure> {
    match world.split(Some(world.rank() % 2), 0) {
        Ok(Some(half)) => all_gather_of_half(&half, world.rank() % 2, draw),
        Ok(None) => Err(Failure::Wrong("a member that named a color is in no communicator".into())),
        // A job that lasts has no numbers of communicators left, which is no failure of a rank.
        Err(CommunicatorError::TooMany) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn all_gather_of_half(half: &Communicator, parity: u32, draw: &Draw) -> Result<(), Failure> {
    let of = |rank: u32| draw.block(2 * rank + parity);
    let all = HostBuffer::zeroed(draw.len * half.size() as usize);
    half.all_gather(&HostBuffer::from(of(half.rank())).all(), &all.all(), draw.element)?;
    let expected: Vec<u8> = (0..half.size()).flat_map(of).collect();
    check("all_gather of a half", draw, &all, &expected)
}

fn joined(world: &Communicator, draw: &Draw) -> Vec<u8> {
    (0..world.size()).flat_map(|rank| draw.block(rank)).collect()
}

fn check(what: &str, draw: &Draw, got: &HostBuffer, expected: &[u8]) -> Result<(), Failure> {
    let differs = got.all().read(|got| got != expected);
    if differs {
        let Draw { seed, kind, len, root, element } = draw;
        let text = format!("{what} of {len} bytes, {kind:?}, as {element:?}, root {root}, seed {seed}");
        return Err(Failure::Wrong(text));
    }
    Ok(())
}
