//! The functions of MPI that this library calls, by their `PMPI_` names.
//!
//! Unsafe because they are foreign, and found by name. Types are those that all binary interfaces have in common: an int
//! handle is passed in a register or slot as wide as a pointer, so a word does for every handle that is passed by value;
//! where MPI writes a handle, it writes the lower half of a word or all of it. They unwind, as whatever stands in their place
//! here does: what the program's handlers of errors throw in C++ of a call that MPI refuses passes through to where the program catches
//! it. In the middle of a collective, where this library has something to clean up, it ends the program.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem;
use std::ptr::NonNull;
use std::sync::OnceLock;

use crate::library::{Library, next_symbol};
use crate::types::{Address, Comm, Errhandler, Group, Op, Request, Type};

/// What MPI calls when an attribute is copied.
pub(crate) type CopyAttribute =
    unsafe extern "C" fn(Comm, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int;
/// What MPI calls when an attribute goes.
pub(crate) type DeleteAttribute = unsafe extern "C" fn(Comm, c_int, *mut c_void, *mut c_void) -> c_int;

/// Any error code, where there is no MPI that could give one.
const NO_MPI: c_int = 16;

macro_rules! calls {
    ($( $name:ident: $symbol:ident($( $argument:ident: $type:ty ),*); )*) => {
        /// The functions, of which some MPIs lack some.
        #[derive(Debug)]
        pub(crate) struct Calls {
            $( $name: Option<unsafe extern "C-unwind" fn($( $type ),*) -> c_int>, )*
        }

        impl Calls {
            fn find(library: &Library) -> Self {
                Self {
                    $( $name: {
                        let name = CStr::from_bytes_with_nul(concat!(stringify!($symbol), "\0").as_bytes());
                        let found = name.ok().and_then(|name| symbol(library, name));
                        // SAFETY: the function of that name has these arguments in every MPI that has it.
                        found.map(|found| unsafe { mem::transmute::<*mut c_void, _>(found.as_ptr()) })
                    }, )*
                }
            }

            /// One that is missing, those with large counts aside.
            pub(crate) fn missing(&self) -> Option<&'static str> {
                let all = [$( (self.$name.is_some(), stringify!($symbol)), )*];
                let is_missing = |(is_there, name): &(bool, &str)| !is_there && !name.ends_with("_c");
                all.into_iter().find(is_missing).map(|(_, name)| name)
            }

            $(
                /// # Safety
                /// The arguments are good for the function of MPI, which may write to where they point.
                #[allow(clippy::too_many_arguments)] // as many as MPI's
                pub(crate) unsafe fn $name(&self, $( $argument: $type ),*) -> c_int {
                    match self.$name {
                        // SAFETY: passed on.
                        Some(call) => unsafe { call($( $argument ),*) },
                        None => missing(stringify!($symbol)),
                    }
                }
            )*
        }
    };
}

