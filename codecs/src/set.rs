//! Sets of numbered things, as a hello announces them.

use std::fmt;
use std::marker::PhantomData;

/// Something with a number below 16 on the wire.
pub trait Numbered: Copy + fmt::Debug + 'static {
    /// All of them, in the order of their numbers.
    const ALL: &'static [Self];

    /// The number on the wire.
    fn number(self) -> u8;
}

/// A set of algorithms or elements: bit *n* stands for the one with number *n*.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NumberSet<T> {
    bits: u16,
    of: PhantomData<T>,
}

impl<T> NumberSet<T> {
    /// The set with these bits. Bits that nothing here stands for are kept, so that the set of a newer peer
    /// survives.
    #[must_use]
    pub const fn from_bits(bits: u16) -> Self {
        Self { bits, of: PhantomData }
    }

    /// The bits as they go on the wire.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.bits
    }

    /// What is in both sets.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self::from_bits(self.bits & other.bits)
    }

    /// What is in either set.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self::from_bits(self.bits | other.bits)
    }
}

impl<T: Numbered> NumberSet<T> {
    /// Everything that has a number in this version.
    #[must_use]
    pub fn all() -> Self {
        T::ALL.iter().copied().collect()
    }

    /// Whether the set holds `member`.
    #[must_use]
    pub fn contains(self, member: T) -> bool {
        self.bits >> member.number() & 1 == 1
    }

    /// The known members, in the order of their numbers.
    pub fn iter(self) -> impl Iterator<Item = T> {
        T::ALL.iter().copied().filter(move |&member| self.contains(member))
    }
}

impl<T> Default for NumberSet<T> {
    /// The empty set.
    fn default() -> Self {
        Self::from_bits(0)
    }
}

impl<T: Numbered> FromIterator<T> for NumberSet<T> {
    fn from_iter<I: IntoIterator<Item = T>>(members: I) -> Self {
        Self::from_bits(members.into_iter().fold(0, |bits, member| bits | 1 << member.number()))
    }
}

impl<T: Numbered> fmt::Debug for NumberSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use crate::{AlgorithmSet, Element, ElementSet};

    #[test]
    fn sets_hold_what_was_put_in() {
        let set: ElementSet = [Element::U8, Element::F8E5M2].into_iter().collect();
        assert_eq!(set.bits(), 0b10_0000_0001);
        assert!(set.contains(Element::U8) && set.contains(Element::F8E5M2) && !set.contains(Element::F32));
        assert_eq!(set.iter().collect::<Vec<_>>(), [Element::U8, Element::F8E5M2]);
        assert_eq!(ElementSet::all().bits(), 0x3ff);
        assert_eq!(ElementSet::default().iter().next(), None);
    }

    #[test]
    fn bits_without_a_meaning_survive() {
        let newer = AlgorithmSet::from_bits(0xf00f);
        assert_eq!(newer.bits(), 0xf00f);
        assert_eq!(newer.iter().count(), 4);
        assert_eq!(newer.intersection(AlgorithmSet::from_bits(0x8001)).bits(), 0x8001);
        assert_eq!(newer.union(AlgorithmSet::from_bits(0x0111)).bits(), 0xf11f);
    }
}
