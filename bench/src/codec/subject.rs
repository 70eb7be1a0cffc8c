//! What a row is about: one of our codecs or a library.

use std::fmt;
use std::str::FromStr;

use mgcomp_codecs::{Algorithm, Element, codecs};

use crate::baseline::Library;

/// One of our codecs, or a library to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Codec(Algorithm),
    Library(Library),
}

impl Subject {
    /// Every codec of this version in the order of its number, then the libraries.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        codecs().map(|codec| Self::Codec(codec.algorithm())).chain(Library::ALL.map(Self::Library))
    }

    /// The one spelling used in flags, tables and JSON.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Codec(algorithm) => algorithm.name(),
            Self::Library(library) => library.name(),
        }
    }

    /// Whether data of `element` is what this is for. Libraries stand beside every codec.
    pub(super) fn is_at_home(self, element: Element) -> bool {
        match self {
            Self::Codec(algorithm) => home(algorithm) == element,
            Self::Library(_) => codecs().any(|codec| home(codec.algorithm()) == element),
        }
    }
}

/// The element whose sample shows what an algorithm is for: indices, dense weights, or a sparse map.
pub(crate) const fn home(algorithm: Algorithm) -> Element {
    match algorithm {
        Algorithm::Bdi | Algorithm::Bpc | Algorithm::Int => Element::U32,
        Algorithm::Ibp | Algorithm::Xp => Element::Bf16,
        _ => Element::F32,
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no [`Subject`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown algorithm {0:?}")]
pub(super) struct UnknownSubject(String);

impl FromStr for Subject {
    type Err = UnknownSubject;

    fn from_str(name: &str) -> Result<Self, UnknownSubject> {
        Self::all().find(|subject| subject.name() == name).ok_or_else(|| UnknownSubject(name.to_owned()))
    }
}
