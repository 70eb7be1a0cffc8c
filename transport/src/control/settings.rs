//! What an operator sets. What is of a stream is packed in one word, so that nobody ever sees half a change; the read cap is
//! of a process, and has a word of its own in the page's header.
//!
//! | bits | meaning |
//! |---|---|
//! | 0 to 31 | λ in Gb/s as IEEE binary32, if bit 48 is set: 24 bits of precision, 6·10⁻⁸ of the value |
//! | 32 to 39 | policy: 0 the program's own, 1 `adaptive`, 2 `paper`, 16 + n `fixed:` and algorithm n |
//! | 40 to 45 | size gate: 0 the policy's own; e: transfers below 2^(e − 1) bytes go raw, 1 to 41 |
//! | 46 to 47 | compression: 0 as the program says, 1 on, 2 off |
//! | 48 | there is a λ |
//! | 49 to 62 | zero |
//! | 63 | the word counts; without it the page's default does |

use std::fmt;
use std::str::FromStr;

use mgcomp_codecs::Algorithm;
use mgcomp_selector::{Fixed, Lambda, PolicySpec, PolicySpecError};

const POLICY_SHIFT: u32 = 32;
const GATE_SHIFT: u32 = 40;
const SWITCH_SHIFT: u32 = 46;
const HAS_LAMBDA: u64 = 1 << 48;
const ZERO: u64 = 0x3fff << 49;
/// Says that a word counts.
pub(super) const COUNTS: u64 = 1 << 63;

const ADAPTIVE: u8 = 1;
const PAPER: u8 = 2;
const FIXED: u8 = 16;

/// What an operator sets; where nothing is set, the program's own choice stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The weight of latency against size.
    pub lambda: Option<Lambda>,
    /// The policy.
    pub policy: Option<PolicyName>,
    /// The shortest transfer that is not sent raw unseen.
    pub gate: Option<SizeGate>,
    /// Whether anything is compressed at all.
    pub compress: Option<bool>,
    /// The rate at which copies may read device memory. Of whole processes: no stream has one of its own.
    pub read_cap: Option<ReadCap>,
}

impl Settings {
    /// The word for a page: all but the read cap.
    #[must_use]
    pub fn pack(&self) -> u64 {
        let lambda = self.lambda.map_or(0, |lambda| u64::from((lambda.gbps() as f32).to_bits()) | HAS_LAMBDA);
        let policy = u64::from(self.policy.map_or(0, PolicyName::code)) << POLICY_SHIFT;
        let gate = self.gate.map_or(0, |gate| u64::from(gate.0)) << GATE_SHIFT;
        let switch = self.compress.map_or(0, |on| if on { 1 } else { 2 }) << SWITCH_SHIFT;
        COUNTS | lambda | policy | gate | switch
    }

    /// What a word of a page says.
    ///
    /// # Errors
    /// [`SettingsError`] if no [`Settings`] give it.
    pub fn unpack(word: u64) -> Result<Self, SettingsError> {
        let wrong = |field| SettingsError { field, word };
        if word & ZERO != 0 {
            return Err(wrong("bits that this version does not know"));
        }
        let lambda = match (word & HAS_LAMBDA != 0, word as u32) {
            (false, 0) => None,
            (false, _) => return Err(wrong("lambda")),
            (true, bits) => {
                Some(Lambda::try_new(f64::from(f32::from_bits(bits))).map_err(|_| wrong("lambda"))?)
            }
        };
        let policy = match (word >> POLICY_SHIFT) as u8 {
            0 => None,
            code => Some(PolicyName::from_code(code).ok_or_else(|| wrong("policy"))?),
        };
        let gate = match (word >> GATE_SHIFT) as u8 & 0x3f {
            0 => None,
            exponent if exponent <= SizeGate::LARGEST => Some(SizeGate(exponent)),
            _ => return Err(wrong("size gate")),
        };
        let compress = match word >> SWITCH_SHIFT & 3 {
            0 => None,
            1 => Some(true),
            2 => Some(false),
            _ => return Err(wrong("switch")),
        };
        Ok(Self { lambda, policy, gate, compress, read_cap: None })
    }

