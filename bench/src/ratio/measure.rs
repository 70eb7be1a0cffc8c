//! One figure: one file under one codec.

use mgcomp_codecs::frame::{self, Frame, FrameError, Options};
use mgcomp_codecs::{Codec, paper_bits};
use serde::Serialize;

use super::any::Any;
use crate::data::Item;
use crate::error::BenchError;

/// What one codec makes of one file. The keys of `--json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Row<'a> {
    pub(super) file: &'a str,
    pub(super) element: &'static str,
    pub(super) algorithm: &'static str,
    pub(super) raw_bytes: u64,
    /// The whole frame.
    pub(super) coded_bytes: u64,
    /// Sum of the line sizes of Table II; none for codecs that do not work on lines.
    pub(super) paper_bits: Option<u64>,
}

/// Codes `raw`, the content of `item`, and checks that it comes back; takes its chunks into account in `any`.
pub(super) fn measure<'a>(
    item: &'a Item,
    codec: &dyn Codec,
    raw: &[u8],
    any: &mut Any,
) -> Result<Row<'a>, BenchError> {
    let algorithm = codec.algorithm().name();
    let failed = |source| BenchError::Frame { path: item.path.clone(), algorithm, source };
    let coded = frame::encode(codec, item.element, raw, Options::for_len(raw.len())).map_err(failed)?;
    if let Some(offset) = first_difference(&coded, raw).map_err(failed)? {
        return Err(BenchError::RoundTrip { path: item.path.clone(), algorithm, offset });
    }
    any.add(&Frame::parse(&coded).map_err(failed)?);
    Ok(Row {
        file: &item.label,
        element: item.element.name(),
        algorithm,
        raw_bytes: raw.len() as u64,
        coded_bytes: coded.len() as u64,
        paper_bits: paper_bits(codec.algorithm(), raw),
    })
}

/// Where the raw bytes of the frame `coded` first differ from `raw`.
fn first_difference(coded: &[u8], raw: &[u8]) -> Result<Option<usize>, FrameError> {
    let mut decoded = vec![0; raw.len()];
    Frame::parse(coded)?.decode_into(&mut decoded)?;
    if decoded == raw {
        return Ok(None);
    }
    Ok(decoded.iter().zip(raw).position(|(decoded, raw)| decoded != raw))
}

#[cfg(test)]
mod tests {
    use mgcomp_codecs::{Algorithm, ChunkError, Element, codec};

    use super::*;

    /// Claims that everything is zero.
    struct Forgetful;

    impl Codec for Forgetful {
        fn algorithm(&self) -> Algorithm {
            Algorithm::Zvc
        }

        fn max_chunk_len(&self, element: Element, raw_len: usize) -> usize {
            codec(Algorithm::Zvc).unwrap().max_chunk_len(element, raw_len)
        }

        fn encode_chunk(&self, element: Element, raw: &[u8], coded: &mut [u8]) -> usize {
            codec(Algorithm::Zvc).unwrap().encode_chunk(element, &vec![0; raw.len()], coded)
        }

        fn chunk_len(&self, element: Element, raw: &[u8]) -> usize {
            codec(Algorithm::Zvc).unwrap().chunk_len(element, &vec![0; raw.len()])
        }

        fn decode_chunk(&self, _: Element, _: &[u8], _: &mut [u8]) -> Result<(), ChunkError> {
            unreachable!("frames are decoded by the codec that their header names")
        }
    }

    #[test]
    fn a_codec_that_loses_bytes_gets_no_figure() {
        let item = Item { label: "x".into(), path: "x".into(), element: Element::U8, kind: None };
        let raw = [9; 5000];
        assert!(measure(&item, codec(Algorithm::Zvc).unwrap(), &raw, &mut Any::default()).is_ok());
        // The checksum, which is that of the bytes given to the codec, tells first.
        assert!(matches!(
            measure(&item, &Forgetful, &raw, &mut Any::default()),
            Err(BenchError::Frame { .. })
        ));
    }

    #[test]
    fn the_first_difference_is_found() {
        let raw = [1u8, 2, 3, 4, 5, 6, 7, 8].repeat(100);
        let options = Options::for_len(raw.len());
        let coded = frame::encode(codec(Algorithm::Bdi).unwrap(), Element::U8, &raw, options).unwrap();
        assert_eq!(first_difference(&coded, &raw).unwrap(), None);
        let mut other = raw.clone();
        other[333] ^= 1;
        assert_eq!(first_difference(&coded, &other).unwrap(), Some(333));
        assert!(first_difference(&coded, &raw[1..]).is_err());
    }
}
