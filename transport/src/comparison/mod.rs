//! Whether something as a whole takes less time where the policy compresses what is sent for it.
//!
//! A policy knows the link and the codecs, not what else a transfer or a collective waits for: that ranks share cores, that a peer
//! decodes before it sends what comes next, or that links have saved up room for what is short. So now and then some go raw, and the
//! times of the whole tell which way is better for those of the same kind and about the same length, until they are compared again.
//! Only policies that go by predicted times are overruled, and what they do to learn something is left alone.
//!
//! * **No period**: of four in a row the first or the third is raw, and the second or the fourth, by chance, and of the next four the others. So what
//!   changes in turn, be it data or policy, or becomes warm, is not mistaken for a difference.
//! * **At the same time**: messages both ways take as long as the one that goes raw, for answers wait behind it. So ranks that judge by
//!   themselves mostly begin at the same numbers, and which one of four is raw is by its number alone: where both are at the same one, as
//!   in an exchange, both go the same way. Ranks that are not, as where one has bursts of more, see less of what compression gains.
//! * **Judged** by eight of each way, by the mean of all but the slowest quarter, which something else has disturbed. They go raw
//!   where compression takes a twentieth longer. What is clear is found sooner: by four of each where one way takes 1.15 times as
//!   long, and that compression pays by two, where the fastest raw one takes 1.5 times as long as the slowest other, or 1.15 times and
//!   more than 10 ms. Where one rank judges by itself, what is found of four and more has to be more than chance, too, and if that is all that is
//!   missing there are up to 32 of each, unless they take more than 50 ms. What makes no difference stays as it was.
//! * **Seldom**: where compression pays, the next comparison is after about eight times as many. Where there was nothing to compare ranks ask each
//!   other ever more seldom; one that judges by itself compares with the next eight once there is something, and soon again where it has found for the first
//!   time that compression pays. Those that are expected to take more than 50 ms raw are not compared: there codecs and link count for most, and a few raw ones would be felt. Up to 200 ms are, where that
//!   is not half as long again as now, and the links alone do not clearly take longer for raw bytes. Nor are those of less than 16 KiB.
//! * **Data that becomes another** is seen even so where the policy is asked all the same: where it expects a quarter less for some
//!   time than when compression was found slower, and a twentieth of the raw bytes less, this rank goes its way again. So it does where they
//!   have become long.

mod contest;
mod course;
mod expected;
mod known;
mod report;

pub(crate) use self::course::{Course, LONGEST_UNFELT, Raw, Way};
pub(crate) use self::expected::{Expected, LONG_BYTES};
pub(crate) use self::known::Known;
pub use self::report::REPORT_LEN;
pub(crate) use self::report::Report;

/// What is shorter is not worth the looks at the clock.
pub(crate) const LEAST_BYTES: u64 = 16 << 10;

/// What is about as long has the same one of these: each power of two up to the next has four.
pub(crate) fn length_class(bytes: u64) -> u32 {
    let power = bytes.max(4).ilog2();
    let quarter = (bytes >> (power - 2) & 3) as u32;
    4 * power + quarter
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_within_a_quarter_of_a_power_of_two_are_one() {
        let is_one = |bytes, other| length_class(bytes) == length_class(other);
        for (first, last) in
            [(16_384, 20_479), (20_480, 24_575), (24_576, 28_671), (28_672, 32_767), (32_768, 40_959)]
        {
            assert!(is_one(first, last) && !is_one(first - 1, first) && !is_one(last, last + 1));
        }
        assert!(is_one(u64::MAX, u64::MAX - 1));
    }
}
