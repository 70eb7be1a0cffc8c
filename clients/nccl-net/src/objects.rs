//! What NCCL holds handles to.
//!
//! A handle is a number, not an address: where the object is in a table, which of those that were there, and for a request
//! also which message of that connection. So a handle that is closed, made up or of another kind is an error, and
//! nothing that is gone is ever touched.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crate::carrier::Listener;
use crate::comm::{Receiver, Sender};
use crate::context::Context;
use crate::error::NetError;

const MESSAGE_BITS: u32 = 20;
const GENERATION_BITS: u32 = 20;
/// How many messages are told apart: a multiple of the requests of a connection.
const MESSAGES: u64 = (1 << MESSAGE_BITS) - 32;
const GENERATIONS: u64 = 1 << GENERATION_BITS;

/// A handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token(u64);

impl Token {
    pub(crate) fn of(pointer: *mut c_void) -> Self {
        Self(pointer as u64)
    }

    pub(crate) fn as_pointer(self) -> *mut c_void {
        std::ptr::without_provenance_mut(self.0 as usize)
    }

    pub(crate) fn is_null(self) -> bool {
        self.0 == 0
    }

    /// The request for a message of this object.
    pub(crate) fn request(self, message: u64) -> Self {
        Self(self.0 | (message % MESSAGES + 1))
    }

    /// Which message a request is for, as far as it says, if it is one.
    pub(crate) fn message(self) -> Option<RequestNumber> {
        let number = self.0 & ((1 << MESSAGE_BITS) - 1);
        (1..=MESSAGES).contains(&number).then(|| RequestNumber(number - 1))
    }

    fn place(self) -> usize {
        (self.0 >> (MESSAGE_BITS + GENERATION_BITS)) as usize
    }

    fn generation(self) -> u64 {
        self.0 >> MESSAGE_BITS & (GENERATIONS - 1)
    }

    /// The error that it is none of what is wanted.
    pub(crate) fn is_no(self, wanted: &'static str) -> NetError {
        NetError::Handle { token: self.0, wanted }
    }
}

/// The number of a message, as far as a request says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestNumber(u64);

impl RequestNumber {
    /// Where its slot is among so many, which divide the numbers.
    pub(crate) fn slot(self, slots: usize) -> usize {
        (self.0 % slots as u64) as usize
    }

    pub(crate) fn is_of(self, message: u64) -> bool {
        message % MESSAGES == self.0
    }
}

/// What a handle stands for.
#[derive(Clone)]
pub(crate) enum Object {
    Context(Arc<Context>),
    Listener(Arc<Listening>),
    Sender(Arc<Sender>),
    Receiver(Arc<Receiver>),
}

/// A listener, and the context that it is of.
pub(crate) struct Listening {
    pub(crate) context: Arc<Context>,
    pub(crate) listener: Mutex<Box<dyn Listener>>,
}

struct Entry {
    generation: u64,
    object: Option<Object>,
}

struct Table {
    entries: Vec<Entry>,
    free: Vec<usize>,
}

static TABLE: RwLock<Table> = RwLock::new(Table { entries: Vec::new(), free: Vec::new() });

/// Keeps an object; NCCL gets the handle.
pub(crate) fn insert(object: Object) -> Token {
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    let place = table.free.pop().unwrap_or(table.entries.len());
    if place == table.entries.len() {
        table.entries.push(Entry { generation: 0, object: None });
    }
    let entry = &mut table.entries[place];
    // Never 0, so that no handle is null.
    entry.generation = entry.generation % (GENERATIONS - 1) + 1;
    entry.object = Some(object);
    Token((place as u64) << (MESSAGE_BITS + GENERATION_BITS) | entry.generation << MESSAGE_BITS)
}

/// What a handle, or a request, stands for.
pub(crate) fn find(token: Token, wanted: &'static str) -> Result<Object, NetError> {
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    let entry = table.entries.get(token.place()).filter(|entry| entry.generation == token.generation());
    entry.and_then(|entry| entry.object.clone()).ok_or_else(|| token.is_no(wanted))
}

/// Forgets what a handle stands for.
pub(crate) fn remove(token: Token) {
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    let Some(entry) = table.entries.get_mut(token.place()) else { return };
    if entry.generation == token.generation() && entry.object.take().is_some() {
        table.free.push(token.place());
    }
}

/// Forgets the listeners of a context, and so ends them.
pub(crate) fn remove_listeners(context: &Arc<Context>) {
    let is_of_it =
        |object: &mut Object| matches!(object, Object::Listener(one) if Arc::ptr_eq(&one.context, context));
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    let Table { entries, free } = &mut *table;
    let mut removed = Vec::new();
    for (place, entry) in entries.iter_mut().enumerate() {
        if let Some(object) = entry.object.take_if(is_of_it) {
            removed.push(object);
            free.push(place);
        }
    }
    drop(table);
    // Not before: another plugin may end them.
    drop(removed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_tell_messages_apart() {
        let object = Token(3 << 40 | 9 << 20);
        for message in [0, 1, 31, 32, MESSAGES - 1, MESSAGES, 5 * MESSAGES + 7] {
            let request = object.request(message);
            let number = request.message().unwrap();
            assert!(number.is_of(message) && !number.is_of(message + 1) && !number.is_of(message + 32));
            assert_eq!(number.slot(32) as u64, message % 32);
            assert_eq!((request.place(), request.generation()), (3, 9));
        }
        assert_eq!(object.message(), None);
    }
}
