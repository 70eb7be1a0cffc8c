//! What the view shows, and what keys make of it. No terminal, no daemon: testable by itself.

use mgcomp_proto::v1::{
    Level, Row, Scope, Settings, SettingsField, UpdateSettingsRequest, WatchRequest, WatchResponse,
};
use ratatui::crossterm::event::KeyCode;

/// What is to be done after a key or an update.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    Draw,
    Quit,
    /// Watch at another level.
    Watch,
    Change(Box<UpdateSettingsRequest>),
}

/// What is being typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Lambda,
    Policy,
}

/// The view.
#[derive(Debug)]
pub(super) struct State {
    pub(super) level: Level,
    pub(super) rows: Vec<Row>,
    pub(super) selected: usize,
    /// A field and what was typed so far.
    pub(super) input: Option<(Field, String)>,
    /// The last thing worth saying.
    pub(super) note: String,
}

impl Default for State {
    fn default() -> Self {
        Self { level: Level::Job, rows: Vec::new(), selected: 0, input: None, note: String::new() }
    }
}

impl State {
    /// What the daemon is asked for.
    pub(super) fn request(&self, interval_ms: u32) -> WatchRequest {
        WatchRequest { level: self.level.into(), interval_ms, ..WatchRequest::default() }
    }

    pub(super) fn note(&mut self, note: String) {
        self.note = note;
    }

    pub(super) fn update(&mut self, response: WatchResponse) -> Step {
        let scope = self.scope();
        self.rows = response.rows;
        // The selection stays with what it was on, wherever that is now.
        let same = self.rows.iter().position(|row| scope_of(row) == scope);
        self.selected = same.unwrap_or(self.selected).min(self.rows.len().saturating_sub(1));
        Step::Draw
    }

    pub(super) fn key(&mut self, key: KeyCode) -> Step {
        if self.input.is_some() {
            return self.typed(key);
        }
        match key {
            KeyCode::Char('q') | KeyCode::Esc => return Step::Quit,
            KeyCode::Up | KeyCode::Char('k') => self.selected = self.selected.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => {
                self.selected = (self.selected + 1).min(self.rows.len().saturating_sub(1));
            }
            KeyCode::Tab => {
                self.level = match self.level {
                    Level::Job | Level::Unspecified => Level::Peer,
                    Level::Peer => Level::Stream,
                    Level::Stream => Level::Job,
                };
                self.rows.clear();
                self.selected = 0;
                return Step::Watch;
            }
            KeyCode::Char('l') => self.input = Some((Field::Lambda, String::new())),
            KeyCode::Char('p') => self.input = Some((Field::Policy, String::new())),
            KeyCode::Char('o') => return self.toggle(),
            KeyCode::Char('u') => return self.unset(),
            _ => {}
        }
        Step::Draw
    }

    /// The scope of the selected row; the node if there is none.
    pub(super) fn scope(&self) -> Scope {
        self.rows.get(self.selected).map(scope_of).unwrap_or_default()
    }

    fn typed(&mut self, key: KeyCode) -> Step {
        let Some((field, text)) = &mut self.input else { return Step::Draw };
        match key {
            KeyCode::Esc => self.input = None,
            KeyCode::Backspace => drop(text.pop()),
            KeyCode::Char(letter) => text.push(letter),
            KeyCode::Enter => {
                let (field, text) = (*field, std::mem::take(text));
                self.input = None;
                return self.entered(field, &text);
            }
            _ => {}
        }
        Step::Draw
    }

    fn entered(&mut self, field: Field, text: &str) -> Step {
        let set = match (field, text.trim()) {
            (_, "") => return Step::Draw,
            (Field::Policy, name) => Settings { policy: Some(name.to_owned()), ..Settings::default() },
            (Field::Lambda, number) => match number.parse() {
                Ok(gbps) => Settings { lambda_gbps: Some(gbps), ..Settings::default() },
                Err(_) => {
                    self.note = format!("{number:?} is no number");
                    return Step::Draw;
                }
            },
        };
        self.change(Some(set), &[])
    }

