//! What a collective of N GPUs sends, step by step, on three fabrics.
//!
//! S is the buffer of each GPU: what it has after an all-gather, what is reduced, what it sends in an
//! all-to-all. A block is S / N. What is only forwarded stays compressed: it is encoded once and decoded by all,
//! each block in a frame of its own, however many blocks go together. What is reduced is decoded, added and encoded
//! again in every step, as one frame.
//!
//! | | ring | switch, fat tree |
//! |---|---|---|
//! | all-gather | N − 1 steps of a block to the neighbour | log₂ N steps; blocks double |
//! | reduce-scatter | N − 1 steps of a block | log₂ N steps; S / 2, S / 4, … |
//! | all-to-all | both ways round, ¼ N hops on average: a link carries S N / 8 | all at once, S less a block |
//!
//! On the fat tree, steps of an all-gather that cross leaves come first, while blocks are few, and those of a
//! reduce-scatter last. They go over two more links, at the link rate / taper.

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::enum_variant_names, reason = "that is what they are called")]
pub(super) enum Collective {
    AllGather,
    /// Reduce-scatter, then all-gather.
    AllReduce,
    AllToAll,
}

/// What GPUs are connected by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fabric {
    Ring,
    Switch,
    /// Leaves of so many GPUs.
    FatTree {
        leaf: u64,
        taper: f64,
    },
}

/// Equal messages, one after the other, as each GPU or its busiest link sees them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Steps {
    pub(super) count: u64,
    /// Raw bytes on the busiest link.
    pub(super) wire_bytes: f64,
    /// Raw bytes that a GPU encodes and decodes.
    pub(super) encode_bytes: f64,
    pub(super) decode_bytes: f64,
    /// Raw bytes of each frame: the larger they are, the less of the time goes into headers and calls.
    pub(super) frame_bytes: f64,
    /// Links on the way.
    pub(super) hops: f64,
    /// How much slower than its link a GPU can send.
    pub(super) slowdown: f64,
    /// Whether a decoder may still work on it during the next step, which only forwards.
    pub(super) is_forwarded: bool,
}

impl Collective {
    pub(super) const ALL: [Self; 3] = [Self::AllGather, Self::AllReduce, Self::AllToAll];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::AllGather => "all-gather",
            Self::AllReduce => "all-reduce",
            Self::AllToAll => "all-to-all",
        }
    }

    /// The steps on `fabric`, for buffers of `bytes`.
    pub(super) fn steps(self, fabric: Fabric, gpus: u64, bytes: f64) -> Vec<Steps> {
        match self {
            Self::AllGather => all_gather(fabric, gpus, bytes),
            Self::AllReduce => {
                let mut steps = reduce_scatter(fabric, gpus, bytes);
                steps.extend(all_gather(fabric, gpus, bytes));
                steps
            }
            Self::AllToAll => vec![all_to_all(fabric, gpus, bytes)],
        }
    }
}

impl Fabric {
    pub(super) const fn all(leaf: u64, taper: f64) -> [Self; 3] {
        [Self::Ring, Self::Switch, Self::FatTree { leaf, taper }]
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::Switch => "switch",
            Self::FatTree { .. } => "fat-tree",
        }
    }

    /// A step between GPUs that are `distance` apart: links on the way, and how much slower it is.
    fn path(self, distance: u64) -> (f64, f64) {
        match self {
            Self::Ring => (1.0, 1.0),
            Self::FatTree { leaf, taper } if distance >= leaf => (4.0, taper),
            Self::Switch | Self::FatTree { .. } => (2.0, 1.0),
        }
    }
}

fn all_gather(fabric: Fabric, gpus: u64, bytes: f64) -> Vec<Steps> {
    let block = bytes / gpus as f64;
    let mut steps: Vec<Steps> = match fabric {
        Fabric::Ring => {
            let step = step(fabric, 1, block);
            let counts = [1, gpus.saturating_sub(3), u64::from(gpus > 2)];
            counts.into_iter().filter(|&count| count > 0).map(|count| Steps { count, ..step }).collect()
        }
        Fabric::Switch | Fabric::FatTree { .. } => {
            let forward = |(blocks, distance)| Steps {
                frame_bytes: block,
                ..step(fabric, distance, blocks as f64 * block)
            };
            doublings(gpus).map(forward).collect()
        }
    };
    let last = steps.len() - 1;
    for (i, step) in steps.iter_mut().enumerate() {
        // The own block is encoded in the first step; later ones forward what came.
        step.encode_bytes = if i == 0 { block } else { 0.0 };
        step.is_forwarded = i < last;
    }
    steps
}

fn reduce_scatter(fabric: Fabric, gpus: u64, bytes: f64) -> Vec<Steps> {
    let block = bytes / gpus as f64;
    match fabric {
        Fabric::Ring => vec![Steps { count: gpus - 1, ..step(fabric, 1, block) }],
        Fabric::Switch | Fabric::FatTree { .. } => {
            doublings(gpus).map(|(blocks, distance)| step(fabric, distance, blocks as f64 * block)).collect()
        }
    }
}

/// Blocks that each of log₂ N steps carries, and how far they go: the fewer, the farther.
fn doublings(gpus: u64) -> impl Iterator<Item = (u64, u64)> {
    let rounds = gpus.next_power_of_two().trailing_zeros();
    (0..rounds).map(move |round| {
        let have = 1u64 << round;
        (have.min(gpus - have), 1 << (rounds - 1 - round))
    })
}

