//! Where a node hears of what happens, and who does something about it.
//!
//! Whoever brings an input takes it in at once, on its own thread: a call of the program, a link that received, an
//! executor that is done. So a message needs no other thread to be woken on its way. Inputs that come while a thread
//! is at it are left to that thread, so they are taken in one by one and in order. A thread that was lent for long
//! enough hands over to the node's own, which otherwise just keeps the time.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::engine::Engine;
use super::groups::Watch;
use super::handle::Reply;
use crate::executor::Done;
use crate::link::LinkEvent;
use crate::message::Rank;
use crate::session::{GroupOver, Request};

/// Inputs that a lent thread takes in before it hands over, and the node's own before it looks at the time.
const MOST_AT_ONCE: usize = 64;

/// Something that happened.
pub(super) enum Input {
    Submit {
        peer: Rank,
        request: Request,
        reply: Reply,
    },
    Disconnect {
        peer: Rank,
    },
    /// This rank takes part in no operation of a group any more.
    GroupOver {
        watch: Arc<Watch>,
        over: GroupOver,
    },
    Link(LinkEvent),
    Done(Done),
    /// A device of this rank is lost: what the driver says.
    #[cfg(feature = "cuda")]
    DeviceLost(String),
    /// It is time to look at the time.
    Time {
        /// Since when.
        due: Instant,
    },
    Stop,
}

pub(super) struct Mailbox {
    state: Mutex<State>,
    changed: Condvar,
    /// There is one from [`open`](Mailbox::open) until [`close`](Mailbox::close); only the thread that is at it has it.
    engine: Mutex<Option<Engine>>,
}

struct State {
    inputs: VecDeque<Input>,
    /// Whether a thread is at it.
    busy: bool,
    /// Whether the node's own thread is to go on where another left off.
    handed_over: bool,
    next_check: Option<Instant>,
    /// Nothing is taken in any more.
    over: bool,
}

impl Mailbox {
    /// Keeps what comes until it is [opened](Self::open).
    pub(super) fn new() -> Self {
        let state =
            State { inputs: VecDeque::new(), busy: true, handed_over: false, next_check: None, over: false };
        Self { state: Mutex::new(state), changed: Condvar::new(), engine: Mutex::default() }
    }

    /// Takes `input` in, now or on the thread that is at it.
    pub(super) fn post(&self, input: Input) {
        let mut state = self.lock();
        if state.over {
            return;
        }
        if state.busy {
            state.inputs.push_back(input);
            return;
        }
        // None is before it.
        state.busy = true;
        drop(state);
        self.work(Some(input));
    }

    /// Takes `inputs` in, one behind the other.
    pub(super) fn post_all(&self, inputs: Vec<Input>) {
        // In a process that was forked there are none, and whoever had the lock may be gone.
        if inputs.is_empty() {
            return;
        }
        let mut state = self.lock();
        if state.over {
            return;
        }
        state.inputs.extend(inputs);
        if !std::mem::replace(&mut state.busy, true) {
            drop(state);
            self.work(None);
        }
    }

    /// Begins to take in what came and what comes.
    pub(super) fn open(&self, mut engine: Engine) {
        let next_check = engine.greet();
        *self.engine() = Some(engine);
        self.lock().next_check = Some(next_check);
        self.changed.notify_all();
        self.work(None);
    }

    /// Ends everything: requests are answered, sessions closed, and what the node had is given back.
    pub(super) fn close(&self) {
        self.post(Input::Stop);
        let mut state = self.lock();
        while !state.over {
            state = self.wait(state);
        }
        drop(state);
        let engine = self.engine().take();
        drop(engine); // after the lock: a link waits for its threads, and they may be about to post
    }

    /// Runs the node's own thread, until the mailbox is closed.
    pub(super) fn keep_time(&self) {
        let mut state = self.lock();
        while !state.over {
            let now = Instant::now();
            // First: where inputs never end, somebody may have been silent for too long all the same.
            if let Some(due) = state.next_check.filter(|&due| due <= now) {
                state.next_check = None; // whoever looks at the time says when to do so again
                drop(state);
                self.post(Input::Time { due });
                state = self.lock();
            } else if std::mem::take(&mut state.handed_over) {
                drop(state);
                self.work(None);
                state = self.lock();
            } else if let Some(next) = state.next_check {
                let waited = self.changed.wait_timeout(state, next - now);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            } else {
                state = self.wait(state);
            }
        }
    }

    /// Takes in `first` and what came behind it, up to so much at once. Only for the thread that made the mailbox busy.
    fn work(&self, mut first: Option<Input>) {
        let mut engine = self.engine();
        let Some(engine) = &mut *engine else { return };
        for _ in 0..MOST_AT_ONCE {
            let Some(input) = first.take().or_else(|| self.next_input()) else { return };
            let stop = matches!(input, Input::Stop);
            // A defect must not take the program's thread with it, nor leave anybody waiting.
            match catch_unwind(AssertUnwindSafe(|| engine.take_in(input))) {
                Ok(next_check) if !stop => self.note_next_check(next_check),
                Ok(_) => return self.finish(),
                Err(_) => {
                    engine.abandon();
                    return self.finish();
                }
            }
        }
        self.lock().handed_over = true;
        self.changed.notify_all();
    }

    /// The next input; without one the mailbox is no longer busy.
    fn next_input(&self) -> Option<Input> {
        let mut state = self.lock();
        let input = state.inputs.pop_front();
        state.busy = input.is_some();
        input
    }

    fn note_next_check(&self, next_check: Option<Instant>) {
        if let Some(next) = next_check {
            let mut state = self.lock();
            // What is due is not put off by what comes meanwhile.
            state.next_check = Some(state.next_check.map_or(next, |known| known.min(next)));
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Takes in nothing any more. Whoever waits for something that came hears that it is over.
    pub(super) fn finish(&self) {
        let mut state = self.lock();
        state.over = true;
        // Dropping an input tells whoever waits for it.
        let inputs = std::mem::take(&mut state.inputs);
        drop(state);
        drop(inputs);
        self.changed.notify_all();
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn engine(&self) -> MutexGuard<'_, Option<Engine>> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
