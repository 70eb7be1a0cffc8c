//! `mgcomp top`: a live view of what programs exchange, with keys to steer it.

mod draw;
mod state;

use std::time::Duration;

use mgcomp_proto::v1::{WatchRequest, WatchResponse};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use tokio::sync::mpsc;

use self::draw::draw;
use self::state::{State, Step};
use crate::client::{ClientError, Daemon, Target, with_daemon};
use crate::error::CliError;

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
    Ok(with_daemon(&args.target, async |daemon| {
        // Before the terminal changes: what fails at once is better read on a plain one.
        let first = watch(daemon.clone(), State::default().request(args.interval_ms)).await?;
        let mut terminal = ratatui::try_init().map_err(ClientError::Terminal)?;
        let shown = show(&mut terminal, daemon, first, args.interval_ms).await;
        ratatui::restore();
        shown
    })?)
}

type Updates = tonic::Streaming<WatchResponse>;

async fn watch(mut daemon: Daemon, request: WatchRequest) -> Result<Updates, ClientError> {
    Ok(daemon.watch(request).await?.into_inner())
}

async fn show(
    terminal: &mut ratatui::DefaultTerminal,
    mut daemon: Daemon,
    mut updates: Updates,
    interval_ms: u32,
) -> Result<(), ClientError> {
    let mut state = State::default();
    let mut keys = keys();
    loop {
        terminal.draw(|frame| draw(frame, &state)).map_err(ClientError::Terminal)?;
        let step = tokio::select! {
            update = updates.message() => match update? {
                Some(response) => state.update(response),
                None => return Ok(()),
            },
            event = keys.recv() => match event {
                Some(Event::Key(key)) if key.kind != KeyEventKind::Release => {
                    // The terminal is raw, so nobody else sees to this.
                    match (key.modifiers.difference(KeyModifiers::SHIFT), key.code) {
                        (KeyModifiers::NONE, code) => state.key(code),
                        (KeyModifiers::CONTROL, KeyCode::Char('c')) => Step::Quit,
                        _ => Step::Draw, // no letter
                    }
                }
                Some(_) => Step::Draw,
                None => return Ok(()),
            },
        };
        match step {
            Step::Draw => {}
            Step::Quit => return Ok(()),
            Step::Watch => updates = watch(daemon.clone(), state.request(interval_ms)).await?,
            Step::Change(request) => match daemon.update_settings(*request).await {
                Ok(_) => state.note("changed".to_owned()),
                Err(refused) => state.note(ClientError::from(refused).to_string()),
            },
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
