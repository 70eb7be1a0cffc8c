//! What lanes of a warp learn from each other.

use super::fault::Problem;
use super::instruction::{LANES, Reduction, Shuffle};

/// A value of each lane.
pub(super) type Lanes = [u64; LANES];

/// The lanes of a mask.
pub(super) fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    (0..LANES).filter(move |lane| mask >> lane & 1 != 0)
}

/// The lane whose value `lane` gets, and whether that is the one that it asked for: the manual's pseudo-code of `shfl`.
fn source(kind: Shuffle, lane: u32, distance: u32, clamp: u32) -> (u32, bool) {
    let (segments, distance, clamp) = (clamp >> 8 & 31, distance & 31, clamp & 31);
    let last = lane & segments | clamp & !segments;
    let first = lane & segments;
    let (source, in_range) = match kind {
        // Here `last` is the first lane of the segment.
        Shuffle::Up => {
            (lane.wrapping_sub(distance), lane.wrapping_sub(distance).cast_signed() >= last.cast_signed())
        }
        Shuffle::Down => (lane + distance, lane + distance <= last),
        Shuffle::Butterfly => (lane ^ distance, lane ^ distance <= last),
        Shuffle::Index => {
            let index = first | distance & !segments;
            (index, index <= last)
        }
    };
    if in_range { (source, true) } else { (lane, false) }
}

/// Each lane's value from another one, and whether it was in range.
pub(super) fn shuffle(
    kind: Shuffle,
    mask: u32,
    values: &Lanes,
    distances: &Lanes,
    clamps: &Lanes,
) -> Result<(Lanes, Lanes), Problem> {
    let (mut got, mut valid) = ([0; LANES], [0; LANES]);
    for lane in lanes(mask) {
        let (from, in_range) = source(kind, lane as u32, distances[lane] as u32, clamps[lane] as u32);
        if mask >> from & 1 == 0 {
            return Err(Problem::AbsentLane { lane: lane as u32 });
        }
        got[lane] = values[from as usize] as u32 as u64;
        valid[lane] = in_range.into();
    }
    Ok((got, valid))
}

/// The lanes of `mask` whose predicate holds.
pub(super) fn ballot(mask: u32, predicates: &Lanes) -> u64 {
    lanes(mask).fold(0, |votes, lane| votes | (predicates[lane] & 1) << lane)
}

/// For each lane, the lanes of `mask` with its value.
pub(super) fn match_any(mask: u32, values: &Lanes) -> Lanes {
    let equal = |lane: usize| {
        lanes(mask)
            .filter(|other| values[*other] as u32 == values[lane] as u32)
            .fold(0, |set, other| set | 1 << other)
    };
    std::array::from_fn(equal)
}

/// All values of the lanes of `mask` in one.
pub(super) fn reduce(kind: Reduction, mask: u32, values: &Lanes) -> u64 {
    let values = lanes(mask).map(|lane| values[lane] as u32);
    let value = match kind {
        Reduction::Add => values.fold(0, u32::wrapping_add),
        Reduction::Min => values.min().unwrap_or(u32::MAX),
        Reduction::Or => values.fold(0, |all, value| all | value),
    };
    value.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u32 = u32::MAX;

    fn numbered() -> Lanes {
        std::array::from_fn(|lane| 100 + lane as u64)
    }

    /// What `lane` gets.
    fn shuffled(kind: Shuffle, lane: usize, distance: u64, clamp: u64) -> (u64, u64) {
        let (got, valid) = shuffle(kind, ALL, &numbered(), &[distance; 32], &[clamp; 32]).unwrap();
        (got[lane], valid[lane])
    }

    #[test]
    fn shuffles_as_in_the_manual() {
        // The last operands are those of __shfl_up_sync and its like, for groups of 32 and of 8 lanes.
        assert_eq!(shuffled(Shuffle::Up, 5, 2, 0), (103, 1));
        assert_eq!(shuffled(Shuffle::Up, 1, 2, 0), (101, 0));
        assert_eq!(shuffled(Shuffle::Up, 9, 2, 24 << 8), (109, 0));
        assert_eq!(shuffled(Shuffle::Down, 30, 1, 31), (131, 1));
        assert_eq!(shuffled(Shuffle::Down, 31, 1, 31), (131, 0));
        assert_eq!(shuffled(Shuffle::Butterfly, 3, 16, 31), (119, 1));
        assert_eq!(shuffled(Shuffle::Index, 12, 9, 24 << 8 | 31), (109, 1));
        assert_eq!(shuffled(Shuffle::Index, 12, 33, 31), (101, 1));
        let absent = shuffle(Shuffle::Up, 0b110, &numbered(), &[1; 32], &[0; 32]);
        assert_eq!(absent, Err(Problem::AbsentLane { lane: 1 }));
    }

    #[test]
    fn votes_and_reductions() {
        let odd: Lanes = std::array::from_fn(|lane| lane as u64 & 1);
        assert_eq!(ballot(0xff, &odd), 0xaa);
        assert_eq!(match_any(0xf0, &odd)[5], 0xa0);
        assert_eq!(reduce(Reduction::Add, 0x7, &numbered()), 303);
        assert_eq!(reduce(Reduction::Min, 0x6, &numbered()), 101);
        assert_eq!(reduce(Reduction::Or, 0x3, &numbered()), 101);
    }
}
