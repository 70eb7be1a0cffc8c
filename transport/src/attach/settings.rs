//! What the environment says.

use std::env;
use std::ffi::OsString;
use std::fmt::Display;
use std::str::FromStr;

use mgcomp_codecs::{CPU_VARIABLE, Cpu, Element, Isa, UnknownIsa};
use mgcomp_selector::{Lambda, PolicySpec};

use crate::control;
use crate::executor::usual_codec_threads;
use crate::link::tcp::Connections;

/// More codec threads than this are a mistake.
const MOST_THREADS: usize = 256;

/// How a library is to go about it in a program that does not know it.
#[derive(Clone, Debug, PartialEq)]
pub struct EnvSettings {
    /// `MGCOMP=off`: nothing is compressed.
    pub off: bool,
    /// `MGCOMP_POLICY`: how codecs are chosen; else `adaptive`.
    pub policy: PolicySpec,
    /// `MGCOMP_LAMBDA`: the weight of latency against size, in Gb/s; see [`Lambda`].
    pub lambda: Option<Lambda>,
    /// `MGCOMP_ELEMENT`: what messages are values of, where nothing else says so; else it is found in the data.
    pub element: Option<Element>,
    /// `MGCOMP_THREADS`: threads that run codecs; else [`usual_codec_threads`].
    pub codec_threads: usize,
    /// `MGCOMP_CHECKSUM=off`: messages carry no checksum of their bytes.
    pub checksum: bool,
    /// `MGCOMP_NET_CONNECTIONS`: TCP connections with each peer; else as many as are usual there.
    pub connections: Option<Connections>,
}

impl Default for EnvSettings {
    /// Those of an environment that says nothing.
    fn default() -> Self {
        let codec_threads = usual_codec_threads();
        let (policy, lambda, element, connections) = (PolicySpec::default(), None, None, None);
        Self { off: false, policy, lambda, element, codec_threads, checksum: true, connections }
    }
}

impl EnvSettings {
    /// What this process's environment says.
    ///
    /// # Errors
    /// [`EnvSettingsError`] for the first variable that makes no sense.
    pub fn from_env() -> Result<Self, EnvSettingsError> {
        let settings = Self::read(&|name| env::var_os(name))?;
        Ok(Self { off: control::is_switched_off(), ..settings })
    }

    fn read(value: &dyn Fn(&'static str) -> Option<OsString>) -> Result<Self, EnvSettingsError> {
        let default = Self::default();
        let threads = |text: &str| match text.parse() {
            Ok(threads @ 1..=MOST_THREADS) => Ok(threads),
            _ => Err(format!("not a number from 1 to {MOST_THREADS}")),
        };
        let switch = |text: &str| match text {
            "on" => Ok(true),
            "off" => Ok(false),
            _ => Err("neither on nor off"),
        };
        // Codecs read it themselves, but have nobody to tell that there is no such thing.
        read(value, CPU_VARIABLE, instruction_set)?;
        Ok(Self {
            policy: read(value, "MGCOMP_POLICY", PolicySpec::from_str)?.unwrap_or(default.policy),
            lambda: read(value, "MGCOMP_LAMBDA", Lambda::from_str)?,
            element: read(value, "MGCOMP_ELEMENT", Element::from_str)?,
            codec_threads: read(value, "MGCOMP_THREADS", threads)?.unwrap_or(default.codec_threads),
            checksum: read(value, "MGCOMP_CHECKSUM", switch)?.unwrap_or(true),
            connections: read(value, "MGCOMP_NET_CONNECTIONS", Connections::from_str)?,
            ..default
        })
    }
}

/// The instruction set of this name. One that this machine lacks is no error, for others of the job may have it, and all write the same.
fn instruction_set(name: &str) -> Result<Isa, UnknownIsa> {
    let wanted = name.parse()?;
    if Cpu::on(wanted).is_none() {
        let best = Cpu::detect().isa();
        tracing::warn!(
            "{CPU_VARIABLE}: this machine has no {wanted}, so codecs are portable; the best it has is {best}"
        );
    }
    Ok(wanted)
}

/// The value of a variable that is set to something.
fn read<T, E: Display>(
    value: &dyn Fn(&'static str) -> Option<OsString>,
    variable: &'static str,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<Option<T>, EnvSettingsError> {
    let Some(value) = value(variable).filter(|value| !value.is_empty()) else { return Ok(None) };
    let value = value.to_string_lossy().into_owned();
    match parse(&value) {
        Ok(parsed) => Ok(Some(parsed)),
        Err(why) => Err(EnvSettingsError { variable, why: why.to_string(), value }),
    }
}

/// A variable that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable}={value:?}: {why}")]
pub struct EnvSettingsError {
    variable: &'static str,
    value: String,
    why: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_from(variables: &[(&str, &str)]) -> Result<EnvSettings, EnvSettingsError> {
        let find = |name| variables.iter().find(|(known, _)| *known == name);
        EnvSettings::read(&|name| find(name).map(|(_, value)| OsString::from(*value)))
    }

    #[test]
    fn variables_say_how() {
        let settings = read_from(&[
            ("MGCOMP_POLICY", "fixed:zvc"),
            ("MGCOMP_LAMBDA", "6"),
            ("MGCOMP_ELEMENT", "bf16"),
            ("MGCOMP_THREADS", "3"),
            ("MGCOMP_CHECKSUM", "off"),
            ("MGCOMP_NET_CONNECTIONS", "4"),
        ]);
        let expected = EnvSettings {
            off: false,
            policy: "fixed:zvc".parse().unwrap(),
            lambda: Some(Lambda::PAPER),
            element: Some(Element::Bf16),
            codec_threads: 3,
            checksum: false,
            connections: Some("4".parse().unwrap()),
        };
        assert_eq!(settings, Ok(expected));
        assert_eq!(read_from(&[("MGCOMP_ELEMENT", "")]), Ok(EnvSettings::default()));
    }

    #[test]
    fn any_instruction_set_can_be_whatever_this_machine_has() {
        for name in Isa::ALL.map(Isa::name).into_iter().chain([""]) {
            assert_eq!(read_from(&[("MGCOMP_CPU", name)]), Ok(EnvSettings::default()), "{name}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let wrong = [
            ("MGCOMP_POLICY", "fastest"),
            ("MGCOMP_LAMBDA", "-1"),
            ("MGCOMP_ELEMENT", "bf17"),
            ("MGCOMP_THREADS", "0"),
            ("MGCOMP_THREADS", "257"),
            ("MGCOMP_CHECKSUM", "no"),
            ("MGCOMP_NET_CONNECTIONS", "0"),
            ("MGCOMP_NET_CONNECTIONS", "17"),
            ("MGCOMP_CPU", "sse9"),
            ("MGCOMP_CPU", "AVX2"),
        ];
        for (variable, value) in wrong {
            let error = read_from(&[(variable, value)]).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{variable}={value:?}: ")), "{error}");
        }
    }
}
