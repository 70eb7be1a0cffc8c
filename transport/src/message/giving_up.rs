//! A tagged send for no receive: it says that an operation of several ranks is given up.
//!
//! ```text
//! bit 0 of the tag   1       24   25     48   56
//!     1              group   1    zero   ff   status
//! ```
//! It has no bytes. What other sends of the group's operations have as tags is up to the ranks, but for bits 0 to 24.

use super::{Status, Tag};

/// Bit 0 of a tag: it is a group's.
pub(crate) const GROUP_TAG: u64 = 1 << 63;
/// Where the number of the group lies, in the bits 1 to 23.
pub(crate) const GROUP_SHIFT: u32 = 40;
/// Groups that can be told apart.
pub(crate) const MOST_GROUPS: u32 = 1 << (63 - GROUP_SHIFT);
/// Bit 24: it is of an operation that all members take part in.
pub(crate) const OPERATION_TAG: u64 = 1 << (GROUP_SHIFT - 1);

const GIVEN_UP: u64 = 0xff00;

/// What such a send says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivingUp {
    /// The number of the group, less than 2²³.
    pub group: u32,
    /// Why; never good.
    pub status: Status,
}

impl GivingUp {
    pub(crate) const fn tag(self) -> Tag {
        let group = (self.group as u64) << GROUP_SHIFT;
        Tag(GROUP_TAG | group | OPERATION_TAG | GIVEN_UP | self.status.code() as u64)
    }

    /// What a send with this tag says, if it is one.
    pub(crate) fn of(tag: Tag) -> Option<Self> {
        let group = (tag.0 >> GROUP_SHIFT) as u32 % MOST_GROUPS;
        let status = Status::from_code(tag.0 as u8);
        let said = Self { group, status };
        (said.tag() == tag && !status.is_good()).then_some(said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_those_of_the_document() {
        let wire = include_str!("../../../WIRE.md");
        assert!(wire.contains("`800005800000ff0d`"));
        let said = GivingUp { group: 5, status: Status::Internal };
        assert_eq!(said.tag(), Tag(0x8000_0580_0000_ff0d));
        assert_eq!(GivingUp::of(said.tag()), Some(said));
        for other in [0, 1, 0x8000_0580_0000_ff00, 0x8000_0580_0000_fe0d, 0x8000_0580_0001_ff0d] {
            assert_eq!(GivingUp::of(Tag(other)), None, "{other:x}");
        }
        for without in [63, 39] {
            assert_eq!(GivingUp::of(Tag(said.tag().0 ^ 1 << without)), None);
        }
        let last = GivingUp { group: MOST_GROUPS - 1, status: Status::Unknown(200) };
        assert_eq!((last.tag(), GivingUp::of(last.tag())), (Tag(0xffff_ff80_0000_ffc8), Some(last)));
    }
}
