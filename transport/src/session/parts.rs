//! Messages that come in several sends, one behind the other: how much of them has come, and what became of it.

use std::collections::HashMap;

use super::error::TransferError;
use super::request::{MessageNumber, RequestId};

/// Messages of which more is to come, or a part is being received.
#[derive(Debug, Default)]
pub(super) struct Messages {
    begun: HashMap<MessageNumber, Message>,
    next: MessageNumber,
}

#[derive(Debug)]
struct Message {
    receive: RequestId,
    /// Of all parts that have come.
    len: u64,
    /// Parts that are being received.
    under_way: u32,
    /// Whether no more of it comes.
    is_over: bool,
    failed: Option<TransferError>,
}

/// A message's end: what to deliver.
type Received = (RequestId, Result<u64, TransferError>);

impl Messages {
    /// Takes in a message that this receive is for.
    pub(super) fn begin(&mut self, receive: RequestId) -> MessageNumber {
        let number = self.next;
        self.next += 1;
        let message = Message { receive, len: 0, under_way: 0, is_over: false, failed: None };
        self.begun.insert(number, message);
        number
    }

    /// A part of `len` bytes has come, and is being received until it [ends](Self::end_part).
    pub(super) fn add_part(&mut self, number: MessageNumber, len: u64, is_last: bool) {
        if let Some(message) = self.begun.get_mut(&number) {
            message.len = message.len.saturating_add(len);
            message.under_way += 1;
            message.is_over = is_last;
        }
    }

    /// A part was received or has failed; returns the message's end if this was what it waited for.
    pub(super) fn end_part(
        &mut self,
        number: MessageNumber,
        result: Result<u64, TransferError>,
    ) -> Option<Received> {
        let message = self.begun.get_mut(&number)?;
        message.under_way -= 1;
        if let Err(error) = result {
            message.failed.get_or_insert(error);
        }
        self.take_ended(number)
    }

    /// No more of a message comes, because of `error`; returns its end unless some of it is still being received.
    pub(super) fn cut_off(&mut self, number: MessageNumber, error: TransferError) -> Option<Received> {
        let message = self.begun.get_mut(&number)?;
        message.is_over = true;
        message.failed.get_or_insert(error);
        self.take_ended(number)
    }

    fn take_ended(&mut self, number: MessageNumber) -> Option<Received> {
        let message = self.begun.get(&number)?;
        if message.under_way > 0 || !message.is_over {
            return None;
        }
        let Message { receive, len, failed, .. } = self.begun.remove(&number)?;
        let result = match failed {
            None => Ok(len),
            // Each part knew only of itself.
            Some(TransferError::BufferTooSmall { peer, capacity, .. }) => {
                Err(TransferError::BufferTooSmall { peer, len, capacity })
            }
            Some(error) => Err(error),
        };
        Some((receive, result))
    }

    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.begun.is_empty()
    }
}
