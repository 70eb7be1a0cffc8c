//! Which instruction set the codecs run on: a value that exists only where the machine has the instructions.
//!
//! [`Avx2`] and [`Avx512`] can be had from `detect()` alone, so a function that takes one may use its
//! instructions without asking again. Every instruction set writes and accepts the same bytes as
//! [`Cpu::Portable`].

mod float_environment;
#[cfg(target_arch = "x86_64")]
pub(crate) mod groups;
mod isa;
#[cfg(target_arch = "x86_64")]
pub(crate) mod lanes;
mod stream;
#[cfg(target_arch = "x86_64")]
mod x86;

pub(crate) use float_environment::in_default_float_environment;
pub use isa::{Isa, UnknownIsa};
pub(crate) use stream::{Streamer, prefetch, prefetch_line};
#[cfg(target_arch = "x86_64")]
pub use x86::{Avx2, Avx512};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{
    array, array_mut, compress512, expand512, load256, load512, load512_partial, low_bits, non_zeros512,
    store256, store256_low, store512, store512_partial,
};

use std::sync::LazyLock;

/// The environment variable that forces an instruction set.
pub const CPU_VARIABLE: &str = "MGCOMP_CPU";

/// An instruction set that this machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cpu {
    /// Plain Rust, on every machine: the definition of each codec.
    Portable,
    /// AVX2.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    /// AVX-512 with the byte instructions of Ice Lake and Zen 4.
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
}

/// Why [`CPU_VARIABLE`] cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CpuError {
    /// It names no instruction set.
    #[error("{CPU_VARIABLE}: {0}")]
    Unknown(#[from] UnknownIsa),
    /// It names one that this machine lacks.
    #[error("{CPU_VARIABLE}: this machine has no {wanted}; the best it has is {best}")]
    Missing {
        /// The instruction set asked for.
        wanted: Isa,
        /// The best one here.
        best: Isa,
    },
}

impl Cpu {
    /// The best instruction set of this machine.
    #[must_use]
    pub fn detect() -> Self {
        Isa::ALL.into_iter().rev().find_map(Self::on).unwrap_or(Self::Portable)
    }

    /// `isa`, if this machine has it.
    #[must_use]
    pub fn on(isa: Isa) -> Option<Self> {
        match isa {
            Isa::Portable => Some(Self::Portable),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => Avx2::detect().map(Self::Avx2),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => Avx512::detect().map(Self::Avx512),
            #[cfg(not(target_arch = "x86_64"))]
            Isa::Avx2 | Isa::Avx512 => None,
        }
    }

    /// Every instruction set of this machine, the plainest first.
    pub fn available() -> impl Iterator<Item = Self> {
        Isa::ALL.into_iter().filter_map(Self::on)
    }

    /// What [`CPU_VARIABLE`] asks for; the best of this machine where it is unset or empty.
    ///
    /// # Errors
    /// [`CpuError`] if it names nothing, or something that this machine lacks.
    pub fn from_env() -> Result<Self, CpuError> {
        let Some(value) = std::env::var_os(CPU_VARIABLE).filter(|value| !value.is_empty()) else {
            return Ok(Self::detect());
        };
        let wanted: Isa = value.to_string_lossy().parse()?;
        Self::on(wanted).ok_or_else(|| CpuError::Missing { wanted, best: Self::detect().isa() })
    }

    /// The instruction set of everything that does not name one: that of [`from_env`](Self::from_env), asked
    /// for once.
    ///
    /// A library must not stop its host over a spelling mistake, so a variable that cannot be followed means
    /// [`Cpu::Portable`] here; programs call [`from_env`](Self::from_env) when they start and refuse it, and what is attached to a
    /// program refuses a name that is none.
    #[must_use]
    pub fn active() -> Self {
        static ACTIVE: LazyLock<Cpu> = LazyLock::new(|| Cpu::from_env().unwrap_or(Cpu::Portable));
        *ACTIVE
    }

    /// The name of this instruction set.
    #[must_use]
    pub const fn isa(self) -> Isa {
        match self {
            Self::Portable => Isa::Portable,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) => Isa::Avx2,
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) => Isa::Avx512,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portable_is_always_there_and_first() {
        let all: Vec<Cpu> = Cpu::available().collect();
        assert_eq!(all[0], Cpu::Portable);
        assert_eq!(all.last(), Some(&Cpu::detect()));
        for cpu in all {
            assert_eq!(Cpu::on(cpu.isa()), Some(cpu));
        }
    }
}
