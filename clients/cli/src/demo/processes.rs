//! The ranks of the demo as processes of their own, over TCP on this machine.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout};

use mgcomp_selector::PolicySpec;
use mgcomp_transport::message::Rank;

use super::Setup;
use super::dataset::{Dataset, Head};
use super::error::DemoError;
use super::exchange::RankReport;
use super::measure::Ranks;
use super::rank::{Answer, Order};
use crate::ranks;

/// All ranks; ends them when dropped.
pub(super) struct Processes {
    members: Vec<Member>,
}

struct Member {
    rank: Rank,
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Processes {
    /// Starts them, to be seen by the daemon at `socket` or by whichever they find. The data sets go to each of them: what is
    /// no file, as standard input, can be read but once.
    pub(super) fn start(
        setup: &Setup,
        datasets: &[Dataset],
        socket: Option<&Path>,
    ) -> Result<Self, DemoError> {
        let mut processes = Self { members: Vec::new() };
        for rank in 0..setup.ranks {
            let mut member = Member::start(Rank(rank), socket)?;
            let heads = datasets.iter().map(Head::of).collect();
            member.order(&Order::Begin { rank, setup: setup.clone(), datasets: heads })?;
            datasets.iter().try_for_each(|dataset| member.send(&dataset.bytes))?;
            processes.members.push(member);
        }
        Ok(processes)
    }

    /// Lets every rank open a socket; returns the rank file of the job.
    fn rank_file(&mut self) -> Result<String, DemoError> {
        self.members.iter_mut().try_for_each(|member| member.order(&Order::Listen))?;
        let listening = |member: &mut Member| match member.answer()? {
            Answer::Listening { address } => Ok(address),
            other => Err(DemoError::Answer { rank: member.rank, line: format!("{other:?}") }),
        };
        let addresses = self.members.iter_mut().map(listening).collect::<Result<Vec<_>, _>>()?;
        let secret = ranks::random_secret().map_err(DemoError::Random)?;
        Ok(serde_json::json!({ "secret": secret, "ranks": addresses }).to_string())
    }
}

impl Ranks for Processes {
    fn exchange(
        &mut self,
        dataset: usize,
        policy: PolicySpec,
        rounds: u32,
    ) -> Result<Vec<RankReport>, DemoError> {
        let rank_file = self.rank_file()?;
        let order = Order::Exchange { rank_file, dataset, policy: policy.to_string(), rounds };
        self.members.iter_mut().try_for_each(|member| member.order(&order))?;
        let report = |member: &mut Member| match member.answer()? {
            Answer::Report(report) => Ok(report),
            other => Err(DemoError::Answer { rank: member.rank, line: format!("{other:?}") }),
        };
        ranks::all_or_cause(self.members.iter_mut().map(report), DemoError::is_of_connection)
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for member in &mut self.members {
            // It may have ended by itself; either way it is gone afterwards.
            let _ = member.child.kill();
            let _ = member.child.wait();
        }
    }
}

impl Member {
    fn start(rank: Rank, socket: Option<&Path>) -> Result<Self, DemoError> {
        let failed = |source| DemoError::Process { rank, source };
        let mut command = ranks::command("demo-rank").map_err(failed)?;
        if std::env::var_os("MGCOMP_JOB").is_none() {
            command.env("MGCOMP_JOB", format!("demo-{}", std::process::id()));
        }
        if let Some(socket) = socket {
            // A rank that is switched off would never be seen by the daemon.
            command.env("MGCOMP_SOCKET", socket).env_remove("MGCOMP");
        }
        let (child, orders, answers) = ranks::start(&mut command).map_err(failed)?;
        Ok(Self { rank, child, orders, answers: BufReader::new(answers) })
    }

    fn order(&mut self, order: &Order) -> Result<(), DemoError> {
        let told = ranks::say(order, &mut self.orders);
        told.map_err(|source| DemoError::Process { rank: self.rank, source })
    }

    /// What comes after an order that says so.
    fn send(&mut self, bytes: &[u8]) -> Result<(), DemoError> {
        let sent = self.orders.write_all(bytes);
        sent.map_err(|source| DemoError::Process { rank: self.rank, source })
    }

    fn answer(&mut self) -> Result<Answer, DemoError> {
        let rank = self.rank;
        let mut line = String::new();
        let read = self.answers.read_line(&mut line);
        if read.map_err(|source| DemoError::Process { rank, source })? == 0 {
            return Err(DemoError::Ended(rank));
        }
        match ranks::heard(&line) {
            Some(Answer::Failed { text, is_cause }) => Err(DemoError::Rank { rank, text, is_cause }),
            Some(answer) => Ok(answer),
            None => Err(DemoError::Answer { rank, line }),
        }
    }
}
