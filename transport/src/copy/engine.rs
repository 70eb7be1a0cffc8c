//! What copies run on: an executor for codecs, and a thread that holds back what a link has yet to carry. Whoever hands in
//! work says what comes next.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::CopyError;
use crate::executor::{Accepted, Done, DoneSink, Executor, Ticket, Work};
use crate::link::wire::Wire;

/// Something to do at a later time.
pub(super) type Step = Box<dyn FnOnce() + Send>;
/// What comes after a piece of codec work.
type Next = Box<dyn FnOnce(Done) + Send>;

/// Runs steps. Those that wait when it ends are dropped, and whoever they belong to hears of it by that.
pub(super) struct Engine {
    running: Mutex<Option<Running>>,
    waiting: Arc<Waiting>,
}

struct Running {
    executor: Box<dyn Executor>,
    clock: Wire<Step>,
}

/// Codec work under way.
#[derive(Default)]
struct Waiting {
    state: Mutex<WaitingState>,
}

#[derive(Default)]
struct WaitingState {
    next_ticket: u64,
    steps: HashMap<Ticket, Next>,
}

impl Engine {
    /// An engine on the executor that `start` makes.
    pub(super) fn start(
        start: impl FnOnce(&DoneSink) -> std::io::Result<Box<dyn Executor>>,
    ) -> Result<Self, CopyError> {
        let failed = |error| CopyError::Thread(Arc::new(error));
        let waiting = Arc::<Waiting>::default();
        let hearing = waiting.clone();
        let sink: DoneSink = Arc::new(move |done| hearing.done(done));
        let executor = start(&sink).map_err(failed)?;
        let clock = Wire::timer(|step: Step| run_safely(step)).map_err(failed)?;
        Ok(Self { running: Mutex::new(Some(Running { executor, clock })), waiting })
    }

    /// Has `work` done, and then `next`, on any thread.
    pub(super) fn run(&self, work: Work, next: impl FnOnce(Done) + Send + 'static) {
        let ticket = self.waiting.expect(Box::new(next));
        let accepted = self.lock().as_mut().map(|running| running.executor.accept(ticket, work));
        // After the lock: others do short work meanwhile, what comes next may hand in more, and who hears that nothing does may have
        // something to hand over.
        match accepted {
            Some(Accepted::Brief(brief)) => self.waiting.done(brief.carry_out()),
            Some(Accepted::Done(done)) => self.waiting.done(done),
            Some(Accepted::Taken) => {}
            None => drop(self.waiting.take(ticket)),
        }
    }

    /// Does `step` at `time`, or now if that is past.
    pub(super) fn at(&self, time: Instant, step: Step) {
        if time <= Instant::now() {
            return step();
        }
        if let Some(running) = &*self.lock() {
            running.clock.hold_until(time, step);
        }
    }

    /// Has the thread that keeps the time do the step that `make` makes, behind all that is due; false if that has ended. If it ends before
    /// its turn, the step is dropped.
    pub(super) fn hand_over(&self, make: impl FnOnce() -> Step) -> bool {
        let running = self.lock();
        let Some(running) = &*running else { return false };
        running.clock.hold_until(Instant::now(), make());
        true
    }

    /// Ends all threads; waits for them.
    pub(super) fn end(&self) {
        let Some(Running { executor, clock }) = self.lock().take() else { return };
        drop(clock.end());
        drop(executor);
        let steps = std::mem::take(&mut self.waiting.lock().steps);
        drop(steps); // after the lock: their owners hear of it
    }

    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn expect(&self, next: Next) -> Ticket {
        let mut state = self.lock();
        let ticket = Ticket(state.next_ticket);
        state.next_ticket += 1;
        state.steps.insert(ticket, next);
        ticket
    }

    fn take(&self, ticket: Ticket) -> Option<Next> {
        self.lock().steps.remove(&ticket)
    }

    fn done(&self, done: Done) {
        if let Some(next) = self.take(done.ticket) {
            run_safely(move || next(done));
        }
    }

    fn lock(&self) -> MutexGuard<'_, WaitingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A step that panics must not take a thread with it that others need; whoever it belongs to hears of it by being dropped.
pub(super) fn run_safely(step: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(step)).is_err() {
        tracing::error!("a step of a copy panicked");
    }
}