/// A step of one frame.
fn step(fabric: Fabric, distance: u64, bytes: f64) -> Steps {
    let (hops, slowdown) = fabric.path(distance);
    Steps {
        count: 1,
        wire_bytes: bytes,
        encode_bytes: bytes,
        decode_bytes: bytes,
        frame_bytes: bytes,
        hops,
        slowdown,
        is_forwarded: false,
    }
}

fn all_to_all(fabric: Fabric, gpus: u64, bytes: f64) -> Steps {
    let n = gpus as f64;
    let others = bytes * (n - 1.0) / n;
    let all = Steps { frame_bytes: bytes / n, ..step(fabric, gpus - 1, others) };
    match fabric {
        Fabric::Ring => Steps { wire_bytes: bytes * n / 8.0, hops: (n / 2.0).floor(), ..all },
        Fabric::Switch => all,
        Fabric::FatTree { leaf, taper } => {
            // The links above the leaves and a GPU's own link work at the same time.
            let outside = bytes * n.max(leaf as f64) / n - bytes * leaf as f64 / n;
            if outside * taper > others {
                Steps { wire_bytes: outside, slowdown: taper, ..all }
            } else {
                Steps { slowdown: 1.0, ..all }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(collective: Collective, fabric: Fabric, gpus: u64) -> (u64, f64, f64, f64) {
        let steps = collective.steps(fabric, gpus, gpus as f64);
        let sum = |value: fn(&Steps) -> f64| steps.iter().map(|step| step.count as f64 * value(step)).sum();
        (
            steps.iter().map(|step| step.count).sum(),
            sum(|step| step.wire_bytes),
            sum(|step| step.encode_bytes),
            sum(|step| step.decode_bytes),
        )
    }

    #[test]
    fn everybody_gets_all_other_blocks_and_encodes_its_own() {
        for gpus in [2u64, 3, 8, 100] {
            let steps = u64::from(gpus.next_power_of_two().trailing_zeros());
            let others = gpus as f64 - 1.0;
            assert_eq!(sums(Collective::AllGather, Fabric::Ring, gpus), (gpus - 1, others, 1.0, others));
            assert_eq!(sums(Collective::AllGather, Fabric::Switch, gpus), (steps, others, 1.0, others));
            // What is reduced is coded anew each time.
            let expected = (2 * (gpus - 1), 2.0 * others, others + 1.0, 2.0 * others);
            assert_eq!(sums(Collective::AllReduce, Fabric::Ring, gpus), expected);
        }
    }

    #[test]
    fn far_steps_carry_little() {
        let tree = Fabric::FatTree { leaf: 4, taper: 2.0 };
        let steps = Collective::AllGather.steps(tree, 8, 8.0);
        let seen: Vec<_> = steps.iter().map(|step| (step.wire_bytes, step.hops, step.slowdown)).collect();
        assert_eq!(seen, [(1.0, 4.0, 2.0), (2.0, 2.0, 1.0), (4.0, 2.0, 1.0)]);
    }

    #[test]
    fn all_to_all_loads_rings_most() {
        assert_eq!(sums(Collective::AllToAll, Fabric::Switch, 8), (1, 7.0, 7.0, 7.0));
        // 8 GPUs send 7 blocks over 16/7 links on average: 128 blocks over 16 directed links.
        assert_eq!(sums(Collective::AllToAll, Fabric::Ring, 8), (1, 8.0, 7.0, 7.0));
        // Four of eight blocks leave a leaf of four, at half the rate.
        let tree = Collective::AllToAll.steps(Fabric::FatTree { leaf: 4, taper: 2.0 }, 8, 8.0);
        assert_eq!((tree[0].wire_bytes, tree[0].slowdown), (4.0, 2.0));
        let one_leaf = Collective::AllToAll.steps(Fabric::FatTree { leaf: 8, taper: 2.0 }, 8, 8.0);
        assert_eq!((one_leaf[0].wire_bytes, one_leaf[0].hops, one_leaf[0].slowdown), (7.0, 2.0, 1.0));
        let two_leaves = Collective::AllToAll.steps(Fabric::FatTree { leaf: 7, taper: 1.0 }, 8, 8.0);
        assert_eq!(two_leaves[0].hops, 4.0);
    }

    #[test]
    fn what_is_forwarded_or_sent_to_each_has_a_frame_for_every_block() {
        let frames = |collective: Collective, fabric, gpus| -> Vec<(f64, f64)> {
            let steps = collective.steps(fabric, gpus, gpus as f64 * 16.0);
            let frames =
                |step: &Steps| (step.wire_bytes / step.frame_bytes, step.decode_bytes / step.frame_bytes);
            steps.iter().map(frames).collect()
        };
        let tree = Fabric::FatTree { leaf: 4, taper: 2.0 };
        // Blocks double, frames do; halves that are reduced are a frame each.
        for fabric in [Fabric::Switch, tree] {
            assert_eq!(frames(Collective::AllGather, fabric, 8), [(1.0, 1.0), (2.0, 2.0), (4.0, 4.0)]);
            assert_eq!(frames(Collective::AllReduce, fabric, 8)[..3], [(1.0, 1.0); 3]);
        }
        assert_eq!(frames(Collective::AllGather, Fabric::Ring, 8), [(1.0, 1.0); 3]);
        // 64 GPUs: 64 · 64 / 8 blocks pass over a link of the ring, and each GPU decodes those of 63 others.
        assert_eq!(frames(Collective::AllToAll, Fabric::Ring, 64), [(512.0, 63.0)]);
        assert_eq!(frames(Collective::AllToAll, Fabric::Switch, 64), [(63.0, 63.0)]);
    }
}