    /// Switches compression of the selected row off, or on if it is off.
    fn toggle(&self) -> Step {
        let effective = self.rows.get(self.selected).and_then(|row| row.effective.as_ref());
        let is_off = effective.and_then(|settings| settings.compress) == Some(false);
        self.change(Some(Settings { compress: Some(is_off), ..Settings::default() }), &[])
    }

    /// Takes all settings of the selected row away.
    fn unset(&self) -> Step {
        let all = [SettingsField::LambdaGbps, SettingsField::Policy, SettingsField::Compress];
        self.change(None, &all)
    }

    fn change(&self, set: Option<Settings>, unset: &[SettingsField]) -> Step {
        Step::Change(Box::new(UpdateSettingsRequest {
            scope: Some(self.scope()),
            set,
            unset: unset.iter().map(|field| i32::from(*field)).collect(),
            durable: true,
            ..UpdateSettingsRequest::default()
        }))
    }
}

fn scope_of(row: &Row) -> Scope {
    Scope { job: row.job.clone(), peer: row.peer, stream: row.stream }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(job: &str, peer: Option<u32>) -> Row {
        Row { job: job.to_owned(), peer, ..Row::default() }
    }

    fn with_rows(rows: Vec<Row>) -> State {
        let mut state = State::default();
        state.update(WatchResponse { rows, ..WatchResponse::default() });
        state
    }

    fn typed(state: &mut State, text: &str) -> Step {
        text.chars().for_each(|letter| assert_eq!(state.key(KeyCode::Char(letter)), Step::Draw));
        state.key(KeyCode::Enter)
    }

    #[test]
    fn keys_set_what_is_selected() {
        let mut state = with_rows(vec![row("a", None), row("b", None)]);
        state.key(KeyCode::Down);
        state.key(KeyCode::Char('l'));
        let Step::Change(request) = typed(&mut state, "2.5") else { panic!("nothing is changed") };
        assert_eq!(request.scope.unwrap().job, "b");
        assert_eq!(request.set.unwrap().lambda_gbps, Some(2.5));
        assert!(request.durable);

        state.key(KeyCode::Char('p'));
        let Step::Change(request) = typed(&mut state, "paper") else { panic!("nothing is changed") };
        assert_eq!(request.set.unwrap().policy.as_deref(), Some("paper"));

        state.key(KeyCode::Char('l'));
        assert_eq!(typed(&mut state, "fast"), Step::Draw);
        assert!(state.note.contains("no number"));
    }

    #[test]
    fn the_selection_stays_with_its_row() {
        let mut state = with_rows(vec![row("b", None), row("c", None)]);
        state.key(KeyCode::Down);
        state.update(WatchResponse {
            rows: vec![row("a", None), row("b", None), row("c", None)],
            ..Default::default()
        });
        assert_eq!(state.scope().job, "c");
        state.update(WatchResponse { rows: vec![row("a", None)], ..Default::default() });
        assert_eq!(state.scope().job, "a");
    }

    #[test]
    fn off_is_toggled_and_tab_goes_round() {
        let off = Some(Settings { compress: Some(false), ..Settings::default() });
        for (effective, then) in [(None, false), (off, true)] {
            let mut state = with_rows(vec![Row { effective, ..row("a", Some(1)) }]);
            let Step::Change(request) = state.key(KeyCode::Char('o')) else { panic!("nothing is changed") };
            assert_eq!(request.set.unwrap().compress, Some(then));
            assert_eq!(request.scope.unwrap().peer, Some(1));
        }
        let mut state = State::default();
        let levels: Vec<_> = (0..3).map(|_| (state.key(KeyCode::Tab), state.level).1).collect();
        assert_eq!(levels, [Level::Peer, Level::Stream, Level::Job]);
        assert_eq!(state.key(KeyCode::Char('q')), Step::Quit);
    }
}
