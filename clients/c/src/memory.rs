//! Pointers of the program, checked before they are used.
#![allow(unsafe_code)] // what pointers point to

use std::ffi::{CStr, OsStr, c_char, c_void};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;

use crate::error::{Failure, mgcompResult};

/// Bytes of the program, of which nothing is known but that they can be there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// Its name in the header.
    what: &'static str,
    start: NonNull<u8>,
    len: usize,
}

impl Span {
    /// The `len` bytes at `start`, which may be NULL if there are none.
    pub(crate) fn new(what: &'static str, start: *const c_void, len: usize) -> Result<Self, Failure> {
        let Some(start) = NonNull::new(start.cast_mut().cast::<u8>()) else {
            return match len {
                0 => Ok(Self { what, start: NonNull::dangling(), len }),
                _ => Err(Failure::argument(format_args!("{what} is NULL, but has {len} bytes"))),
            };
        };
        let fits = isize::try_from(len).is_ok() && start.addr().get().checked_add(len).is_some();
        if fits {
            Ok(Self { what, start, len })
        } else {
            Err(Failure::argument(format_args!("{what} has {len} bytes, more than an address space")))
        }
    }

    /// The `count` values of type `T` at `start`.
    pub(crate) fn of<T>(what: &'static str, start: *const T, count: usize) -> Result<Self, Failure> {
        let width = size_of::<T>();
        let len = count.checked_mul(width).ok_or_else(|| {
            Failure::argument(format_args!(
                "{what} has {count} values of {width} bytes, more than an address space"
            ))
        })?;
        if !start.is_aligned() {
            let wrong = format_args!("{what} is not at a multiple of {} bytes", align_of::<T>()).to_string();
            return Err(Failure::argument(wrong));
        }
        Self::new(what, start.cast(), len)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Its addresses.
    pub(crate) fn range(&self) -> Range<usize> {
        let start = self.start.addr().get();
        start..start + self.len
    }

    /// Its name in the header.
    pub(crate) fn what(&self) -> &'static str {
        self.what
    }

    /// From the first byte of both to the last one.
    pub(crate) fn joined(&self, other: &Self) -> Self {
        let first = if self.start <= other.start { self } else { other };
        let end = self.range().end.max(other.range().end);
        Self { len: end - first.range().start, ..*first }
    }

    /// How many bytes are also those of `other`.
    pub(crate) fn common(&self, other: &Self) -> usize {
        let (a, b) = (self.range(), other.range());
        a.end.min(b.end).saturating_sub(a.start.max(b.start))
    }

    /// Refuses bytes that are also those of `other`.
    pub(crate) fn apart_from(&self, other: &Self) -> Result<(), Failure> {
        match self.common(other) {
            0 => Ok(()),
            bytes => {
                let (a, b) = (self.what, other.what);
                Err(Failure::argument(format_args!("{a} and {b} overlap: they have {bytes} bytes in common")))
            }
        }
    }

    /// The bytes, to be read.
    ///
    /// # Safety
    /// They must be there, and not written by anybody, for as long as the slice is used.
    pub(crate) unsafe fn bytes<'a>(&self) -> &'a [u8] {
        // SAFETY: not NULL and no longer than an address space, see `new`; the rest is the caller's promise.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// The bytes, to be written.
    ///
    /// # Safety
    /// They must be there, and not touched by anybody else, for as long as the slice is used.
    pub(crate) unsafe fn bytes_mut<'a>(&self) -> &'a mut [u8] {
        // SAFETY: as in `bytes`.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    /// The values, to be read. The span must be one [`of`](Self::of) this type.
    ///
    /// # Safety
    /// As for [`bytes`](Self::bytes), and every pattern of bits must be a `T`.
    pub(crate) unsafe fn values<'a, T: Copy>(&self) -> &'a [T] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: at a place for a `T` and of whole ones, see `of`; the rest is the caller's promise.
        unsafe { std::slice::from_raw_parts(self.start.cast().as_ptr(), self.len / size_of::<T>()) }
    }
}

/// A place for an answer.
#[derive(Debug)]
pub(crate) struct Out<T>(NonNull<T>);

impl<T> Out<T> {
    /// # Safety
    /// If `place` is not NULL, there must be room for a `T` until it is set.
    pub(crate) unsafe fn new(what: &str, place: *mut T) -> Result<Self, Failure> {
        // SAFETY: as for this one.
        unsafe { Self::optional(what, place) }?
            .ok_or_else(|| Failure::argument(format_args!("{what} is NULL")))
    }

