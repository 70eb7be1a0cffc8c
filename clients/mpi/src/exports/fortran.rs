//! The same in Fortran, which hands everything over by address.
//!
//! Open MPI's own go straight to its `PMPI_` functions, so calls have to be met here; modules of Fortran 2008 call it by names
//! that begin with `ompi_`, compilers write the others in four ways. MPICH's call `MPI_X`, which is here as well, so there is nothing to do but to pass them on; but
//! those of its module that free communicators go past that.
//!
//! Unsafe because programs call these. What they must keep is what MPI asks of them.
#![allow(unsafe_code)]
#![allow(non_snake_case)] // names as compilers write them

use std::ffi::{CStr, c_int, c_void};
use std::mem;
use std::sync::OnceLock;

use super::{c, life, reductions};
use crate::abi::Family;
use crate::calls::{loaded, missing};
use crate::freed::while_freed;
use crate::layer;
use crate::library::{fortran_symbol, global_symbol, next_symbol};
use crate::types::{Address, Comm, Op, Type};

/// An integer of the program.
type Int = *mut c_int;

/// What Fortran's handles and special addresses are in C.
struct Translation {
    comm: unsafe extern "C" fn(c_int) -> Comm,
    datatype: unsafe extern "C" fn(c_int) -> Type,
    op: unsafe extern "C" fn(c_int) -> Op,
    in_place: Vec<usize>,
    bottom: Vec<usize>,
}

impl Translation {
    /// `None` where MPI's own functions are to translate, and that for good: where a part of the program has loaded them for itself
    /// alone, it goes on with what stands for "in place" there when they are loaded for all of it later. So nothing changes in
    /// the middle of a program either, which ranks might not come to at the same call.
    fn find() -> Option<&'static Self> {
        static FOUND: OnceLock<Option<Translation>> = OnceLock::new();
        let layer = layer::active()?;
        let find = || {
            let library = loaded().source;
            let integer =
                || global_symbol(c"ompi_mpi_integer").or_else(|| library.symbol(c"ompi_mpi_integer"));
            // Programs may be built with longer ones.
            let has_ints = |integer: *mut c_void| layer.mpi.size_of(Type(integer as usize)) == Ok(4);
            if library.family() != Some(Family::OpenMpi) || !has_ints(integer()?.as_ptr()) {
                return None;
            }
            let (comm, datatype) = (library.symbol(c"PMPI_Comm_f2c")?, library.symbol(c"PMPI_Type_f2c")?);
            let op = library.symbol(c"PMPI_Op_f2c")?;
            // Where MPI for Fortran is loaded for a part of the program alone, what stands for these in that part is not known.
            next_symbol(c"mpi_bcast_")?;
            let special = |names: [&CStr; 4]| {
                let found = names.iter().filter_map(|name| global_symbol(name));
                let found: Vec<usize> = found.map(|at| at.as_ptr() as usize).collect();
                (!found.is_empty()).then_some(found)
            };
            Some(Translation {
                // SAFETY: the functions of these names take and give that.
                comm: unsafe {
                    mem::transmute::<*mut c_void, unsafe extern "C" fn(c_int) -> Comm>(comm.as_ptr())
                },
                // SAFETY: as above.
                datatype: unsafe {
                    mem::transmute::<*mut c_void, unsafe extern "C" fn(c_int) -> Type>(datatype.as_ptr())
                },
                // SAFETY: as above.
                op: unsafe { mem::transmute::<*mut c_void, unsafe extern "C" fn(c_int) -> Op>(op.as_ptr()) },
                in_place: special([
                    c"mpi_fortran_in_place_",
                    c"mpi_fortran_in_place__",
                    c"mpi_fortran_in_place",
                    c"MPI_FORTRAN_IN_PLACE",
                ])?,
                bottom: special([
                    c"mpi_fortran_bottom_",
                    c"mpi_fortran_bottom__",
                    c"mpi_fortran_bottom",
                    c"MPI_FORTRAN_BOTTOM",
                ])?,
            })
        };
        FOUND.get_or_init(find).as_ref()
    }

    /// The same for reductions: also `None` where they are MPI's affair.
    fn find_for_reductions() -> Option<&'static Self> {
        layer::active()?.reductions.as_ref()?;
        Self::find()
    }

    fn address(&self, address: Address) -> Address {
        let is = |special: &[usize]| special.contains(&(address as usize));
        match layer::active() {
            Some(layer) if is(&self.in_place) => layer.mpi.constants.in_place as Address,
            _ if is(&self.bottom) => std::ptr::null_mut(),
            _ => address,
        }
    }

    /// # Safety
    /// The program has an integer there.
    unsafe fn comm(&self, comm: Int) -> Comm {
        // SAFETY: any integer may be asked for.
        unsafe { (self.comm)(*comm) }
    }

    /// # Safety
    /// The program has an integer there.
    unsafe fn datatype(&self, datatype: Int) -> Type {
        // SAFETY: any integer may be asked for.
        unsafe { (self.datatype)(*datatype) }
    }

    /// # Safety
    /// The program has an integer there.
    unsafe fn op(&self, op: Int) -> Op {
        // SAFETY: any integer may be asked for.
        unsafe { (self.op)(*op) }
    }
}

