//! Which copy of a lane has the next segment, and which is reported next, without a look at all the others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::job::{Job, Ready};
use super::{CopyError, Order};

/// The copies that nobody was told the end of.
///
/// They are where they were when they were last [looked at](Self::look_at), so whoever has one become ready, fail, or come to its end has it
/// looked at afterwards. None of these is ever taken back: a look that comes late or twice does no harm.
pub(super) struct Turns {
    order: Order,
    /// By number: in the order in which they were asked for.
    unfinished: BTreeMap<u64, Entry>,
    /// Numbers of those that are over.
    over: BTreeSet<u64>,
    /// By turn, their numbers: those that have segments to begin with.
    waiting: BTreeMap<u64, u64>,
    /// Turns of those among them that are ready.
    ready: BTreeSet<u64>,
    /// The next number, or turn.
    next: u64,
}

struct Entry {
    job: Arc<Job>,
    /// Its number at first, and in free order a later one after each segment.
    turn: u64,
}

impl Turns {
    pub(super) fn new(order: Order) -> Self {
        let (over, ready) = (BTreeSet::new(), BTreeSet::new());
        Self { order, unfinished: BTreeMap::new(), over, waiting: BTreeMap::new(), ready, next: 0 }
    }

    /// Takes a copy in, behind all others.
    pub(super) fn add(&mut self, job: Arc<Job>) {
        let number = self.next_number();
        let _ = job.number.set(number); // a copy is in one lane, once
        self.waiting.insert(number, number);
        self.unfinished.insert(number, Entry { job: job.clone(), turn: number });
        self.look_at(&job);
    }

    /// Takes note of what has become of a copy. One that is yet to be added is looked at then.
    pub(super) fn look_at(&mut self, job: &Job) {
        let Some(&number) = job.number.get() else { return };
        let Some(&Entry { turn, .. }) = self.unfinished.get(&number) else { return };
        if job.has_begun_all() {
            self.leave(turn);
            if job.is_over() {
                self.over.insert(number);
            }
        } else if job.ready().is_some() {
            self.ready.insert(turn);
        }
    }

    /// Takes a copy that is over and may be reported.
    pub(super) fn take_over(&mut self) -> Option<Arc<Job>> {
        let number = *self.over.first()?;
        if self.order == Order::Asked && self.unfinished.keys().next() != Some(&number) {
            return None;
        }
        self.over.remove(&number);
        self.unfinished.remove(&number).map(|entry| entry.job)
    }

    /// The next segment to begin with. In free order all copies that are ready have their turn, one segment each.
    pub(super) fn take_segment(&mut self) -> Option<(Arc<Job>, u64)> {
        loop {
            let turn = *self.ready.first()?;
            if self.order == Order::Asked && self.waiting.keys().next() != Some(&turn) {
                return None;
            }
            let number = *self.waiting.get(&turn)?;
            let job = self.unfinished.get(&number)?.job.clone();
            let index = job.begin_segment();
            if job.has_begun_all() {
                self.leave(turn);
            } else if self.order == Order::Free {
                self.go_behind(number, turn);
            }
            // None of one that has failed meanwhile.
            if let Some(index) = index {
                return Some((job, index));
            }
        }
    }

    /// Nothing of them begins any more.
    pub(super) fn close(&mut self) {
        let jobs: Vec<_> = self.unfinished.values().map(|entry| entry.job.clone()).collect();
        for job in jobs {
            job.make_ready(Ready::Failed(CopyError::Closed { written_bytes: 0 }));
            job.close();
            self.look_at(&job);
        }
    }

    /// A copy has no more segments to begin with.
    fn leave(&mut self, turn: u64) {
        self.waiting.remove(&turn);
        self.ready.remove(&turn);
    }

    /// A copy that is ready has had its turn.
    fn go_behind(&mut self, number: u64, turn: u64) {
        self.leave(turn);
        let turn = self.next_number();
        self.waiting.insert(turn, number);
        self.ready.insert(turn);
        if let Some(entry) = self.unfinished.get_mut(&number) {
            entry.turn = turn;
        }
    }

    fn next_number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use mgcomp_codecs::Element;

    use super::*;
    use crate::copy::Kept;
    use crate::copy::job::Task;
    use crate::payload::Payload;

    fn job(segments: u64) -> Arc<Job> {
        let task = Task::Expand { destination: Payload::empty() };
        Arc::new(Job::new(task, Element::U8, (10 * segments, 10), None, Box::new(|_| {})))
    }

    fn ready() -> Ready {
        Ready::expand(Kept { element: Element::U8, raw_bytes: 0, segment_bytes: 10, segments: Vec::new() })
    }

    fn failed() -> Ready {
        Ready::Failed(CopyError::Closed { written_bytes: 0 })
    }

    /// The definition: all are looked at each time.
    #[derive(Default)]
    struct Plain {
        waiting: VecDeque<Arc<Job>>,
        unfinished: VecDeque<Arc<Job>>,
    }

    impl Plain {
        fn take_over(&mut self, order: Order) -> Option<Arc<Job>> {
            let at = match order {
                Order::Free => self.unfinished.iter().position(|job| job.is_over())?,
                Order::Asked => self.unfinished.front().filter(|job| job.is_over()).map(|_| 0)?,
            };
            self.unfinished.remove(at)
        }

