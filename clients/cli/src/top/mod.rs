//! `mgcomp top`: a live view of what programs exchange, with keys to steer it.

mod draw;
mod signals;
mod state;

use std::time::{Duration, Instant};

use mgcomp_proto::v1::{Level, Scope, UpdateSettingsRequest, WatchRequest, WatchResponse};
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::crossterm::terminal::is_raw_mode_enabled;
use tokio::sync::mpsc;
use tonic::Code;

use self::draw::draw;
use self::signals::Signals;
use self::state::{State, Step};
use crate::args;
use crate::client::{ClientError, Daemon, Patience, Target, with_patience};
use crate::error::CliError;
use crate::steer::switched_on;

/// How long a key is waited for before it is looked whether the view is over.
const KEY_WAIT: Duration = Duration::from_millis(100);

/// How long the place of a watch that was given up may take to be free, and how often it is asked for until then.
const FREE_WITHIN: Duration = Duration::from_secs(1);
const FREE_WAIT: Duration = Duration::from_millis(20);

/// Watch jobs, peers and streams live, and steer them: keys change λ and policy.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Time between updates in milliseconds, 100 to 60000
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = args::interval_ms(), allow_negative_numbers = true)]
    interval_ms: u32,
    #[command(flatten)]
    target: Target,
}

pub(crate) fn run(args: &Args) -> Result<(), CliError> {
    let ended_by = with_patience(&args.target, async |daemon, patience| {
        let asked = Asked { daemon, patience, interval_ms: args.interval_ms };
        // Before the terminal changes: what fails at once is better read on a plain one.
        let first = asked.watch(State::default().level).await?;
        let mut signals = Signals::listen().map_err(ClientError::Terminal)?;
        let mut terminal = take_terminal()?;
        let shown = tokio::select! {
            shown = show(&mut terminal, asked, first) => shown.map(|()| None),
            signal = signals.next() => Ok(Some(signal)),
        };
        // Where the terminal is gone, nothing is left to be restored, and nobody to be told.
        let _ = ratatui::try_restore();
        shown
    })?;
    if let Some(signal) = ended_by {
        // Whoever sent it sees that it is what has ended this.
        signals::end_by(signal);
    }
    Ok(())
}

/// The terminal for the view alone; as it was before where that fails.
fn take_terminal() -> Result<ratatui::DefaultTerminal, ClientError> {
    ratatui::try_init().map_err(|error| {
        // Where it did not even become raw, what there is instead of a terminal is left alone.
        if !is_raw_mode_enabled().is_ok_and(|is_raw| is_raw) {
            return ClientError::NoTerminal(error);
        }
        let _ = ratatui::try_restore();
        ClientError::Terminal(error)
    })
}

type Updates = tonic::Streaming<WatchResponse>;

/// Who is asked, and how.
struct Asked {
    daemon: Daemon,
    patience: Patience,
    interval_ms: u32,
}

impl Asked {
    async fn watch(&self, level: Level) -> Result<Updates, ClientError> {
        let mut daemon = self.daemon.clone();
        let request =
            WatchRequest { level: level.into(), interval_ms: self.interval_ms, ..WatchRequest::default() };
        let updates = self.patience.wait(daemon.watch(request)).await?;
        Ok(updates.into_inner())
    }

    /// Changes settings; returns what is to be said of it.
    async fn change(&self, request: UpdateSettingsRequest) -> String {
        let mut daemon = self.daemon.clone();
        let changed = self.patience.wait(daemon.update_settings(request)).await;
        changed.map_or_else(|refused| refused.to_string(), |_| "changed".to_owned())
    }

    /// The same for a scope that is off and is to be on, as `mgcomp on` does it.
    async fn switch_on(&self, scope: Scope) -> String {
        match self.patience.wait(switched_on(self.daemon.clone(), &scope)).await {
            Ok((set, unset)) => self.change(state::update(scope, set, unset.as_slice())).await,
            Err(refused) => refused.to_string(),
        }
    }
}