calls! {
    init: PMPI_Init(argc: Address, argv: Address);
    init_thread: PMPI_Init_thread(argc: Address, argv: Address, required: c_int, provided: *mut c_int);
    finalize: PMPI_Finalize();

    comm_size: PMPI_Comm_size(comm: Comm, size: *mut c_int);
    comm_rank: PMPI_Comm_rank(comm: Comm, rank: *mut c_int);
    comm_test_inter: PMPI_Comm_test_inter(comm: Comm, flag: *mut c_int);
    comm_split: PMPI_Comm_split(comm: Comm, color: c_int, key: c_int, new: *mut Comm);
    comm_dup: PMPI_Comm_dup(comm: Comm, new: *mut Comm);
    comm_free: PMPI_Comm_free(comm: *mut Comm);
    comm_disconnect: PMPI_Comm_disconnect(comm: *mut Comm);
    comm_set_name: PMPI_Comm_set_name(comm: Comm, name: *const c_char);
    comm_get_name: PMPI_Comm_get_name(comm: Comm, name: *mut c_char, len: *mut c_int);
    comm_group: PMPI_Comm_group(comm: Comm, group: *mut Group);
    group_translate: PMPI_Group_translate_ranks(from: Group, count: c_int, ranks: *const c_int, to: Group, there: *mut c_int);
    group_free: PMPI_Group_free(group: *mut Group);
    comm_set_errhandler: PMPI_Comm_set_errhandler(comm: Comm, handler: Errhandler);
    comm_call_errhandler: PMPI_Comm_call_errhandler(comm: Comm, code: c_int);
    create_keyval: PMPI_Comm_create_keyval(copy: CopyAttribute, delete: DeleteAttribute, keyval: *mut c_int, extra: *mut c_void);
    get_attr: PMPI_Comm_get_attr(comm: Comm, keyval: c_int, value: *mut *mut c_void, flag: *mut c_int);
    set_attr: PMPI_Comm_set_attr(comm: Comm, keyval: c_int, value: *mut c_void);
    delete_attr: PMPI_Comm_delete_attr(comm: Comm, keyval: c_int);

    type_size_x: PMPI_Type_size_x(datatype: Type, size: *mut i64);
    type_extent: PMPI_Type_get_extent(datatype: Type, lower: *mut isize, extent: *mut isize);
    type_envelope: PMPI_Type_get_envelope(datatype: Type, integers: *mut c_int, addresses: *mut c_int, datatypes: *mut c_int, combiner: *mut c_int);
    type_envelope_c: PMPI_Type_get_envelope_c(datatype: Type, integers: *mut i64, addresses: *mut i64, counts: *mut i64, datatypes: *mut i64, combiner: *mut c_int);
    type_contents: PMPI_Type_get_contents(datatype: Type, integers: c_int, addresses: c_int, datatypes: c_int, at_integers: *mut c_int, at_addresses: *mut isize, at_datatypes: *mut Type);
    type_contents_c: PMPI_Type_get_contents_c(datatype: Type, integers: i64, addresses: i64, counts: i64, datatypes: i64, at_integers: *mut c_int, at_addresses: *mut isize, at_counts: *mut i64, at_datatypes: *mut Type);
    type_hindexed: PMPI_Type_create_hindexed(count: c_int, lengths: *const c_int, offsets: *const isize, of: Type, new: *mut Type);
    type_commit: PMPI_Type_commit(datatype: *mut Type);
    type_free: PMPI_Type_free(datatype: *mut Type);
    pack: PMPI_Pack(from: Address, count: c_int, datatype: Type, into: Address, room: c_int, position: *mut c_int, comm: Comm);
    unpack: PMPI_Unpack(from: Address, len: c_int, position: *mut c_int, into: Address, count: c_int, datatype: Type, comm: Comm);

    isend: PMPI_Isend(from: Address, count: c_int, datatype: Type, to: c_int, tag: c_int, comm: Comm, request: *mut Request);
    issend: PMPI_Issend(from: Address, count: c_int, datatype: Type, to: c_int, tag: c_int, comm: Comm, request: *mut Request);
    isend_c: PMPI_Isend_c(from: Address, count: i64, datatype: Type, to: c_int, tag: c_int, comm: Comm, request: *mut Request);
    irecv: PMPI_Irecv(into: Address, count: c_int, datatype: Type, from: c_int, tag: c_int, comm: Comm, request: *mut Request);
    irecv_c: PMPI_Irecv_c(into: Address, count: i64, datatype: Type, from: c_int, tag: c_int, comm: Comm, request: *mut Request);
    wait: PMPI_Wait(request: *mut Request, status: Address);
    get_count: PMPI_Get_count(status: Address, datatype: Type, count: *mut c_int);

    bcast: PMPI_Bcast(buffer: Address, count: c_int, datatype: Type, root: c_int, comm: Comm);
    bcast_c: PMPI_Bcast_c(buffer: Address, count: i64, datatype: Type, root: c_int, comm: Comm);
    allgather: PMPI_Allgather(from: Address, sent: c_int, of: Type, into: Address, count: c_int, datatype: Type, comm: Comm);
    allgather_c: PMPI_Allgather_c(from: Address, sent: i64, of: Type, into: Address, count: i64, datatype: Type, comm: Comm);
    allgatherv: PMPI_Allgatherv(from: Address, sent: c_int, of: Type, into: Address, counts: *const c_int, displacements: *const c_int, datatype: Type, comm: Comm);
    allgatherv_c: PMPI_Allgatherv_c(from: Address, sent: i64, of: Type, into: Address, counts: *const i64, displacements: *const isize, datatype: Type, comm: Comm);
    alltoall: PMPI_Alltoall(from: Address, sent: c_int, of: Type, into: Address, count: c_int, datatype: Type, comm: Comm);
    alltoall_c: PMPI_Alltoall_c(from: Address, sent: i64, of: Type, into: Address, count: i64, datatype: Type, comm: Comm);
    alltoallv: PMPI_Alltoallv(from: Address, sent: *const c_int, offsets: *const c_int, of: Type, into: Address, counts: *const c_int, displacements: *const c_int, datatype: Type, comm: Comm);
    alltoallv_c: PMPI_Alltoallv_c(from: Address, sent: *const i64, offsets: *const isize, of: Type, into: Address, counts: *const i64, displacements: *const isize, datatype: Type, comm: Comm);
    gather: PMPI_Gather(from: Address, sent: c_int, of: Type, into: Address, count: c_int, datatype: Type, root: c_int, comm: Comm);
    gather_c: PMPI_Gather_c(from: Address, sent: i64, of: Type, into: Address, count: i64, datatype: Type, root: c_int, comm: Comm);
    gatherv: PMPI_Gatherv(from: Address, sent: c_int, of: Type, into: Address, counts: *const c_int, displacements: *const c_int, datatype: Type, root: c_int, comm: Comm);
    gatherv_c: PMPI_Gatherv_c(from: Address, sent: i64, of: Type, into: Address, counts: *const i64, displacements: *const isize, datatype: Type, root: c_int, comm: Comm);
    scatter: PMPI_Scatter(from: Address, sent: c_int, of: Type, into: Address, count: c_int, datatype: Type, root: c_int, comm: Comm);
    scatter_c: PMPI_Scatter_c(from: Address, sent: i64, of: Type, into: Address, count: i64, datatype: Type, root: c_int, comm: Comm);
    scatterv: PMPI_Scatterv(from: Address, sent: *const c_int, offsets: *const c_int, of: Type, into: Address, count: c_int, datatype: Type, root: c_int, comm: Comm);
    scatterv_c: PMPI_Scatterv_c(from: Address, sent: *const i64, offsets: *const isize, of: Type, into: Address, count: i64, datatype: Type, root: c_int, comm: Comm);

    reduce: PMPI_Reduce(from: Address, into: Address, count: c_int, datatype: Type, op: Op, root: c_int, comm: Comm);
    reduce_c: PMPI_Reduce_c(from: Address, into: Address, count: i64, datatype: Type, op: Op, root: c_int, comm: Comm);
    allreduce: PMPI_Allreduce(from: Address, into: Address, count: c_int, datatype: Type, op: Op, comm: Comm);
    allreduce_c: PMPI_Allreduce_c(from: Address, into: Address, count: i64, datatype: Type, op: Op, comm: Comm);
    reduce_scatter: PMPI_Reduce_scatter(from: Address, into: Address, counts: *const c_int, datatype: Type, op: Op, comm: Comm);
    reduce_scatter_c: PMPI_Reduce_scatter_c(from: Address, into: Address, counts: *const i64, datatype: Type, op: Op, comm: Comm);
    reduce_scatter_block: PMPI_Reduce_scatter_block(from: Address, into: Address, count: c_int, datatype: Type, op: Op, comm: Comm);
    reduce_scatter_block_c: PMPI_Reduce_scatter_block_c(from: Address, into: Address, count: i64, datatype: Type, op: Op, comm: Comm);
    reduce_local: PMPI_Reduce_local(from: Address, into: Address, count: c_int, datatype: Type, op: Op);
}

