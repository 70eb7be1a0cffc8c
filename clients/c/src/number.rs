//! Elements and algorithms: the numbers of `FORMAT.md` under names for C.
#![allow(unsafe_code)] // called from C

use std::ffi::{CString, c_char};
use std::mem::MaybeUninit;
use std::sync::LazyLock;

use mgcomp_codecs::{Algorithm, AlgorithmSet, Element};

use crate::error::{Failure, call, mgcompResult};
use crate::memory::{Out, text};

/// How the bytes of a buffer are grouped into values: a hint that makes codecs better, and never changes which bytes come
/// back. Values are little-endian. The numbers are those in frames.
#[repr(u32)]
#[derive(Clone, Copy, Debug)]
pub enum mgcompElement {
    /// 8-bit integers, or bytes of unknown meaning.
    U8 = 0,
    /// 16-bit integers.
    U16 = 1,
    /// 32-bit integers.
    U32 = 2,
    /// 64-bit integers.
    U64 = 3,
    /// IEEE half precision.
    F16 = 4,
    /// bfloat16: 8 bits of exponent, 7 of fraction.
    Bf16 = 5,
    /// IEEE single precision.
    F32 = 6,
    /// IEEE double precision.
    F64 = 7,
    /// 8-bit float, 4 bits of exponent, 3 of fraction.
    F8E4M3 = 8,
    /// 8-bit float, 5 bits of exponent, 2 of fraction.
    F8E5M2 = 9,
}

/// How bytes are coded. The numbers are those in frames and messages; they are never used again for something else.
#[repr(u32)]
#[derive(Clone, Copy, Debug)]
pub enum mgcompAlgorithm {
    /// Not compressed. There are no frames of it.
    None = 0,
    /// Base-delta-immediate: pointers, small integers.
    Bdi = 1,
    /// Frequent patterns: small integers, zeros.
    Fpc = 2,
    /// C-Pack with zero lines.
    Cpackz = 3,
    /// Zero values in a mask: activations after ReLU.
    Zvc = 4,
    /// Run lengths of zeros.
    Rle = 5,
    /// zlib format, for reference.
    Deflate = 6,
    /// Bit-planes of differences: integers, fields.
    Bpc = 7,
    /// Invariant bits left out: rows of tables.
    Ibp = 8,
    /// Float exponents in few bits: weights, gradients, activations, caches.
    Xp = 9,
    /// Integers, indices, keys and fields.
    Int = 10,
}

/// Any number that a program gave for an enum: it need not be one of its values.
pub(crate) fn number<E>(value: MaybeUninit<E>) -> u32 {
    const { assert!(size_of::<E>() == size_of::<u32>() && align_of::<E>() == align_of::<u32>()) };
    // SAFETY: of the size and alignment of a `u32`; the program gave a number, so all of it has a value.
    unsafe { value.as_ptr().cast::<u32>().read() }
}

/// The value of an enum that has this number.
pub(crate) fn named<E>(number: u8) -> MaybeUninit<E> {
    const { assert!(size_of::<E>() == size_of::<u32>() && align_of::<E>() == align_of::<u32>()) };
    let mut value = MaybeUninit::<E>::uninit();
    // SAFETY: of the size and alignment of a `u32`.
    unsafe { value.as_mut_ptr().cast::<u32>().write(number.into()) };
    value
}

/// What a number stands for, if anything.
pub(crate) fn element(value: MaybeUninit<mgcompElement>) -> Result<Element, Failure> {
    let number = number(value);
    let known = Element::ALL.get(number as usize).copied();
    known.ok_or_else(|| Failure::argument(format_args!("element {number}: there are 0 to 9")))
}

/// What a number stands for, if anything.
pub(crate) fn algorithm(value: MaybeUninit<mgcompAlgorithm>) -> Result<Algorithm, Failure> {
    let number = number(value);
    let known = Algorithm::ALL.get(number as usize).copied();
    known.ok_or_else(|| Failure::argument(format_args!("algorithm {number}: there are 0 to 10")))
}

/// A flag: 0 or 1.
pub(crate) fn flag(what: &str, value: u32) -> Result<bool, Failure> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Failure::argument(format_args!("{what} is {value}: 0 or 1 is possible"))),
    }
}

static ELEMENT_NAMES: LazyLock<Vec<CString>> = LazyLock::new(|| names(Element::ALL.map(Element::name)));
static ALGORITHM_NAMES: LazyLock<Vec<CString>> = LazyLock::new(|| names(Algorithm::ALL.map(Algorithm::name)));