/// A name as the system looks it up.
macro_rules! symbol {
    ($name:ident) => {
        CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()).ok()
    };
}

/// Whether what is behind this library by that name is the same function as by another name. Compilers of Fortran write names in
/// four ways, and MPIs have all of them. `mpi_init` may as well be a function of something else that is loaded, which may
/// return a word.
macro_rules! is_alias {
    ($name:ident $other:ident) => {{
        static IS: OnceLock<bool> = OnceLock::new();
        let find = || {
            let next = fortran_symbol(symbol!($name)?)?;
            Some(*IS.get_or_init(|| symbol!($other).and_then(fortran_symbol) == Some(next)))
        };
        IS.get().copied().or_else(find).unwrap_or(false)
    }};
}

/// Calls the function of that name behind this library. Where there is none yet, it may be loaded later.
macro_rules! pass_on {
    ($name:ident($( $argument:ident: $type:ty, )* / $error:ident: $int:ty)) => {{
        type Next = unsafe extern "C-unwind" fn($( $type, )* $int) -> usize;
        static NEXT: OnceLock<Next> = OnceLock::new();
        let find = || {
            let next = fortran_symbol(symbol!($name)?)?.as_ptr();
            // SAFETY: it has the arguments of this one.
            Some(*NEXT.get_or_init(|| unsafe { mem::transmute::<*mut c_void, Next>(next) }))
        };
        match NEXT.get().copied().or_else(find) {
            // SAFETY: passed on.
            Some(next) => unsafe { next($( $argument, )* $error) },
            None => {
                let code = missing(stringify!($name));
                if !$error.is_null() {
                    // SAFETY: the program has an integer there.
                    unsafe { *$error = code };
                }
                0
            }
        }
    }};
}

/// Collectives under their names: how each is called in C, with `t`, which `find` finds, to translate.
macro_rules! collectives {
    (
        $find:ident:
        $( $name:ident $other:ident $bare:ident $double:ident $upper:ident $arguments:tt $t:ident => $call:expr; )*
    ) => {$(
        collectives! { @one $find $name(true) $arguments $t => $call }
        collectives! { @one $find $other(true) $arguments $t => $call }
        collectives! { @one $find $bare(is_alias!($bare $name)) $arguments $t => $call }
        collectives! { @one $find $double(is_alias!($double $name)) $arguments $t => $call }
        collectives! { @one $find $upper(is_alias!($upper $name)) $arguments $t => $call }
    )*};
    (@one $find:ident $name:ident($is:expr) ($( $argument:ident: $type:ty ),*) $t:ident => $call:expr) => {
        /// # Safety
        /// As MPI's.
        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments)] // as many as MPI's
        pub(crate) unsafe extern "C-unwind" fn $name($( $argument: $type, )* error: Int) -> usize {
            let Some($t) = Translation::$find().filter(|_| $is) else {
                return pass_on!($name($( $argument: $type, )* / error: Int));
            };
            // SAFETY: the program has integers where it says.
            let code = unsafe { $call };
            // In Fortran 2008 it may be left out.
            if !error.is_null() {
                // SAFETY: the program has an integer there.
                unsafe { *error = code };
            }
            0
        }
    };
}

