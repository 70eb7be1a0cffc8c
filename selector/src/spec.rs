//! Policies by name.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use mgcomp_codecs::{Algorithm, UnknownAlgorithm, codecs};

use crate::speeds::Speeds;
use crate::{Adaptive, AdaptiveConfig, Fixed, Lambda, NoCodec, Paper, Policy};

/// The name of a policy, as flags and files spell it: `adaptive`, `paper` or `fixed:<algorithm>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum PolicySpec {
    /// `adaptive`: what is predicted to be there first.
    #[default]
    Adaptive,
    /// `fixed:<algorithm>`: always this one.
    Fixed(Fixed),
    /// `paper`: the adaptive scheme of IPDPS 2019 with the paper's phase lengths.
    Paper,
}

impl PolicySpec {
    /// A policy that has seen no transfer yet.
    #[must_use]
    pub fn build(self, steering: &Steering) -> Box<dyn Policy> {
        match self {
            Self::Adaptive => {
                let config = AdaptiveConfig { lambda: steering.lambda, ..AdaptiveConfig::default() };
                Box::new(Adaptive::from_checked(config, steering.speeds.clone()))
            }
            Self::Fixed(fixed) => Box::new(fixed),
            Self::Paper => Box::new(Paper::new(steering.lambda.unwrap_or_default())),
        }
    }
}

/// What policies are steered by.
#[derive(Clone, Debug)]
pub struct Steering {
    /// The operator's weight of latency against size. Without one `adaptive` goes by time, and `paper` by
    /// [`Lambda::PAPER`]; `fixed` has no use for it.
    pub lambda: Option<Lambda>,
    /// How fast codecs are on this machine; only `adaptive` asks.
    pub speeds: Arc<Speeds>,
}

impl Default for Steering {
    /// No λ, and typical speeds.
    fn default() -> Self {
        Self { lambda: None, speeds: Speeds::typical() }
    }
}

impl From<Lambda> for Steering {
    /// This λ, and typical speeds.
    fn from(lambda: Lambda) -> Self {
        Self { lambda: Some(lambda), ..Self::default() }
    }
}

impl fmt::Display for PolicySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Adaptive => f.pad("adaptive"),
            Self::Fixed(fixed) => f.pad(&fixed.name()),
            Self::Paper => f.pad("paper"),
        }
    }
}

impl FromStr for PolicySpec {
    type Err = PolicySpecError;

    fn from_str(name: &str) -> Result<Self, PolicySpecError> {
        if let Some(algorithm) = name.strip_prefix("fixed:") {
            let algorithm: Algorithm = algorithm.parse()?;
            return Ok(Self::Fixed(Fixed::try_new(algorithm)?));
        }
        match name {
            "adaptive" => Ok(Self::Adaptive),
            "paper" => Ok(Self::Paper),
            _ => Err(PolicySpecError::Unknown { name: name.to_owned() }),
        }
    }
}

/// Why a name is no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicySpecError {
    /// No policy has this name.
    #[error("unknown policy {name:?}; known: {known}", known = known())]
    Unknown {
        /// What was given.
        name: String,
    },
    /// `fixed:` with a name that is no algorithm.
    #[error("policy fixed: {0}")]
    Algorithm(#[from] UnknownAlgorithm),
    /// `fixed:` with an algorithm that this version cannot encode with.
    #[error("policy fixed: {0}; known: {known}", known = known())]
    NoCodec(#[from] NoCodec),
}

fn known() -> String {
    let fixed = std::iter::once(Algorithm::None).chain(codecs().map(mgcomp_codecs::Codec::algorithm));
    let names: Vec<String> = fixed.map(|algorithm| format!("fixed:{algorithm}")).collect();
    format!("adaptive paper {}", names.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names_round_trip_and_name_the_policy() {
        for name in ["adaptive", "paper", "fixed:none", "fixed:bdi", "fixed:fpc", "fixed:cpackz", "fixed:zvc"]
        {
            let spec: PolicySpec = name.parse().unwrap();
            assert_eq!(spec.to_string(), name);
            assert_eq!(spec.build(&Steering::default()).name(), name);
        }
    }

    #[test]
    fn unknown_names_get_the_list() {
        for name in ["", "adaptive:", "fixed", "Paper", "paper ", "fixed=bdi"] {
            let message = name.parse::<PolicySpec>().unwrap_err().to_string();
            let start = format!("unknown policy {name:?}; known: adaptive paper fixed:none fixed:bdi");
            assert!(message.starts_with(&start), "{message}");
        }
    }

    #[test]
    fn fixed_needs_an_algorithm_that_has_a_codec() {
        let unknown = "fixed:lz4".parse::<PolicySpec>().unwrap_err();
        assert_eq!(unknown, PolicySpecError::Algorithm(UnknownAlgorithm("lz4".into())));
        assert!("fixed:".parse::<PolicySpec>().is_err());
        assert!("fixed:15".parse::<PolicySpec>().is_err());

        let without = Algorithm::ALL.into_iter().find(|&algorithm| Fixed::try_new(algorithm).is_err());
        let Some(algorithm) = without else {
            println!("SKIPPED: every algorithm has a codec");
            return;
        };
        let error = format!("fixed:{algorithm}").parse::<PolicySpec>().unwrap_err();
        assert_eq!(error, PolicySpecError::NoCodec(NoCodec { algorithm }));
        assert!(error.to_string().contains("fixed:zvc"), "{error}");
    }
}
