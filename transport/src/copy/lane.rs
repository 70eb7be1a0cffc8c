//! All copies of one direction: which segment comes next, and which copy is finished next.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::cap::Cap;
use super::engine::{Engine, run_safely};
use super::job::{Job, Ready};
use super::segment::Segment;
use super::{CopyError, Order};
use crate::simulated::SimulatedLink;

pub(super) struct Lane {
    pub(super) engine: Arc<Engine>,
    /// What carries the bytes; none = they are where they go already.
    pub(super) link: Option<SimulatedLink>,
    /// What holds readers of device memory back; none = none is read.
    pub(super) cap: Option<Arc<Cap>>,
    order: Order,
    window: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Copies that have segments to begin with.
    waiting: VecDeque<Arc<Job>>,
    /// Copies that nobody was told the end of, in the order in which they were asked for.
    unfinished: VecDeque<Arc<Job>>,
    /// Segments that have begun and are not over.
    under_way: usize,
    /// Whether a thread is at it, and whether it is to look again.
    is_attended: bool,
    look_again: bool,
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
        Self { engine, link, cap, order, window, state: Mutex::default() }
    }

    /// Takes a copy in; it begins when it is ready and its turn has come.
    pub(super) fn add(self: &Arc<Self>, job: Arc<Job>) {
        let mut state = self.lock();
        if state.closed {
            job.make_ready(Ready::Failed(CopyError::Closed { written_bytes: 0 }));
        }
        state.unfinished.push_back(job.clone());
        state.waiting.push_back(job);
        drop(state);
        self.attend();
    }

    /// A segment is over.
    pub(super) fn end_segment(self: &Arc<Self>) {
        self.lock().under_way -= 1;
        self.attend();
    }

    /// Nothing begins any more: what has not begun fails.
    pub(super) fn close(self: &Arc<Self>) {
        let mut state = self.lock();
        state.closed = true;
        for job in &state.unfinished {
            job.make_ready(Ready::Failed(CopyError::Closed { written_bytes: 0 }));
            job.close();
        }
        drop(state);
        self.attend();
    }

    /// Begins what may begin and reports what is finished. One thread at a time does, and looks again for the others: so what
    /// is reported is in order, and a segment that is over at once does not begin the next one inside of itself.
    pub(super) fn attend(self: &Arc<Self>) {
        let mut state = self.lock();
        if state.is_attended {
            state.look_again = true;
            return;
        }
        state.is_attended = true;
        loop {
            state.look_again = false;
            if let Some(next) = state.next(self.order, self.window) {
                drop(state);
                run_safely(|| match next {
                    Next::Begin(job, index) => Segment::begin(self.clone(), job, index),
                    Next::Report(job) => job.report(),
                });
                state = self.lock();
            } else if !state.look_again {
                state.is_attended = false;
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn next(&mut self, order: Order, window: usize) -> Option<Next> {
        if let Some(over) = self.take_over(order) {
            return Some(Next::Report(over));
        }
        if self.under_way >= window {
            return None;
        }
        let (job, index) = self.take_segment(order)?;
        self.under_way += 1;
        Some(Next::Begin(job, index))
    }

    /// A copy that is over and may be reported.
    fn take_over(&mut self, order: Order) -> Option<Arc<Job>> {
        let at = match order {
            Order::Free => self.unfinished.iter().position(|job| job.is_over())?,
            Order::Asked => self.unfinished.front().filter(|job| job.is_over()).map(|_| 0)?,
        };
        self.unfinished.remove(at)
    }

    /// The next segment to begin with. In free order all copies that are ready have their turn, one segment each.
    fn take_segment(&mut self, order: Order) -> Option<(Arc<Job>, u64)> {
        self.waiting.retain(|job| !job.has_begun_all());
        let at = match order {
            Order::Free => self.waiting.iter().position(|job| job.ready().is_some())?,
            Order::Asked => self.waiting.front().filter(|job| job.ready().is_some()).map(|_| 0)?,
        };
        let index = self.waiting.get(at)?.begin_segment()?;
        let job = match order {
            Order::Free => {
                let job = self.waiting.remove(at)?;
                self.waiting.push_back(job.clone());
                job
            }
            Order::Asked => self.waiting.front()?.clone(),
        };
        Some((job, index))
    }
}
