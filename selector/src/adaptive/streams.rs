//! Finding the state of a stream, mostly without a search.

use std::collections::HashMap;

use mgcomp_codecs::Element;

use super::stream::Stream;

/// Streams that have a state of their own.
const MOST_STREAMS: usize = 1024;
/// Places for streams that were asked for lately.
const RECENT: usize = 64;

/// A stream to a peer, and the element of its transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) peer: u32,
    pub(super) stream: u32,
    pub(super) element: Element,
}

/// The states of all streams.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    states: Vec<Stream>,
    places: HashMap<Key, usize>,
    /// By stream and element: the state of the last one that was met, whatever its peer.
    siblings: HashMap<(u32, Element), usize>,
    /// By element: the state that late streams share.
    late: HashMap<Element, usize>,
    recent: [Option<(Key, usize)>; RECENT],
}

impl Default for Streams {
    fn default() -> Self {
        Self {
            states: Vec::new(),
            places: HashMap::new(),
            siblings: HashMap::new(),
            late: HashMap::new(),
            recent: [None; RECENT],
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
        let slot = slot(key);
        let at = match self.recent[slot] {
            Some((recent, at)) if recent == key => at,
            _ => {
                let at = self.place(key, make);
                self.recent[slot] = Some((key, at));
                at
            }
        };
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
        let Self { states, places, siblings, late, .. } = self;
        if let Some(&at) = places.get(&key) {
            return at;
        }
        let sibling = siblings.get(&(key.stream, key.element)).copied();
        let add = || {
            let state = make(sibling.map(|at| &states[at]));
            states.push(state);
            states.len() - 1
        };
        if places.len() < MOST_STREAMS {
            let at = add();
            places.insert(key, at);
            siblings.insert((key.stream, key.element), at);
            at
        } else {
            *late.entry(key.element).or_insert_with(add)
        }
    }
}

fn slot(Key { peer, stream, element }: Key) -> usize {
    let mixed =
        peer.wrapping_mul(0x9e37_79b1) ^ stream.wrapping_mul(0x85eb_ca77) ^ u32::from(element.number()) << 29;
    (mixed >> 26) as usize % RECENT
}
