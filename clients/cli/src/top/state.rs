//! What the view shows, and what keys make of it. No terminal, no daemon: testable by itself.

use mgcomp_proto::v1::{Level, Row, Scope, Settings, SettingsField, UpdateSettingsRequest, WatchResponse};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::setting;

/// What is to be done after a key or an update.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    Draw,
    Quit,
    /// Watch at this level, which is not the view's until the daemon has agreed.
    Watch(Level),
    Change(Box<UpdateSettingsRequest>),
    /// Let what is off be on, which depends on what is set around it.
    SwitchOn(Scope),
}

/// What is being typed.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) field: Field,
    /// Of the row that was selected when it began, wherever that is by now.
    pub(super) scope: Scope,
    /// What was typed so far.
    pub(super) text: String,
}

/// What it is for.
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
    /// How many more there are.
    pub(super) left_out: u32,
    pub(super) selected: usize,
    pub(super) input: Option<Input>,
    /// The last thing worth saying.
    pub(super) note: String,
}

impl Default for State {
    fn default() -> Self {
        Self {
            level: Level::Job,
            rows: Vec::new(),
            left_out: 0,
            selected: 0,
            input: None,
            note: String::new(),
        }
    }
}

impl State {
    /// What comes next is of this level.
    pub(super) fn turn_to(&mut self, level: Level) {
        self.level = level;
        self.rows.clear();
        self.selected = 0;
    }

    pub(super) fn note(&mut self, note: String) {
        self.note = note;
    }

    pub(super) fn update(&mut self, response: WatchResponse) -> Step {
        let before = std::mem::replace(&mut self.rows, response.rows);
        self.left_out = response.left_out;
        // The selection stays with what it was on, wherever that is now.
        let was = before.get(self.selected);
        let same = was.and_then(|was| self.rows.iter().position(|row| is_same(row, was)));
        self.selected = same.unwrap_or(self.selected).min(self.rows.len().saturating_sub(1));
        Step::Draw
    }

    /// What was pressed. With Ctrl or Alt a letter is another key, and none of ours but for Ctrl-C, which quits in any case.
    pub(super) fn press(&mut self, pressed: KeyEvent) -> Step {
        let others = pressed.modifiers.difference(KeyModifiers::SHIFT);
        match (pressed.code, others) {
            (key, KeyModifiers::NONE) => self.key(key),
            (KeyCode::Char('c' | 'C'), KeyModifiers::CONTROL) => Step::Quit,
            _ => Step::Draw,
        }
    }

    fn key(&mut self, key: KeyCode) -> Step {
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
                return Step::Watch(match self.level {
                    Level::Job | Level::Unspecified => Level::Peer,
                    Level::Peer => Level::Stream,
                    Level::Stream => Level::Job,
                });
            }
            KeyCode::Char(key @ ('l' | 'p' | 'o' | 'u')) => return self.steer(key),
            _ => {}
        }
        Step::Draw
    }

    /// What a key does to the selected row. Where there is none, nothing is meant, least of all the whole node.
    fn steer(&mut self, key: char) -> Step {
        let scope = match self.rows.get(self.selected).map(|row| scope_of(row, self.level)) {
            Some(Some(scope)) => scope,
            Some(None) => {
                self.note = "this is no single stream: what is set for its job counts there".to_owned();
                return Step::Draw;
            }
            None => {
                self.note = "there is no row to change".to_owned();
                return Step::Draw;
            }
        };
        let input = |field| Some(Input { field, scope: scope.clone(), text: String::new() });
        match key {
            'l' => self.input = input(Field::Lambda),
            'p' => self.input = input(Field::Policy),
            'o' if self.is_off() => return Step::SwitchOn(scope),
            'o' => {
                let off = Settings { compress: Some(false), ..Settings::default() };
                return change(scope, Some(off), &[]);
            }
            _ => return change(scope, None, &setting::ALL.map(|setting| setting.field)),
        }
        Step::Draw
    }

    fn typed(&mut self, key: KeyCode) -> Step {
        let Some(input) = &mut self.input else { return Step::Draw };
        match key {
            KeyCode::Esc => self.input = None,
            KeyCode::Backspace => drop(input.text.pop()),
            KeyCode::Char(letter) => input.text.push(letter),
            KeyCode::Enter => {
                if let Some(input) = self.input.take() {
                    return self.entered(input);
                }
            }
            _ => {}
        }
        Step::Draw
    }

    fn entered(&mut self, Input { field, scope, text }: Input) -> Step {
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
        change(scope, Some(set), &[])
    }

    /// Whether the selected row is.
    fn is_off(&self) -> bool {
        let effective = self.rows.get(self.selected).and_then(|row| row.effective.as_ref());
        effective.and_then(|settings| settings.compress) == Some(false)
    }
}

fn change(scope: Scope, set: Option<Settings>, unset: &[SettingsField]) -> Step {
    Step::Change(Box::new(update(scope, set, unset)))
}

/// What the daemon is asked to change.
pub(super) fn update(scope: Scope, set: Option<Settings>, unset: &[SettingsField]) -> UpdateSettingsRequest {
    UpdateSettingsRequest {
        scope: Some(scope),
        set,
        unset: unset.iter().map(|field| i32::from(*field)).collect(),
        durable: true,
        ..UpdateSettingsRequest::default()
    }
}