fn names<const N: usize>(names: [&str; N]) -> Vec<CString> {
    names.map(|name| CString::new(name).unwrap_or_default()).into()
}

/// The name of an element, such as "bf16".
///
/// @param name set to the name, which lives as long as the program.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompGetElementName(
    element: MaybeUninit<mgcompElement>,
    name: *mut *const c_char,
) -> mgcompResult {
    call(|| {
        let index = usize::from(self::element(element)?.number());
        // SAFETY: the header asks for a place for a pointer, or NULL.
        unsafe { Out::new("name", name) }?.set(ELEMENT_NAMES[index].as_ptr());
        Ok(())
    })
}

/// The element of a name, such as "bf16".
///
/// @param name a text that is ended by a zero: u8 u16 u32 u64 f16 bf16 f32 f64 f8e4m3 f8e5m2.
/// @param element set to the element.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompFindElement(
    name: *const c_char,
    element: *mut MaybeUninit<mgcompElement>,
) -> mgcompResult {
    call(|| {
        // SAFETY: the header asks for a text and a place for a number, or NULL.
        let (name, out) = unsafe { (text("name", name)?, Out::new("element", element)?) };
        let found: Element = name.parse().map_err(Failure::argument)?;
        out.set(named(found.number()));
        Ok(())
    })
}

/// The bytes of a value.
///
/// @param bytes set to 1, 2, 4 or 8.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompGetElementBytes(
    element: MaybeUninit<mgcompElement>,
    bytes: *mut usize,
) -> mgcompResult {
    call(|| {
        let width = self::element(element)?.width_bytes();
        // SAFETY: the header asks for a place for a number, or NULL.
        unsafe { Out::new("bytes", bytes) }?.set(width);
        Ok(())
    })
}

/// The name of an algorithm, such as "xp".
///
/// @param name set to the name, which lives as long as the program.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompGetAlgorithmName(
    algorithm: MaybeUninit<mgcompAlgorithm>,
    name: *mut *const c_char,
) -> mgcompResult {
    call(|| {
        let index = usize::from(self::algorithm(algorithm)?.number());
        // SAFETY: the header asks for a place for a pointer, or NULL.
        unsafe { Out::new("name", name) }?.set(ALGORITHM_NAMES[index].as_ptr());
        Ok(())
    })
}

/// The algorithm of a name, such as "xp".
///
/// @param name a text that is ended by a zero: none bdi fpc cpackz zvc rle deflate bpc ibp xp int.
/// @param algorithm set to the algorithm.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompFindAlgorithm(
    name: *const c_char,
    algorithm: *mut MaybeUninit<mgcompAlgorithm>,
) -> mgcompResult {
    call(|| {
        // SAFETY: the header asks for a text and a place for a number, or NULL.
        let (name, out) = unsafe { (text("name", name)?, Out::new("algorithm", algorithm)?) };
        let found: Algorithm = name.parse().map_err(Failure::argument)?;
        out.set(named(found.number()));
        Ok(())
    })
}

/// Whether this library has a codec for an algorithm.
///
/// @param has set to 1 if it has, else to 0.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompHasCodec(
    algorithm: MaybeUninit<mgcompAlgorithm>,
    has: *mut u32,
) -> mgcompResult {
    call(|| {
        let algorithm = self::algorithm(algorithm)?;
        let known = algorithm != Algorithm::None && AlgorithmSet::supported().contains(algorithm);
        // SAFETY: the header asks for a place for a number, or NULL.
        unsafe { Out::new("has", has) }?.set(known.into());
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_at_their_numbers() {
        for (known, name) in Element::ALL.into_iter().zip(&*ELEMENT_NAMES) {
            assert_eq!(name.to_str(), Ok(known.name()));
            assert_eq!(element(named(known.number())).unwrap(), known);
        }
        for (known, name) in Algorithm::ALL.into_iter().zip(&*ALGORITHM_NAMES) {
            assert_eq!(name.to_str(), Ok(known.name()));
        }
        assert_eq!(element(MaybeUninit::new(mgcompElement::F8E5M2)).unwrap(), Element::F8E5M2);
        assert_eq!(algorithm(MaybeUninit::new(mgcompAlgorithm::Int)).unwrap(), Algorithm::Int);
        assert!(element(named(10)).is_err() && algorithm(named(255)).is_err());
    }
}
