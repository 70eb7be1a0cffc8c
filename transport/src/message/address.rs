//! The 48-bit address of a byte in a peer's memory.
//!
//! ```text
//! bit 0          15 16                     47
//!     region number  offset in bytes
//! ```

use std::fmt;

/// A byte of a region that a rank has registered.
///
/// Addresses are linear: a region over 4 GiB takes consecutive numbers, so the byte after
/// offset 2³² − 1 of one number is offset 0 of the next, and `address + n` is the address `n` bytes on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address(u64);

impl Address {
    /// Bits of an address on the wire.
    pub const BITS: u32 = 48;

    /// The byte `offset` of region number `region`.
    #[must_use]
    pub const fn new(region: u16, offset: u32) -> Self {
        Self((region as u64) << 32 | offset as u64)
    }

    /// The address with these bits, or `None` where they are more than 48.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Option<Self> {
        if bits >> Self::BITS == 0 { Some(Self(bits)) } else { None }
    }

    /// The address in a 48-bit field.
    pub(super) const fn from_field(bits: u128) -> Self {
        debug_assert!(bits >> Self::BITS == 0);
        Self(bits as u64)
    }

    /// The bits as they go on the wire, in the lower 48.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The region number.
    #[must_use]
    pub const fn region(self) -> u16 {
        (self.0 >> 32) as u16
    }

    /// The offset in bytes from where the region number starts.
    #[must_use]
    pub const fn offset(self) -> u32 {
        self.0 as u32
    }

    /// The address `bytes` bytes on, or `None` where that is behind the last address.
    #[must_use]
    pub fn checked_add(self, bytes: u64) -> Option<Self> {
        self.0.checked_add(bytes).and_then(Self::from_bits)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:#x}", self.region(), self.offset())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Any address, the corners more often than by chance.
    pub(crate) fn any_address() -> impl Strategy<Value = Address> {
        let offset = prop_oneof![Just(0), Just(u32::MAX), any::<u32>()];
        let region = prop_oneof![Just(0), Just(u16::MAX), any::<u16>()];
        (region, offset).prop_map(|(region, offset)| Address::new(region, offset))
    }

    #[test]
    fn the_last_offset_is_followed_by_the_next_region_number() {
        let last = Address::new(3, u32::MAX);
        assert_eq!(last.checked_add(1), Some(Address::new(4, 0)));
        assert_eq!(Address::new(3, 5).checked_add(2 << 32), Some(Address::new(5, 5)));
        assert_eq!(last.bits(), 0x0003_ffff_ffff);
        assert_eq!((last.region(), last.offset()), (3, u32::MAX));
    }

    #[test]
    fn nothing_lies_behind_48_bits() {
        let last = Address::new(u16::MAX, u32::MAX);
        assert_eq!(last.checked_add(0), Some(last));
        assert_eq!(last.checked_add(1), None);
        assert_eq!(last.checked_add(u64::MAX), None);
        assert_eq!(Address::from_bits((1 << 48) - 1), Some(last));
        assert_eq!(Address::from_bits(1 << 48), None);
    }

    #[test]
    fn text_names_region_and_offset() {
        assert_eq!(Address::new(3, 0x1000).to_string(), "3:0x1000");
    }
}