/// The function of that `PMPI_` name. An MPI that is not known may lack these names, and has the others then, behind this library.
fn symbol(library: &Library, name: &CStr) -> Option<NonNull<c_void>> {
    let other = || library.family().is_none().then(|| next_symbol(&name[1..]))?;
    library.symbol(name).or_else(other)
}

impl Calls {
    /// Whether datatypes are looked into by the call that knows large counts.
    pub(crate) fn have_large_types(&self) -> bool {
        self.type_envelope_c.is_some() && self.type_contents_c.is_some()
    }
}

/// The library, and its functions.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) source: Library,
    pub(crate) calls: Calls,
}

// SAFETY: a handle of `dlopen` and addresses of functions, good on every thread.
unsafe impl Send for Loaded {}
// SAFETY: as above; never changed.
unsafe impl Sync for Loaded {}

/// What this process runs on, found when it is first asked for: by then, the program has loaded its MPI.
pub(crate) fn loaded() -> &'static Loaded {
    static LOADED: OnceLock<Loaded> = OnceLock::new();
    LOADED.get_or_init(|| {
        let source = Library::find();
        Loaded { source, calls: Calls::find(&source) }
    })
}

/// The functions of it.
pub(crate) fn calls() -> &'static Calls {
    &loaded().calls
}

/// Says that a function is not there; returns what its caller is told.
#[cold]
pub(crate) fn missing(name: &str) -> c_int {
    mgcomp_transport::attach::log();
    tracing::error!("there is no {name} in this process: no MPI is loaded that has it");
    NO_MPI
}
