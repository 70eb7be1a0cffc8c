//! Work that waits for memory that somebody else holds, while other work goes on.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use super::{Ticket, Work};
use crate::memory::Slice;

/// How long to wait before trying again to reach memory that somebody else was using.
pub(crate) const RETRY: Duration = Duration::from_millis(1);
/// For so long works on the same memory keep their order; then they do not for as long, and so on.
const TURN: Duration = Duration::from_millis(100);
/// So many works are all looked at each time.
const FEW: usize = 64;
/// What counts for a look at one of more: two to three times what it takes, so that less than half of the time goes there.
const LOOK: Duration = Duration::from_nanos(100);
/// Much less than a turn, or looks at all would miss those in which a work may go.
const LONGEST_PAUSE: Duration = Duration::from_millis(10);

/// Somebody else holds the memory.
#[derive(Debug)]
pub(super) struct InUse;

/// Works in the order in which they came, each until its memory is free.
///
/// No work overtakes an older one that it conflicts with, or readers that follow each other would keep a writer waiting for
/// ever. But who holds the memory of the oldest may wait for a work behind it: two collectives, say, whose numbers are
/// written to while they send them. So when the oldest has waited for a while, any work goes whose memory is free. As
/// these take turns, both come to an end.
///
/// A work is looked at when it has come, and then again and again, with all others. Where these are many, that is put off
/// until as long has passed as it may take: else each of many that come would have all that came before looked at.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// By their numbers, of which the younger ones have higher ones.
    works: BTreeMap<u64, Waiter>,
    /// Where they are: what may conflict is in the same memory.
    places: FxHashMap<usize, Place>,
    /// The number of the next that comes.
    next: u64,
    /// From here on they are still to be looked at: they have come since, or the last look has found one before them.
    unseen: u64,
    /// When all may be looked at again, if they are many.
    again: Option<Instant>,
    /// Whether that was too early the last time.
    is_put_off: bool,
    /// Since when the oldest has been refused its memory.
    refused: Option<Instant>,
}

#[derive(Debug)]
struct Waiter {
    ticket: Ticket,
    work: Work,
}

/// The works in one buffer, or on devices.
#[derive(Debug, Default)]
struct Place {
    /// By where they begin and by their numbers: where they end.
    all: BTreeMap<(usize, u64), usize>,
    /// Those among them that write.
    writing: BTreeMap<(usize, u64), usize>,
    /// None was longer, in bytes.
    longest: usize,
}

/// What came of a look at works, for [`Waiting::settle`].
pub(super) struct Look<M> {
    at: Instant,
    /// The oldest that may go, and its memory.
    found: Option<(u64, M)>,
    is_at_all: bool,
    is_oldest_refused: bool,
}

impl Waiting {
    pub(super) fn is_empty(&self) -> bool {
        self.works.is_empty()
    }

    /// Adds the youngest.
    pub(super) fn push(&mut self, ticket: Ticket, work: Work) {
        let number = self.next;
        self.next += 1;
        if let Some((place, range)) = place(&work) {
            self.places.entry(place).or_default().enter(number, range, work.writes());
        }
        self.works.insert(number, Waiter { ticket, work });
    }

    /// Takes out the oldest that may go, with its memory, which `hold` holds.
    pub(super) fn take<M>(
        &mut self,
        now: Instant,
        hold: impl Fn(&Work) -> Result<M, InUse>,
    ) -> Option<(Ticket, Work, M)> {
        let look = self.look(now, hold);
        self.settle(look)
    }

    /// Looks for what [`take`](Self::take) takes out; [`settle`](Self::settle) then does, before anything else is added or looked
    /// for. Apart from that, for others may ask [`hold_for`](Self::hold_for) meanwhile.
    pub(super) fn look<M>(&self, now: Instant, hold: impl Fn(&Work) -> Result<M, InUse>) -> Look<M> {
        let is_at_all = self.works.len() <= FEW || self.again.is_none_or(|again| again <= now);
        let (from, oldest) = (if is_at_all { 0 } else { self.unseen }, self.oldest());
        let mut look = Look { at: now, found: None, is_at_all, is_oldest_refused: false };
        for (&number, waiter) in self.works.range(from..) {
            // Its memory first: to ask for that takes less time than to look at all that is older.
            if let Ok(memory) = hold(&waiter.work)
                && !self.keeps_back(&waiter.work, number, now)
            {
                look.found = Some((number, memory));
                break;
            }
            look.is_oldest_refused |= Some(number) == oldest;
        }
        look
    }