/// The scope that a row of a level stands for; none where the row has no scope of its own, as other streams of a process and
/// copies between devices.
fn scope_of(row: &Row, level: Level) -> Option<Scope> {
    let (peer, stream) = match level {
        Level::Job | Level::Unspecified => (None, None),
        Level::Peer => (Some(row.peer?), None),
        Level::Stream => (Some(row.peer?), Some(row.stream?)),
    };
    (!row.job.is_empty()).then(|| Scope { job: row.job.clone(), peer, stream })
}

/// Whether two rows are about the same. Streams of two processes may have the same peer and number, and the same rank where
/// that is not known.
fn is_same(a: &Row, b: &Row) -> bool {
    let who = |row: &Row| (row.pid, row.rank, row.peer, row.stream, row.from_device, row.to_device);
    a.job == b.job && who(a) == who(b)
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
    fn ctrl_c_quits_and_other_combinations_do_nothing() {
        let press =
            |state: &mut State, key, modifiers| state.press(KeyEvent::new(KeyCode::Char(key), modifiers));
        let mut state = with_rows(vec![row("a", None)]);
        for modifiers in [KeyModifiers::CONTROL, KeyModifiers::ALT, KeyModifiers::CONTROL | KeyModifiers::ALT]
        {
            for key in ['o', 'u', 'l', 'p', 'q'] {
                assert_eq!(press(&mut state, key, modifiers), Step::Draw, "{key} {modifiers:?}");
            }
        }
        assert!(state.input.is_none());
        press(&mut state, 'p', KeyModifiers::NONE);
        press(&mut state, 'X', KeyModifiers::SHIFT);
        press(&mut state, 'a', KeyModifiers::CONTROL);
        assert_eq!(state.input.as_ref().unwrap().text, "X");
        assert_eq!(
            press(&mut state, 'c', KeyModifiers::CONTROL),
            Step::Quit,
            "also while something is typed"
        );
    }

    #[test]
    fn the_selection_stays_with_its_row() {
        let mut state = with_rows(vec![row("b", None), row("c", None)]);
        state.key(KeyCode::Down);
        state.update(WatchResponse {
            rows: vec![row("a", None), row("b", None), row("c", None)],
            ..Default::default()
        });
        assert_eq!(state.rows[state.selected].job, "c");
        state.update(WatchResponse { rows: vec![row("a", None)], ..Default::default() });
        assert_eq!(state.rows[state.selected].job, "a");
    }

    #[test]
    fn processes_with_the_same_streams_are_told_apart() {
        let stream = |pid| Row { pid, rank: Some(0), stream: Some(7), ..row("a", Some(1)) };
        let mut state = with_rows(vec![stream(10), stream(20), stream(30)]);
        state.key(KeyCode::Down);
        state.update(WatchResponse { rows: vec![stream(10), stream(20), stream(30)], ..Default::default() });
        assert_eq!(state.rows[state.selected].pid, 20);
    }

    #[test]
    fn what_is_no_scope_is_not_changed() {
        let copies = Row { from_device: Some(0), to_device: Some(1), ..row("a", None) };
        let refused = [(vec![], "no row"), (vec![row("a", None)], "no single"), (vec![copies], "no single")];
        for (rows, why) in refused {
            for key in ['l', 'p', 'o', 'u'] {
                let mut state = with_rows(rows.clone());
                state.level = Level::Stream;
                assert_eq!(state.key(KeyCode::Char(key)), Step::Draw, "{key}");
                assert!(state.input.is_none() && state.note.contains(why), "{key}: {}", state.note);
            }
        }
    }

    #[test]
    fn what_is_typed_is_for_the_row_that_it_began_at() {
        let mut state = with_rows(vec![row("a", None), row("b", None)]);
        state.key(KeyCode::Char('l'));
        state.update(WatchResponse { rows: vec![row("b", None)], ..Default::default() });
        let Step::Change(request) = typed(&mut state, "1") else { panic!("nothing is changed") };
        assert_eq!(request.scope.unwrap().job, "a");
    }

    #[test]
    fn what_is_unset_is_all_that_can_be_set() {
        let mut state = with_rows(vec![row("a", None)]);
        let Step::Change(request) = state.key(KeyCode::Char('u')) else { panic!("nothing is changed") };
        // All numbers but 0, which is none.
        let fields: Vec<_> = (1..).map_while(|number| SettingsField::try_from(number).ok()).collect();
        assert_eq!((request.set, request.unset.len()), (None, fields.len()));
        assert!(fields.into_iter().all(|field| request.unset.contains(&field.into())));
    }

    #[test]
    fn off_is_toggled_and_tab_goes_round() {
        let [off, on] = [false, true].map(|on| Some(Settings { compress: Some(on), ..Settings::default() }));
        let pressed = |effective| {
            let mut state = with_rows(vec![Row { effective, ..row("a", Some(1)) }]);
            state.level = Level::Peer;
            state.key(KeyCode::Char('o'))
        };
        let scope = Scope { job: "a".to_owned(), peer: Some(1), stream: None };
        for effective in [None, on] {
            assert_eq!(pressed(effective), change(scope.clone(), off.clone(), &[]));
        }
        assert_eq!(pressed(off), Step::SwitchOn(scope));
        let mut state = with_rows(vec![row("a", None)]);
        for level in [Level::Peer, Level::Stream, Level::Job] {
            assert_eq!(state.key(KeyCode::Tab), Step::Watch(level));
            state.turn_to(level);
            assert_eq!((state.level, state.rows.len()), (level, 0));
        }
        assert_eq!(state.key(KeyCode::Char('q')), Step::Quit);
    }
}
