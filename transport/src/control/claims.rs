//! Which slots of the page belong to whom: several nodes of one process share its page.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::attachment::Attachment;
use super::layout::OWN_SLOTS;
use super::page::Page;
use super::slot::Slot;
use super::view::SlotKind;

/// What a slot is for; never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    rank: u32,
    peer: u32,
    stream: u32,
    kind: SlotKind,
}

/// The slots that are in use, and by which node; copiers count as nodes here.
#[derive(Debug, Default)]
pub(super) struct Claims {
    used: usize,
    /// Slots of each key, with the node that writes them now.
    slots: HashMap<Key, Vec<(usize, Option<u64>)>>,
    next_node: u64,
}

impl Claims {
    /// A slot for `node`: the one that it has, one that an earlier node had, or a new one, which is then told; that of all
    /// other streams if there is none left.
    fn claim(&mut self, page: &Page, node: u64, key: Key) -> (usize, bool) {
        let slots = self.slots.entry(key).or_default();
        let own = slots.iter().position(|(_, owner)| *owner == Some(node));
        if let Some(at) = own.or_else(|| slots.iter().position(|(_, owner)| owner.is_none())) {
            slots[at].1 = Some(node);
            return (slots[at].0, false);
        }
        if self.used == OWN_SLOTS {
            if slots.is_empty() {
                self.slots.remove(&key);
            }
            return (Page::other(), false);
        }
        let slot = self.used;
        self.used += 1;
        slots.push((slot, Some(node)));
        page.identify(slot, (key.peer, key.stream), key.rank, key.kind);
        page.publish(self.used);
        (slot, true)
    }

    fn release(&mut self, node: u64) {
        for (_, owner) in self.slots.values_mut().flatten() {
            if *owner == Some(node) {
                *owner = None;
            }
        }
    }
}

/// The slots of one node, or the slot of a copier. They are free for others when it is dropped.
#[derive(Debug)]
pub(super) struct NodeSlots {
    attachment: Arc<Attachment>,
    rank: u32,
    node: u64,
}

impl NodeSlots {
    pub(super) fn new(attachment: Arc<Attachment>, rank: u32) -> Self {
        let mut claims = lock(attachment.claims());
        let node = claims.next_node;
        claims.next_node += 1;
        drop(claims);
        Self { attachment, rank, node }
    }

    /// The slot in which streams of all kinds are counted that have none of their own.
    pub(super) fn other(&self) -> Slot {
        Slot::new(self.attachment.page().clone(), Page::other())
    }

    /// A slot for a stream to a peer, for what comes from it, or for copies to a device (`peer`) from another (`stream`).
    pub(super) fn claim(&self, peer: u32, stream: u32, kind: SlotKind) -> Slot {
        let page = self.attachment.page();
        let key = Key { rank: self.rank, peer, stream, kind };
        let (slot, is_new) = lock(self.attachment.claims()).claim(page, self.node, key);
        if is_new {
            self.attachment.tell_of_slots();
        }
        Slot::new(page.clone(), slot)
    }
}

impl Drop for NodeSlots {
    fn drop(&mut self) {
        lock(self.attachment.claims()).release(self.node);
    }
}

fn lock(claims: &Mutex<Claims>) -> std::sync::MutexGuard<'_, Claims> {
    claims.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Identity;

    fn key(stream: u32) -> Key {
        Key { rank: 0, peer: 1, stream, kind: SlotKind::Sent }
    }

    #[test]
    fn nodes_do_not_write_each_others_slots_but_inherit_them() {
        let (page, _file) = Page::create(&Identity::of_this_process()).unwrap();
        let mut claims = Claims::default();
        assert_eq!(claims.claim(&page, 1, key(5)), (0, true));
        assert_eq!(claims.claim(&page, 1, key(5)), (0, false));
        assert_eq!(claims.claim(&page, 2, key(5)), (1, true), "the same stream of another node");
        claims.release(1);
        assert_eq!(claims.claim(&page, 3, key(5)), (0, false));
        assert_eq!(page.used(), 2);
        assert_eq!(page.view(1).unwrap().stream, 5);
    }

    #[test]
    fn streams_beyond_the_last_slot_share_one() {
        let (page, _file) = Page::create(&Identity::of_this_process()).unwrap();
        let mut claims = Claims::default();
        for stream in 0..OWN_SLOTS as u32 {
            assert_eq!(claims.claim(&page, 1, key(stream)), (stream as usize, true));
        }
        for stream in 5000..5100 {
            assert_eq!(claims.claim(&page, 1, key(stream)), (Page::other(), false));
        }
        assert_eq!(claims.slots.len(), OWN_SLOTS);
        assert_eq!((page.used(), page.view(Page::other()).unwrap().kind), (OWN_SLOTS, SlotKind::Other));
    }
}
