//! Threads whose program has changed the float environment.

// The registers are reached by instructions that Rust has no other way to write.
#![allow(unsafe_code)]

use std::arch::asm;

/// What control and status registers hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FloatEnvironment {
    pub(crate) name: &'static str,
    control: u64,
    status: u64,
}

const fn environment(name: &'static str, control: u64, status: u64) -> FloatEnvironment {
    FloatEnvironment { name, control, status }
}

/// MXCSR, without its flags and with nothing but them.
#[cfg(target_arch = "x86_64")]
pub(crate) const ENVIRONMENTS: [FloatEnvironment; 8] = [
    environment("default", 0x1f80, 0),
    environment("default, two exceptions flagged", 0x1f80, 0x05),
    environment("FTZ", 0x9f80, 0),
    environment("FTZ and DAZ", 0x9fc0, 0x3f),
    environment("towards zero", 0x7f80, 0),
    environment("up", 0x5f80, 0x20),
    environment("down", 0x3f80, 0),
    environment("towards zero, FTZ and DAZ", 0xffc0, 0),
];

/// Every exception ends the process.
#[cfg(target_arch = "x86_64")]
pub(crate) const TRAPS: FloatEnvironment = environment("traps", 0, 0);

/// FPCR and FPSR.
#[cfg(target_arch = "aarch64")]
pub(crate) const ENVIRONMENTS: [FloatEnvironment; 7] = [
    environment("default", 0, 0),
    environment("default, two exceptions flagged", 0, 0x05),
    environment("FZ", 1 << 24, 0x1f),
    environment("towards zero", 3 << 22, 0),
    environment("up", 1 << 22, 0x10),
    environment("down", 2 << 22, 0),
    environment("towards zero and FZ", 1 << 24 | 3 << 22, 0),
];

impl FloatEnvironment {
    /// Does `work`, which must compute floats by calls of the library alone, on a thread that has this environment.
    ///
    /// Gives also the one that it has afterwards.
    pub(crate) fn during<R>(self, work: impl FnOnce() -> R) -> (R, Self) {
        let own = self.read();
        // Nothing of the work is to be inlined, and moved to another environment.
        let work: Box<dyn FnOnce() -> R + '_> = std::hint::black_box(Box::new(work));
        self.write();
        let result = work();
        let after = self.read();
        own.write();
        (result, after)
    }

    /// That of this thread, under the same name.
    #[cfg(target_arch = "x86_64")]
    fn read(self) -> Self {
        let mut mxcsr = 0u32;
        // SAFETY: the instruction is part of x86-64, and stores the four bytes that the pointer is to.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut mxcsr, options(nostack, preserves_flags)) };
        Self { control: u64::from(mxcsr & !0x3f), status: u64::from(mxcsr & 0x3f), ..self }
    }

    #[cfg(target_arch = "x86_64")]
    fn write(self) {
        let mxcsr = (self.control | self.status) as u32;
        // SAFETY: the instruction is part of x86-64, and loads four bytes, with no reserved bit set.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const mxcsr, options(nostack)) };
    }

    #[cfg(target_arch = "aarch64")]
    fn read(self) -> Self {
        let (control, status);
        // SAFETY: the instructions are part of AArch64, and read registers that every program may read.
        unsafe {
            asm!("mrs {}, fpcr", "mrs {}, fpsr", out(reg) control, out(reg) status, options(nostack, preserves_flags));
        }
        Self { control, status, ..self }
    }

    #[cfg(target_arch = "aarch64")]
    fn write(self) {
        // SAFETY: the instructions are part of AArch64, with no reserved bit set.
        unsafe {
            asm!("msr fpcr, {}", "msr fpsr, {}", in(reg) self.control, in(reg) self.status, options(nostack));
        }
    }
}
