//! The float environment of a thread: how results are rounded, what becomes of denormals, which exceptions trap.
//!
//! It belongs to the program, which may have changed it for its own thread (`fesetround`, a library linked with
//! `-ffast-math`, `set_flush_denormal` of PyTorch), and threads inherit it on Linux. Rust presumes the default: round to
//! nearest, denormals as they are, no traps. Arithmetic whose bits matter takes the default for as long as it runs.

// Control registers are reached by instructions that Rust has no other way to write.
#![allow(unsafe_code)]

use registers::Registers;

/// Does `work` in the default float environment. Afterwards that of the thread is what it was, sticky exception flags
/// included, also if `work` panics. What `work` takes or returns by value should be no floats: those are the caller's.
///
/// This costs a read of the control register before and one after, and a write where something differs.
pub(crate) fn in_default_float_environment<W: FnOnce() -> R, R>(work: W) -> R {
    let call = unknown(call::<W, R>);
    let _restores = Guard::new();
    call(work)
}

fn call<W: FnOnce() -> R, R>(work: W) -> R {
    work()
}

/// `function`, of which the compiler no longer knows which one it is.
///
/// To the compiler, float instructions depend on no register that [`Guard`] writes: inlined between the two writes, they
/// might be moved out from there. From the body of a function that is never inlined it could still infer that the call
/// can be moved. A function it does not know may do anything, also write such a register, so its call keeps its place
/// among blocks of assembly, which are volatile and may touch memory. And the work is done between entry and return of
/// that call: by then whatever comes of it is in memory, or returned.
fn unknown<W, R>(function: fn(W) -> R) -> fn(W) -> R {
    #[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), expect(unused_mut))]
    let mut function = function;
    // SAFETY: the block has no instruction, so the pointer comes out as it went in.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    unsafe {
        std::arch::asm!("/* {0} */", inout(reg) function, options(nostack, preserves_flags));
    }
    function
}

/// The default environment, until this is dropped.
struct Guard {
    before: Registers,
}

impl Guard {
    fn new() -> Self {
        let before = Registers::read();
        let default = before.with_default_control();
        if before != default {
            // SAFETY: the default is what Rust presumes.
            unsafe { default.write() };
        }
        Self { before }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Often nothing has changed, and a read is cheaper than a write.
        if Registers::read() != self.before {
            // SAFETY: the thread came with these values, so that the program answers for what is computed with them.
            unsafe { self.before.write() };
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod registers {
    use std::arch::asm;

    /// MXCSR. The control word of the x87 unit does not matter: floats are SSE's on x86-64.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct Registers(pub(super) u32);

    /// Which exceptions have happened since somebody cleared them. All other bits control.
    const FLAGS: u32 = 0x3f;

    impl Registers {
        #[inline]
        pub(super) fn read() -> Self {
            let mut mxcsr = 0;
            // SAFETY: the instruction is part of x86-64, and stores the four bytes that the pointer is to.
            unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut mxcsr, options(nostack, preserves_flags)) };
            Self(mxcsr)
        }

        /// # Safety
        /// Up to the next write this thread computes no floats, or the default is what is written.
        #[inline]
        pub(super) unsafe fn write(self) {
            // SAFETY: the instruction is part of x86-64, and loads four bytes. No reserved bit is set: the value is the
            // default, or was read. For the rest the caller vouches.
            unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const self.0, options(nostack)) };
        }

        /// To nearest, no DAZ, no FTZ, all exceptions masked: as processes start. The flags stay: it is changes of these that
        /// take long, some 100 ns, and few programs have computed nothing inexact before, which most work does.
        pub(super) const fn with_default_control(self) -> Self {
            Self(0x1f80 | self.0 & FLAGS)
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod registers {
    use std::arch::asm;

    /// FPCR and FPSR.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct Registers {
        pub(super) control: u64,
        pub(super) status: u64,
    }

    impl Registers {
        #[inline]
        pub(super) fn read() -> Self {
            let (control, status);
            // SAFETY: the instructions are part of AArch64, and read registers that every program may read.
            unsafe {
                asm!("mrs {}, fpcr", "mrs {}, fpsr", out(reg) control, out(reg) status, options(nostack, preserves_flags));
            }
            Self { control, status }
        }

        /// # Safety
        /// Up to the next write this thread computes no floats, or the default is what is written.
        #[inline]
        pub(super) unsafe fn write(self) {
            // SAFETY: the instructions are part of AArch64. No reserved bit is set: the value is the default, or was read.
            // For the rest the caller vouches.
            unsafe {
                asm!("msr fpcr, {}", "msr fpsr, {}", in(reg) self.control, in(reg) self.status, options(nostack));
            }
        }

        /// To nearest, no FZ, no FZ16, no FIZ, no traps: as processes start.
        pub(super) const fn with_default_control(self) -> Self {
            Self { control: 0, ..self }
        }
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod registers {
    /// None: work is done in the environment that the thread has. The drivers of today's GPUs are for the two architectures
    /// above, and no other machine is at hand to try such instructions on.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct Registers;

    impl Registers {
        pub(super) const fn read() -> Self {
            Self
        }

        /// # Safety
        /// It does nothing.
        pub(super) const unsafe fn write(self) {}

        pub(super) const fn with_default_control(self) -> Self {
            self
        }
    }
}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests {
    use super::*;

    /// Denormals flushed, rounded towards zero, one exception flagged.
    #[cfg(target_arch = "x86_64")]
    const OTHER: Registers = Registers(0xffc1);
    #[cfg(target_arch = "x86_64")]
    const DEFAULT: Registers = Registers(0x1f81);
    #[cfg(target_arch = "aarch64")]
    const OTHER: Registers = Registers { control: 0x01c0_0000, status: 1 };
    #[cfg(target_arch = "aarch64")]
    const DEFAULT: Registers = Registers { control: 0, status: 1 };

    /// What the registers hold during the work, and afterwards, on a thread that came with `before`.
    fn seen(before: Registers, ends: bool) -> [Registers; 2] {
        let mine = Registers::read();
        let mut during = None;
        // SAFETY: no floats are computed up to the write below.
        unsafe { before.write() };
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            in_default_float_environment(|| {
                during = Some(Registers::read());
                if !ends {
                    std::panic::resume_unwind(Box::new(()));
                }
            });
        }));
        let after = Registers::read();
        // SAFETY: the thread came with it.
        unsafe { mine.write() };
        assert_eq!(ended.is_ok(), ends);
        [during.unwrap(), after]
    }

    #[test]
    fn work_has_the_default_and_the_thread_its_own_again() {
        assert_eq!(seen(OTHER, true), [DEFAULT, OTHER]);
        assert_eq!(seen(DEFAULT, true), [DEFAULT; 2]);
    }

    #[test]
    fn a_panic_restores() {
        assert_eq!(seen(OTHER, false), [DEFAULT, OTHER]);
    }
}
