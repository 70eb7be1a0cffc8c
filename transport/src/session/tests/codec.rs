//! Codec work done on the spot, as the executor for host memory does it on a thread of its own.

use mgcomp_codecs::frame::{Frame, Options, encode};
use mgcomp_codecs::{Algorithm, Element, codec};

use crate::message::Status;
use crate::payload::Payload;
use crate::session::{Decoded, Encoded};

/// The payload of `source` under `algorithm`, or under none where that saves nothing.
pub(super) fn encode_payload(source: &Payload, element: Element, algorithm: Algorithm) -> Encoded {
    let raw = source.memory().ok_or(Status::Internal)?.to_vec();
    if let Some(codec) = codec(algorithm) {
        let frame =
            encode(codec, element, &raw, Options::for_len(raw.len())).map_err(|_| Status::Internal)?;
        if frame.len() < raw.len() {
            return Ok((algorithm, Payload::from_bytes(frame.into())));
        }
    }
    Ok((Algorithm::None, Payload::from_bytes(raw.into())))
}

/// Decodes `payload` into the whole of `destination`, or leaves that as it is.
pub(super) fn decode_payload(algorithm: Algorithm, payload: &Payload, destination: &Payload) -> Decoded {
    let coded = payload.bytes().ok_or(Status::Internal)?;
    let into = destination.memory().ok_or(Status::Internal)?;
    let mut raw = vec![0; into.len()];
    if algorithm == Algorithm::None {
        raw = coded.to_vec();
    } else {
        codec(algorithm).ok_or(Status::UnsupportedAlgorithm)?;
        let frame = Frame::parse(coded).map_err(|_| Status::BadPayload)?;
        if frame.header().algorithm != algorithm || frame.header().raw_len != into.len() as u64 {
            return Err(Status::BadPayload);
        }
        frame.decode_into(&mut raw).map_err(|_| Status::BadPayload)?;
    }
    if raw.len() != into.len() {
        return Err(Status::BadPayload);
    }
    into.write(|bytes| bytes.copy_from_slice(&raw));
    Ok(())
}
