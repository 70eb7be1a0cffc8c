//! Work that waits for memory that somebody else holds, while other work goes on.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::{Ticket, Work};

/// How long to wait before trying again to reach memory that somebody else was using.
pub(crate) const RETRY: Duration = Duration::from_millis(1);
/// For so long works on the same memory keep their order; then they do not for as long, and so on.
const TURN: Duration = Duration::from_millis(100);

/// Somebody else holds the memory.
#[derive(Debug)]
pub(super) struct InUse;

/// Works in the order in which they came, each until its memory is free.
///
/// No work overtakes an older one that it conflicts with, or readers that follow each other would keep a writer waiting for
/// ever. But who holds the memory of the oldest may wait for a work behind it: two collectives, say, whose numbers are
/// written to while they send them. So when the oldest has waited for a while, any work goes whose memory is free. As
/// these take turns, both come to an end.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    works: VecDeque<(Ticket, Work)>,
    /// Since when the oldest has been refused its memory.
    refused: Option<Instant>,
}

impl Waiting {
    pub(super) fn is_empty(&self) -> bool {
        self.works.is_empty()
    }

    /// Adds the youngest.
    pub(super) fn push(&mut self, ticket: Ticket, work: Work) {
        self.works.push_back((ticket, work));
    }

    /// Takes out the oldest that may go, with its memory, which `hold` holds.
    pub(super) fn take<M>(
        &mut self,
        now: Instant,
        hold: impl Fn(&Work) -> Result<M, InUse>,
    ) -> Option<(Ticket, Work, M)> {
        for at in 0..self.works.len() {
            // Its memory first: to ask for that takes less time than to look at all that is older.
            let held = hold(&self.works[at].1);
            if let Ok(memory) = held
                && !self.keeps_back(&self.works[at].1, at, now)
            {
                if at == 0 {
                    self.refused = None;
                }
                let (ticket, work) = self.works.remove(at)?;
                return Some((ticket, work, memory));
            }
            if at == 0 {
                self.refused.get_or_insert(now);
            }
        }
        None
    }

    /// Holds the memory of work that is not among these, as if it were the youngest.
    pub(super) fn hold_for<M>(
        &self,
        work: &Work,
        hold: impl Fn(&Work) -> Result<M, InUse>,
    ) -> Result<M, InUse> {
        let memory = hold(work)?;
        // Mostly there are none, and nobody asks for the time.
        let may_go = self.is_empty() || !self.keeps_back(work, self.works.len(), Instant::now());
        if may_go { Ok(memory) } else { Err(InUse) }
    }

    /// Whether `work` is to come after one of the `older` oldest.
    fn keeps_back(&self, work: &Work, older: usize, now: Instant) -> bool {
        self.keeps_order(now) && self.works.range(..older).any(|(_, older)| older.conflicts_with(work))
    }

    fn keeps_order(&self, now: Instant) -> bool {
        let waited = self.refused.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        (waited.as_nanos() / TURN.as_nanos()).is_multiple_of(2)
    }
}

#[cfg(test)]
mod tests {
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
}
