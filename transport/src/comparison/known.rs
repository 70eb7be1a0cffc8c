//! What is known of things of different kinds, as long as there are not too many kinds.

use std::collections::HashMap;
use std::hash::Hash;

/// Kinds that are known at most; what was not met for longest is forgotten.
const MOST_KNOWN: usize = 256;

/// By kind. Who meets the same kinds in the same order knows and forgets the same.
#[derive(Debug)]
pub(crate) struct Known<K, V> {
    /// With the number of the last one that was met of its kind.
    known: HashMap<K, (u64, V)>,
    met: u64,
}

impl<K: Copy + Eq + Hash, V: Default> Known<K, V> {
    /// One of this kind is met.
    pub(crate) fn meet(&mut self, kind: K) -> &mut V {
        self.met += 1;
        if self.known.len() >= MOST_KNOWN && !self.known.contains_key(&kind) {
            let oldest = self.known.iter().min_by_key(|(_, (last, _))| *last).map(|(&kind, _)| kind);
            oldest.and_then(|oldest| self.known.remove(&oldest));
        }
        let (last, value) = self.known.entry(kind).or_default();
        *last = self.met;
        value
    }

    /// What is known of a kind, without meeting one.
    pub(crate) fn get_mut(&mut self, kind: &K) -> Option<&mut V> {
        self.known.get_mut(kind).map(|(_, value)| value)
    }
}

impl<K, V> Default for Known<K, V> {
    fn default() -> Self {
        Self { known: HashMap::new(), met: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_met_for_longest_is_forgotten() {
        let mut known = Known::<(char, usize), u32>::default();
        for length in 0..MOST_KNOWN {
            *known.meet(('a', length)) = 7;
        }
        known.meet(('a', 0));
        assert_eq!(*known.meet(('b', 0)), 0);
        assert_eq!(known.known.len(), MOST_KNOWN);
        let mut is_known = |kind, length| known.get_mut(&(kind, length)).is_some();
        assert!(is_known('a', 0) && is_known('b', 0) && is_known('a', 2));
        assert!(!is_known('a', 1));
    }
}
