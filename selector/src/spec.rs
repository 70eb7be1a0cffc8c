//! Policies by name.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use mgcomp_codecs::{Algorithm, AlgorithmSet, UnknownAlgorithm, codecs};

use crate::speeds::Speeds;
use crate::{Adaptive, AdaptiveConfig, Fixed, Lambda, NoCodec, Paper, PaperConfig, PaperConfigError, Policy};

/// The name of a policy, as flags and files spell it: `adaptive`, `paper`,
/// `paper:<sampling>,<running>,<votes>` or `fixed:<algorithm>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum PolicySpec {
    /// `adaptive`: what is predicted to be there first.
    #[default]
    Adaptive,
    /// `fixed:<algorithm>`: always this one.
    Fixed(Fixed),
    /// `paper`: the adaptive scheme of IPDPS 2019, with its phase lengths or `paper:SAMPLING,RUNNING,VOTES`. The λ of
    /// these settings is that of [`Steering`].
    Paper(PaperConfig),
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
            Self::Paper(config) => {
                let lambda = steering.lambda.unwrap_or(config.lambda);
                Box::new(Paper::from_checked(PaperConfig { lambda, ..config }))
            }
        }
    }

    /// The algorithms that the name stands for. None for `adaptive`, which takes what there is.
    #[must_use]
    pub fn algorithms(self) -> AlgorithmSet {
        match self {
            Self::Adaptive => AlgorithmSet::default(),
            Self::Fixed(fixed) => {
                [fixed.algorithm()].into_iter().filter(|&algorithm| algorithm != Algorithm::None).collect()
            }
            Self::Paper(_) => Paper::algorithms(),
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
            Self::Paper(config) => f.pad(&config.name()),
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
        if let Some(lengths) = name.strip_prefix("paper:") {
            return Ok(Self::Paper(paper_config(lengths)?));
        }
        match name {
            "adaptive" => Ok(Self::Adaptive),
            "paper" => Ok(Self::Paper(PaperConfig::default())),
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
    /// `paper:` with anything but three whole numbers.
    #[error("policy paper: {lengths:?} is not SAMPLING,RUNNING,VOTES, three whole numbers such as 7,300,3")]
    Lengths {
        /// What was given.
        lengths: String,
    },
    /// `paper:` with lengths that make no scheme.
    #[error("policy paper: {0}")]
    Paper(#[from] PaperConfigError),
    /// `fixed:` with a name that is no algorithm.
    #[error("policy fixed: {0}")]
    Algorithm(#[from] UnknownAlgorithm),
    /// `fixed:` with an algorithm that this version cannot encode with.
    #[error("policy fixed: {0}; known: {known}", known = known())]
    NoCodec(#[from] NoCodec),
}

/// `SAMPLING,RUNNING,VOTES`.
fn paper_config(lengths: &str) -> Result<PaperConfig, PolicySpecError> {
    let wrong = || PolicySpecError::Lengths { lengths: lengths.to_owned() };
    let numbers: Vec<u32> =
        lengths.split(',').map(str::parse).collect::<Result<_, _>>().map_err(|_| wrong())?;
    let [sampling, running, votes] = numbers[..] else { return Err(wrong()) };
    let config = PaperConfig { sampling, running, votes, ..PaperConfig::default() };
    config.check()?;
    Ok(config)
}

fn known() -> String {
    let fixed = std::iter::once(Algorithm::None).chain(codecs().map(mgcomp_codecs::Codec::algorithm));
    let names: Vec<String> = fixed.map(|algorithm| format!("fixed:{algorithm}")).collect();
    format!("adaptive paper paper:<sampling>,<running>,<votes> {}", names.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names_round_trip_and_name_the_policy() {
        for name in [
            "adaptive",
            "paper",
            "paper:5,100,2",
            "fixed:none",
            "fixed:bdi",
            "fixed:fpc",
            "fixed:cpackz",
            "fixed:zvc",
        ] {
            let spec: PolicySpec = name.parse().unwrap();
            assert_eq!(spec.to_string(), name);
            assert_eq!(spec.build(&Steering::default()).name(), name);
        }
    }

    #[test]
    fn names_stand_for_algorithms() {
        use Algorithm::{Bdi, CpackZ, Fpc, Int};

        let known: [(&str, &[Algorithm]); 5] = [
            ("adaptive", &[]),
            ("fixed:none", &[]),
            ("fixed:int", &[Int]),
            ("paper", &[Bdi, Fpc, CpackZ]),
            ("paper:5,100,2", &[Bdi, Fpc, CpackZ]),
        ];
        for (name, algorithms) in known {
            let found = name.parse::<PolicySpec>().unwrap().algorithms();
            assert_eq!(found.iter().collect::<Vec<_>>(), algorithms, "{name}");
        }
    }

    #[test]
    fn unknown_names_get_the_list() {
        for name in ["", "adaptive:", "fixed", "Paper", "paper ", "fixed=bdi"] {
            let message = name.parse::<PolicySpec>().unwrap_err().to_string();
            let start = format!(
                "unknown policy {name:?}; known: adaptive paper paper:<sampling>,<running>,<votes> fixed:none fixed:bdi"
            );
            assert!(message.starts_with(&start), "{message}");
        }
    }

    #[test]
    fn lengths_of_the_paper_s_phases_are_checked() {
        let parse = |name: &str| name.parse::<PolicySpec>();
        assert_eq!(parse("paper:7,300,3").unwrap().to_string(), "paper");
        for lengths in ["", "7", "7,300", "7,300,3,1", "7,300,x", "-7,300,3", "7, 300,3", "4294967296,1,1"] {
            let expected = PolicySpecError::Lengths { lengths: lengths.into() };
            assert_eq!(parse(&format!("paper:{lengths}")), Err(expected));
        }
        let expected = PaperConfigError::TooManyVotes { votes: 8, sampling: 7 };
        assert_eq!(parse("paper:7,300,8"), Err(PolicySpecError::Paper(expected)));
        assert_eq!(parse("paper:0,300,3"), Err(PolicySpecError::Paper(PaperConfigError::NoSampling)));
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
