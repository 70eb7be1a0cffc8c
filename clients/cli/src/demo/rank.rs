//! `mgcomp demo-rank`: one rank of `mgcomp demo --tcp`, a process that is told what to do line by line.

use std::io::{self, BufRead, Read};

use mgcomp_selector::{Lambda, PolicySpec};
use mgcomp_transport::control;
use mgcomp_transport::link::tcp::{Connections, RankFile, Tcp, TcpConfig};
use mgcomp_transport::message::Rank;
use mgcomp_transport::node::NodeConfig;
use serde::{Deserialize, Serialize};

use super::Setup;
use super::dataset::{Dataset, Head};
use super::error::DemoError;
use super::exchange::{Exchange, RankReport};
use crate::error::{CliError, with_causes};
use crate::ranks;
use crate::room::Room;

/// Be one rank of `mgcomp demo --tcp`. Not for use by hand.
#[derive(clap::Args, Debug)]
#[command(hide = true)]
pub(crate) struct Args {}

/// What a rank is told, a line of JSON each.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Order {
    /// First of all: who it is, and which data sets there are. Their bytes come next.
    Begin { rank: u32, setup: Setup, datasets: Vec<Head> },
    /// Open a socket and say where.
    Listen,
    /// Join the ranks of this rank file and exchange a data set.
    Exchange { rank_file: String, dataset: usize, policy: Option<String>, rounds: u32 },
}

/// What a rank answers, a line of JSON each.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    Listening { address: String },
    Report(RankReport),
    Failed { text: String, is_cause: bool },
}

pub(crate) fn run(_: &Args) -> Result<(), CliError> {
    let _seen = control::attach(); // from the first exchange to the last
    let mut orders = io::stdin().lock();
    let first = orders.by_ref().lines().next().and_then(Result::ok).unwrap_or_default();
    let Order::Begin { rank, setup, datasets } = parse(&first)? else {
        return Err(DemoError::Input(first).into());
    };
    let rank = Rank(rank);
    let datasets: io::Result<Vec<Dataset>> =
        datasets.into_iter().map(|head| head.read(&mut orders)).collect();
    let datasets = datasets.map_err(|source| DemoError::Process { rank, source })?;
    let mut member = Member { rank, setup, datasets, listener: None, room: None };
    for line in orders.lines().map_while(Result::ok) {
        let order = parse(&line)?;
        let failed = |error: DemoError| Answer::Failed {
            text: with_causes(&error),
            is_cause: !error.is_of_connection(),
        };
        let answer = member.obey(order).unwrap_or_else(failed);
        answer_with(&answer)?;
    }
    Ok(())
}

/// The λ of a setup.
pub(super) fn lambda(setup: &Setup) -> Result<Option<Lambda>, DemoError> {
    setup.lambda_gbps.map(Lambda::try_new).transpose().map_err(|error| DemoError::Input(error.to_string()))
}

struct Member {
    rank: Rank,
    setup: Setup,
    datasets: Vec<Dataset>,
    listener: Option<std::net::TcpListener>,
    /// Where its buffers are, once it has any.
    room: Option<Room>,
}

impl Member {
    fn obey(&mut self, order: Order) -> Result<Answer, DemoError> {
        match order {
            Order::Begin { .. } => Err(DemoError::Input("begin, a second time".into())),
            Order::Listen => {
                let process = |source| DemoError::Process { rank: self.rank, source };
                let listener = Tcp::bind("127.0.0.1:0").map_err(process)?;
                let address = listener.local_addr().map_err(process)?.to_string();
                self.listener = Some(listener);
                Ok(Answer::Listening { address })
            }
            Order::Exchange { rank_file, dataset, policy, rounds } => {
                self.exchange(&rank_file, dataset, policy.as_deref(), rounds).map(Answer::Report)
            }
        }
    }

    fn exchange(
        &mut self,
        rank_file: &str,
        dataset: usize,
        policy: Option<&str>,
        rounds: u32,
    ) -> Result<RankReport, DemoError> {
        let bad = |error: &dyn std::fmt::Display| DemoError::Input(error.to_string());
        let rank_file = RankFile::parse(rank_file).map_err(|error| bad(&error))?;
        let parse = |policy: &str| policy.parse::<PolicySpec>().map_err(|error| bad(&error));
        let policy = policy.map(parse).transpose()?;
        let dataset = self.datasets.get(dataset).ok_or_else(|| bad(&"no such data set"))?;
        let listener = self.listener.take().ok_or_else(|| bad(&"exchange before listen"))?;
        let secret = rank_file.secret;
        let config = TcpConfig {
            shaping: Some(self.setup.shaping()?),
            connections: Connections::try_new(self.setup.connections).map_err(|error| bad(&error))?,
            ..TcpConfig::new(NodeConfig::default().limits)
        };
        let room = match self.room.take() {
            Some(room) => room,
            None => self.setup.room(self.rank.0)?,
        };
        let link = Tcp::new(listener, rank_file, self.rank, config)?;
        Exchange {
            policy,
            lambda: lambda(&self.setup)?,
            secret,
            rounds,
            decisions: self.setup.decisions as usize,
        }
        .run(Box::new(link), self.room.insert(room), dataset)
    }
}

fn parse(line: &str) -> Result<Order, DemoError> {
    ranks::heard(line).ok_or_else(|| DemoError::Input(line.to_owned()))
}

fn answer_with(answer: &Answer) -> Result<(), CliError> {
    let said = ranks::say(answer, &mut io::stdout().lock());
    said.map_err(|source| CliError::Write { name: "standard output".into(), source })
}
