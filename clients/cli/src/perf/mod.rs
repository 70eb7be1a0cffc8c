//! `mgcomp perf`: what operations between ranks cost, over links and sizes, with every result checked.
//!
//! Every rank runs the same program (`measure`), whether it is a thread, a process of this program's own or one that
//! was started by hand (`launch`). What ranks have to agree on they tell each other over the link that is measured.

mod agreement;
mod apart;
mod check;
mod common;
mod data;
mod error;
mod launch;
mod measure;
mod member;
mod nccl;
mod numbers;
mod operation;
mod options;
mod pattern;
mod picture;
mod report;
mod rounding;
mod row;
mod sizes;
mod values;
mod watchdog;

pub(crate) use self::error::PerfError;
pub(crate) use self::launch::child;
pub(crate) use self::options::Args;
use self::report::Table;
use self::row::Row;
use crate::error::CliError;

pub(crate) fn run(args: &Args) -> Result<(), CliError> {
    Ok(measured(args)?)
}

fn measured(args: &Args) -> Result<(), PerfError> {
    args.check()?;
    let (mut rows, mut table) = (Vec::new(), None);
    let wrong = launch::run(args, &mut |row: Row| {
        table.get_or_insert_with(|| Table::new(args, row.ranks)).print(&row)?;
        rows.push(row);
        Ok(())
    })?;
    if let (Some(path), Some(first)) = (&args.plot, rows.first()) {
        picture::draw(&rows, args, first.ranks, path)?;
    }
    if wrong > 0 { Err(PerfError::Wrong { wrong }) } else { Ok(()) }
}
