//! Which rows are told where there are more than there is room for: as many of each user as of any other, or one more, if that
//! user has so many.
//!
//! Whoever may hand over pages can make rows by the thousand, and is not to fill an answer alone.

use std::collections::HashMap;

/// Rows of one answer, peers or streams. Whoever wants to see further ones asks more narrowly.
pub(crate) const MOST_ROWS: usize = 4096;

/// Room for rows.
#[derive(Debug)]
pub(crate) struct Room {
    /// What each user may have.
    share: usize,
    /// How many users may have one more.
    rest: usize,
    taken: HashMap<u32, usize>,
}

impl Room {
    /// Room for `most` of the rows of these users, each of which is named once for every row that is his, alone or with others.
    pub(crate) fn among(owners: impl Iterator<Item = u32>, most: usize) -> Self {
        let mut rows = HashMap::<u32, usize>::new();
        owners.for_each(|uid| *rows.entry(uid).or_default() += 1);
        let mut rows: Vec<_> = rows.into_values().collect();
        rows.sort_unstable();
        let share = share(&rows, most);
        let rest = most - rows.iter().map(|own| share.min(*own)).sum::<usize>().min(most);
        Self { share, rest, taken: HashMap::new() }
    }

    /// Whether the next row of these users is told, which it is if one of them has room.
    pub(crate) fn take(&mut self, owners: impl IntoIterator<Item = u32>) -> bool {
        owners.into_iter().any(|uid| {
            let taken = self.taken.entry(uid).or_default();
            let has_one_more = *taken == self.share && self.rest > 0;
            self.rest -= usize::from(has_one_more);
            let has_room = *taken < self.share || has_one_more;
            *taken += usize::from(has_room);
            has_room
        })
    }
}

/// What each of those who have so many, the fewest first, may have for all of them to have `most` at most.
fn share(rows: &[usize], most: usize) -> usize {
    let mut room = most;
    for (before, own) in rows.iter().enumerate() {
        let share = room / (rows.len() - before);
        if *own > share {
            return share;
        }
        room -= own;
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many rows of each of those who have so many are told, of users 0, 1, …
    fn told(rows: &[usize], most: usize) -> Vec<usize> {
        let owners =
            || rows.iter().enumerate().flat_map(|(uid, count)| std::iter::repeat_n(uid as u32, *count));
        let mut room = Room::among(owners(), most);
        let mut told = vec![0; rows.len()];
        owners().filter(|uid| room.take([*uid])).for_each(|uid| told[uid as usize] += 1);
        told
    }

    #[test]
    fn a_row_of_several_is_told_if_one_of_them_has_room() {
        let rows = || (0..10).map(|row| if row < 2 { vec![0, 1] } else { vec![0] });
        let mut room = Room::among(rows().flatten(), 5);
        // Two of the second user, and three that the first may have besides.
        let told: Vec<_> = rows().rev().map(|owners| room.take(owners)).collect();
        assert_eq!(told.iter().filter(|told| **told).count(), 5, "{told:?}");
        assert_eq!(told[8..], [true, true]);
    }

    #[test]
    fn each_has_as_many_as_any_other_unless_there_are_fewer() {
        assert_eq!(told(&[3, 2], 5), [3, 2]);
        assert_eq!(told(&[4, 2], 5), [3, 2]);
        assert_eq!(told(&[100, 1, 3, 50], 24), [10, 1, 3, 10]);
        assert_eq!(told(&[9], 5), [5]);
        assert_eq!(told(&[7, 7, 7], 5), [2, 2, 1], "a rest that not all can have");
        assert_eq!(told(&[1; 41], 40), [&[1; 40][..], &[0]].concat());
        assert_eq!(told(&[2, 2, 2, 1], 6), [2, 2, 1, 1]);
        assert_eq!(told(&[], 5), [0; 0]);
    }
}
