//! What an opcode means. Only those are known that the kernels have.

use super::compute;
use super::instruction::{Access, Operation, Reduction, Shuffle, Space, Update};

/// What the opcode `name` does, but for an access's offset, a wait's groups and a branch's target, which are operands.
pub(super) fn operation(name: &str) -> Option<Operation> {
    let of_memory = || memory(name).or_else(|| atomic(name));
    let computes = || compute::function(name).map(|(count, function)| Operation::Compute(count, function));
    special(name).or_else(of_memory).or_else(computes)
}

fn special(name: &str) -> Option<Operation> {
    Some(match name {
        "cp.async.ca.shared.global" => Operation::CopyAsync,
        "cp.async.commit_group" => Operation::CommitCopies,
        "cp.async.wait_group" => Operation::WaitCopies(0),
        "shfl.sync.up.b32" => Operation::Shuffle(Shuffle::Up),
        "shfl.sync.down.b32" => Operation::Shuffle(Shuffle::Down),
        "shfl.sync.bfly.b32" => Operation::Shuffle(Shuffle::Butterfly),
        "shfl.sync.idx.b32" => Operation::Shuffle(Shuffle::Index),
        "vote.sync.ballot.b32" => Operation::Ballot,
        "vote.sync.any.pred" => Operation::Any,
        "match.any.sync.b32" => Operation::MatchAny,
        "redux.sync.add.u32" => Operation::Reduce(Reduction::Add),
        "redux.sync.min.u32" => Operation::Reduce(Reduction::Min),
        "redux.sync.or.b32" => Operation::Reduce(Reduction::Or),
        "bar.warp.sync" => Operation::WarpBarrier,
        "bar.sync" => Operation::Barrier { reduces: false },
        "bar.red.or.pred" => Operation::Barrier { reduces: true },
        "bra" | "bra.uni" => Operation::Branch { target: 0, when: None },
        "nanosleep.u32" => Operation::Sleep,
        "ret" => Operation::Return,
        _ => return None,
    })
}

fn memory(name: &str) -> Option<Operation> {
    let (verb, rest) = name.split_once('.')?;
    // Relaxed accesses of the device: every access of this machine is one.
    let rest = rest.strip_prefix("relaxed.gpu.").unwrap_or(rest);
    let (space, rest) = rest.split_once('.')?;
    let (count, element) = match rest.split_once('.') {
        Some(("v2", element)) => (2, element),
        Some(("v4", element)) => (4, element),
        Some(_) => return None,
        None => (1, rest),
    };
    let (width, signed) = width(element)?;
    let access = Access { space: self::space(space)?, width, count, signed, offset: 0 };
    match verb {
        "ld" => Some(Operation::Load(access)),
        "st" if access.space != Space::Param => Some(Operation::Store(access)),
        _ => None,
    }
}

fn atomic(name: &str) -> Option<Operation> {
    let rest = name.strip_prefix("atom.")?;
    let rest = rest.strip_prefix("acq_rel.gpu.").unwrap_or(rest);
    let mut words = rest.split('.');
    let space = space(words.next()?)?;
    let update = match words.next()? {
        "add" => Update::Add,
        "or" => Update::Or,
        "max" => Update::Max,
        "cas" => Update::CompareAndSwap,
        _ => return None,
    };
    let (width, signed) = width(words.next()?)?;
    let is_known = words.next().is_none() && width >= 4 && !signed && space != Space::Param;
    let access = Access { space, width, count: 1, signed, offset: 0 };
    is_known.then_some(Operation::Atomic(access, update))
}

fn space(name: &str) -> Option<Space> {
    match name {
        "param" => Some(Space::Param),
        "global" => Some(Space::Global),
        "shared" => Some(Space::Shared),
        _ => None,
    }
}

/// Bytes of a type, and whether it has a sign.
fn width(name: &str) -> Option<(u32, bool)> {
    match name {
        "u8" => Some((1, false)),
        "s8" => Some((1, true)),
        "u16" => Some((2, false)),
        "u32" | "b32" => Some((4, false)),
        "u64" | "b64" => Some((8, false)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_kernels_have_is_known() {
        for name in
            ["ld.relaxed.gpu.global.u64", "st.shared.v4.u8", "atom.acq_rel.gpu.global.add.u32", "bra.uni"]
        {
            assert!(operation(name).is_some(), "{name}");
        }
        for name in
            ["ld.u32", "ld.global.v8.u32", "st.param.u32", "ld.shared.f32", "atom.shared.xor.b32", "call"]
        {
            assert!(operation(name).is_none(), "{name}");
        }
    }
}
