//! Which pairs of a user's job and a peer `/metrics` tells one by one.
//!
//! A page with all of them could become as long as programs like. So a pair has a place or is summed up under the peer `other`
//! of its job, and one user's pairs leave room for those of others. What is decided of a pair holds until its job ends:
//! otherwise counters would fall, those of `other` too, whenever jobs come and go.

use std::collections::{BTreeMap, HashMap};

use crate::gone::Whom;
use crate::snapshot::JobOf;

/// Pairs that are told one by one, in up to 11 KiB each.
const MOST: usize = 16_384;
/// Those of one user who is no operator.
const MOST_OF_USER: usize = 4096;

/// What is decided of the pairs that there are.
#[derive(Debug, Default)]
pub(crate) struct Told {
    users: BTreeMap<u32, BTreeMap<String, BTreeMap<Whom, Decided>>>,
    places: Places,
    /// Number of the page that is made.
    page: u64,
}

/// What is decided of a pair.
#[derive(Debug)]
struct Decided {
    has_place: bool,
    /// The user whose place it is; `None` = an operator's.
    bounded: Option<u32>,
    /// Number of the last page that it was in.
    page: u64,
}

/// How many are taken.
#[derive(Debug, Default)]
struct Places {
    all: usize,
    of_users: HashMap<u32, usize>,
}

impl Told {
    /// A new page begins. Jobs that are not there any more are forgotten.
    pub(crate) fn begin(&mut self, is_there: impl Fn(JobOf<'_>) -> bool) {
        self.page += 1;
        self.keep(|job, _| is_there(job));
    }

    /// Whom that which is of a pair is told of: the peer itself, or others. `bounded` is the user whose process has it, unless that
    /// is an operator.
    pub(crate) fn whom(&mut self, JobOf { job, uid }: JobOf<'_>, whom: Whom, bounded: Option<u32>) -> Whom {
        if whom == Whom::Other {
            return whom;
        }
        let Self { users, places, page } = self;
        let jobs = users.entry(uid).or_default();
        if !jobs.contains_key(job) {
            jobs.insert(job.to_owned(), BTreeMap::new());
        }
        let Some(pairs) = jobs.get_mut(job) else { return whom };
        let decide = || Decided { has_place: places.take(bounded), bounded, page: *page };
        let decided = pairs.entry(whom).or_insert_with(decide);
        decided.page = *page;
        if decided.has_place { whom } else { Whom::Other }
    }

    /// The page is made. Pairs that were not in it count nothing any more, so nothing falls without them.
    pub(crate) fn end(&mut self) {
        let page = self.page;
        self.keep(|_, decided| decided.page == page);
    }

    fn keep(&mut self, is_kept: impl Fn(JobOf<'_>, &Decided) -> bool) {
        let Self { users, places, .. } = self;
        users.retain(|&uid, jobs| {
            jobs.retain(|job, pairs| {
                pairs.retain(|_, decided| {
                    let kept = is_kept(JobOf { job, uid }, decided);
                    if decided.has_place && !kept {
                        places.give_back(decided.bounded);
                    }
                    kept
                });
                !pairs.is_empty()
            });
            !jobs.is_empty()
        });
    }
}

impl Places {
    fn take(&mut self, bounded: Option<u32>) -> bool {
        if self.all >= MOST {
            return false;
        }
        if let Some(uid) = bounded {
            let of_user = self.of_users.entry(uid).or_default();
            if *of_user >= MOST_OF_USER {
                return false;
            }
            *of_user += 1;
        }
        self.all += 1;
        true
    }

    fn give_back(&mut self, bounded: Option<u32>) {
        self.all = self.all.saturating_sub(1);
        if let Some(uid) = bounded
            && let Some(of_user) = self.of_users.get_mut(&uid)
        {
            *of_user = of_user.saturating_sub(1);
            if *of_user == 0 {
                self.of_users.remove(&uid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of these peers are told one by one in a page of these jobs alone; operators are user 1.
    fn told(told: &mut Told, jobs: &[(&str, u32, Option<u32>)]) -> Vec<usize> {
        let of = |job, bounded: Option<u32>| JobOf { job, uid: bounded.unwrap_or(1) };
        told.begin(|there| jobs.iter().any(|&(job, _, bounded)| of(job, bounded) == there));
        let counts = jobs.iter().map(|&(job, peers, bounded)| {
            let of = of(job, bounded);
            (0..peers).filter(|peer| told.whom(of, Whom::Peer(*peer), bounded) != Whom::Other).count()
        });
        let counts = counts.collect();
        told.end();
        counts
    }

    #[test]
    fn users_have_places_of_their_own_and_operators_what_there_is() {
        let mut pages = Told::default();
        let jobs = [("a", 5000, Some(7)), ("b", 10, Some(7)), ("c", 10, Some(8)), ("d", 20_000, None)];
        let counts = [MOST_OF_USER, 0, 10, MOST - MOST_OF_USER - 10];
        assert_eq!(told(&mut pages, &jobs), counts);
        assert_eq!(told(&mut pages, &jobs), counts, "it holds");
        let late = ("0", 10, Some(9));
        assert_eq!(told(&mut pages, &[&[late][..], &jobs[..]].concat())[0], 0, "there is no room");
        // What is free again is for those that come, and nothing changes for those that are there.
        assert_eq!(told(&mut pages, &[late, jobs[1], jobs[2], jobs[3]]), [0, 0, 10, counts[3]]);
        assert_eq!(told(&mut pages, &[late, jobs[0], jobs[2]]), [0, MOST_OF_USER, 10]);
        assert_eq!(told(&mut pages, &[("new", 10, Some(9)), jobs[0], jobs[1]]), [10, MOST_OF_USER, 0]);
        assert!(told(&mut pages, &[]).is_empty());
        assert_eq!((pages.users.len(), pages.places.all, pages.places.of_users.len()), (0, 0, 0));
    }

    #[test]
    fn a_job_of_the_same_name_takes_no_place_of_another_users() {
        let mut pages = Told::default();
        let jobs = [("full", 5000, Some(7)), ("a", 3, Some(7)), ("a", 3, Some(8))];
        assert_eq!(told(&mut pages, &jobs), [MOST_OF_USER, 0, 3]);
    }

    #[test]
    fn pairs_that_are_nowhere_any_more_take_no_room() {
        let mut pages = Told::default();
        assert_eq!(told(&mut pages, &[("a", 5000, Some(7))]), [MOST_OF_USER]);
        assert_eq!(told(&mut pages, &[("a", 1, Some(7))]), [1]);
        assert_eq!((pages.users[&7]["a"].len(), pages.places.all), (1, 1));
        assert_eq!(told(&mut pages, &[("a", 3, Some(7))]), [3]);
    }
}
