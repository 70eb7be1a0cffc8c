//! What is measured: which bytes each rank has before an operation, and which it must have afterwards.
//!
//! Sizes and bandwidths are counted as in nccl-tests. The size is that of the longest buffer that the operation has on a
//! rank: all blocks together where each rank has one. Ranks are in a ring where an operation joins two: each sends to
//! the next. Operations with a root have rank 0 for it.

use std::ops::Range;

/// The root of the operations that have one.
pub(super) const ROOT: usize = 0;

/// What ranks do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    AllGather,
    AllReduce,
    AllToAll,
    Broadcast,
    Gather,
    Scatter,
    Reduce,
    ReduceScatter,
    /// Each rank sends to the next and receives from the one before.
    SendRecv,
    /// Each rank reads the memory of the next.
    Read,
    /// Each rank writes to the memory of the next.
    Write,
    Barrier,
}

/// Which of the two buffers of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// What a rank has before; of most operations also what it has afterwards.
    Main,
    /// Where the result goes of operations that do not work in place, or only by way of a copy.
    Aside,
}

/// Where a rank's own data lies before the operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Input {
    /// Where, in the main buffer.
    pub(super) at: Range<usize>,
}

/// A part of the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) place: Place,
    pub(super) at: Range<usize>,
    pub(super) origin: Origin,
}

/// What a part of the result must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The data of a rank from an offset on.
    Rank { rank: usize, offset: usize },
    /// The data of all ranks from an offset on, combined.
    Combined { offset: usize },
}

/// One rank, how many there are, and the size of the operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) rank: usize,
    pub(super) ranks: usize,
    pub(super) bytes: usize,
}

impl Case {
    pub(super) fn next(self) -> usize {
        (self.rank + 1) % self.ranks
    }

    pub(super) fn previous(self) -> usize {
        (self.rank + self.ranks - 1) % self.ranks
    }

    /// Block `index` of as many as there are ranks.
    pub(super) fn block(self, index: usize) -> Range<usize> {
        let len = self.bytes / self.ranks;
        index * len..(index + 1) * len
    }
}