    /// As [`new`](Self::new), where NULL says that nobody wants to know.
    ///
    /// # Safety
    /// As for [`new`](Self::new).
    pub(crate) unsafe fn optional(what: &str, place: *mut T) -> Result<Option<Self>, Failure> {
        if !place.is_aligned() {
            let wrong = format!("{what} is not at a multiple of {} bytes", align_of::<T>());
            return Err(Failure::argument(wrong));
        }
        Ok(NonNull::new(place).map(Self))
    }

    #[inline]
    pub(crate) fn set(self, value: T) {
        // SAFETY: a place for a `T`: aligned, and there, as `new` was promised.
        unsafe { self.0.write(value) };
    }
}

/// What `place` holds, unless it is NULL.
///
/// # Safety
/// If it is not NULL, a `T` must be there, of which every pattern of bits is one.
pub(crate) unsafe fn given<T: Copy>(what: &str, place: *const T) -> Result<Option<T>, Failure> {
    if !place.is_aligned() {
        let wrong = format!("{what} is not at a multiple of {} bytes", align_of::<T>());
        return Err(Failure::argument(wrong));
    }
    // SAFETY: aligned; the rest is the caller's promise.
    Ok(NonNull::new(place.cast_mut()).map(|place| unsafe { place.read() }))
}

/// A text of the program.
///
/// # Safety
/// If `text` is not NULL, a zero must end it, and nobody may change it while it is used.
pub(crate) unsafe fn text<'a>(what: &str, text: *const c_char) -> Result<&'a str, Failure> {
    // SAFETY: as for this one.
    let bytes = unsafe { c_text(what, text) }?;
    bytes.to_str().map_err(|error| Failure::argument(format_args!("{what} is no UTF-8: {error}")))
}

/// The path of a file.
///
/// # Safety
/// As for [`text`].
pub(crate) unsafe fn path<'a>(what: &str, path: *const c_char) -> Result<&'a Path, Failure> {
    // SAFETY: as for this one.
    let bytes = unsafe { c_text(what, path) }?;
    Ok(Path::new(OsStr::from_bytes(bytes.to_bytes())))
}

/// # Safety
/// As for [`text`].
unsafe fn c_text<'a>(what: &str, text: *const c_char) -> Result<&'a CStr, Failure> {
    if text.is_null() {
        return Err(Failure::argument(format_args!("{what} is NULL")));
    }
    // SAFETY: not NULL; the rest is the caller's promise.
    Ok(unsafe { CStr::from_ptr(text) })
}

/// Refuses a buffer of `got` bytes where `needed` are.
pub(crate) fn check_room(what: &str, needed: usize, got: usize) -> Result<(), Failure> {
    if got >= needed {
        return Ok(());
    }
    let text = format!("{what} has {got} bytes, but {needed} are needed");
    Err(Failure::new(mgcompResult::BufferTooSmall, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start: usize, len: usize) -> Result<Span, Failure> {
        Span::new("it", std::ptr::without_provenance(start), len)
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert!(span(0, 0).is_ok());
        assert!(span(0, 1).is_err());
        assert!(span(16, usize::MAX).is_err());
        assert!(span(usize::MAX - 7, 8).is_err());
        assert!(Span::of::<u64>("it", std::ptr::without_provenance(12), 1).is_err());
        assert!(Span::of::<u64>("it", std::ptr::without_provenance(16), usize::MAX / 4).is_err());
    }

    #[test]
    fn common_bytes_are_counted() {
        let (a, b) = (span(100, 10).unwrap(), span(107, 10).unwrap());
        assert_eq!((a.common(&b), b.common(&a)), (3, 3));
        assert!(a.apart_from(&b).is_err());
        assert!(a.apart_from(&span(110, 10).unwrap()).is_ok());
        assert!(a.apart_from(&span(105, 0).unwrap()).is_ok());
    }
}
