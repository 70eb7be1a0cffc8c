//! The collectives, in C: each with ints, and with large counts where MPI has that.
//!
//! Unsafe because programs call these. What they must keep is what MPI asks of them.
#![allow(unsafe_code)]
#![allow(non_snake_case)] // MPI's names

use std::ffi::c_int;

use crate::blocks::{Blocks, Numbers, remaining};
use crate::calls::calls;
use crate::data::Data;
use crate::engine::allgather::allgather;
use crate::engine::alltoall::Alltoall;
use crate::engine::bcast::bcast;
use crate::engine::gather::Rooted;
use crate::engine::{Kind, Verdict, guarded};
use crate::layer::Layer;
use crate::types::{Address, Comm, Type};

/// One set of the collectives: the types of counts and displacements, how they become [`Numbers`], and for each collective
/// its name here and MPI's.
macro_rules! collectives {
    (
        $count:ty, $place:ty, $numbers:ident,
        $Bcast:ident $bcast:ident, $Allgather:ident $allgather:ident, $Allgatherv:ident $allgatherv:ident,
        $Alltoall:ident $alltoall:ident, $Alltoallv:ident $alltoallv:ident,
        $Gather:ident $gather:ident, $Gatherv:ident $gatherv:ident,
        $Scatter:ident $scatter:ident, $Scatterv:ident $scatterv:ident
    ) => {
        /// # Safety
        /// As MPI's.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C-unwind" fn $Bcast(
            buffer: Address,
            count: $count,
            of: Type,
            root: c_int,
            comm: Comm,
        ) -> c_int {
            // SAFETY: passed on.
            let plain = || unsafe { calls().$bcast(buffer, count, of, root, comm) };
            guarded(comm, plain, |layer, comm| {
                bcast(layer, &data(layer, buffer, count.into(), of), root, comm, plain)
            })
        }

        /// # Safety
        /// As MPI's.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C-unwind" fn $Allgather(
            from: Address,
            sent: $count,
            of: Type,
            into: Address,
            count: $count,
            datatype: Type,
            comm: Comm,
        ) -> c_int {
            // SAFETY: passed on.
            let plain = || unsafe { calls().$allgather(from, sent, of, into, count, datatype, comm) };
            guarded(comm, plain, |layer, comm| {
                let block = data(layer, into, count.into(), datatype);
                if !layer.is_long(layer.len(&block)?) {
                    return Ok(Verdict::Plain);
                }
                let Some(comm) = layer.communicator(comm)? else { return Ok(Verdict::Plain) };
                let blocks = Blocks::even(into, count.into(), block.datatype());
                allgather(layer, unless_in_place(layer, from, sent.into(), of), &blocks, &comm, plain)
            })
        }

        /// # Safety
        /// As MPI's.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C-unwind" fn $Allgatherv(
            from: Address,
            sent: $count,
            of: Type,
            into: Address,
            counts: *const $count,
            places: *const $place,
            datatype: Type,
            comm: Comm,
        ) -> c_int {
            let plain = || {
                // SAFETY: passed on.
                unsafe { calls().$allgatherv(from, sent, of, into, counts, places, datatype, comm) }
            };
            guarded(comm, plain, |layer, comm| {
                let Some(comm) = layer.communicator(comm)? else { return Ok(Verdict::Plain) };
                let (counts, places) = (Numbers::$numbers(counts), Numbers::$numbers(places.cast()));
                let blocks = blocks(layer, into, counts, places, datatype);
                allgather(layer, unless_in_place(layer, from, sent.into(), of), &blocks, &comm, plain)
            })
        }

        /// # Safety
        /// As MPI's.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C-unwind" fn $Alltoall(
            from: Address,
            sent: $count,
            of: Type,
            into: Address,
            count: $count,
            datatype: Type,
            comm: Comm,
        ) -> c_int {
            // SAFETY: passed on.
            let plain = || unsafe { calls().$alltoall(from, sent, of, into, count, datatype, comm) };
            guarded(comm, plain, |layer, comm| {
                let block = data(layer, into, count.into(), datatype);
                if !layer.is_long(layer.len(&block)?) {
                    return Ok(Verdict::Plain);
                }
                let Some(comm) = layer.communicator(comm)? else { return Ok(Verdict::Plain) };
                let from = unless_in_place(layer, from, sent.into(), of);
                let from = from.map(|from| Blocks::even(from.address(), from.count(), from.datatype()));
                let into = Blocks::even(into, count.into(), block.datatype());
                Alltoall { layer, comm: &comm, from, into }.run_even(plain)
            })
        }

        /// # Safety
        /// As MPI's.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C-unwind" fn $Alltoallv(
            from: Address,
            sent: *const $count,
            offsets: *const $place,
            of: Type,
            into: Address,
            counts: *const $count,
            places: *const $place,
            datatype: Type,
            comm: Comm,
        ) -> c_int {
            let call = |sent, counts| {
                // SAFETY: passed on, with as many counts as there were.
                unsafe { calls().$alltoallv(from, sent, offsets, of, into, counts, places, datatype, comm) }
            };
            let rest = |gone: &[bool], come: &[bool]| match is_in_place(from) {
                true => call(sent, remaining(counts, come).as_ptr()),
                false => call(remaining(sent, gone).as_ptr(), remaining(counts, come).as_ptr()),
            };
            guarded(
                comm,
                || call(sent, counts),
                |layer, comm| {
                    let Some(comm) = layer.communicator(comm)? else { return Ok(Verdict::Plain) };
                    let from = (!is_in_place(from)).then(|| {
                        blocks(layer, from, Numbers::$numbers(sent), Numbers::$numbers(offsets.cast()), of)
                    });
                    let (counts, places) = (Numbers::$numbers(counts), Numbers::$numbers(places.cast()));
                    let into = blocks(layer, into, counts, places, datatype);
                    Alltoall { layer, comm: &comm, from, into }.run_uneven(rest)
                },
            )
        }

        /// # Safety
        /// As MPI's.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C-unwind" fn $Gather(
            from: Address,
            sent: $count,
            of: Type,
            into: Address,
            count: $count,
            datatype: Type,
            root: c_int,
            comm: Comm,
        ) -> c_int {
            // SAFETY: passed on.
            let plain = || unsafe { calls().$gather(from, sent, of, into, count, datatype, root, comm) };
            guarded(comm, plain, |layer, comm| {
                let own = unless_in_place(layer, from, sent.into(), of);
                let blocks = || even(layer, into, count.into(), datatype);
                rooted(layer, comm, Kind::Gather, root, own, blocks, |call| call.run_even_if_long())
            })
        }

        /// # Safety
        /// As MPI's.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C-unwind" fn $Gatherv(
            from: Address,
            sent: $count,
            of: Type,
            into: Address,
            counts: *const $count,
            places: *const $place,
            datatype: Type,
            root: c_int,
            comm: Comm,
        ) -> c_int {
            let call = |sent, counts| {
                // SAFETY: passed on, with as many counts as there were.
                unsafe { calls().$gatherv(from, sent, of, into, counts, places, datatype, root, comm) }
            };
            let rest = |is_own_gone: bool, come: &[bool]| match is_own_gone {
                true => call(0, counts),
                false => call(sent, remaining(counts, come).as_ptr()),
            };
            guarded(
                comm,
                || call(sent, counts),
                |layer, comm| {
                    let own = unless_in_place(layer, from, sent.into(), of);
                    let (counts, places) = (Numbers::$numbers(counts), Numbers::$numbers(places.cast()));
                    let blocks = || blocks(layer, into, counts, places, datatype);
                    rooted(layer, comm, Kind::Gather, root, own, blocks, |call| call.run_uneven(rest))
                },
            )
        }

        /// # Safety
        /// As MPI's.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C-unwind" fn $Scatter(
            from: Address,
            sent: $count,
            of: Type,
            into: Address,
            count: $count,
            datatype: Type,
            root: c_int,
            comm: Comm,
        ) -> c_int {
            // SAFETY: passed on.
            let plain = || unsafe { calls().$scatter(from, sent, of, into, count, datatype, root, comm) };
            guarded(comm, plain, |layer, comm| {
                let own = unless_in_place(layer, into, count.into(), datatype);
                let blocks = || even(layer, from, sent.into(), of);
                rooted(layer, comm, Kind::Scatter, root, own, blocks, |call| call.run_even_if_long())
            })
        }

        /// # Safety
        /// As MPI's.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C-unwind" fn $Scatterv(
            from: Address,
            sent: *const $count,
            offsets: *const $place,
            of: Type,
            into: Address,
            count: $count,
            datatype: Type,
            root: c_int,
            comm: Comm,
        ) -> c_int {
            let call = |sent, count| {
                // SAFETY: passed on, with as many counts as there were.
                unsafe { calls().$scatterv(from, sent, offsets, of, into, count, datatype, root, comm) }
            };
            let rest = |is_own_here: bool, gone: &[bool]| match is_own_here {
                true => call(sent, 0),
                false => call(remaining(sent, gone).as_ptr(), count),
            };
            guarded(
                comm,
                || call(sent, count),
                |layer, comm| {
                    let own = unless_in_place(layer, into, count.into(), datatype);
                    let (sent, offsets) = (Numbers::$numbers(sent), Numbers::$numbers(offsets.cast()));
                    let blocks = || blocks(layer, from, sent, offsets, of);
                    rooted(layer, comm, Kind::Scatter, root, own, blocks, |call| call.run_uneven(rest))
                },
            )
        }
    };
}

