//! One chunk through every instruction set of this machine, each held to what portable code does.

use super::fence::{Fenced, Place};
use mgcomp_codecs::{Algorithm, ChunkError, Codec, Cpu, Element, codec_on};

/// The most raw bytes that a comparison takes.
pub(crate) const MAX_RAW_LEN: usize = 1 << 16;

/// Where the two buffers of a comparison lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) raw: Place,
    pub(crate) coded: Place,
}

impl Places {
    pub(crate) const END: Self = Self { raw: Place::End, coded: Place::End };
}

/// The buffers that comparisons work in: an access outside of one ends the process, or is found in the bytes
/// around it.
pub(crate) struct BackEnds {
    raw: Fenced,
    coded: Fenced,
}

impl BackEnds {
    pub(crate) fn new() -> Self {
        Self { raw: Fenced::new(2 * MAX_RAW_LEN), coded: Fenced::new(4 * MAX_RAW_LEN) }
    }

    /// The code of `raw`, the same from every instruction set, and as long as each of them says beforehand.
    #[track_caller]
    pub(crate) fn encode(
        &mut self,
        algorithm: Algorithm,
        element: Element,
        raw: &[u8],
        places: Places,
        what: &str,
    ) -> Vec<u8> {
        let held = self.raw.hold(places.raw, raw);
        let mut expected: Option<Vec<u8>> = None;
        for (i, (cpu, codec)) in on_every_cpu(algorithm).enumerate() {
            let label = format!("{algorithm} {} {element} {what}: {} bytes {places:?}", cpu.isa(), raw.len());
            let room = codec.max_chunk_len(element, held.len());
            // Each instruction set finds other bytes in its buffer: none may end up in a code.
            let coded = self.coded.place(places.coded, room, 0x5a ^ (i as u8 * 0x55));
            let len = codec.encode_chunk(element, held, coded);
            assert_eq!(self.coded.harm(), None, "{label}: written outside of the code's room of {room}");
            assert!(len <= room, "{label}: a code of {len} bytes in room for {room}");
            let code = &self.coded.content()[..len];
            let expected = &*expected.get_or_insert_with(|| code.to_vec());
            assert_same(code, expected, &format!("{label}: the code"));
            assert_eq!(codec.chunk_len(element, held), len, "{label}: the estimate");
        }
        expected.unwrap_or_default()
    }

    /// What `coded` decodes to, or why it does not: the same from every instruction set.
    #[track_caller]
    pub(crate) fn decode(
        &mut self,
        algorithm: Algorithm,
        element: Element,
        coded: &[u8],
        raw_len: usize,
        places: Places,
        what: &str,
    ) -> Result<Vec<u8>, ChunkError> {
        let held = self.coded.hold(places.coded, coded);
        let mut expected: Option<Result<Vec<u8>, ChunkError>> = None;
        for (i, (cpu, codec)) in on_every_cpu(algorithm).enumerate() {
            let label = format!(
                "{algorithm} {} {element} {what}: {} bytes to {raw_len} {places:?}",
                cpu.isa(),
                coded.len()
            );
            let raw = self.raw.place(places.raw, raw_len, 0xa5 ^ (i as u8 * 0x55));
            let result = codec.decode_chunk(element, held, raw);
            assert_eq!(self.raw.harm(), None, "{label}: written outside of the raw bytes");
            let raw = self.raw.content();
            let expected = expected.get_or_insert_with(|| result.map(|()| raw.to_vec()));
            assert_eq!(&result, &expected.as_ref().map(|_| ()).map_err(Clone::clone), "{label}: the verdict");
            if let Ok(expected) = expected {
                assert_same(raw, expected, &format!("{label}: the raw bytes"));
            }
        }
        expected.expect("portable code is always there")
    }

    /// Encodes and decodes again; returns the code.
    #[track_caller]
    pub(crate) fn round_trip(
        &mut self,
        algorithm: Algorithm,
        element: Element,
        raw: &[u8],
        places: Places,
        what: &str,
    ) -> Vec<u8> {
        let coded = self.encode(algorithm, element, raw, places, what);
        match self.decode(algorithm, element, &coded, raw.len(), places, what) {
            Ok(decoded) => assert_same(&decoded, raw, &format!("{algorithm} {element} {what}: round trip")),
            Err(error) => {
                panic!("{algorithm} {element} {what}: {} bytes do not come back: {error}", raw.len())
            }
        }
        coded
    }
}

/// The codec on each instruction set of this machine, portable code first.
fn on_every_cpu(algorithm: Algorithm) -> impl Iterator<Item = (Cpu, &'static dyn Codec)> {
    Cpu::available().filter_map(move |cpu| Some((cpu, codec_on(cpu, algorithm)?)))
}

#[track_caller]
fn assert_same(bytes: &[u8], expected: &[u8], label: &str) {
    if bytes != expected {
        let at =
            bytes.iter().zip(expected).position(|(a, b)| a != b).unwrap_or(bytes.len().min(expected.len()));
        let near = |bytes: &[u8]| super::hex(&bytes[at.min(bytes.len())..bytes.len().min(at + 16)]);
        let lengths = (bytes.len(), expected.len());
        panic!("{label}: byte {at} differs, lengths {lengths:?}: {}!= {}", near(bytes), near(expected));
    }
}
