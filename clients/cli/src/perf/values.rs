//! What the bytes of a buffer are: numbers to compute with, or small floats that are only moved.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use mgcomp_codecs::Element;
use mgcomp_transport::communicator::Datatype;

/// The type of the values in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Values {
    /// Reductions can compute with them.
    Numbers(Datatype),
    /// A codec knows them, but no reduction does.
    Opaque(Element),
}

impl Values {
    /// Every type, numbers first.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let opaque = Element::ALL.into_iter().filter(|element| named(element.name()).is_none());
        Datatype::ALL.into_iter().map(Self::Numbers).chain(opaque.map(Self::Opaque))
    }

    /// What codecs take them for.
    pub(super) fn element(self) -> Element {
        match self {
            Self::Numbers(datatype) => datatype.element(),
            Self::Opaque(element) => element,
        }
    }

    pub(super) fn width_bytes(self) -> usize {
        self.element().width_bytes()
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Numbers(datatype) => datatype.name(),
            Self::Opaque(element) => element.name(),
        }
    }

    /// The type that a name like `x.f32.bin` tells; bytes where it tells none.
    pub(super) fn of_file(path: &Path) -> Self {
        crate::input::type_suffix(path).parse().unwrap_or(Self::Numbers(Datatype::U8))
    }
}

fn named(name: &str) -> Option<Datatype> {
    Datatype::ALL.into_iter().find(|datatype| datatype.name() == name)
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no type of values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown element {name:?}; known:{known}", known = Values::all().map(|v| format!(" {v}")).collect::<String>())]
pub(super) struct UnknownValues {
    name: String,
}

impl FromStr for Values {
    type Err = UnknownValues;

    fn from_str(name: &str) -> Result<Self, UnknownValues> {
        Self::all()
            .find(|values| values.name() == name)
            .ok_or_else(|| UnknownValues { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read() {
        assert_eq!("i32".parse(), Ok(Values::Numbers(Datatype::I32)));
        assert_eq!("bf16".parse(), Ok(Values::Numbers(Datatype::Bf16)));
        assert_eq!("f8e4m3".parse(), Ok(Values::Opaque(Element::F8E4M3)));
        assert_eq!(Values::all().count(), 14);
        let error = "float".parse::<Values>().unwrap_err().to_string();
        assert!(error.starts_with("unknown element \"float\"; known: i8 i16") && error.ends_with("f8e5m2"));
    }

    #[test]
    fn files_tell_by_their_names() {
        assert_eq!(Values::of_file(Path::new("d/x.i64.bin")), Values::Numbers(Datatype::I64));
        assert_eq!(Values::of_file(Path::new("x.bin")), Values::Numbers(Datatype::U8));
    }
}
