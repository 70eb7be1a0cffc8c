//! The MPI library that this process has loaded.
//!
//! Unsafe because symbols are looked up by name. What is done with them is the affair of who asks.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use crate::abi::Family;

/// Names that libraries of known binary interfaces go by, the most telling first.
const NAMES: [(&CStr, Family); 4] = [
    (c"libmpi_abi.so.1", Family::Standard),
    (c"libmpi.so.40", Family::OpenMpi),
    (c"libmpich.so.12", Family::Mpich),
    (c"libmpi.so.12", Family::Mpich),
];

/// Libraries that have MPI's functions for Fortran.
const FORTRAN: [&CStr; 4] =
    [c"libmpi_mpifh.so.40", c"libmpi_usempif08.so.40", c"libmpifort.so.12", c"libmpichfort.so.12"];

/// A function that every MPI has.
const EVERYWHERE: &CStr = c"PMPI_Init";

/// Where symbols of MPI are found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Library {
    handle: *mut c_void,
    family: Option<Family>,
}

impl Library {
    /// The one that is loaded; if none is known, whatever comes behind this library, or is loaded for a part of the program alone.
    pub(crate) fn find() -> Self {
        let known = NAMES.iter().find_map(|&(name, family)| {
            let library = Self { family: Some(family), ..Self::loaded(name)? };
            let has = |name| library.symbol(name).is_some();
            (has(family.landmark()) && !family.stranger().is_some_and(has)).then_some(library)
        });
        let next = Self { handle: libc::RTLD_NEXT, family: None };
        let anywhere = || {
            let is_it = |library: &Self| library.symbol(EVERYWHERE).is_some() || library.let_go();
            all_loaded().iter().filter_map(|name| Self::loaded(name)).find(is_it)
        };
        known.or_else(|| next.symbol(EVERYWHERE).map(|_| next)).or_else(anywhere).unwrap_or(next)
    }

    /// A library that is loaded already, to whatever part of the program.
    fn loaded(name: &CStr) -> Option<Self> {
        // SAFETY: the name ends with NUL; nothing is loaded that is not there already.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
        (!handle.is_null()).then_some(Self { handle, family: None })
    }

    /// Lets the program unload it when it likes. False, for it is not what is looked for.
    fn let_go(&self) -> bool {
        // SAFETY: `loaded` has opened it, and nothing of it is used any more.
        unsafe { libc::dlclose(self.handle) };
        false
    }

    /// Which binary interface it has, if that is known.
    pub(crate) fn family(&self) -> Option<Family> {
        self.family
    }

    /// The address of what it exports under that name.
    pub(crate) fn symbol(&self, name: &CStr) -> Option<NonNull<c_void>> {
        // SAFETY: the handle is one of `dlopen`, never closed, or a constant; the name ends with NUL.
        NonNull::new(unsafe { libc::dlsym(self.handle, name.as_ptr()) })
    }
}

/// What other libraries, behind this one and for all of the program, export under that name.
pub(crate) fn next_symbol(name: &CStr) -> Option<NonNull<c_void>> {
    Library { handle: libc::RTLD_NEXT, family: None }.symbol(name)
}

/// MPI's function of that name for Fortran: that of a library behind this one, or of one that is loaded for a part of the program
/// alone, as modules of Python are.
pub(crate) fn fortran_symbol(name: &CStr) -> Option<NonNull<c_void>> {
    next_symbol(name).or_else(|| FORTRAN.iter().find_map(|library| Library::loaded(library)?.symbol(name)))
}

/// The names of all libraries that are loaded, but for this one: it has functions of the same names.
fn all_loaded() -> Vec<CString> {
    unsafe extern "C" fn note(info: *mut libc::dl_phdr_info, _: usize, names: *mut c_void) -> c_int {
        // SAFETY: the system hands over what it describes, and what was handed to it below.
        let (info, names) = unsafe { (&*info, &mut *names.cast::<Vec<CString>>()) };
        // SAFETY: null, or a text that ends with NUL.
        let name = (!info.dlpi_name.is_null()).then(|| unsafe { CStr::from_ptr(info.dlpi_name) });
        names.extend(name.filter(|name| !name.is_empty()).map(CStr::to_owned));
        0
    }
    let mut names = Vec::<CString>::new();
    // SAFETY: `note` takes what is handed over, which lives as long as the call.
    unsafe { libc::dl_iterate_phdr(Some(note), ptr::from_mut(&mut names).cast()) };
    let own = own_name();
    names.retain(|name| Some(name) != own.as_ref());
    names
}

/// What the system calls this library.
fn own_name() -> Option<CString> {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    let here: fn() -> Option<CString> = own_name;
    // SAFETY: the address is of code, and the place is one for what is known of it.
    let found = unsafe { libc::dladdr(here as *const c_void, info.as_mut_ptr()) };
    if found == 0 {
        return None;
    }
    // SAFETY: all zero is a value, and it was found.
    let info = unsafe { info.assume_init() };
    // SAFETY: null, or a text that ends with NUL and stays while this library does.
    (!info.dli_fname.is_null()).then(|| unsafe { CStr::from_ptr(info.dli_fname) }.to_owned())
}

/// What the program, or a library, exports under that name.
pub(crate) fn global_symbol(name: &CStr) -> Option<NonNull<c_void>> {
    Library { handle: libc::RTLD_DEFAULT, family: None }.symbol(name)
}
