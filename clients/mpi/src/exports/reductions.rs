//! Reductions, in C: each with ints, and with large counts where MPI has that.
//!
//! Unsafe because programs call these. What they must keep is what MPI asks of them.
#![allow(unsafe_code)]
#![allow(non_snake_case)] // MPI's names

use std::ffi::c_int;

use super::c::{data, unless_in_place};
use crate::blocks::Numbers;
use crate::calls::calls;
use crate::data::Data;
use crate::engine::reduce::{Reduction, Split};
use crate::engine::{Verdict, guarded};
use crate::failure::Failure;
use crate::layer::Layer;
use crate::types::{Address, Comm, Op, Type};

/// One set of the reductions: the type of counts, how they become [`Numbers`], and for each its name here and MPI's.
macro_rules! reductions {
    (
        $count:ty, $numbers:ident,
        $Reduce:ident $reduce:ident, $Allreduce:ident $allreduce:ident,
        $Scatter:ident $scatter:ident, $Block:ident $block:ident
    ) => {
        /// # Safety
        /// As MPI's.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C-unwind" fn $Reduce(
            from: Address,
            into: Address,
            count: $count,
            of: Type,
            op: Op,
            root: c_int,
            comm: Comm,
        ) -> c_int {
            // SAFETY: passed on.
            let plain = || unsafe { calls().$reduce(from, into, count, of, op, root, comm) };
            guarded(comm, plain, |layer, comm| {
                let (own, into) = places(layer, from, into, count.into(), of);
                reduce(layer, comm, op, own, into, root)
            })
        }

        /// # Safety
        /// As MPI's.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C-unwind" fn $Allreduce(
            from: Address,
            into: Address,
            count: $count,
            of: Type,
            op: Op,
            comm: Comm,
        ) -> c_int {
            // SAFETY: passed on.
            let plain = || unsafe { calls().$allreduce(from, into, count, of, op, comm) };
            guarded(comm, plain, |layer, comm| {
                let (own, into) = places(layer, from, into, count.into(), of);
                let split = Split::Even(count.into());
                carried(layer, comm, op, (own, into), split, |call| call.to_all(&into))
            })
        }

        /// # Safety
        /// As MPI's.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C-unwind" fn $Scatter(
            from: Address,
            into: Address,
            counts: *const $count,
            of: Type,
            op: Op,
            comm: Comm,
        ) -> c_int {
            // SAFETY: passed on.
            let plain = || unsafe { calls().$scatter(from, into, counts, of, op, comm) };
            guarded(comm, plain, |layer, comm| {
                let places = places(layer, from, into, 1, of);
                let split = Split::Counted(Numbers::$numbers(counts));
                carried(layer, comm, op, places, split, |call| call.to_each(&places.1))
            })
        }

        /// # Safety
        /// As MPI's.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C-unwind" fn $Block(
            from: Address,
            into: Address,
            count: $count,
            of: Type,
            op: Op,
            comm: Comm,
        ) -> c_int {
            // SAFETY: passed on.
            let plain = || unsafe { calls().$block(from, into, count, of, op, comm) };
            guarded(comm, plain, |layer, comm| {
                let places = places(layer, from, into, 1, of);
                let split = Split::Counted(Numbers::Same(count.into()));
                carried(layer, comm, op, places, split, |call| call.to_each(&places.1))
            })
        }
    };
}

reductions! {
    c_int, Ints,
    MPI_Reduce reduce, MPI_Allreduce allreduce,
    MPI_Reduce_scatter reduce_scatter, MPI_Reduce_scatter_block reduce_scatter_block
}

reductions! {
    i64, Longs,
    MPI_Reduce_c reduce_c, MPI_Allreduce_c allreduce_c,
    MPI_Reduce_scatter_c reduce_scatter_c, MPI_Reduce_scatter_block_c reduce_scatter_block_c
}

/// This rank's values, which may be where the result is to be, and that.
fn places(layer: &Layer, from: Address, into: Address, count: i64, of: Type) -> (Option<Data>, Data) {
    (unless_in_place(layer, from, count, of), data(layer, into, count, of))
}

/// Does `run` with a reduction whose result all have a part of, if it is one that can be helped.
fn carried(
    layer: &Layer,
    comm: Comm,
    op: Op,
    (own, into): (Option<Data>, Data),
    split: Split,
    run: impl FnOnce(&Reduction<'_>) -> Result<Verdict, Failure>,
) -> Result<Verdict, Failure> {
    let is_counted = matches!(split, Split::Counted(_));
    match Reduction::begin(layer, comm, op, own.unwrap_or(into), split)? {
        // A rank to which nothing comes may have no place for it, and the others do not know.
        Some(call) if is_counted && call.has_no_part() => run(&call),
        Some(call) if can_fill(layer, own, into)? => run(&call),
        _ => Ok(Verdict::Plain),
    }
}

/// Whether MPI would put the result there. Some would not where the values are, if that is not said.
fn can_fill(layer: &Layer, own: Option<Data>, into: Data) -> Result<bool, Failure> {
    let is_own = own.is_some_and(|own| own.address() == into.address());
    Ok(!is_own && layer.usable(&into)?.is_some())
}

/// A reduction to a root, which alone has a place for the result, and may have its values there.
fn reduce(
    layer: &Layer,
    comm: Comm,
    op: Op,
    own: Option<Data>,
    into: Data,
    root: c_int,
) -> Result<Verdict, Failure> {
    let Some(call) = Reduction::begin(layer, comm, op, own.unwrap_or(into), Split::Even(into.count()))?
    else {
        return Ok(Verdict::Plain);
    };
    match (call.comm.has(root), call.comm.rank == root) {
        // What the root alone does must not keep the others waiting.
        (true, true) if layer.usable(&into)?.is_some() => call.to_root(root, Some(&into)),
        (true, false) if own.is_some() => call.to_root(root, None),
        _ => Ok(Verdict::Plain), // which MPI refuses
    }
}