collectives! {
    c_int, c_int, Ints,
    MPI_Bcast bcast, MPI_Allgather allgather, MPI_Allgatherv allgatherv,
    MPI_Alltoall alltoall, MPI_Alltoallv alltoallv,
    MPI_Gather gather, MPI_Gatherv gatherv, MPI_Scatter scatter, MPI_Scatterv scatterv
}

collectives! {
    i64, isize, Longs,
    MPI_Bcast_c bcast_c, MPI_Allgather_c allgather_c, MPI_Allgatherv_c allgatherv_c,
    MPI_Alltoall_c alltoall_c, MPI_Alltoallv_c alltoallv_c,
    MPI_Gather_c gather_c, MPI_Gatherv_c gatherv_c, MPI_Scatter_c scatter_c, MPI_Scatterv_c scatterv_c
}

pub(super) fn data(layer: &Layer, address: Address, count: i64, datatype: Type) -> Data {
    Data::new(address, count, layer.mpi.datatype(datatype))
}

pub(super) fn unless_in_place(layer: &Layer, address: Address, count: i64, datatype: Type) -> Option<Data> {
    (address as usize != layer.mpi.constants.in_place).then(|| data(layer, address, count, datatype))
}

fn even(layer: &Layer, address: Address, count: i64, datatype: Type) -> Blocks {
    Blocks::even(address, count, layer.mpi.datatype(datatype))
}

fn blocks(layer: &Layer, address: Address, counts: Numbers, places: Numbers, datatype: Type) -> Blocks {
    Blocks { address, counts, places, datatype: layer.mpi.datatype(datatype) }
}

/// Whether that is what stands for "in place".
fn is_in_place(address: Address) -> bool {
    crate::layer::active().is_some_and(|layer| address as usize == layer.mpi.constants.in_place)
}

/// Does `run` with a gather or scatter, if it is one of a communicator that can be helped. Only the root has blocks.
fn rooted(
    layer: &Layer,
    comm: Comm,
    kind: Kind,
    root: c_int,
    own: Option<Data>,
    blocks: impl FnOnce() -> Blocks,
    run: impl FnOnce(&Rooted<'_>) -> Result<Verdict, crate::failure::Failure>,
) -> Result<Verdict, crate::failure::Failure> {
    let Some(comm) = layer.communicator(comm)?.filter(|comm| comm.has(root)) else {
        return Ok(Verdict::Plain);
    };
    let is_root = comm.rank == root;
    if !is_root && own.is_none() {
        return Ok(Verdict::Plain); // which MPI refuses
    }
    run(&Rooted { layer, comm: &comm, kind, root, own, blocks: is_root.then(blocks) })
}