    /// Takes out what was found.
    pub(super) fn settle<M>(&mut self, look: Look<M>) -> Option<(Ticket, Work, M)> {
        if look.is_at_all {
            let pause = LOOK.saturating_mul(u32::try_from(self.works.len()).unwrap_or(u32::MAX));
            self.again = Some(look.at + pause.min(LONGEST_PAUSE));
        }
        self.is_put_off = !look.is_at_all;
        if look.is_oldest_refused {
            self.refused.get_or_insert(look.at);
        }
        self.unseen = look.found.as_ref().map_or(self.next, |(number, _)| *number);
        let (number, memory) = look.found?;
        if Some(number) == self.oldest() {
            self.refused = None;
        }
        let Waiter { ticket, work } = self.works.remove(&number)?;
        self.leave(&work, number);
        Some((ticket, work, memory))
    }

    /// How long to wait before looking again if nothing happens.
    pub(super) fn pause(&self, now: Instant) -> Duration {
        let again = self.again.filter(|_| self.is_put_off);
        again.map_or(RETRY, |again| again.saturating_duration_since(now).min(RETRY))
    }

    /// Holds the memory of work that is not among these, as if it were the youngest.
    pub(super) fn hold_for<M>(
        &self,
        work: &Work,
        hold: impl Fn(&Work) -> Result<M, InUse>,
    ) -> Result<M, InUse> {
        let memory = hold(work)?;
        // Mostly there are none, and nobody asks for the time.
        let may_go = self.is_empty() || !self.keeps_back(work, self.next, Instant::now());
        if may_go { Ok(memory) } else { Err(InUse) }
    }

    /// Whether `work` is to come after one whose number is less.
    fn keeps_back(&self, work: &Work, number: u64, now: Instant) -> bool {
        if !self.keeps_order(now) {
            return false;
        }
        let Some((place, range)) = place(work) else { return false };
        let Some(there) = self.places.get(&place) else { return false };
        there.against(&range, work.writes()).any(|other| {
            other < number && self.works.get(&other).is_some_and(|other| other.work.conflicts_with(work))
        })
    }

    fn keeps_order(&self, now: Instant) -> bool {
        let waited = self.refused.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        (waited.as_nanos() / TURN.as_nanos()).is_multiple_of(2)
    }

    fn oldest(&self) -> Option<u64> {
        self.works.first_key_value().map(|(&number, _)| number)
    }

    /// The work with this number is not where it was any more.
    fn leave(&mut self, work: &Work, number: u64) {
        let Some((place, range)) = place(work) else { return };
        let Some(there) = self.places.get_mut(&place) else { return };
        there.all.remove(&(range.start, number));
        there.writing.remove(&(range.start, number));
        if there.all.is_empty() {
            self.places.remove(&place);
        }
    }
}

impl Place {
    fn enter(&mut self, number: u64, range: Range<usize>, writes: bool) {
        self.longest = self.longest.max(range.len());
        self.all.insert((range.start, number), range.end);
        if writes {
            self.writing.insert((range.start, number), range.end);
        }
    }

    /// The numbers of those that have bytes in `range`, and of which one writes, or the other work does.
    fn against(&self, range: &Range<usize>, writes: bool) -> impl Iterator<Item = u64> {
        let (among, start) = (if writes { &self.all } else { &self.writing }, range.start);
        // What begins further ahead ends before.
        let near = among.range((start.saturating_sub(self.longest), 0)..(range.end, 0));
        near.filter(move |&(_, &end)| end > start).map(|(&(_, number), _)| number)
    }
}