        /// Whose segment begins next; that it does is left to the other.
        fn next_segment(&mut self, order: Order) -> Option<Arc<Job>> {
            self.waiting.retain(|job| !job.has_begun_all());
            let at = match order {
                Order::Free => self.waiting.iter().position(|job| job.ready().is_some())?,
                Order::Asked => self.waiting.front().filter(|job| job.ready().is_some()).map(|_| 0)?,
            };
            let job = self.waiting.get(at)?.clone();
            if order == Order::Free {
                self.waiting.remove(at);
                self.waiting.push_back(job.clone());
            }
            Some(job)
        }
    }

    fn address(job: Option<&Arc<Job>>) -> Option<*const Job> {
        job.map(Arc::as_ptr)
    }

    #[test]
    fn copies_have_their_turns_as_if_all_were_looked_at_each_time() {
        let mut state = 1u32;
        let mut random = |below: usize| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) as usize % below
        };
        for order in [Order::Free, Order::Asked] {
            let (mut turns, mut plain) = (Turns::new(order), Plain::default());
            let mut unready: Vec<Arc<Job>> = Vec::new();
            let mut under_way: Vec<(Arc<Job>, u64)> = Vec::new();
            let (mut begun, mut reported) = (0, 0);
            for round in 0..20_000 {
                let is_ending = round >= 15_000;
                match random(8) {
                    0 if !is_ending => {
                        let job = job(random(4) as u64);
                        match random(3) {
                            0 => job.make_ready(ready()),
                            _ => unready.push(job.clone()),
                        }
                        plain.waiting.push_back(job.clone());
                        plain.unfinished.push_back(job.clone());
                        turns.add(job);
                    }
                    1 if !unready.is_empty() => {
                        let job = unready.swap_remove(random(unready.len()));
                        job.make_ready(if random(8) == 0 { failed() } else { ready() });
                        turns.look_at(&job);
                    }
                    2 | 3 if !under_way.is_empty() => {
                        let (job, index) = under_way.swap_remove(random(under_way.len()));
                        if random(8) == 0 {
                            job.fail(index, None);
                        }
                        job.end_segment();
                        turns.look_at(&job);
                    }
                    4 | 5 => {
                        let (expected, taken) = (plain.next_segment(order), turns.take_segment());
                        assert_eq!(address(taken.as_ref().map(|(job, _)| job)), address(expected.as_ref()));
                        begun += usize::from(taken.is_some());
                        under_way.extend(taken);
                    }
                    6 | 7 => {
                        let (expected, taken) = (plain.take_over(order), turns.take_over());
                        assert_eq!(address(taken.as_ref()), address(expected.as_ref()));
                        reported += usize::from(taken.is_some());
                    }
                    _ => {}
                }
            }
            assert!(begun > 1000 && reported > 1000, "{order:?}: {begun}, {reported}");
            assert!(turns.unfinished.is_empty() && turns.over.is_empty(), "{order:?}");
            assert!(turns.waiting.is_empty() && turns.ready.is_empty(), "{order:?}");
        }
    }

    #[test]
    fn a_copy_whose_last_segment_has_begun_waits_for_no_turn() {
        for order in [Order::Free, Order::Asked] {
            let (mut turns, job) = (Turns::new(order), job(2));
            job.make_ready(ready());
            turns.add(job.clone());
            assert_eq!(turns.take_segment().map(|(_, index)| index), Some(0));
            assert_eq!((turns.waiting.len(), turns.ready.len()), (1, 1));
            assert_eq!(turns.take_segment().map(|(_, index)| index), Some(1));
            assert_eq!((turns.waiting.len(), turns.ready.len(), turns.unfinished.len()), (0, 0, 1));
            assert!(turns.take_segment().is_none() && turns.take_over().is_none());
            (0..2).for_each(|_| job.end_segment());
            assert!(turns.take_over().is_none(), "nobody has looked");
            (0..2).for_each(|_| turns.look_at(&job));
            assert!(turns.take_over().is_some());
            turns.look_at(&job);
            assert!(turns.take_over().is_none());
        }
    }

    #[test]
    fn a_copy_may_be_ready_before_it_is_there_and_all_end_when_all_is_closed() {
        let mut turns = Turns::new(Order::Free);
        let [early, late, begun] = [(); 3].map(|()| job(3));
        early.make_ready(ready());
        turns.look_at(&early);
        for job in [&early, &late] {
            turns.add(job.clone());
        }
        assert_eq!(turns.take_segment().map(|(job, _)| Arc::as_ptr(&job)), Some(Arc::as_ptr(&early)));
        begun.make_ready(ready());
        turns.add(begun.clone());
        turns.close();
        assert!(turns.take_segment().is_none());
        let over = [(); 3].map(|()| turns.take_over().map(|job| Arc::as_ptr(&job)));
        assert_eq!(over, [Some(Arc::as_ptr(&late)), Some(Arc::as_ptr(&begun)), None]);
        early.end_segment();
        turns.look_at(&early);
        assert!(turns.take_over().is_some());
    }
}
