//! A GPU that a flag tells of.

use super::codec::{Codec, Rates};
use crate::scale::{PLAUSIBLE, positive};

/// A text that is no GPU with its rates.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("{0:?} is not a name, two rates in GB/s and a ratio, as in H100:800:1200:1.48")]
pub(super) struct NotRates(String);

/// What `--gpu` takes.
pub(super) fn parse_gpu(text: &str) -> Result<Codec, NotRates> {
    let not_rates = || NotRates(text.to_owned());
    let parts: Vec<&str> = text.split(':').collect();
    let [name, numbers @ ..] = &parts[..] else { return Err(not_rates()) };
    let numbers: Vec<f64> = numbers.iter().filter_map(|number| positive(number).ok()).collect();
    match numbers[..] {
        [encode_gbytes, decode_gbytes, ratio] if !name.is_empty() && parts.len() == 4 => {
            Ok(Codec::even((*name).to_owned(), Rates { ratio, encode_gbytes, decode_gbytes }))
        }
        _ => Err(not_rates()),
    }
}

/// A text that is no part of a link's nominal rate.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("{0:?} is no part of a link's rate: it must be a number from {least} to 1", least = PLAUSIBLE.0)]
pub(super) struct NotPart(String);

/// What `--efficiency` takes.
pub(super) fn parse_efficiency(text: &str) -> Result<f64, NotPart> {
    match text.parse::<f64>() {
        Ok(part) if (PLAUSIBLE.0..=1.0).contains(&part) => Ok(part),
        _ => Err(NotPart(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_reach_no_more_than_their_rate() {
        for (text, part) in [("1", 1.0), ("0.000001", 1e-6), ("0.9", 0.9)] {
            assert_eq!(parse_efficiency(text), Ok(part));
        }
        for text in ["90", "1.0001", "0", "-0.5", "1e-310", "nan", "inf", "x", ""] {
            assert_eq!(parse_efficiency(text), Err(NotPart(text.into())));
        }
        let message = parse_efficiency("90").unwrap_err().to_string();
        assert_eq!(message, "\"90\" is no part of a link's rate: it must be a number from 0.000001 to 1");
    }

    #[test]
    fn gpus_are_a_name_and_three_numbers() {
        let codec = parse_gpu("H100 SXM:800:1200.5:1.5").unwrap();
        let rates = Rates { ratio: 1.5, encode_gbytes: 800.0, decode_gbytes: 1200.5 };
        assert_eq!(codec, Codec::even("H100 SXM".into(), rates));
        for text in [
            "",
            "x",
            ":1:2:3",
            "x:1:2",
            "x:1:2:3:4",
            "x:1:0:3",
            "x:1:1e-310:3",
            "x:1:-2:3",
            "x:1:nan:3",
            "x:1:y:3:4",
        ] {
            assert_eq!(parse_gpu(text), Err(NotRates(text.into())));
        }
    }
}
