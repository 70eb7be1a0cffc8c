//! One chunk through every instruction set of this machine, each held to what portable code does.

use super::fence::{Fenced, Place};
use mgcomp_codecs::{Algorithm, ChunkError, Codec, Element, Isa};

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

/// A codec on one of the instruction sets; portable code comes first.
pub(crate) type OnIsa<'a> = (Isa, &'a dyn Codec);

/// What a comparison is told besides the bytes.
#[derive(Clone, Copy)]
pub(crate) struct Case<'a> {
    pub(crate) element: Element,
    /// Where the chunk starts in its buffer.
    pub(crate) offset: u64,
    pub(crate) places: Places,
    /// For the message of a difference.
    pub(crate) what: &'a str,
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
        self.encode_with(&on_every_isa(algorithm), Case { element, offset: 0, places, what }, raw)
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
        let case = Case { element, offset: 0, places, what };
        self.decode_with(&on_every_isa(algorithm), case, coded, raw_len)
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
        self.round_trip_with(&on_every_isa(algorithm), Case { element, offset: 0, places, what }, raw)
    }

    /// [`encode`](Self::encode) with codecs that are in no table.
    #[track_caller]
    pub(crate) fn encode_with(&mut self, codecs: &[OnIsa<'_>], case: Case<'_>, raw: &[u8]) -> Vec<u8> {
        let held = self.raw.hold(case.places.raw, raw);
        let mut expected: Option<Vec<u8>> = None;
        for (i, &(isa, codec)) in codecs.iter().enumerate() {
            let label = label(isa, codec, case, raw.len());
            let room = codec.max_chunk_len(case.element, held.len());
            // Each instruction set finds other bytes in its buffer: none may end up in a code.
            let coded = self.coded.place(case.places.coded, room, 0x5a ^ (i as u8 * 0x55));
            let len = codec.encode_chunk_at(case.offset, case.element, held, coded);
            assert_eq!(self.coded.harm(), None, "{label}: written outside of the code's room of {room}");
            assert!(len <= room, "{label}: a code of {len} bytes in room for {room}");
            let code = &self.coded.content()[..len];
            let expected = &*expected.get_or_insert_with(|| code.to_vec());
            assert_same(code, expected, &format!("{label}: the code"));
            let estimate = codec.chunk_len_at(case.offset, case.element, held);
            assert_eq!(estimate, len, "{label}: the estimate");
        }
        expected.expect("at least portable code")
    }

    /// [`decode`](Self::decode) with codecs that are in no table.
    #[track_caller]
    pub(crate) fn decode_with(
        &mut self,
        codecs: &[OnIsa<'_>],
        case: Case<'_>,
        coded: &[u8],
        raw_len: usize,
    ) -> Result<Vec<u8>, ChunkError> {
        let held = self.coded.hold(case.places.coded, coded);
        let mut expected: Option<Result<Vec<u8>, ChunkError>> = None;
        for (i, &(isa, codec)) in codecs.iter().enumerate() {
            let label = format!("{} to {raw_len}", label(isa, codec, case, coded.len()));
            let raw = self.raw.place(case.places.raw, raw_len, 0xa5 ^ (i as u8 * 0x55));
            let result = codec.decode_chunk_at(case.offset, case.element, held, raw);
            assert_eq!(self.raw.harm(), None, "{label}: written outside of the raw bytes");
            let raw = self.raw.content();
            let expected = expected.get_or_insert_with(|| result.map(|()| raw.to_vec()));
            assert_eq!(&result, &expected.as_ref().map(|_| ()).map_err(Clone::clone), "{label}: the verdict");
            if let Ok(expected) = expected {
                assert_same(raw, expected, &format!("{label}: the raw bytes"));
            }
        }
        expected.expect("at least portable code")
    }

    /// [`round_trip`](Self::round_trip) with codecs that are in no table.
    #[track_caller]
    pub(crate) fn round_trip_with(&mut self, codecs: &[OnIsa<'_>], case: Case<'_>, raw: &[u8]) -> Vec<u8> {
        let coded = self.encode_with(codecs, case, raw);
        let (isa, portable) = codecs[0];
        let label = label(isa, portable, case, raw.len());
        match self.decode_with(codecs, case, &coded, raw.len()) {
            Ok(decoded) => assert_same(&decoded, raw, &format!("{label}: round trip")),
            Err(error) => panic!("{label}: the code does not come back: {error}"),
        }
        coded
    }
}

fn label(isa: Isa, codec: &dyn Codec, case: Case<'_>, len: usize) -> String {
    let Case { element, offset, places, what } = case;
    format!("{} {isa} {element} {what} from {offset} on, {places:?}: {len} bytes", codec.algorithm())
}

/// The codec of `algorithm` on each instruction set of this machine.
pub(crate) fn on_every_isa(algorithm: Algorithm) -> Vec<OnIsa<'static>> {
    super::all_codecs().filter(|(_, codec)| codec.algorithm() == algorithm).collect()
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
