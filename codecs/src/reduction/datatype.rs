//! What reductions compute on.

use std::fmt;

use crate::Element;

/// The type of the numbers in a buffer, little-endian.
///
/// Unlike an [`Element`], which only helps codecs, it decides what a reduction computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Datatype {
    /// Signed, 8 bits.
    I8,
    /// Signed, 16 bits.
    I16,
    /// Signed, 32 bits.
    I32,
    /// Signed, 64 bits.
    I64,
    /// Unsigned, 8 bits.
    U8,
    /// Unsigned, 16 bits.
    U16,
    /// Unsigned, 32 bits.
    U32,
    /// Unsigned, 64 bits.
    U64,
    /// IEEE half precision.
    F16,
    /// bfloat16.
    Bf16,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
}

impl Datatype {
    /// Every datatype.
    pub const ALL: [Self; 12] = [
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::F16,
        Self::Bf16,
        Self::F32,
        Self::F64,
    ];

    /// Width of a number in bytes.
    #[must_use]
    pub const fn width_bytes(self) -> usize {
        self.element().width_bytes()
    }

    /// Whether numbers are integers with a sign.
    #[must_use]
    pub const fn is_signed(self) -> bool {
        matches!(self, Self::I8 | Self::I16 | Self::I32 | Self::I64)
    }

    /// What codecs take the numbers for.
    #[must_use]
    pub const fn element(self) -> Element {
        match self {
            Self::I8 | Self::U8 => Element::U8,
            Self::I16 | Self::U16 => Element::U16,
            Self::I32 | Self::U32 => Element::U32,
            Self::I64 | Self::U64 => Element::U64,
            Self::F16 => Element::F16,
            Self::Bf16 => Element::Bf16,
            Self::F32 => Element::F32,
            Self::F64 => Element::F64,
        }
    }

    /// The one spelling used in flags and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::F32 => "f32",
            Self::F64 => "f64",
        }
    }
}

impl fmt::Display for Datatype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
