//! What a session has to do, in order, apart from what it is to encode.

use std::collections::VecDeque;

use super::action::Action;

/// Actions in their order. Those that encode lie apart: a peer may have thousands of them waiting, and what they have made goes out
/// before the next of them.
#[derive(Debug, Default)]
pub(super) struct Queue {
    encodes: VecDeque<(u64, Action)>,
    others: VecDeque<(u64, Action)>,
    next: u64,
}

impl Queue {
    /// Behind all that is there.
    pub(super) fn push(&mut self, action: Action) {
        let queue =
            if matches!(action, Action::Encode { .. }) { &mut self.encodes } else { &mut self.others };
        queue.push_back((self.next, action));
        self.next += 1;
    }

    /// The first that encodes nothing.
    pub(super) fn pop_other(&mut self) -> Option<Action> {
        self.others.pop_front().map(|(_, action)| action)
    }

    /// The first.
    pub(super) fn pop(&mut self) -> Option<Action> {
        let first = |queue: &VecDeque<(u64, Action)>| queue.front().map_or(u64::MAX, |(number, _)| *number);
        let queue =
            if first(&self.encodes) < first(&self.others) { &mut self.encodes } else { &mut self.others };
        queue.pop_front().map(|(_, action)| action)
    }

    /// Nothing is encoded any more.
    pub(super) fn encode_nothing(&mut self) {
        self.encodes.clear();
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.encodes.is_empty() && self.others.is_empty()
    }
}