    /// These, and where they say nothing, those of a wider scope.
    #[must_use]
    pub fn or(self, wider: Self) -> Self {
        Self {
            lambda: self.lambda.or(wider.lambda),
            policy: self.policy.or(wider.policy),
            gate: self.gate.or(wider.gate),
            compress: self.compress.or(wider.compress),
            read_cap: self.read_cap.or(wider.read_cap),
        }
    }
}

/// A word that is no [`Settings`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("settings {word:#018x}: {field} is wrong")]
pub struct SettingsError {
    /// What is wrong.
    pub field: &'static str,
    /// All of it.
    pub word: u64,
}

/// A policy that can be set from outside: `adaptive`, `paper` or `fixed:<algorithm>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyName(Name);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    Adaptive,
    Paper,
    Fixed(Fixed),
}

impl PolicyName {
    /// All that there are.
    pub fn all() -> impl Iterator<Item = Self> {
        let fixed = Algorithm::ALL.into_iter().filter_map(|algorithm| Fixed::try_new(algorithm).ok());
        [Name::Adaptive, Name::Paper].into_iter().chain(fixed.map(Name::Fixed)).map(Self)
    }

    /// The policy that goes by it.
    #[must_use]
    pub fn spec(self) -> PolicySpec {
        match self.0 {
            Name::Adaptive => PolicySpec::Adaptive,
            Name::Paper => PolicySpec::Paper(mgcomp_selector::PaperConfig::default()),
            Name::Fixed(fixed) => PolicySpec::Fixed(fixed),
        }
    }

    fn code(self) -> u8 {
        match self.0 {
            Name::Adaptive => ADAPTIVE,
            Name::Paper => PAPER,
            Name::Fixed(fixed) => FIXED + fixed.algorithm().number(),
        }
    }

    fn from_code(code: u8) -> Option<Self> {
        Some(Self(match code {
            ADAPTIVE => Name::Adaptive,
            PAPER => Name::Paper,
            _ => {
                let algorithm = Algorithm::try_from(code.checked_sub(FIXED)?).ok()?;
                Name::Fixed(Fixed::try_new(algorithm).ok()?)
            }
        }))
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.spec().fmt(f)
    }
}

impl FromStr for PolicyName {
    type Err = PolicyNameError;

    fn from_str(name: &str) -> Result<Self, PolicyNameError> {
        let phases = || PolicyNameError::Phases { name: name.to_owned() };
        let spec = match name.parse::<PolicySpec>() {
            Ok(spec) => spec,
            // There is nothing to be gained from spelling them right.
            Err(PolicySpecError::Lengths { .. } | PolicySpecError::Paper(_)) => return Err(phases()),
            Err(error) => return Err(PolicyNameError::Name(error)),
        };
        let named = match spec {
            PolicySpec::Adaptive => Name::Adaptive,
            PolicySpec::Fixed(fixed) => Name::Fixed(fixed),
            _ => Name::Paper,
        };
        let named = Self(named);
        // Not of phases of other lengths than the paper's: there is no room for them in the word.
        if named.spec() == spec { Ok(named) } else { Err(phases()) }
    }
}

/// What is wrong with a name, with the names that there are here: programs know more.
fn why_none(error: &PolicySpecError) -> String {
    let known = || PolicyName::all().map(|name| name.to_string()).collect::<Vec<_>>().join(" ");
    match error {
        PolicySpecError::Unknown { name } => format!("unknown policy {name:?}; known: {}", known()),
        PolicySpecError::NoCodec(error) => format!("policy fixed: {error}; known: {}", known()),
        other => other.to_string(),
    }
}

/// Why a name is no policy that can be set from outside.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyNameError {
    /// No policy has this name.
    #[error("{}", why_none(.0))]
    Name(PolicySpecError),
    /// `paper` with other phases.
    #[error(
        "policy {name:?} cannot be set while a program runs; \"paper\" can, with the phases of the paper"
    )]
    Phases {
        /// What was given.
        name: String,
    },
}

