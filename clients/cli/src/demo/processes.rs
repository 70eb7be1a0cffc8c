//! The ranks of the demo as processes of their own, over TCP on this machine.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use mgcomp_selector::PolicySpec;
use mgcomp_transport::message::Rank;

use super::Setup;
use super::dataset::{Dataset, Head};
use super::error::DemoError;
use super::exchange::RankReport;
use super::measure::Ranks;
use super::rank::{Answer, Order};
use crate::ranks;

/// How long ranks may take to open a socket, which is done at once: but first of all they start and read the data sets, and the
/// machine may be busy.
const LISTENING: Duration = Duration::from_secs(20);
/// How long the others may take to answer once one has failed: they fail as well then, and one of them says why.
const PARTING: Duration = Duration::from_secs(20);

/// All ranks; ends them when dropped.
pub(super) struct Processes {
    members: Vec<Member>,
    /// What they say, a line at a time, and that they say no more.
    said: Receiver<(Rank, Option<String>)>,
    say: mpsc::Sender<(Rank, Option<String>)>,
}

struct Member {
    rank: Rank,
    child: Child,
    orders: ChildStdin,
}

impl Processes {
    /// Starts them, to be seen by the daemon at `socket` or by whichever they find. The data sets go to each of them: what is
    /// no file, as standard input, can be read but once.
    pub(super) fn start(
        setup: &Setup,
        datasets: &[Dataset],
        socket: Option<&Path>,
    ) -> Result<Self, DemoError> {
        let (say, said) = mpsc::channel();
        let mut processes = Self { members: Vec::new(), said, say };
        for rank in 0..setup.ranks {
            let mut member = processes.start_member(Rank(rank), socket)?;
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
        let listening = |(rank, answer)| match answer {
            Answer::Listening { address } => Ok(address),
            other => Err(DemoError::Answer { rank, line: format!("{other:?}") }),
        };
        let addresses =
            self.answers(Some(LISTENING))?.into_iter().map(listening).collect::<Result<Vec<_>, _>>()?;
        let secret = ranks::random_secret().map_err(DemoError::Random)?;
        Ok(serde_json::json!({ "secret": secret, "ranks": addresses }).to_string())
    }

    fn start_member(&self, rank: Rank, socket: Option<&Path>) -> Result<Member, DemoError> {
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
        let say = self.say.clone();
        // Ends with the rank.
        thread::spawn(move || {
            let lines = BufReader::new(answers).lines().map_while(Result::ok).map(Some);
            let mut all = lines.chain([None]);
            all.try_for_each(|line| say.send((rank, line)))
        });
        Ok(Member { rank, child, orders })
    }

    /// What each of them answers, in their order; or why one of them does not. They may take that long, if there is a limit.
    fn answers(&self, limit: Option<Duration>) -> Result<Vec<(Rank, Answer)>, DemoError> {
        let mut answers: Vec<Option<Result<(Rank, Answer), DemoError>>> = Vec::new();
        answers.resize_with(self.members.len(), || None);
        let mut until = limit.map(|limit| Instant::now() + limit);
        while answers.iter().any(Option::is_none) {
            let said = match until {
                None => self.said.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(until) => self.said.recv_timeout(until.saturating_duration_since(Instant::now())),
            };
            let Ok((rank, line)) = said else { break };
            let answer = answer(rank, line);
            if let Err(error) = &answer {
                // It says why: nobody else is waited for.
                if !error.is_of_connection() {
                    return answer.map(|_| Vec::new());
                }
                let parting = Instant::now() + PARTING;
                until = Some(until.map_or(parting, |until| until.min(parting)));
            }
            if let Some(known) = answers.get_mut(rank.0 as usize) {
                *known = Some(answer);
            }
        }
        let answer = |(rank, answer): (u32, Option<_>)| answer.unwrap_or(Err(DemoError::Silent(Rank(rank))));
        ranks::all_or_cause((0..).zip(answers).map(answer), DemoError::is_of_connection)
    }
}

/// What a line of a rank says; none = it has ended.
fn answer(rank: Rank, line: Option<String>) -> Result<(Rank, Answer), DemoError> {
    let line = line.ok_or(DemoError::Ended(rank))?;
    match ranks::heard(&line) {
        Some(Answer::Failed { text, is_cause }) => Err(DemoError::Rank { rank, text, is_cause }),
        Some(answer) => Ok((rank, answer)),
        None => Err(DemoError::Answer { rank, line }),
    }
}

impl Ranks for Processes {
    fn exchange(
        &mut self,
        dataset: usize,
        policy: Option<PolicySpec>,
        rounds: u32,
    ) -> Result<Vec<RankReport>, DemoError> {
        let rank_file = self.rank_file()?;
        let policy = policy.map(|policy| policy.to_string());
        let order = Order::Exchange { rank_file, dataset, policy, rounds };
        self.members.iter_mut().try_for_each(|member| member.order(&order))?;
        let report = |(rank, answer)| match answer {
            Answer::Report(report) => Ok(report),
            other => Err(DemoError::Answer { rank, line: format!("{other:?}") }),
        };
        // That takes as long as the link is slow, and who is stopped meanwhile is noticed by the others.
        self.answers(None)?.into_iter().map(report).collect()
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
    fn order(&mut self, order: &Order) -> Result<(), DemoError> {
        let told = ranks::say(order, &mut self.orders);
        told.map_err(|source| DemoError::Process { rank: self.rank, source })
    }

    /// What comes after an order that says so.
    fn send(&mut self, bytes: &[u8]) -> Result<(), DemoError> {
        let sent = self.orders.write_all(bytes);
        sent.map_err(|source| DemoError::Process { rank: self.rank, source })
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_rank_that_does_not_answer_is_given_up() {
        let (say, said) = mpsc::channel();
        // They hear nothing, as those that are stopped.
        let member = |rank| {
            let mut child = Command::new("sleep").arg("600").stdin(Stdio::piped()).spawn().unwrap();
            let orders = child.stdin.take().unwrap();
            Member { rank: Rank(rank), child, orders }
        };
        let processes = Processes { members: (0..3).map(member).collect(), said, say };
        for rank in [0, 2] {
            let line = serde_json::to_string(&Answer::Listening { address: "x".into() }).unwrap();
            processes.say.send((Rank(rank), Some(line))).unwrap();
        }
        let error = processes.answers(Some(Duration::from_millis(50))).unwrap_err();
        assert_eq!(error.to_string(), "rank 1 does not answer");
    }
}
