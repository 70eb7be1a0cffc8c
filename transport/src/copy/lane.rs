//! All copies of one direction: which segment comes next, and which copy is finished next.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mgcomp_selector::{LinkFacts, Overlap};

use super::cap::Cap;
use super::engine::{Engine, Step, run_safely};
use super::job::{Job, Ready};
use super::segment::Segment;
use super::turns::Turns;
use super::{CopyError, Order};
use crate::link::rate::TimedRate;
use crate::simulated::SimulatedLink;

/// What it takes to begin a copy, whatever its length: kernels or copies are launched, and a thread hears of their end.
const START: Duration = Duration::from_micros(20);
/// Segments and ends that a thread sees to before it hands over: it may be the program's, which only wanted to add a copy, while
/// others add more and more.
const MOST_AT_ONCE: usize = 64;
/// So many copies from or to a device are coded before one goes raw.
const CODED_BETWEEN: u32 = 255;

pub(super) struct Lane {
    pub(super) engine: Arc<Engine>,
    /// What carries the bytes; none = they are where they go already.
    pub(super) link: Option<SimulatedLink>,
    /// What holds readers of device memory back; none = none is read.
    pub(super) cap: Option<Arc<Cap>>,
    /// What bytes from and to devices have shown of their way, which no link says.
    way: Mutex<Way>,
    window: usize,
    state: Mutex<State>,
}

/// How fast raw bytes leave a device, or reach it.
#[derive(Debug)]
struct Way {
    rate: TimedRate,
    /// Copies that were coded since one was raw for it.
    coded: u32,
}

struct State {
    turns: Turns,
    /// Segments that have begun and are not over.
    under_way: usize,
    /// Whether a thread is at it, or will be: it looks here again before it leaves.
    is_attended: bool,
    closed: bool,
}

/// What there is to do.
enum Next {
    Begin(Arc<Job>, u64),
    Report(Arc<Job>),
}

impl Lane {
    pub(super) fn new(
        engine: Arc<Engine>,
        link: Option<SimulatedLink>,
        cap: Option<Arc<Cap>>,
        (order, window): (Order, usize),
    ) -> Self {
        let way = Mutex::new(Way { rate: TimedRate::new(START), coded: 0 });
        let turns = Turns::new(order);
        let state = State { turns, under_way: 0, is_attended: false, closed: false };
        Self { engine, link, cap, way, window, state: Mutex::new(state) }
    }

    /// What is known of the way that bytes go, in segments of this length: that of the link, or what they have shown.
    pub(super) fn facts(&self, segment_bytes: u64) -> Option<LinkFacts> {
        let overlap = Overlap::Segments(segment_bytes);
        let Some(link) = &self.link else { return self.way().rate.facts(overlap) };
        let shaping = link.shaping();
        let latency_ns = u64::try_from(shaping.latency().as_nanos()).unwrap_or(u64::MAX);
        LinkFacts::try_new(shaping.rate_gbps(), latency_ns, overlap).ok()
    }

    /// Raw bytes took so long from a device or to it, what went that way of others meanwhile not counted.
    pub(super) fn came_raw(&self, bytes: u64, took: Duration) {
        self.way().rate.learn(bytes, took);
    }

    /// Whether a copy from or to a device that was to be coded goes raw, since a way that only coded bytes go could change unseen.
    pub(super) fn wants_raw(&self) -> bool {
        if self.link.is_some() {
            return false;
        }
        let mut way = self.way();
        let is_due = way.coded >= CODED_BETWEEN;
        way.coded = if is_due { 0 } else { way.coded + 1 };
        is_due
    }

    /// Takes a copy in; it begins when it is ready and its turn has come.
    pub(super) fn add(self: &Arc<Self>, job: Arc<Job>) {
        let mut state = self.lock();
        if state.closed {
            job.make_ready(Ready::Failed(CopyError::Closed { written_bytes: 0 }));
        }
        state.turns.add(job);
        drop(state);
        self.attend();
    }

    /// A copy may be ready now, or have failed.
    pub(super) fn look_at(self: &Arc<Self>, job: &Job) {
        self.lock().turns.look_at(job);
        self.attend();
    }

    /// A segment of a copy is over.
    pub(super) fn end_segment(self: &Arc<Self>, job: &Job) {
        let mut state = self.lock();
        state.under_way -= 1;
        state.turns.look_at(job);
        drop(state);
        self.attend();
    }

    /// Nothing begins any more: what has not begun fails.
    pub(super) fn close(self: &Arc<Self>) {
        let mut state = self.lock();
        state.closed = true;
        state.turns.close();
        drop(state);
        self.attend();
    }

    /// Begins what may begin and reports what is finished. One thread at a time does, also for the others: so what is reported is
    /// in order, and a segment that is over at once does not begin the next one inside of itself.
    fn attend(self: &Arc<Self>) {
        if !std::mem::replace(&mut self.lock().is_attended, true) {
            self.go_on();
        }
    }