async fn show(
    terminal: &mut ratatui::DefaultTerminal,
    asked: Asked,
    mut updates: Updates,
) -> Result<(), ClientError> {
    let mut state = State::default();
    let mut keys = keys();
    loop {
        terminal.draw(|frame| draw(frame, &state)).map_err(ClientError::Terminal)?;
        let step = tokio::select! {
            update = updates.message() => state.update(update?.ok_or(ClientError::Ended)?),
            event = keys.recv() => match event {
                Some(Event::Key(key)) if key.kind != KeyEventKind::Release => state.press(key),
                Some(_) => Step::Draw,
                None => return Ok(()),
            },
        };
        match step {
            Step::Draw => {}
            Step::Quit => return Ok(()),
            Step::Watch(level) => {
                let ask = async |level| asked.watch(level).await;
                updates = turn_to(level, &mut state, updates, ask).await?;
            }
            Step::Change(request) => state.note(asked.change(*request).await),
            Step::SwitchOn(scope) => state.note(asked.switch_on(scope).await),
        }
    }
}

/// Watches at another level in place of what was watched. Where that is refused, it is said, and the level stays.
async fn turn_to<T>(
    level: Level,
    state: &mut State,
    watched: T,
    ask: impl AsyncFn(Level) -> Result<T, ClientError>,
) -> Result<T, ClientError> {
    // Before the next is asked for: there may be room for no second one.
    drop(watched);
    match ask_again(level, &ask).await {
        Ok(updates) => {
            state.turn_to(level);
            Ok(updates)
        }
        Err(refused @ ClientError::Refused(_)) => {
            state.note(refused.to_string());
            ask_again(state.level, &ask).await
        }
        Err(error) => Err(error),
    }
}

/// Asks until the daemon knows that the watch before is over, whose place is free only then.
async fn ask_again<T>(
    level: Level,
    ask: impl AsyncFn(Level) -> Result<T, ClientError>,
) -> Result<T, ClientError> {
    let began = Instant::now();
    loop {
        match ask(level).await {
            Err(ClientError::Refused(status))
                if status.code() == Code::ResourceExhausted && began.elapsed() < FREE_WITHIN =>
            {
                tokio::time::sleep(FREE_WAIT).await;
            }
            answer => return answer,
        }
    }
}

/// What is typed, from a thread that ends when nobody listens any more.
fn keys() -> mpsc::Receiver<Event> {
    let (sender, receiver) = mpsc::channel(16);
    std::thread::spawn(move || {
        while !sender.is_closed() {
            let told = match event::poll(KEY_WAIT) {
                Ok(false) => true,
                Ok(true) => event::read().is_ok_and(|event| sender.blocking_send(event).is_ok()),
                Err(_) => false,
            };
            if !told {
                return;
            }
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use tonic::Status;

    use super::*;

    #[tokio::test]
    async fn another_level_takes_the_place_of_the_one_before() {
        // Room for one watch; that it is over is known only when the next was asked for twice.
        let (watch, asked) = (Rc::new(()), Cell::new(0));
        let ask = async |_| {
            asked.set(asked.get() + 1);
            match Rc::strong_count(&watch) == 1 && asked.get() > 2 {
                true => Ok(watch.clone()),
                false => Err(ClientError::Refused(Status::resource_exhausted("as many as there may be"))),
            }
        };
        let mut state = State::default();
        turn_to(Level::Peer, &mut state, watch.clone(), ask).await.unwrap();
        assert_eq!((state.level, state.note.as_str(), asked.get()), (Level::Peer, "", 3));
    }

    #[tokio::test]
    async fn a_level_that_is_refused_leaves_the_one_before() {
        let ask = async |level| match level {
            Level::Job => Ok(level),
            _ => Err(ClientError::Refused(Status::invalid_argument("no such level"))),
        };
        let mut state = State::default();
        let watched = turn_to(Level::Peer, &mut state, Level::Job, ask).await.unwrap();
        assert_eq!((watched, state.level), (Level::Job, Level::Job));
        assert!(state.note.contains("no such level"), "{}", state.note);
    }
}
