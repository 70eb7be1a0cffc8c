//! What the demo exchanges.

use std::borrow::Cow;

use mgcomp_codecs::Element;

use super::Setup;
use crate::error::CliError;
use crate::input;
use crate::progress::Progress;
use crate::samples::SAMPLES;

/// One tensor.
#[derive(Clone, Debug)]
pub(super) struct Dataset {
    pub(super) name: String,
    pub(super) element: Element,
    pub(super) bytes: Cow<'static, [u8]>,
}

impl Dataset {
    /// The tensor of one rank: the data set turned by a whole number of lines, so that no two ranks have the
    /// same bytes in the same place.
    pub(super) fn of_rank(&self, rank: u32, ranks: u32) -> Vec<u8> {
        let turn = (self.bytes.len() as u64 * u64::from(rank) / u64::from(ranks)) as usize;
        let mut bytes = self.bytes.to_vec();
        bytes.rotate_left(turn / 64 * 64);
        bytes
    }
}

/// The files that were named, or else the samples.
pub(super) fn load(setup: &Setup, progress: &mut Progress) -> Result<Vec<Dataset>, CliError> {
    if setup.data.is_empty() {
        let sample = |s: &crate::samples::Sample| Dataset {
            name: s.name.to_owned(),
            element: s.element,
            bytes: s.bytes.into(),
        };
        return Ok(SAMPLES.iter().map(sample).collect());
    }
    let element = setup.element.as_deref().and_then(|name| name.parse().ok());
    let file = |path: &std::path::PathBuf| {
        Ok(Dataset {
            name: path.file_name().map_or_else(|| input::name(path), |name| name.to_string_lossy().into()),
            element: element.unwrap_or_else(|| input::element_of_name(path)),
            bytes: input::read_raw(path, progress)?.into(),
        })
    };
    setup.data.iter().map(file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_have_the_same_lines_in_different_places() {
        let bytes: Vec<u8> = (0..4).flat_map(|line| [line; 64]).collect();
        let set = Dataset { name: "x".into(), element: Element::U8, bytes: bytes.clone().into() };
        assert_eq!(set.of_rank(0, 4), bytes);
        assert_eq!(set.of_rank(1, 4), [&bytes[64..], &bytes[..64]].concat());
        assert_eq!(set.of_rank(3, 4)[..64], [3; 64]);
    }
}
