//! Holds back the end of a copy while somebody looks at its memory, which is the program's again once that is told.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::CopyError;
use super::job::{End, Finished};

/// Open until it is closed.
#[derive(Default)]
pub(super) struct Gate {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    is_closed: bool,
    waiting: Option<(End, Result<Finished, CopyError>)>,
}

/// Opens its gate when it goes.
pub(super) struct Closed(Arc<Gate>);

impl Gate {
    /// A gate, and an end that passes through it to `end`.
    pub(super) fn over(end: End) -> (End, Arc<Self>) {
        let gate = Arc::<Self>::default();
        let passed = gate.clone();
        let through = Box::new(move |result| {
            let mut state = passed.lock();
            if state.is_closed {
                state.waiting = Some((end, result));
                return;
            }
            drop(state); // others are told now, who may do anything
            end(result);
        });
        (through, gate)
    }

    /// Closes it, before the end has come.
    pub(super) fn close(self: &Arc<Self>) -> Closed {
        self.lock().is_closed = true;
        Closed(self.clone())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_closed = false;
        let waiting = state.waiting.take();
        drop(state);
        if let Some((end, result)) = waiting {
            end(result);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn an_end_waits_while_the_gate_is_closed() {
        let (told, hears) = mpsc::channel();
        let new_end = || -> End {
            let told = told.clone();
            Box::new(move |result| told.send(result.is_err()).unwrap())
        };
        let failed = || Err(CopyError::Closed { written_bytes: 0 });

        let (through, _open) = Gate::over(new_end());
        through(failed());
        assert_eq!(hears.try_recv(), Ok(true));

        let (through, gate) = Gate::over(new_end());
        let closed = gate.close();
        through(failed());
        assert!(hears.try_recv().is_err());
        drop(closed);
        assert_eq!(hears.try_recv(), Ok(true));

        let (through, gate) = Gate::over(new_end());
        drop(gate.close());
        assert!(hears.try_recv().is_err(), "the end has not come yet");
        through(failed());
        assert_eq!(hears.try_recv(), Ok(true));
    }
}
