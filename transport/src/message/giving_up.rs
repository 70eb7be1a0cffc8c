//! A tagged send for no receive: it says that an operation of several ranks is given up.
//!
//! ```text
//! bit 0 of the tag   1       24   25          48   56
//!     1              group   1    operation   ff   status
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
/// Where the number of the operation lies, in the bits 25 to 47.
const OPERATION_SHIFT: u32 = 16;
/// Numbers of operations begin anew after as many.
const MOST_OPERATIONS: u32 = 1 << (GROUP_SHIFT - 1 - OPERATION_SHIFT);

const GIVEN_UP: u64 = 0xff00;

/// What such a send says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivingUp {
    /// The number of the group, less than 2²³.
    pub group: u32,
    /// The first operation that is given up.
    pub operation: OperationId,
    /// Why; never good.
    pub status: Status,
}

/// The number of an operation of a group: the members count those that they carry out together, from 0, modulo 2²³.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperationId(u32);

impl OperationId {
    pub(crate) const fn next(self) -> Self {
        Self((self.0 + 1) % MOST_OPERATIONS)
    }

    /// Whether it is `other`, or one behind that.
    pub(crate) const fn is_from(self, other: Self) -> bool {
        self.0.wrapping_sub(other.0) % MOST_OPERATIONS < MOST_OPERATIONS / 2
    }
}

impl GivingUp {
    pub(crate) const fn tag(self) -> Tag {
        let (group, operation) = (self.group as u64, self.operation.0 as u64);
        let of_operation = group << GROUP_SHIFT | OPERATION_TAG | operation << OPERATION_SHIFT;
        Tag(GROUP_TAG | of_operation | GIVEN_UP | self.status.code() as u64)
    }

    /// The group of whose operations what is sent with this tag is; none of what says that they are given up.
    pub(crate) fn operation_of(tag: Tag) -> Option<u32> {
        (Self::is_of_group(tag) && Self::of(tag).is_none()).then_some(group_of(tag))
    }

    /// Whether what is sent with this tag is of an operation of a group, or says that it is given up.
    pub(crate) fn is_of_group(tag: Tag) -> bool {
        tag.0 & (GROUP_TAG | OPERATION_TAG) == GROUP_TAG | OPERATION_TAG
    }

    /// What a send with this tag says, if it is one.
    pub(crate) fn of(tag: Tag) -> Option<Self> {
        let operation = OperationId((tag.0 >> OPERATION_SHIFT) as u32 % MOST_OPERATIONS);
        let said = Self { group: group_of(tag), operation, status: Status::from_code(tag.0 as u8) };
        (said.tag() == tag && !said.status.is_good()).then_some(said)
    }
}

/// The number of a group, where the tag has one.
const fn group_of(tag: Tag) -> u32 {
    (tag.0 >> GROUP_SHIFT) as u32 % MOST_GROUPS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_those_of_the_document() {
        let wire = include_str!("../../../WIRE.md");
        assert!(wire.contains("`800005800003ff0d`"));
        let said = GivingUp { group: 5, operation: OperationId(3), status: Status::Internal };
        assert_eq!(said.tag(), Tag(0x8000_0580_0003_ff0d));
        assert_eq!(GivingUp::of(said.tag()), Some(said));
        for other in [0, 1, 0x8000_0580_0003_ff00, 0x8000_0580_0003_fe0d, 0x8000_0580_0003_000d] {
            assert_eq!(GivingUp::of(Tag(other)), None, "{other:x}");
        }
        for without in [63, 39] {
            assert_eq!(GivingUp::of(Tag(said.tag().0 ^ 1 << without)), None);
        }
        let operation = OperationId(MOST_OPERATIONS - 1);
        let last = GivingUp { group: MOST_GROUPS - 1, operation, status: Status::Unknown(200) };
        assert_eq!((last.tag(), GivingUp::of(last.tag())), (Tag(0xffff_ffff_ffff_ffc8), Some(last)));
    }

    #[test]
    fn other_tags_of_operations_are_told_by_three_bits_and_the_number() {
        let operation = 0x8000_0580_0000_0003;
        assert_eq!(GivingUp::operation_of(Tag(operation)), Some(5));
        assert_eq!(GivingUp::operation_of(Tag(u64::MAX - 0xff)), Some(MOST_GROUPS - 1));
        for without in [63, 39] {
            assert_eq!(
                GivingUp::operation_of(Tag(operation ^ 1 << without)),
                None,
                "a program's, or a message"
            );
        }
        assert_eq!(GivingUp::operation_of(Tag(0x8000_0580_0003_ff0d)), None, "the end of operations");
    }

    #[test]
    fn operations_are_in_order_also_where_numbers_begin_anew() {
        let (first, last) = (OperationId(0), OperationId((1 << 23) - 1));
        assert_eq!((last.next(), first.next()), (first, OperationId(1)));
        for (earlier, later) in
            [(first, OperationId(1)), (last, first), (OperationId(7), OperationId(1 << 22))]
        {
            assert!(later.is_from(earlier) && earlier.is_from(earlier) && !earlier.is_from(later));
        }
    }
}
