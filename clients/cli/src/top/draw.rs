//! The view on a terminal.

use mgcomp_proto::v1::{Level, Row as Seen};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Row, Table, TableState};

use super::state::{Field, Input, State};
use crate::show;

/// Column heads and widths; what a level does not have is left out.
const COLUMNS: [(&str, u16); 12] = [
    ("job", 16),
    ("rank", 5),
    ("peer", 7),
    ("stream", 12),
    ("raw Gb/s", 9),
    ("coded Gb/s", 10),
    ("link Gb/s", 9),
    ("ratio", 6),
    ("saved", 9),
    ("lambda", 8),
    ("policy", 14),
    ("carried by", 30),
];

pub(super) fn draw(frame: &mut Frame<'_>, state: &State) {
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(2), Constraint::Fill(1), Constraint::Length(1)])
            .areas(frame.area());
    frame.render_widget(summary(state), head);
    let shown = columns(state.level);
    let widths = shown.iter().map(|&column| match COLUMNS[column] {
        ("carried by", width) => Constraint::Min(width),
        (_, width) => Constraint::Length(width),
    });
    let rows = state.rows.iter().map(|row| {
        let cells = cells(row);
        Row::new(shown.iter().map(|&column| cells[column].clone()).collect::<Vec<_>>())
    });
    let names = Row::new(shown.iter().map(|&column| COLUMNS[column].0).collect::<Vec<_>>());
    let table = Table::new(rows, widths)
        .header(names.style(Style::new().add_modifier(Modifier::BOLD)))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut selected = TableState::new().with_selected((!state.rows.is_empty()).then_some(state.selected));
    frame.render_stateful_widget(table, body, &mut selected);
    frame.render_widget(Line::raw(bottom(state)), foot);
}

/// All of it together.
fn summary(state: &State) -> Line<'static> {
    // The sum of nothing is -0.
    let sum = |field: fn(&Seen) -> f64| 0.0 + state.rows.iter().map(field).sum::<f64>();
    let (raw, coded) = (sum(|row| row.raw_gbps), sum(|row| row.coded_gbps));
    let totals = state.rows.iter().filter_map(|row| row.total.as_ref());
    // Programs say what they like, also what comes to more than a number holds.
    let saved = totals.fold(0, |sum: i64, total| sum.saturating_add(total.saved_ns));
    let ratio = if coded > 0.0 { format!("{:.2}", raw / coded) } else { "–".to_owned() };
    let what = match state.level {
        Level::Peer => "peers",
        Level::Stream => "streams",
        _ => "jobs",
    };
    // What the daemon does not tell is in none of the sums.
    let more = show::left_out(state.left_out, "not in these sums").map(|more| format!(" {more}"));
    Line::raw(format!(
        "mgcomp: {} {what}{}, {raw:.3} Gb/s as {coded:.3} Gb/s on links, ratio {ratio}, saved {} in all",
        state.rows.len(),
        more.unwrap_or_default(),
        show::time(saved)
    ))
}

fn columns(level: Level) -> Vec<usize> {
    let hidden: &[&str] = match level {
        Level::Job | Level::Unspecified => &["rank", "peer", "stream"],
        Level::Peer => &["rank", "stream"],
        Level::Stream => &[],
    };
    (0..COLUMNS.len()).filter(|&column| !hidden.contains(&COLUMNS[column].0)).collect()
}

fn cells(row: &Seen) -> [String; COLUMNS.len()] {
    let interval = row.interval.clone().unwrap_or_default();
    let [peer, stream] = show::ends((row.peer, row.stream), (row.from_device, row.to_device));
    [
        row.job.clone(),
        row.rank.map_or_else(|| "other".to_owned(), |rank| rank.to_string()),
        peer,
        stream,
        format!("{:.3}", row.raw_gbps),
        format!("{:.3}", row.coded_gbps),
        row.link_gbps.map_or_else(|| "–".to_owned(), |gbps| format!("{gbps:.1}")),
        show::ratio_text(&interval),
        show::time(interval.saved_ns),
        show::lambda(row.effective.as_ref()),
        show::policy(row.effective.as_ref()),
        show::mix(&interval),
    ]
}

/// What is being typed, what was said, or which keys there are.
fn bottom(state: &State) -> String {
    let place = show::place;
    match &state.input {
        Some(Input { field: Field::Lambda, scope, text }) => {
            format!("lambda of {} in Gb/s: {text}_", place(scope))
        }
        Some(Input { field: Field::Policy, scope, text }) => {
            format!("policy of {} (adaptive, paper, fixed:<algorithm>): {text}_", place(scope))
        }
        None => {
            let keys = "up/down select  tab level  l lambda  p policy  o on/off  u unset  q quit";
            if state.note.is_empty() { keys.to_owned() } else { format!("{}  |  {keys}", state.note) }
        }
    }
}

#[cfg(test)]
mod tests {
    use mgcomp_proto::v1::{AlgorithmTraffic, Settings, Traffic};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    #[test]
    fn nothing_is_no_less_than_nothing() {
        let text = summary(&State::default()).to_string();
        assert_eq!(text, "mgcomp: 0 jobs, 0.000 Gb/s as 0.000 Gb/s on links, ratio –, saved 0.0 µs in all");
    }

    #[test]
    fn rows_that_are_left_out_are_said_to_be() {
        let text = summary(&State { left_out: 3, ..State::default() }).to_string();
        assert!(text.starts_with("mgcomp: 0 jobs and 3 more: not in these sums, 0.000 Gb/s"), "{text}");
    }

    #[test]
    fn what_programs_say_may_be_too_much() {
        let total = Some(Traffic { saved_ns: i64::MAX, ..Traffic::default() });
        let row = Seen { total, ..Seen::default() };
        let of = |rows| summary(&State { rows, ..State::default() }).to_string();
        let saved = |text: String| text.split_once("saved").unwrap().1.to_owned();
        assert_eq!(saved(of(vec![row.clone(); 2])), saved(of(vec![row])));
    }

    #[test]
    fn the_view_shows_what_there_is() {
        let carried = AlgorithmTraffic { algorithm: "xp".into(), raw_bytes: 300, ..Default::default() };
        let interval = Traffic {
            raw_bytes: 300,
            coded_bytes: 200,
            saved_ns: 2_000_000,
            algorithms: vec![carried],
            ..Default::default()
        };
        let row = Seen {
            job: "train-7".into(),
            interval: Some(interval.clone()),
            total: Some(interval),
            raw_gbps: 1.5,
            coded_gbps: 1.0,
            effective: Some(Settings { lambda_gbps: Some(6.0), ..Default::default() }),
            ..Default::default()
        };
        let state = State { rows: vec![row], ..State::default() };
        let mut terminal = Terminal::new(TestBackend::new(160, 8)).unwrap();
        terminal.draw(|frame| draw(frame, &state)).unwrap();
        let text = terminal.backend().to_string();
        for expected in [
            "1 jobs, 1.500 Gb/s as 1.000 Gb/s",
            "ratio 1.50",
            "saved 2.0 ms",
            "train-7",
            "xp 100 %",
            "l lambda",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert!(!text.contains("stream"), "{text}");
    }
}
