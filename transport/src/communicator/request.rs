//! Collectives that go on while the program does something else.

use std::sync::PoisonError;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;

use super::{Communicator, CommunicatorError, Group};
use crate::link::driving;
use crate::message::{GivingUp, OperationId};
use crate::session::TransferError;

/// A collective under way. Its buffers are not to be touched before it is finished; dropping it does not stop it.
#[derive(Debug)]
pub struct CollectiveRequest {
    reports: Receiver<Result<(), CommunicatorError>>,
    result: Option<Result<(), CommunicatorError>>,
}

impl CollectiveRequest {
    /// Waits until the collective is finished.
    ///
    /// # Errors
    /// [`CommunicatorError`] if it failed.
    pub fn wait(mut self) -> Result<(), CommunicatorError> {
        match self.result.take() {
            Some(result) => result,
            None => driving::receive(&self.reports).unwrap_or(Err(TransferError::NodeClosed.into())),
        }
    }

    /// Whether the collective is finished, one way or the other.
    pub fn is_finished(&mut self) -> bool {
        if self.result.is_none() {
            self.result = match driving::try_receive(&self.reports) {
                Ok(result) => Some(result),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => Some(Err(TransferError::NodeClosed.into())),
            };
        }
        self.result.is_some()
    }
}

impl Communicator {
    /// Carries out a collective when those before it are over.
    pub(super) fn collective(
        &self,
        work: impl FnOnce(&Group) -> Result<(), CommunicatorError>,
    ) -> Result<(), CommunicatorError> {
        self.group.check_process()?;
        let turn = self.group.turns.take();
        self.group.turns.in_turn(turn, || self.group.unless_broken(work))
    }

    /// As [`collective`](Self::collective), on a thread of its own. Its place in the order is that of the call.
    pub(super) fn start_collective(
        &self,
        work: impl FnOnce(&Group) -> Result<(), CommunicatorError> + Send + 'static,
    ) -> CollectiveRequest {
        let (report, reports) = mpsc::channel();
        if let Err(error) = self.group.check_process() {
            return CollectiveRequest { reports, result: Some(Err(error)) };
        }
        let (group, turn) = (self.group.clone(), self.group.turns.take());
        let task = move || {
            // In its turn: what comes after it finds it finished.
            group.turns.in_turn(turn, || {
                let _ = report.send(group.unless_broken(work)); // nobody may be waiting any more
            });
        };
        let started = thread::Builder::new().name("mgcomp-collective".into()).spawn(task);
        let result = started.err().map(|error| {
            // Those behind it must not wait for it.
            self.group.turns.in_turn(turn, || Err(CommunicatorError::Thread(error.to_string())))
        });
        CollectiveRequest { reports, result }
    }
}

impl Group {
    /// In a child made by `fork`, nobody ends the turns that the parent's threads have.
    fn check_process(&self) -> Result<(), CommunicatorError> {
        if self.node.is_forked() { Err(TransferError::Forked.into()) } else { Ok(()) }
    }

    /// A collective that fails halfway leaves the members at different places, so nothing can follow it.
    fn unless_broken(
        &self,
        work: impl FnOnce(&Self) -> Result<(), CommunicatorError>,
    ) -> Result<(), CommunicatorError> {
        if let Some(error) = self.broken.get() {
            return Err(CommunicatorError::Broken(Box::new(error.clone())));
        }
        let mut operation = self.operation.lock().unwrap_or_else(PoisonError::into_inner);
        self.watch.begin(*operation);
        let result = work(self);
        match &result {
            Err(error) if error.is_halfway() => {
                let _ = self.broken.set(error.clone()); // the first one is the cause
                self.give_up(*operation, error);
            }
            Ok(()) => *operation = operation.next(),
            // Nothing has begun: the program may do it right yet.
            Err(_) => {}
        }
        result
    }

    /// Tells the other members, who wait for what does not come any more. Each tells all others: there may be some that whoever
    /// has failed first does not reach.
    fn give_up(&self, operation: OperationId, error: &CommunicatorError) {
        #[cfg(feature = "cuda")]
        if let CommunicatorError::Device(error) = error
            && error.is_sticky()
        {
            return self.node.lose_device(error);
        }
        let given_up = GivingUp { group: self.context, operation, status: error.status() };
        self.others().for_each(|other| self.node.give_up(self.members[other], given_up));
    }
}
