//! Finding the state of a stream, mostly without a search.

use std::collections::HashMap;

use mgcomp_codecs::Element;

use super::stream::Stream;

/// Streams that have a state of their own.
const MOST_STREAMS: usize = 1024;
/// A stream makes room for another when so many uses of all went by without one of it: far more than there are while all are in use
/// side by side, or each of somewhat more streams than have states would take the state of the next.
const IDLE_USES: u64 = 16 * MOST_STREAMS as u64;
/// So many are looked at for room each time, in turn.
const LOOKS: usize = 4;
/// Places for streams that were asked for lately.
const RECENT: usize = 64;

/// A stream to a peer, and the element of its transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) peer: u32,
    pub(super) stream: u32,
    pub(super) element: Element,
}

/// Whose a state is.
#[derive(Clone, Copy, Debug)]
struct Owner {
    key: Key,
    /// How many uses of all streams there were when it was last used.
    used: u64,
}

/// The states of all streams.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    states: Vec<Stream>,
    /// Of the first states; those behind them are shared.
    owners: Vec<Owner>,
    places: HashMap<Key, usize>,
    /// By stream and element: the state of the last one that was met, whatever its peer, as long as that has it.
    siblings: HashMap<(u32, Element), usize>,
    /// By element: the state that streams share which found no room.
    late: HashMap<Element, usize>,
    recent: [Option<(Key, usize)>; RECENT],
    uses: u64,
    /// Where room is looked for next.
    hand: usize,
}

impl Default for Streams {
    fn default() -> Self {
        Self {
            states: Vec::new(),
            owners: Vec::new(),
            places: HashMap::new(),
            siblings: HashMap::new(),
            late: HashMap::new(),
            recent: [None; RECENT],
            uses: 0,
            hand: 0,
        }
    }
}

impl Streams {
    /// The state of a stream, made by `make` if there is none: from that of the same stream to another peer, if there is
    /// one. With it comes how many there are.
    pub(super) fn of(
        &mut self,
        key: Key,
        make: impl FnOnce(Option<&Stream>) -> Stream,
    ) -> (&mut Stream, usize) {
        self.uses += 1;
        let at = match self.recent[slot(key)] {
            Some((recent, at)) if recent == key => at,
            _ => self.place(key, make),
        };
        if let Some(owner) = self.owners.get_mut(at) {
            owner.used = self.uses;
        }
        let count = self.states.len();
        (&mut self.states[at], count)
    }

    /// The state of a stream that has one of its own already.
    pub(super) fn own(&mut self, key: Key) -> Option<&mut Stream> {
        let at = *self.places.get(&key)?;
        self.states.get_mut(at)
    }

    // Apart, or making a stream would make finding one slower.
    #[cold]
    #[inline(never)]
    fn place(&mut self, key: Key, make: impl FnOnce(Option<&Stream>) -> Stream) -> usize {
        let known = self.places.get(&key).copied();
        let Some(at) = known.or_else(|| self.room()) else { return self.share(key, make) };
        if known.is_none() {
            self.settle(key, at, make);
        }
        self.recent[slot(key)] = Some((key, at));
        at
    }

    /// Where there is room for one more stream with a state of its own: behind the others, or where one is that is not used any more.
    fn room(&mut self) -> Option<usize> {
        if self.owners.len() < MOST_STREAMS {
            return Some(self.owners.len());
        }
        (0..LOOKS).find_map(|_| {
            let at = self.hand;
            self.hand = (at + 1) % MOST_STREAMS;
            (self.uses - self.owners[at].used > IDLE_USES).then_some(at)
        })
    }

    /// Gives a stream the state there.
    fn settle(&mut self, key: Key, at: usize, make: impl FnOnce(Option<&Stream>) -> Stream) {
        let (state, owner) = (make(self.sibling(key)), Owner { key, used: self.uses });
        if at == self.owners.len() {
            self.states.push(state);
            self.owners.push(owner);
        } else {
            self.states[at] = state;
            let gone = std::mem::replace(&mut self.owners[at], owner);
            self.forget(gone.key, at);
        }
        self.places.insert(key, at);
        self.siblings.insert((key.stream, key.element), at);
    }

    /// The state there is this stream's no more.
    fn forget(&mut self, key: Key, at: usize) {
        self.places.remove(&key);
        let recent = &mut self.recent[slot(key)];
        if recent.is_some_and(|(recent, _)| recent == key) {
            *recent = None;
        }
        let sibling = (key.stream, key.element);
        if self.siblings.get(&sibling) == Some(&at) {
            self.siblings.remove(&sibling);
        }
    }

