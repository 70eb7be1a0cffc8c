//! How much a rank takes at once.

use super::Invalid;

/// The most requests that can be in flight in one direction: there are no more ids.
pub const MAX_IN_FLIGHT: u32 = 1 << 16;

/// The least that a rank must take at once: one request that waits for long, and one that finds out meanwhile
/// whether it is still there.
pub const MIN_IN_FLIGHT: u32 = 2;

/// What the sender of a hello takes; its peer must stay below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Raw bytes of the longest read, write, tagged send or fetch; at least 1.
    pub max_transfer_bytes: u32,
    /// Raw bytes of all unanswered reads, writes and fetches together, and once more of all unanswered tagged sends;
    /// at least 1. A longer request than this can never be made.
    pub window_bytes: u64,
    /// Unanswered requests of all kinds together, and once more unanswered offers; [`MIN_IN_FLIGHT`] to
    /// [`MAX_IN_FLIGHT`].
    pub max_in_flight: u32,
}

impl Limits {
    /// Whether a session can work with these.
    ///
    /// # Errors
    /// [`Invalid`] naming the first limit that is out of range.
    pub const fn check(&self) -> Result<(), Invalid> {
        if self.max_transfer_bytes == 0 {
            return Err(Invalid::MaxTransfer);
        }
        if self.window_bytes == 0 {
            return Err(Invalid::Window);
        }
        if self.max_in_flight < MIN_IN_FLIGHT || self.max_in_flight > MAX_IN_FLIGHT {
            return Err(Invalid::InFlight { got: self.max_in_flight });
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Limits that [`Limits::check`] lets pass.
    pub(crate) fn any_limits() -> impl Strategy<Value = Limits> {
        (1..=u32::MAX, 1..=u64::MAX, MIN_IN_FLIGHT..=MAX_IN_FLIGHT).prop_map(
            |(max_transfer_bytes, window_bytes, max_in_flight)| Limits {
                max_transfer_bytes,
                window_bytes,
                max_in_flight,
            },
        )
    }

    #[test]
    fn each_limit_has_its_range() {
        let least = Limits { max_transfer_bytes: 1, window_bytes: 1, max_in_flight: 2 };
        assert_eq!(least.check(), Ok(()));
        assert_eq!(Limits { max_in_flight: 65_536, ..least }.check(), Ok(()));
        assert_eq!(Limits { max_transfer_bytes: 0, ..least }.check(), Err(Invalid::MaxTransfer));
        assert_eq!(Limits { window_bytes: 0, ..least }.check(), Err(Invalid::Window));
        for got in [0, 1, 65_537, u32::MAX] {
            assert_eq!(Limits { max_in_flight: got, ..least }.check(), Err(Invalid::InFlight { got }));
        }
    }
}
