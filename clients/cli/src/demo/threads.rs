//! The ranks of the demo in one process, over the loopback link.

use std::thread;

use mgcomp_selector::{Lambda, PolicySpec};
use mgcomp_transport::link::Shaping;
use mgcomp_transport::link::loopback::Loopback;
use mgcomp_transport::message::{Rank, Secret};

use super::dataset::Dataset;
use super::error::DemoError;
use super::exchange::{Exchange, RankReport};
use super::measure::Ranks;
use super::{Setup, rank};
use crate::ranks;
use crate::room::Room;

pub(super) struct Threads<'a> {
    ranks: u32,
    shaping: Shaping,
    lambda: Option<Lambda>,
    decisions: usize,
    datasets: &'a [Dataset],
    /// Where the buffers of each rank are.
    rooms: Vec<Room>,
}

impl<'a> Threads<'a> {
    pub(super) fn new(setup: &Setup, datasets: &'a [Dataset]) -> Result<Self, DemoError> {
        Ok(Self {
            ranks: setup.ranks,
            shaping: setup.shaping()?,
            lambda: rank::lambda(setup)?,
            decisions: setup.decisions as usize,
            datasets,
            rooms: (0..setup.ranks).map(|rank| setup.room(rank)).collect::<Result<_, _>>()?,
        })
    }
}

impl Ranks for Threads<'_> {
    fn exchange(
        &mut self,
        dataset: usize,
        policy: Option<PolicySpec>,
        rounds: u32,
    ) -> Result<Vec<RankReport>, DemoError> {
        let dataset = &self.datasets[dataset];
        // Nobody else can reach a loopback fabric, so its secret need not be one.
        let exchange = Exchange {
            policy,
            lambda: self.lambda,
            secret: Secret::new([0; 16]),
            rounds,
            decisions: self.decisions,
        };
        let links = Loopback::fabric(self.ranks, Some(self.shaping))?;
        thread::scope(|scope| {
            let run = |(link, room)| scope.spawn(move || exchange.run(Box::new(link), room, dataset));
            let threads: Vec<_> = links.into_iter().zip(&self.rooms).map(run).collect();
            let joined = threads.into_iter().zip(0..);
            let reports =
                joined.map(|(thread, rank)| thread.join().unwrap_or(Err(DemoError::Panicked(Rank(rank)))));
            ranks::all_or_cause(reports, DemoError::is_of_connection)
        })
    }
}