collectives! { find:
    mpi_bcast_ ompi_bcast_f mpi_bcast mpi_bcast__ MPI_BCAST(buffer: Address, count: Int, of: Int, root: Int, comm: Int) t =>
        c::MPI_Bcast(t.address(buffer), *count, t.datatype(of), *root, t.comm(comm));
    mpi_allgather_ ompi_allgather_f mpi_allgather mpi_allgather__ MPI_ALLGATHER(from: Address, sent: Int, of: Int, into: Address, count: Int, datatype: Int, comm: Int) t =>
        c::MPI_Allgather(t.address(from), *sent, t.datatype(of), t.address(into), *count, t.datatype(datatype), t.comm(comm));
    mpi_allgatherv_ ompi_allgatherv_f mpi_allgatherv mpi_allgatherv__ MPI_ALLGATHERV(from: Address, sent: Int, of: Int, into: Address, counts: Int, places: Int, datatype: Int, comm: Int) t =>
        c::MPI_Allgatherv(t.address(from), *sent, t.datatype(of), t.address(into), counts, places, t.datatype(datatype), t.comm(comm));
    mpi_alltoall_ ompi_alltoall_f mpi_alltoall mpi_alltoall__ MPI_ALLTOALL(from: Address, sent: Int, of: Int, into: Address, count: Int, datatype: Int, comm: Int) t =>
        c::MPI_Alltoall(t.address(from), *sent, t.datatype(of), t.address(into), *count, t.datatype(datatype), t.comm(comm));
    mpi_alltoallv_ ompi_alltoallv_f mpi_alltoallv mpi_alltoallv__ MPI_ALLTOALLV(from: Address, sent: Int, offsets: Int, of: Int, into: Address, counts: Int, places: Int, datatype: Int, comm: Int) t =>
        c::MPI_Alltoallv(t.address(from), sent, offsets, t.datatype(of), t.address(into), counts, places, t.datatype(datatype), t.comm(comm));
    mpi_gather_ ompi_gather_f mpi_gather mpi_gather__ MPI_GATHER(from: Address, sent: Int, of: Int, into: Address, count: Int, datatype: Int, root: Int, comm: Int) t =>
        c::MPI_Gather(t.address(from), *sent, t.datatype(of), t.address(into), *count, t.datatype(datatype), *root, t.comm(comm));
    mpi_gatherv_ ompi_gatherv_f mpi_gatherv mpi_gatherv__ MPI_GATHERV(from: Address, sent: Int, of: Int, into: Address, counts: Int, places: Int, datatype: Int, root: Int, comm: Int) t =>
        c::MPI_Gatherv(t.address(from), *sent, t.datatype(of), t.address(into), counts, places, t.datatype(datatype), *root, t.comm(comm));
    mpi_scatter_ ompi_scatter_f mpi_scatter mpi_scatter__ MPI_SCATTER(from: Address, sent: Int, of: Int, into: Address, count: Int, datatype: Int, root: Int, comm: Int) t =>
        c::MPI_Scatter(t.address(from), *sent, t.datatype(of), t.address(into), *count, t.datatype(datatype), *root, t.comm(comm));
    mpi_scatterv_ ompi_scatterv_f mpi_scatterv mpi_scatterv__ MPI_SCATTERV(from: Address, sent: Int, offsets: Int, of: Int, into: Address, count: Int, datatype: Int, root: Int, comm: Int) t =>
        c::MPI_Scatterv(t.address(from), sent, offsets, t.datatype(of), t.address(into), *count, t.datatype(datatype), *root, t.comm(comm));
}

collectives! { find_for_reductions:
    mpi_reduce_ ompi_reduce_f mpi_reduce mpi_reduce__ MPI_REDUCE(from: Address, into: Address, count: Int, of: Int, op: Int, root: Int, comm: Int) t =>
        reductions::MPI_Reduce(t.address(from), t.address(into), *count, t.datatype(of), t.op(op), *root, t.comm(comm));
    mpi_allreduce_ ompi_allreduce_f mpi_allreduce mpi_allreduce__ MPI_ALLREDUCE(from: Address, into: Address, count: Int, of: Int, op: Int, comm: Int) t =>
        reductions::MPI_Allreduce(t.address(from), t.address(into), *count, t.datatype(of), t.op(op), t.comm(comm));
    mpi_reduce_scatter_ ompi_reduce_scatter_f mpi_reduce_scatter mpi_reduce_scatter__ MPI_REDUCE_SCATTER(from: Address, into: Address, counts: Int, of: Int, op: Int, comm: Int) t =>
        reductions::MPI_Reduce_scatter(t.address(from), t.address(into), counts, t.datatype(of), t.op(op), t.comm(comm));
    mpi_reduce_scatter_block_ ompi_reduce_scatter_block_f mpi_reduce_scatter_block mpi_reduce_scatter_block__ MPI_REDUCE_SCATTER_BLOCK(from: Address, into: Address, count: Int, of: Int, op: Int, comm: Int) t =>
        reductions::MPI_Reduce_scatter_block(t.address(from), t.address(into), *count, t.datatype(of), t.op(op), t.comm(comm));
}

