//! How many connections two ranks have.

use std::fmt;
use std::str::FromStr;

/// The most there may be.
const MOST: u8 = 16;

/// A number of TCP connections with a peer: 1 to 16.
///
/// One is enough where a connection gets all that the network has. Several help where each is kept to a part of it: by a
/// provider, by the one path of many that all its packets take, or by how much may be on the way at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connections(u8);

impl Connections {
    /// A single one.
    pub const ONE: Self = Self(1);
    /// The most that two ranks may have.
    pub const MOST: Self = Self(MOST);

    /// As many as `count`.
    ///
    /// # Errors
    /// [`ConnectionsError`] if there cannot be as many.
    pub const fn try_new(count: u32) -> Result<Self, ConnectionsError> {
        if count == 0 || count > MOST as u32 { Err(ConnectionsError) } else { Ok(Self(count as u8)) }
    }

    /// How many they are.
    #[must_use]
    pub const fn count(self) -> usize {
        self.0 as usize
    }
}

impl Default for Connections {
    fn default() -> Self {
        Self::ONE
    }
}

impl FromStr for Connections {
    type Err = ConnectionsError;

    fn from_str(text: &str) -> Result<Self, ConnectionsError> {
        text.parse().map_err(|_| ConnectionsError).and_then(Self::try_new)
    }
}

impl fmt::Display for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A number of connections that there cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a number from 1 to {MOST}")]
pub struct ConnectionsError;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_from_1_to_16_are_possible() {
        for count in 1..=16 {
            let connections: Connections = count.to_string().parse().unwrap();
            assert_eq!((connections.count(), Connections::try_new(count)), (count as usize, Ok(connections)));
        }
        for text in ["", "0", "17", "272", "-1", "4294967297", "two"] {
            let error = text.parse::<Connections>().unwrap_err().to_string();
            assert_eq!(error, "not a number from 1 to 16", "{text:?}");
        }
        assert_eq!((Connections::default(), Connections::MOST.count()), (Connections::ONE, 16));
    }
}