impl Op {
    pub(super) const ALL: [Self; 12] = [
        Self::AllGather,
        Self::AllReduce,
        Self::AllToAll,
        Self::Broadcast,
        Self::Gather,
        Self::Scatter,
        Self::Reduce,
        Self::ReduceScatter,
        Self::SendRecv,
        Self::Read,
        Self::Write,
        Self::Barrier,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::AllGather => "all_gather",
            Self::AllReduce => "all_reduce",
            Self::AllToAll => "all_to_all",
            Self::Broadcast => "broadcast",
            Self::Gather => "gather",
            Self::Scatter => "scatter",
            Self::Reduce => "reduce",
            Self::ReduceScatter => "reduce_scatter",
            Self::SendRecv => "send_recv",
            Self::Read => "read",
            Self::Write => "write",
            Self::Barrier => "barrier",
        }
    }

    /// Whether it computes.
    pub(super) const fn reduces(self) -> bool {
        matches!(self, Self::AllReduce | Self::Reduce | Self::ReduceScatter)
    }

    /// Whether a communicator of NCCL's carries it out.
    pub(super) const fn is_of_nccl(self) -> bool {
        !matches!(self, Self::Reduce | Self::Read | Self::Write | Self::Barrier)
    }

    /// What to do about an operation that it does not.
    pub(super) const fn over_nccl(self) -> &'static str {
        match self {
            Self::Reduce => "measure all_reduce or reduce_scatter instead",
            Self::Read | Self::Write => "measure send_recv instead, or take --link cuda",
            _ => "take another link",
        }
    }

    /// Whether its result goes to a second buffer.
    pub(super) const fn needs_aside(self) -> bool {
        matches!(self, Self::AllToAll | Self::SendRecv | Self::Read | Self::Write)
    }

    /// Whether peers reach the buffers by their addresses.
    pub(super) const fn needs_regions(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }

    /// Blocks that a size consists of.
    pub(super) const fn blocks(self, ranks: usize) -> usize {
        match self {
            Self::AllGather | Self::AllToAll | Self::Gather | Self::Scatter | Self::ReduceScatter => ranks,
            _ => 1,
        }
    }

    /// What the algorithm bandwidth is multiplied by, so that the result can be held against the rate of one port of
    /// the network, whatever the number of ranks.
    pub(super) fn bus_factor(self, ranks: usize) -> f64 {
        let ranks = ranks as f64;
        match self {
            Self::AllReduce => 2.0 * (ranks - 1.0) / ranks,
            Self::AllGather | Self::AllToAll | Self::Gather | Self::Scatter | Self::ReduceScatter => {
                (ranks - 1.0) / ranks
            }
            Self::Broadcast | Self::Reduce | Self::SendRecv | Self::Read | Self::Write | Self::Barrier => 1.0,
        }
    }

    /// Where a rank puts its own data, from its start on; nowhere if it brings none.
    pub(super) fn input(self, case: Case) -> Option<Input> {
        let all = 0..case.bytes;
        let at = match self {
            Self::Barrier => return None,
            Self::Broadcast | Self::Scatter if case.rank != ROOT => return None,
            Self::AllGather | Self::Gather => case.block(case.rank),
            _ => all,
        };
        Some(Input { at })
    }

    /// What a rank must have afterwards.
    pub(super) fn result(self, case: Case) -> Vec<Piece> {
        let Case { rank, ranks, bytes } = case;
        let (is_root, own) = (rank == ROOT, case.block(rank));
        let piece = |place, at, origin| Piece { place, at, origin };
        let from = |rank, offset| Origin::Rank { rank, offset };
        let all = |place, origin| vec![piece(place, 0..bytes, origin)];
        let blocks = |place, offset: usize| {
            (0..ranks).map(|peer| piece(place, case.block(peer), from(peer, offset))).collect()
        };
        match self {
            Self::AllGather => blocks(Place::Main, 0),
            Self::Gather if is_root => blocks(Place::Main, 0),
            Self::AllToAll => blocks(Place::Aside, own.start),
            Self::Broadcast => all(Place::Main, from(ROOT, 0)),
            Self::Scatter => vec![piece(Place::Main, own.clone(), from(ROOT, own.start))],
            Self::SendRecv | Self::Write => all(Place::Aside, from(case.previous(), 0)),
            Self::Read => all(Place::Aside, from(case.next(), 0)),
            Self::AllReduce => all(Place::Main, Origin::Combined { offset: 0 }),
            Self::Reduce if is_root => all(Place::Main, Origin::Combined { offset: 0 }),
            Self::ReduceScatter => {
                vec![piece(Place::Main, own.clone(), Origin::Combined { offset: own.start })]
            }
            Self::Gather | Self::Reduce | Self::Barrier => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bus_factors_are_those_of_nccl_tests() {
        let factors = |op: Op| [2, 4].map(|ranks| op.bus_factor(ranks));
        assert_eq!(factors(Op::AllReduce), [1.0, 1.5]);
        for op in [Op::AllGather, Op::AllToAll, Op::ReduceScatter, Op::Gather, Op::Scatter] {
            assert_eq!(factors(op), [0.5, 0.75], "{}", op.name());
        }
        for op in [Op::Broadcast, Op::Reduce, Op::SendRecv, Op::Read, Op::Write] {
            assert_eq!(factors(op), [1.0, 1.0], "{}", op.name());
        }
    }

    #[test]
    fn results_lie_inside_and_come_from_what_was_put_in() {
        for op in Op::ALL {
            for rank in 0..3 {
                let case = Case { rank, ranks: 3, bytes: 24 };
                for Piece { at, origin, .. } in op.result(case) {
                    assert!(at.end <= 24 && at.start < at.end, "{}", op.name());
                    let (ranks, offset) = match origin {
                        Origin::Rank { rank, offset } => (rank..rank + 1, offset),
                        Origin::Combined { offset } => (0..3, offset),
                    };
                    for rank in ranks {
                        let Input { at: input } = op.input(Case { rank, ..case }).unwrap();
                        assert!(offset + at.len() <= input.len(), "{} {at:?}", op.name());
                    }
                }
            }
        }
    }

    #[test]
    fn each_rank_gets_what_is_meant_for_it() {
        let case = Case { rank: 1, ranks: 2, bytes: 8 };
        let piece = |place, at, origin| vec![Piece { place, at, origin }];
        assert_eq!(Op::Scatter.result(case), piece(Place::Main, 4..8, Origin::Rank { rank: 0, offset: 4 }));
        assert_eq!(Op::ReduceScatter.result(case), piece(Place::Main, 4..8, Origin::Combined { offset: 4 }));
        assert_eq!(Op::AllToAll.result(case)[0].origin, Origin::Rank { rank: 0, offset: 4 });
        assert!(Op::Reduce.result(case).is_empty() && Op::Gather.result(case).is_empty());
        let case = Case { rank: 2, ranks: 3, bytes: 8 };
        assert_eq!(Op::SendRecv.result(case)[0].origin, Origin::Rank { rank: 1, offset: 0 });
        assert_eq!(Op::Read.result(case)[0].origin, Origin::Rank { rank: 0, offset: 0 });
    }
}
