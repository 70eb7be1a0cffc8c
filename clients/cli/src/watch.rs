//! `mgcomp watch`: rates and decisions, line by line.

use mgcomp_proto::v1::{Level, Row, Scope, WatchRequest, WatchResponse};
use serde_json::{Value, json};

use crate::args;
use crate::client::{ClientError, Target, with_patience};
use crate::error::{CliError, note};
use crate::output::print;
use crate::show;

/// Watch what programs exchange: a table at each interval, or one JSON object for each row.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Only this job
    #[arg(long, value_name = "ID", value_parser = args::job())]
    job: Option<String>,
    /// Only what goes to this rank, and no copies between devices
    #[arg(long, value_name = "RANK", requires = "job")]
    peer: Option<u32>,
    /// A row for each job, peer or stream
    #[arg(long, value_enum, default_value_t)]
    level: Rows,
    /// Time between tables in milliseconds, 100 to 60000
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = args::interval_ms(), allow_negative_numbers = true)]
    interval_ms: u32,
    /// Stop after so many
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Print one JSON object for each row
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

/// How finely to tell.
#[derive(clap::ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rows {
    #[default]
    Job,
    Peer,
    Stream,
}

impl From<Rows> for Level {
    fn from(rows: Rows) -> Self {
        match rows {
            Rows::Job => Self::Job,
            Rows::Peer => Self::Peer,
            Rows::Stream => Self::Stream,
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<(), CliError> {
    let request = WatchRequest {
        job: args.job.clone().unwrap_or_default(),
        peer: args.peer,
        level: Level::from(args.level).into(),
        interval_ms: args.interval_ms,
    };
    let scope = Scope { job: request.job.clone(), peer: args.peer, ..Scope::default() };
    with_patience(&args.target, async |mut daemon, patience| {
        let started = patience.wait(daemon.watch(request)).await;
        let mut responses = started.map_err(|error| error.about(&scope, false))?.into_inner();
        let (mut told, mut left_out) = (0, LeftOut::default());
        while args.count.is_none_or(|count| told < count) {
            let response = responses.message().await?.ok_or(ClientError::Ended)?;
            // What comes at once is of no interval: all its rates are zero.
            if response.interval_ns == 0 {
                continue;
            }
            let more = show::left_out(response.left_out, args.advice());
            let text =
                if args.json { lines(&response) } else { table(args.level, &response, more.as_deref()) };
            let begins = left_out.begins(response.left_out);
            // The objects say it too, but not what to do.
            if let Some(more) = more.filter(|_| args.json && begins) {
                note(&more);
            }
            if let Err(error) = print(&text) {
                return Ok(Err(error));
            }
            told += 1;
        }
        Ok(Ok(()))
    })?
}

impl Args {
    /// What to do where rows are left out.
    fn advice(&self) -> &'static str {
        match (&self.job, self.peer) {
            (None, None) => "name a job, or a rank of it with --peer",
            (Some(_), None) => "name a rank with --peer",
            (_, Some(_)) => "--level peer adds them up",
        }
    }
}

/// How many rows the last response has left out.
#[derive(Default)]
struct LeftOut(u32);

impl LeftOut {
    /// Whether the next, which leaves out so many, is the first to do so after one that did not.
    fn begins(&mut self, count: u32) -> bool {
        std::mem::replace(&mut self.0, count) == 0 && count > 0
    }
}

fn lines(response: &WatchResponse) -> String {
    response.rows.iter().map(|row| format!("{}\n", row_json(response, row))).collect()
}

fn row_json(response: &WatchResponse, row: &Row) -> Value {
    let mut object = json!({
        "unix_ns": response.unix_ns,
        "interval_ns": response.interval_ns,
        "missed": response.missed,
        "job": row.job,
        "rank": row.rank,
        "peer": row.peer,
        "stream": row.stream,
        "from_device": row.from_device,
        "to_device": row.to_device,
        "raw_gbps": row.raw_gbps,
        "coded_gbps": row.coded_gbps,
        "link_gbps": row.link_gbps,
        "interval": row.interval.as_ref().map(show::traffic),
        "total": row.total.as_ref().map(show::traffic),
        "effective": row.effective.as_ref().map(show::settings),
        "last_decision": row.last_decision.as_ref().map(show::decision),
    });
    if response.left_out > 0 {
        object["left_out"] = response.left_out.into();
    }
    object
}

fn table(level: Rows, response: &WatchResponse, more: Option<&str>) -> String {
    let mut head = vec!["job", "raw Gb/s", "coded Gb/s", "ratio", "saved", "lambda", "policy", "carried by"];
    let who: &[&str] = match level {
        Rows::Job => &[],
        Rows::Peer => &["peer"],
        Rows::Stream => &["rank", "peer", "stream"],
    };
    head.splice(1..1, who.iter().copied());
    let number = |value: Option<u32>| value.map_or_else(|| "other".to_owned(), |value| value.to_string());
    let row = |row: &Row| {
        let interval = row.interval.clone().unwrap_or_default();
        let who = match level {
            Rows::Job => vec![],
            Rows::Peer => vec![number(row.peer)],
            Rows::Stream => {
                let [peer, stream] = show::ends((row.peer, row.stream), (row.from_device, row.to_device));
                vec![number(row.rank), peer, stream]
            }
        };
        let rest = vec![
            format!("{:.3}", row.raw_gbps),
            format!("{:.3}", row.coded_gbps),
            show::ratio_text(&interval),
            show::time(interval.saved_ns),
            show::lambda(row.effective.as_ref()),
            show::policy(row.effective.as_ref()),
            show::mix(&interval),
        ];
        [vec![row.job.clone()], who, rest].concat()
    };
    let rows: Vec<_> = response.rows.iter().map(row).collect();
    let more = more.map(|more| format!("{more}\n")).unwrap_or_default();
    show::table(&head, 1, &rows) + &more + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_under_their_names() {
        let row = Row {
            job: "a".into(),
            rank: Some(2),
            peer: Some(3),
            stream: Some(31),
            raw_gbps: 1.5,
            coded_gbps: 1.0,
            link_gbps: Some(100.0),
            ..Row::default()
        };
        let text = table(Rows::Stream, &WatchResponse { rows: vec![row], ..WatchResponse::default() }, None);
        let expected = "job  rank  peer  stream  raw Gb/s  coded Gb/s  ratio   saved  lambda  policy  carried by\n\
                        a       2     3    0x1f     1.500       1.000      –  0.0 µs       –       –  –\n\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn what_is_left_out_is_said() {
        let told = WatchResponse { rows: vec![Row::default()], left_out: 7, ..WatchResponse::default() };
        let text = table(Rows::Peer, &told, Some("and 7 more: name a rank with --peer"));
        assert!(text.ends_with("\nand 7 more: name a rank with --peer\n\n"), "{text}");
        assert!(!table(Rows::Peer, &told, None).contains("more"));
        let left_out =
            |response: &WatchResponse| row_json(response, &response.rows[0]).get("left_out").cloned();
        assert_eq!(left_out(&told), Some(7.into()));
        assert_eq!(left_out(&WatchResponse { left_out: 0, ..told }), None);
    }

    #[test]
    fn it_is_noted_each_time_that_it_begins() {
        let mut left_out = LeftOut::default();
        let begins = [0, 0, 3, 3, 5, 0, 1].map(|count| left_out.begins(count));
        assert_eq!(begins, [false, false, true, false, false, false, true]);
        assert!(LeftOut::default().begins(1), "as the first response may");
    }

    #[test]
    fn nobody_is_told_to_do_what_is_done() {
        let advice = |job: Option<&str>, peer| {
            let args = Args {
                job: job.map(str::to_owned),
                peer,
                level: Rows::Stream,
                interval_ms: 0,
                count: None,
                json: false,
                target: Target::at("/run/s".into()),
            };
            args.advice()
        };
        assert_eq!(advice(None, None), "name a job, or a rank of it with --peer");
        assert_eq!(advice(Some("a"), None), "name a rank with --peer");
        assert_eq!(advice(Some("a"), Some(3)), "--level peer adds them up");
    }
}
