//! Which CUDA devices the ranks of a command have their buffers on.

use std::fmt;
use std::str::FromStr;

use mgcomp_codecs::device::{Cache, Device, DeviceError, devices};

/// The devices of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Devices {
    /// All that there are: rank r has the device with number r, and where there are fewer, they begin again.
    All,
    /// All ranks have the one with this number.
    One(u32),
}

/// What a rank has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seat {
    /// The number of the device.
    pub(crate) ordinal: u32,
    /// How many ranks before it have the same one.
    pub(crate) turn: u32,
}

impl Devices {
    /// What `rank` has here.
    pub(crate) fn seat(self, rank: u32) -> Result<Seat, DeviceError> {
        let count = devices()?.len() as u32;
        self.seat_among(count, rank)
    }

    fn seat_among(self, count: u32, rank: u32) -> Result<Seat, DeviceError> {
        match self {
            Self::All if count > 0 => Ok(Seat { ordinal: rank % count, turn: rank / count }),
            Self::All => Err(DeviceError::NoDevice { ordinal: 0, count }),
            Self::One(ordinal) if ordinal < count => Ok(Seat { ordinal, turn: rank }),
            Self::One(ordinal) => Err(DeviceError::NoDevice { ordinal, count }),
        }
    }

    /// What the device of the first rank is called.
    pub(crate) fn name(self) -> Result<String, DeviceError> {
        let mut devices = devices()?;
        let ordinal = self.seat_among(devices.len() as u32, 0)?.ordinal;
        Ok(devices.swap_remove(ordinal as usize).name)
    }

    /// The device of `rank`.
    pub(crate) fn open(self, rank: u32) -> Result<Device, DeviceError> {
        Device::open(self.seat(rank)?.ordinal)
    }

    /// The device of `rank`, which is another one than those of all other ranks of this process: a context of its own
    /// where they share a device.
    pub(crate) fn open_apart(self, rank: u32) -> Result<Device, DeviceError> {
        match self.seat(rank)? {
            Seat { ordinal, turn: 0 } => Device::open(ordinal),
            Seat { ordinal, .. } => Device::open_apart(ordinal, Cache::Default),
        }
    }
}

impl fmt::Display for Devices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("cuda"),
            Self::One(ordinal) => write!(f, "cuda:{ordinal}"),
        }
    }
}

/// A text that names no devices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no device: it is cuda for all that there are, or one of them by its number, as in cuda:0")]
pub(crate) struct UnknownDevices(String);

impl FromStr for Devices {
    type Err = UnknownDevices;

    fn from_str(text: &str) -> Result<Self, UnknownDevices> {
        let unknown = || UnknownDevices(text.to_owned());
        match text.strip_prefix("cuda").ok_or_else(unknown)?.strip_prefix(':') {
            None if text == "cuda" => Ok(Self::All),
            Some(number) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                number.parse().map(Self::One).map_err(|_| unknown())
            }
            _ => Err(unknown()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written() {
        for (text, devices) in
            [("cuda", Devices::All), ("cuda:0", Devices::One(0)), ("cuda:17", Devices::One(17))]
        {
            assert_eq!((text.parse(), devices.to_string()), (Ok(devices), text.to_owned()));
        }
        for text in ["", "cuda:", "cuda:-1", "cuda:+1", "cuda0", "cuda:1x", "CUDA", "gpu", "cuda:99999999999"]
        {
            assert_eq!(text.parse::<Devices>(), Err(UnknownDevices(text.into())));
        }
    }

    #[test]
    fn ranks_have_devices_in_turn() {
        let seats = |devices: Devices| [0, 1, 2, 3].map(|rank| devices.seat_among(2, rank).unwrap());
        let seat = |(ordinal, turn)| Seat { ordinal, turn };
        assert_eq!(seats(Devices::All), [(0, 0), (1, 0), (0, 1), (1, 1)].map(seat));
        assert_eq!(seats(Devices::One(1)), [(1, 0), (1, 1), (1, 2), (1, 3)].map(seat));
        let missing = |ordinal, count| Err(DeviceError::NoDevice { ordinal, count });
        assert_eq!(Devices::One(2).seat_among(2, 0), missing(2, 2));
        assert_eq!(Devices::All.seat_among(0, 0), missing(0, 0));
    }
}
