//! What every kind of message has in common when its bytes cannot be trusted.

use proptest::prelude::*;

use super::header::tests::any_header;
use super::{Header, MessageError};

/// Whether `bytes` are refused, or understood so well that writing them again gives the same bytes.
fn is_safe(bytes: &[u8]) -> Result<(), TestCaseError> {
    match Header::parse(bytes) {
        Ok((header, header_len)) => prop_assert_eq!(&*header.encode(), &bytes[..header_len]),
        Err(error) => prop_assert!(!error.to_string().is_empty()),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_prefix_is_incomplete(header in any_header()) {
        let bytes = header.encode();
        for got in 1..bytes.len() {
            let error =
                MessageError::Incomplete { kind: Some(header.kind()), needed: bytes.len(), got };
            prop_assert_eq!(Header::parse(&bytes[..got]), Err(error));
        }
    }

    #[test]
    fn every_flipped_bit_is_refused_or_understood(header in any_header()) {
        let mut bytes = header.encode().to_vec();
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 0x80 >> (bit % 8);
            is_safe(&bytes)?;
            prop_assert!(Header::parse(&bytes).map(|(other, _)| other) != Ok(header), "bit {}", bit);
            bytes[bit / 8] ^= 0x80 >> (bit % 8);
        }
    }

    #[test]
    fn overwritten_bytes_are_refused_or_understood(
        header in any_header(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        payload in proptest::collection::vec(any::<u8>(), 0..8),
    ) {
        let mut bytes = [&*header.encode(), &payload].concat();
        for (index, byte) in changes {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        is_safe(&bytes)?;
    }

    #[test]
    fn noise_is_refused_or_understood(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        is_safe(&bytes)?;
    }
}