/// The length below which transfers go raw unseen: a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SizeGate(u8);

impl SizeGate {
    const LARGEST: u8 = 41;
    /// The largest in bytes: 2⁴⁰.
    pub const MAX_BYTES: u64 = 1 << (Self::LARGEST - 1);

    /// The gate of `least_bytes`, rounded up to a power of two, at least 1; `None` above [`MAX_BYTES`](Self::MAX_BYTES).
    #[must_use]
    pub fn try_new(least_bytes: u64) -> Option<Self> {
        let rounded = least_bytes.checked_next_power_of_two()?;
        (rounded <= Self::MAX_BYTES).then(|| Self(rounded.ilog2() as u8 + 1))
    }

    /// The shortest transfer that passes.
    #[must_use]
    pub const fn least_bytes(self) -> u64 {
        1 << (self.0 - 1)
    }
}

/// The rate at which each copier of a process may read device memory: a whole number of bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadCap(u64);

impl ReadCap {
    const MOST_BITS_PER_SECOND: u64 = 1_000_000_000_000_000;
    /// The highest in Gb/s.
    pub const MAX_GBPS: f64 = 1e6;

    /// The cap of `gbps` Gb/s, rounded to bits per second; `None` for what rounds to 0, is more than
    /// [`MAX_GBPS`](Self::MAX_GBPS), or is no number.
    #[must_use]
    pub fn try_new(gbps: f64) -> Option<Self> {
        // The cast makes 0 of what is negative or no number.
        let bits_per_second = (gbps * 1e9).round() as u64;
        (1..=Self::MOST_BITS_PER_SECOND).contains(&bits_per_second).then_some(Self(bits_per_second))
    }

