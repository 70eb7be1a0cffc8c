//! Which rows are told where there are more than there is room for: as many of each user as of any other, or one more, if that
//! user has so many.
//!
//! Whoever may hand over pages can make rows by the thousand, and is not to fill an answer alone.

use std::collections::HashMap;

/// Rows of one answer, peers or streams. Whoever wants to see further ones asks more narrowly.
pub(crate) const MOST_ROWS: usize = 4096;

/// Room for rows. One that several users have a part in counts as that one's who has the fewest.
#[derive(Debug)]
pub(crate) struct Room {
    /// In how many rows each user has a part.
    parts: HashMap<u32, usize>,
    /// What each user may have.
    share: usize,
    /// How many users may have one more.
    rest: usize,
    taken: HashMap<u32, usize>,
}

impl Room {
    /// Room for `most` of these rows, of each of which the users are named who have a part in it.
    pub(crate) fn among<U: IntoIterator<Item = u32>>(
        rows: impl Iterator<Item = U> + Clone,
        most: usize,
    ) -> Self {
        let mut room = Self { parts: HashMap::new(), share: 0, rest: 0, taken: HashMap::new() };
        rows.clone().flatten().for_each(|uid| *room.parts.entry(uid).or_default() += 1);
        let mut counts = HashMap::<u32, usize>::new();
        rows.filter_map(|users| room.owner(users)).for_each(|uid| *counts.entry(uid).or_default() += 1);
        let mut counts: Vec<_> = counts.into_values().collect();
        counts.sort_unstable();
        room.share = share(&counts, most);
        room.rest = most.saturating_sub(counts.iter().map(|own| room.share.min(*own)).sum());
        room
    }

    /// Whether the next row is told, which these users have a part in.
    pub(crate) fn take(&mut self, users: impl IntoIterator<Item = u32>) -> bool {
        let Some(owner) = self.owner(users) else { return false };
        let taken = self.taken.entry(owner).or_default();
        let has_one_more = *taken == self.share && self.rest > 0;
        self.rest -= usize::from(has_one_more);
        let has_room = *taken < self.share || has_one_more;
        *taken += usize::from(has_room);
        has_room
    }

    /// Whose a row is.
    fn owner(&self, users: impl IntoIterator<Item = u32>) -> Option<u32> {
        users.into_iter().min_by_key(|uid| (self.parts.get(uid), *uid))
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
        let mut room = Room::among(owners().map(|uid| [uid]), most);
        let mut told = vec![0; rows.len()];
        owners().filter(|uid| room.take([*uid])).for_each(|uid| told[uid as usize] += 1);
        told
    }

    #[test]
    fn a_row_of_several_is_that_one_s_who_has_the_fewest() {
        // Ten of the first user, two of which the second has a part in.
        let rows: Vec<_> = (0..10).map(|row| if row < 2 { vec![0, 1] } else { vec![0] }).collect();
        let told = |rows: &[Vec<u32>], most| -> Vec<_> {
            let mut room = Room::among(rows.iter().cloned(), most);
            (0..rows.len()).filter(|row| room.take(rows[*row].clone())).collect()
        };
        assert_eq!(told(&rows, 5), [0, 1, 2, 3, 4]);
        let rows: Vec<_> = rows.into_iter().rev().collect();
        assert_eq!(told(&rows, 5), [0, 1, 2, 8, 9]);
        // What there is room for is told, whoever has a part in it.
        let rows: Vec<_> = (0..4000).map(|row| if row < 3000 { vec![7, 8] } else { vec![7] }).collect();
        assert_eq!(told(&rows, MOST_ROWS).len(), 4000);
        assert_eq!(told(&rows, 3500).len(), 3500);
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
