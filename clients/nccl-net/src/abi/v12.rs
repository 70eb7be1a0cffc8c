//! Version 12: NCCL 2.30 and later. As version 11, but devices lie on rails and planes, and more of them join to one.

use std::ffi::c_int;

use super::{Facts, UNDEFINED, v10, v11};

/// Devices that may join to one.
pub const MAX_DEVICES: usize = 8;

/// The table of this version.
pub type Net = v11::Table<Properties>;

/// What is known of a device.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Properties {
    /// What version 10 knows, with more devices to join.
    pub known: v10::Described<MAX_DEVICES>,
    /// Requests that one may stand for.
    pub max_multi_request_size: c_int,
    /// The rail that it lies on.
    pub rail: i16,
    /// The plane.
    pub plane: i16,
}

impl From<Facts> for Properties {
    fn from(facts: Facts) -> Self {
        let nowhere = UNDEFINED as i16;
        Self { known: facts.into(), max_multi_request_size: 1, rail: nowhere, plane: nowhere }
    }
}

/// What NCCL looks for.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "NCCL says what it is called")]
pub static ncclNetPlugin_v12: Net = v11::table();