    /// The state for a stream that finds no room. It looks again the next time, so this is not kept among the recent ones.
    fn share(&mut self, key: Key, make: impl FnOnce(Option<&Stream>) -> Stream) -> usize {
        if let Some(&at) = self.late.get(&key.element) {
            return at;
        }
        let state = make(self.sibling(key));
        self.states.push(state);
        let at = self.states.len() - 1;
        self.late.insert(key.element, at);
        at
    }

    fn sibling(&self, key: Key) -> Option<&Stream> {
        self.siblings.get(&(key.stream, key.element)).map(|&at| &self.states[at])
    }
}

fn slot(Key { peer, stream, element }: Key) -> usize {
    let mixed =
        peer.wrapping_mul(0x9e37_79b1) ^ stream.wrapping_mul(0x85eb_ca77) ^ u32::from(element.number()) << 29;
    (mixed >> 26) as usize % RECENT
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adaptive::{AdaptiveConfig, Knowledge};
    use crate::speeds::Speeds;

    const MOST: u32 = MOST_STREAMS as u32;

    fn key(stream: u32) -> Key {
        Key { peer: 1, stream, element: Element::F32 }
    }

    /// Uses a stream; whether that has made a state, and if so, whether it had a sibling.
    fn meet(streams: &mut Streams, key: Key) -> Option<bool> {
        let (config, speeds, others) = (AdaptiveConfig::default(), Speeds::typical(), Knowledge::default());
        let mut made = None;
        streams.of(key, |sibling| {
            made = Some(sibling.is_some());
            Stream::new(&config, &speeds, key.element, sibling, &others)
        });
        made
    }

    /// As many streams as may have states, of which all but number 7 were not used for long.
    fn idle_but_one() -> Streams {
        let mut streams = Streams::default();
        assert!((0..MOST).all(|id| meet(&mut streams, key(id)) == Some(false)));
        (0..=IDLE_USES).for_each(|_| assert_eq!(meet(&mut streams, key(7)), None));
        streams
    }

    #[test]
    fn streams_that_are_used_no_more_make_room_and_no_others_do() {
        let mut streams = idle_but_one();
        for id in 5000..7000 {
            meet(&mut streams, key(id));
            assert_eq!(meet(&mut streams, key(7)), None);
        }
        // All that were idle have made room; the last ones find all in use, and share.
        let own: Vec<u32> = (0..7000).filter(|&id| streams.own(key(id)).is_some()).collect();
        let expected: Vec<u32> = std::iter::once(7).chain(5000..5000 + MOST - 1).collect();
        assert_eq!(own, expected);
        assert_eq!((streams.owners.len(), streams.states.len()), (MOST_STREAMS, MOST_STREAMS + 1));
        assert_eq!((streams.places.len(), streams.siblings.len()), (MOST_STREAMS, MOST_STREAMS));
        // One that shares gets its own as soon as there is room.
        assert_eq!(meet(&mut streams, key(6999)), None);
        (0..=IDLE_USES).for_each(|_| assert_eq!(meet(&mut streams, key(7)), None));
        assert_eq!(meet(&mut streams, key(6999)), Some(false));
        assert!(streams.own(key(6999)).is_some());
    }

    #[test]
    fn streams_that_are_all_in_use_do_not_take_each_other_s_states() {
        let mut streams = Streams::default();
        for _ in 0..20 {
            for id in 0..2 * MOST {
                meet(&mut streams, key(id));
            }
        }
        assert!((0..MOST).all(|id| streams.own(key(id)).is_some()));
    }

    #[test]
    fn what_is_gone_is_found_nowhere() {
        let mut streams = idle_but_one();
        // It takes the place of the first, of which another peer's stream would have started.
        assert_eq!(meet(&mut streams, key(5000)), Some(false));
        assert!(streams.own(key(0)).is_none());
        assert_eq!(meet(&mut streams, Key { peer: 2, ..key(0) }), Some(false));
        assert_eq!(meet(&mut streams, Key { peer: 2, ..key(2) }), Some(true));
        // Where it comes back it starts anew, beside the one to the other peer.
        assert_eq!(meet(&mut streams, key(0)), Some(true));
        let places = [key(5000), key(0)].map(|key| streams.places[&key]);
        assert_ne!(places[0], places[1]);
    }
}