    /// In Gb/s.
    #[must_use]
    pub fn gbps(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The word for a page.
    pub(super) fn word(cap: Option<Self>) -> u64 {
        cap.map_or(0, |cap| cap.0)
    }

    /// What a word of a page says; nothing if it makes no sense.
    pub(super) fn from_word(word: u64) -> Option<Self> {
        (1..=Self::MOST_BITS_PER_SECOND).contains(&word).then_some(Self(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lambda(gbps: f64) -> Option<Lambda> {
        Some(Lambda::try_new(gbps).unwrap())
    }

    #[test]
    fn the_word_has_its_fields_where_the_table_says() {
        let all = Settings {
            lambda: lambda(6.0),
            policy: Some("fixed:bdi".parse().unwrap()),
            gate: SizeGate::try_new(4096),
            compress: Some(false),
            read_cap: None,
        };
        // 6.0 is 0x40c00000; 16 + 1; 2^12 is exponent 13; off is 2; λ bit; counts.
        let expected = 0x40c0_0000 | 17 << 32 | 13 << 40 | 2 << 46 | 1 << 48 | 1 << 63;
        assert_eq!(all.pack(), expected);
        assert_eq!(Settings::unpack(expected), Ok(all));
        assert_eq!(Settings::default().pack(), 1 << 63);
        assert_eq!(Settings::unpack(0), Ok(Settings::default()));
    }

    #[test]
    fn every_policy_and_gate_comes_back() {
        let fixed = Algorithm::ALL.into_iter().map(|algorithm| format!("fixed:{algorithm}"));
        for name in ["adaptive".to_owned(), "paper".to_owned()].into_iter().chain(fixed) {
            let settings = Settings { policy: Some(name.parse().unwrap()), ..Settings::default() };
            let back = Settings::unpack(settings.pack()).unwrap();
            assert_eq!(back.policy.unwrap().to_string(), name);
        }
        for log2 in 0..=40 {
            let gate = SizeGate::try_new(1 << log2);
            let back = Settings::unpack(Settings { gate, ..Settings::default() }.pack()).unwrap();
            assert_eq!(back.gate.unwrap().least_bytes(), 1 << log2);
        }
        let bytes = [0, 3, 513, SizeGate::MAX_BYTES + 1, u64::MAX];
        let gates = bytes.map(|bytes| SizeGate::try_new(bytes).map(SizeGate::least_bytes));
        assert_eq!(gates, [Some(1), Some(4), Some(1024), None, None]);
    }

    #[test]
    fn lambda_is_kept_to_24_bits() {
        for gbps in [0.0, 0.1, 0.5, 1.0 / 3.0, 6.0, 99.9, 400.0, 1e6 + 0.3, Lambda::MAX_GBPS] {
            let packed = Settings { lambda: lambda(gbps), ..Settings::default() }.pack();
            let back = Settings::unpack(packed).unwrap().lambda.unwrap().gbps();
            assert!((back - gbps).abs() <= gbps * 6e-8 + 1e-6, "{gbps}: {back}");
        }
    }

    #[test]
    fn words_that_nobody_writes_are_refused() {
        let field = |word: u64| Settings::unpack(word).map_err(|error| error.field);
        assert_eq!(field(1), Err("lambda"));
        for bits in [f32::NAN, -1.0, f32::INFINITY, 5e9] {
            assert_eq!(field(HAS_LAMBDA | u64::from(bits.to_bits())), Err("lambda"), "{bits}");
        }
        for code in [3, 15, FIXED + 11, 255] {
            assert_eq!(field(u64::from(code) << POLICY_SHIFT), Err("policy"), "{code}");
        }
        assert_eq!(field(42 << GATE_SHIFT), Err("size gate"));
        assert_eq!(field(3 << SWITCH_SHIFT), Err("switch"));
        for bit in 49..63 {
            assert_eq!(field(1 << bit), Err("bits that this version does not know"), "{bit}");
        }
    }

    #[test]
    fn read_caps_are_whole_bits_per_second() {
        let gbps = |gbps: f64| ReadCap::try_new(gbps).map(ReadCap::gbps);
        assert_eq!([384.0, 0.1, 4e-6, ReadCap::MAX_GBPS].map(gbps), [384.0, 0.1, 4e-6, 1e6].map(Some));
        for bad in [0.0, 4e-10, -1.0, 1e6 + 1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(gbps(bad), None, "{bad}");
        }
        let word = |word: u64| ReadCap::from_word(word).map(ReadCap::gbps);
        assert_eq!([0, 1, 1_000_000_000_000_001, u64::MAX].map(word), [None, Some(1e-9), None, None]);
        assert_eq!(ReadCap::word(ReadCap::try_new(48.0)), 48_000_000_000);
        assert_eq!(ReadCap::word(None), 0);
    }

    #[test]
    fn other_phases_cannot_be_set() {
        assert!(matches!("paper:5,100,2".parse::<PolicyName>(), Err(PolicyNameError::Phases { .. })));
        assert_eq!("paper:7,300,3".parse::<PolicyName>().unwrap().to_string(), "paper");
        assert!(matches!("lz4".parse::<PolicyName>(), Err(PolicyNameError::Name(_))));
    }

    #[test]
    fn a_name_that_is_none_gets_those_that_can_be_set() {
        let error = "foo".parse::<PolicyName>().unwrap_err().to_string();
        let (start, known) = error.split_once("; known: ").unwrap();
        assert_eq!(start, "unknown policy \"foo\"");
        assert!(known.starts_with("adaptive paper fixed:none fixed:bdi "), "{known}");
        for name in known.split(' ') {
            assert_eq!(name.parse::<PolicyName>().unwrap().to_string(), name);
        }
        for phases in ["paper:", "paper:1", "paper:1,2,3", "paper:x"] {
            let error = phases.parse::<PolicyName>().unwrap_err();
            assert_eq!(error, PolicyNameError::Phases { name: phases.to_owned() });
        }
    }

    #[test]
    fn a_narrow_scope_hides_a_wider_one_field_by_field() {
        let narrow = Settings { lambda: lambda(2.0), ..Settings::default() };
        let wider =
            Settings { compress: Some(false), read_cap: ReadCap::try_new(9.0), ..Settings::default() };
        let wide = Settings { lambda: lambda(6.0), ..wider };
        assert_eq!(narrow.or(wide), Settings { lambda: lambda(2.0), ..wider });
    }
}
