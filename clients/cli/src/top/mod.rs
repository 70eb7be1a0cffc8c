//! `mgcomp top`: a live view of what programs exchange, with keys to steer it.

mod draw;
mod signals;
mod state;

use std::io;
use std::time::Duration;

use mgcomp_proto::v1::{Scope, UpdateSettingsRequest, WatchResponse};
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::crossterm::terminal::is_raw_mode_enabled;
use tokio::sync::mpsc;

use self::draw::draw;
use self::signals::Signals;
use self::state::{State, Step};
use crate::client::{ClientError, Daemon, Patience, Target, with_patience};
use crate::error::CliError;
use crate::steer::switched_on;

/// How long a key is waited for before it is looked whether the view is over.
const KEY_WAIT: Duration = Duration::from_millis(100);

/// Watch jobs, peers and streams live, and steer them: keys change λ and policy.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Time between updates
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    interval_ms: u32,
    #[command(flatten)]
    target: Target,
}

pub(crate) fn run(args: &Args) -> Result<(), CliError> {
    let ended_by = with_patience(&args.target, async |daemon, patience| {
        let asked = Asked { daemon, patience, interval_ms: args.interval_ms };
        // Before the terminal changes: what fails at once is better read on a plain one.
        let first = asked.watch(&State::default()).await?;
        let mut signals = Signals::listen().map_err(ClientError::Terminal)?;
        let mut terminal = take_terminal().map_err(ClientError::Terminal)?;
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
fn take_terminal() -> io::Result<ratatui::DefaultTerminal> {
    ratatui::try_init().inspect_err(|_| {
        // Where it did not even become raw, what there is instead of a terminal is left alone.
        if is_raw_mode_enabled().is_ok_and(|is_raw| is_raw) {
            let _ = ratatui::try_restore();
        }
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
    async fn watch(&self, state: &State) -> Result<Updates, ClientError> {
        let mut daemon = self.daemon.clone();
        let updates = self.patience.wait(daemon.watch(state.request(self.interval_ms))).await?;
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
            Step::Watch => updates = asked.watch(&state).await?,
            Step::Change(request) => state.note(asked.change(*request).await),
            Step::SwitchOn(scope) => state.note(asked.switch_on(scope).await),
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