    /// Attends until there is nothing to do, or hands over. Only for the thread whose turn it is.
    fn go_on(self: &Arc<Self>) {
        loop {
            for _ in 0..MOST_AT_ONCE {
                let Some(next) = self.next() else { return };
                run_safely(|| match next {
                    Next::Begin(job, index) => Segment::begin(self.clone(), job, index),
                    Next::Report(job) => job.report(),
                });
            }
            let rest = || -> Step {
                let rest = Rest(self.clone());
                Box::new(move || drop(rest))
            };
            if self.engine.hand_over(rest) {
                return;
            }
            // Nobody is left to do it. Nothing begins any more, so it comes to an end.
        }
    }

    /// What there is to do; if that is nothing, the lane is no longer attended.
    fn next(&self) -> Option<Next> {
        let mut state = self.lock();
        let next = state.next(self.window);
        state.is_attended = next.is_some();
        next
    }

    fn way(&self) -> MutexGuard<'_, Way> {
        self.way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The rest of a turn to attend a lane, on whatever thread has it last: also if that drops it undone.
struct Rest(Arc<Lane>);

impl Drop for Rest {
    fn drop(&mut self) {
        self.0.go_on();
    }
}

impl State {
    fn next(&mut self, window: usize) -> Option<Next> {
        if let Some(over) = self.turns.take_over() {
            return Some(Next::Report(over));
        }
        if self.under_way >= window {
            return None;
        }
        let (job, index) = self.turns.take_segment()?;
        self.under_way += 1;
        Some(Next::Begin(job, index))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{self, Sender};
    use std::thread::{self, ThreadId};

    use mgcomp_codecs::Element;

    use super::*;
    use crate::copy::job::{Finished, Task};
    use crate::executor::{self, DoneSink};
    use crate::payload::Payload;

    const HANGS: Duration = Duration::from_secs(60);

    fn new_lane() -> Arc<Lane> {
        let engine = Engine::start(|sink: &DoneSink| executor::start(0, false, sink)).unwrap();
        Arc::new(Lane::new(Arc::new(engine), None, None, (Order::Free, 4)))
    }

    /// Adds a copy that is over at once, at whose end the next is added, until there were so many; each says on which thread it ended.
    fn add_chain(lane: &Arc<Lane>, copies: usize, told: &Sender<ThreadId>) {
        let (next, next_told) = (lane.clone(), told.clone());
        let end = move |_: Result<Finished, CopyError>| {
            next_told.send(thread::current().id()).unwrap();
            if copies > 1 {
                add_chain(&next, copies - 1, &next_told);
            }
        };
        let task = Task::Expand { destination: Payload::empty() };
        let job = Job::new(task, Element::U8, (0, 1), None, Box::new(end));
        job.make_ready(Ready::Failed(CopyError::Closed { written_bytes: 0 }));
        lane.add(Arc::new(job));
    }

    #[test]
    fn who_adds_a_copy_leaves_the_others_to_a_thread_of_the_copier() {
        let (lane, (told, hears)) = (new_lane(), mpsc::channel());
        add_chain(&lane, 1000, &told);
        let threads: Vec<_> = (0..1000).map(|_| hears.recv_timeout(HANGS).unwrap()).collect();
        let own = thread::current().id();
        let (here, elsewhere) = threads.split_at(MOST_AT_ONCE);
        assert!(here.iter().all(|&thread| thread == own) && elsewhere.iter().all(|&thread| thread != own));
        lane.engine.end();
        // Then nobody else is there.
        add_chain(&lane, 1000, &told);
        assert_eq!(hears.try_iter().filter(|&thread| thread == own).count(), 1000);
    }

    #[test]
    fn what_was_handed_over_is_done_whenever_the_copier_ends() {
        let (lane, (told, hears)) = (new_lane(), mpsc::channel());
        let (release, released) = mpsc::channel::<()>();
        // The thread that it is handed to has something else to do.
        assert!(lane.engine.hand_over(|| Box::new(move || released.recv().unwrap_or_default())));
        add_chain(&lane, 1000, &told);
        assert_eq!(hears.try_iter().count(), MOST_AT_ONCE);
        thread::scope(|scope| {
            scope.spawn(|| lane.engine.end());
            drop(release);
        });
        assert_eq!(hears.try_iter().count(), 1000 - MOST_AT_ONCE);
    }

    #[test]
    fn raw_bytes_show_their_way() {
        let lane = new_lane();
        assert_eq!(lane.facts(1 << 20), None);
        for _ in 0..2 {
            lane.came_raw(1000, Duration::from_micros(30)); // all of that may be the beginning
            assert_eq!(lane.facts(1 << 20), None);
        }
        for _ in 0..2 {
            lane.came_raw(1_000_000, Duration::from_micros(100));
        }
        // 8 Mb in 80 us.
        assert_eq!(lane.facts(1 << 20), LinkFacts::try_new(100.0, 20_000, Overlap::Segments(1 << 20)).ok());
        let raw: Vec<bool> = (0..513).map(|_| lane.wants_raw()).collect();
        let at: Vec<usize> = (0..raw.len()).filter(|&i| raw[i]).collect();
        assert_eq!(at, [255, 511]);
        lane.engine.end();
    }
}