/// Which memory the raw bytes of `work` are in, and where there; nothing if they are nobody's but its own.
fn place(work: &Work) -> Option<(usize, Range<usize>)> {
    work.raw().slice().map(Slice::place)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use mgcomp_codecs::{Algorithm, Element};

    use super::*;
    use crate::memory::{HostBuffer, HostSlice};
    use crate::payload::Payload;

    fn read(slice: &HostSlice) -> Work {
        let (source, element) = (Payload::from_memory(slice.clone()), Element::U8);
        Work::Encode { source, element, algorithm: Algorithm::Zvc, lent: false, shelf: None }
    }

    fn write(slice: &HostSlice) -> Work {
        let (payload, destination) = (Payload::empty(), Payload::from_memory(slice.clone()));
        Work::Decode { payload, algorithm: Algorithm::Zvc, destination, all_or_nothing: false }
    }

    fn waiting(works: impl IntoIterator<Item = Work>) -> Waiting {
        let mut waiting = Waiting::default();
        (0..).map(Ticket).zip(works).for_each(|(ticket, work)| waiting.push(ticket, work));
        waiting
    }

    /// Takes out one while somebody reads `held`.
    fn next(waiting: &mut Waiting, held: Option<&HostSlice>, now: Instant) -> Option<u64> {
        let hold = |work: &Work| {
            let in_use = held.is_some_and(|held| write(held).conflicts_with(work) && work.writes());
            if in_use { Err(InUse) } else { Ok(()) }
        };
        waiting.take(now, hold).map(|(ticket, ..)| ticket.0)
    }

    #[test]
    fn what_conflicts_keeps_its_order_and_nothing_else_waits() {
        let (buffer, other) = (HostBuffer::zeroed(8), HostBuffer::zeroed(8));
        let (left, right, now) = (buffer.slice(0..4).unwrap(), buffer.slice(4..8).unwrap(), Instant::now());
        let works = [
            write(&left),
            read(&buffer.all()), // what the one before writes
            write(&right),       // what the one before reads
            read(&other.all()),
            read(&left),
            write(&left.part(0, 0).unwrap()),
        ];
        let mut waiting = waiting(works);
        assert_eq!([(); 3].map(|()| next(&mut waiting, Some(&left), now)), [Some(3), Some(5), None]);
        assert!(waiting.hold_for(&read(&other.all()), |_| Ok(())).is_ok());
        assert!(waiting.hold_for(&read(&other.all()), |_| Err::<(), _>(InUse)).is_err());
        let rest = [(); 5].map(|()| next(&mut waiting, None, now));
        assert_eq!(rest, [Some(0), Some(1), Some(2), Some(4), None]);
        assert!(waiting.is_empty());
    }

    #[test]
    fn readers_do_not_wait_for_each_other() {
        let slice = HostBuffer::zeroed(8).all();
        let mut waiting = waiting([read(&slice), write(&slice), read(&slice)]);
        let in_use = |work: &Work| if work.writes() { Err(InUse) } else { Ok(()) };
        assert!(waiting.hold_for(&read(&slice), in_use).is_err(), "it would overtake the writer");
        let mut readers = self::waiting([read(&slice)]);
        assert!(readers.hold_for(&read(&slice), in_use).is_ok());
        assert_eq!(next(&mut readers, Some(&slice), Instant::now()), Some(0));
        assert_eq!(next(&mut waiting, Some(&slice), Instant::now()), Some(0));
    }

    #[test]
    fn who_holds_memory_may_wait_for_what_is_behind_others() {
        let (slice, began) = (HostBuffer::zeroed(8).all(), Instant::now());
        let mut waiting = waiting([write(&slice), write(&slice), read(&slice), read(&slice), read(&slice)]);
        let mut at = |turn: f64| next(&mut waiting, Some(&slice), began + TURN.mul_f64(turn));
        assert_eq!([0.0, 0.9].map(&mut at), [None, None]);
        assert_eq!(at(1.1), Some(2), "a reader goes, the writer cannot");
        assert_eq!(at(2.1), None, "now it is the writer's turn");
        assert_eq!([3.1, 3.2, 3.3].map(&mut at), [Some(3), Some(4), None]);
        let now = began + TURN.mul_f64(3.5);
        assert_eq!([(); 2].map(|()| next(&mut waiting, None, now)), [Some(0), Some(1)]);
    }

    #[test]
    fn what_is_where_it_goes_waits_for_nobody() {
        let slice = HostBuffer::zeroed(8).all();
        let there = || Payload::from_memory(slice.clone());
        let (payload, destination) = (there(), there());
        let in_place =
            Work::Decode { payload, algorithm: Algorithm::None, destination, all_or_nothing: false };
        let waiting = waiting([write(&slice)]);
        assert!(waiting.hold_for(&in_place, |_| Ok(())).is_ok());
        assert!(waiting.hold_for(&write(&slice), |_| Ok(())).is_err());
    }

    #[test]
    fn of_many_each_is_looked_at_when_it_comes_and_all_are_now_and_then() {
        const MANY: usize = 20_000;
        let (buffer, other, began) = (HostBuffer::zeroed(MANY), HostBuffer::zeroed(8), Instant::now());
        let (looks, free) = (Cell::new(0), Cell::new(false));
        let hold = |work: &Work| {
            looks.set(looks.get() + 1);
            let is_free =
                free.get() || work.raw().memory().is_some_and(|memory| memory.overlaps(&other.all()));
            if is_free { Ok(()) } else { Err(InUse) }
        };
        let mut waiting = Waiting::default();
        let take = |waiting: &mut Waiting, now| waiting.take(now, hold).map(|(ticket, ..)| ticket.0);
        for (ticket, at) in (0..).zip(0..MANY) {
            waiting.push(Ticket(ticket), read(&buffer.slice(at..at + 1).unwrap()));
            assert_eq!(take(&mut waiting, began), None);
        }
        assert!(looks.get() < 2 * MANY, "{} looks at {MANY}", looks.get());
        assert!(waiting.pause(began) < RETRY, "all are to be looked at again when that is due");
        // What comes and may go is not held up by all those, nor looks at them.
        looks.set(0);
        for work in [write(&other.all()), read(&other.all())] {
            waiting.push(Ticket(99_999), work);
            assert_eq!(take(&mut waiting, began), Some(99_999));
        }
        assert_eq!(looks.get(), 2);
        // What is free again goes when they have had their pause, which is not long.
        free.set(true);
        assert_eq!(take(&mut waiting, began), None);
        let now = began + LONGEST_PAUSE;
        looks.set(0);
        assert!((0..MANY as u64).all(|ticket| take(&mut waiting, now) == Some(ticket)));
        assert!(waiting.is_empty() && looks.get() == MANY);
    }

    #[test]
    fn only_what_has_the_same_bytes_is_compared() {
        let mut place = Place::default();
        for (number, range, writes) in
            [(0, 0..10, false), (1, 10..20, true), (2, 15..18, false), (3, 20..30, true)]
        {
            place.enter(number, range, writes);
        }
        let against = |range, writes| {
            let mut numbers: Vec<_> = place.against(&range, writes).collect();
            numbers.sort_unstable();
            numbers
        };
        assert_eq!([against(9..10, true), against(9..10, false)], [vec![0], vec![]]);
        assert_eq!([against(9..16, true), against(9..16, false)], [vec![0, 1, 2], vec![1]]);
        assert_eq!([against(19..21, true), against(30..40, true)], [vec![1, 3], vec![]]);
    }

    #[test]
    fn few_are_all_looked_at_each_time() {
        let (buffer, now) = (HostBuffer::zeroed(FEW), Instant::now());
        let mut waiting = waiting((0..FEW).map(|at| read(&buffer.slice(at..at + 1).unwrap())));
        let free = Cell::new(0);
        let hold = |work: &Work| {
            let is_free = work.raw().memory().is_some_and(|memory| memory.offset() == free.get());
            if is_free { Ok(()) } else { Err(InUse) }
        };
        for at in (0..FEW).rev() {
            free.set(at);
            assert_eq!(waiting.take(now, hold).map(|(ticket, ..)| ticket.0), Some(at as u64));
            assert!(waiting.take(now, hold).is_none());
            assert_eq!(waiting.pause(now), RETRY);
        }
    }

    #[test]
    fn of_many_none_overtakes_what_it_conflicts_with() {
        let mut state = 1u32;
        let mut random = |below: usize| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) as usize % below
        };
        let buffers = [(); 3].map(|()| HostBuffer::zeroed(100));
        let mut works: Vec<_> = (0..500)
            .map(|_| {
                let (start, len) = (random(90), random(11));
                let slice = buffers[random(3)].slice(start..start + len).unwrap();
                if random(3) == 0 { write(&slice) } else { read(&slice) }
            })
            .collect();
        let mut waiting = waiting(works.clone());
        let mut left: Vec<_> = (0..works.len()).collect();
        let mut now = Instant::now();
        for round in 0.. {
            now += Duration::from_micros(random(100) as u64);
            // At first some buffer is in use, which the oldest is not refused for too long.
            let in_use = if round < 500 { Some(write(&buffers[random(3)].all())) } else { None };
            let hold = |work: &Work| match &in_use {
                Some(in_use) if in_use.conflicts_with(work) => Err(InUse),
                _ => Ok(()),
            };
            let Some((Ticket(taken), ..)) = waiting.take(now, hold) else {
                if waiting.is_empty() {
                    break;
                }
                continue;
            };
            let at = left.iter().position(|&ticket| ticket == taken as usize).unwrap();
            let older = &left[..at];
            assert!(older.iter().all(|&older| !works[older].conflicts_with(&works[taken as usize])));
            left.remove(at);
            if round % 4 == 0 && works.len() < 1000 {
                let work = works[random(works.len())].clone();
                let is_kept_back = left.iter().any(|&older| works[older].conflicts_with(&work));
                assert_eq!(waiting.hold_for(&work, |_| Ok(())).is_err(), is_kept_back);
                left.push(works.len());
                waiting.push(Ticket(works.len() as u64), work.clone());
                works.push(work);
            }
        }
        assert!(left.is_empty() && waiting.places.is_empty());
    }
}