/// Beginnings and ends, which MPI's own functions do.
macro_rules! life {
    ($( $name:ident($is:expr) ($( $argument:ident ),*) $before:expr, $after:expr; )*) => {$(
        /// # Safety
        /// As MPI's.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C-unwind" fn $name($( $argument: Int, )* error: Int) -> usize {
            if !$is {
                return pass_on!($name($( $argument: Int, )* / error: Int));
            }
            let mut code = 0;
            // In Fortran 2008 it may be left out.
            let error = if error.is_null() { &raw mut code } else { error };
            $before();
            pass_on!($name($( $argument: Int, )* / error: Int));
            // SAFETY: the program has an integer there, or this function does.
            $after(unsafe { *error });
            0
        }
    )*};
}

life! {
    mpi_init_(true) () nothing, life::begun;
    mpi_init(is_alias!(mpi_init mpi_init_)) () nothing, life::begun;
    mpi_init__(is_alias!(mpi_init__ mpi_init_)) () nothing, life::begun;
    MPI_INIT(is_alias!(MPI_INIT mpi_init_)) () nothing, life::begun;
    ompi_init_f(true) () nothing, life::begun;
    mpi_init_f08_(true) () nothing, life::begun;
    mpi_init_thread_(true) (required, provided) nothing, life::begun;
    mpi_init_thread(is_alias!(mpi_init_thread mpi_init_thread_)) (required, provided) nothing, life::begun;
    mpi_init_thread__(is_alias!(mpi_init_thread__ mpi_init_thread_)) (required, provided) nothing, life::begun;
    MPI_INIT_THREAD(is_alias!(MPI_INIT_THREAD mpi_init_thread_)) (required, provided) nothing, life::begun;
    ompi_init_thread_f(true) (required, provided) nothing, life::begun;
    mpi_init_thread_f08_(true) (required, provided) nothing, life::begun;
    mpi_finalize_(true) () life::ending, finished;
    mpi_finalize(is_alias!(mpi_finalize mpi_finalize_)) () life::ending, finished;
    mpi_finalize__(is_alias!(mpi_finalize__ mpi_finalize_)) () life::ending, finished;
    MPI_FINALIZE(is_alias!(MPI_FINALIZE mpi_finalize_)) () life::ending, finished;
    ompi_finalize_f(true) () life::ending, finished;
    mpi_finalize_f08_(true) () life::ending, finished;
}

/// Frees of communicators, which MPI's own functions do.
macro_rules! frees {
    ($( $name:ident($is:expr) )*) => {$(
        /// # Safety
        /// As MPI's.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C-unwind" fn $name(comm: Int, error: Int) -> usize {
            let free = || pass_on!($name(comm: Int, / error: Int));
            // SAFETY: the program has an integer there.
            let freed = Translation::find().filter(|_| $is).map(|t| unsafe { t.comm(comm) });
            match layer::active().zip(freed) {
                Some((layer, freed)) => while_freed(layer, freed, free),
                None => free(),
            }
        }
    )*};
}

frees! {
    mpi_comm_free_(true)
    mpi_comm_free(is_alias!(mpi_comm_free mpi_comm_free_))
    mpi_comm_free__(is_alias!(mpi_comm_free__ mpi_comm_free_))
    MPI_COMM_FREE(is_alias!(MPI_COMM_FREE mpi_comm_free_))
    ompi_comm_free_f(true)
    mpi_comm_disconnect_(true)
    mpi_comm_disconnect(is_alias!(mpi_comm_disconnect mpi_comm_disconnect_))
    mpi_comm_disconnect__(is_alias!(mpi_comm_disconnect__ mpi_comm_disconnect_))
    MPI_COMM_DISCONNECT(is_alias!(MPI_COMM_DISCONNECT mpi_comm_disconnect_))
    ompi_comm_disconnect_f(true)
}

/// The same in MPICH's module of Fortran 2008, whose functions go past those of C. Handles are those of C there.
macro_rules! frees_2008 {
    ($( $name:ident )*) => {$(
        /// # Safety
        /// As MPI's.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C-unwind" fn $name(comm: Int, error: Int) -> usize {
            let free = || pass_on!($name(comm: Int, / error: Int));
            let layer = layer::active().filter(|_| loaded().source.family() == Some(Family::Mpich));
            // SAFETY: the program has a handle there.
            let freed = layer.and_then(|layer| Some((layer, unsafe { layer.mpi.comm_at(comm.cast()) }?)));
            freed.map_or_else(free, |(layer, freed)| while_freed(layer, freed, free))
        }
    )*};
}

frees_2008! {
    mpi_comm_free_f08_
    mpi_comm_disconnect_f08_
}

fn nothing() {}

fn finished(_: c_int) {}
