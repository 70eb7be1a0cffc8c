//! `mgcomp-daemon`: flags, signals, logs; the rest is in the library.

#![forbid(unsafe_code)]

use std::error::Error;
use std::io::{self, IsTerminal};
use std::process::ExitCode;

use clap::Parser;
use mgcomp_daemon::{Config, Flags, Listener, run_reloading};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Shows and steers every program of this node that uses mgcomp.
///
/// Settings come from a file, the environment (MGCOMP_DAEMON_…) and flags, in that order of rising weight. SIGTERM ends
/// the daemon when calls under way are finished; SIGHUP makes it read its settings again.
#[derive(Parser)]
#[command(name = "mgcomp-daemon", version)]
struct Cli {
    #[command(flatten)]
    flags: Flags,
}

type LogLevel = tracing_subscriber::reload::Handle<LevelFilter, tracing_subscriber::Registry>;

fn main() -> ExitCode {
    let Cli { flags } = Cli::parse();
    let config = match Config::load(&flags) {
        Ok(config) => config,
        Err(problems) => {
            eprintln!(
                "{}",
                problems
                    .to_string()
                    .lines()
                    .map(|line| format!("mgcomp-daemon: {line}\n"))
                    .collect::<String>()
                    .trim_end()
            );
            return ExitCode::from(2);
        }
    };
    let log = start_log(&config);
    match serve(&flags, config, &log) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let mut text = error.to_string();
            let mut cause = error.source();
            while let Some(error) = cause {
                text = format!("{text}: {error}");
                cause = error.source();
            }
            eprintln!("mgcomp-daemon: {text}");
            ExitCode::FAILURE
        }
    }
}

fn start_log(config: &Config) -> LogLevel {
    let (level, handle) = tracing_subscriber::reload::Layer::new(LevelFilter::from_level(config.log));
    let format =
        tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(io::stderr().is_terminal());
    tracing_subscriber::registry().with(level).with(format).init();
    handle
}

fn serve(flags: &Flags, config: Config, log: &LogLevel) -> Result<(), Box<dyn Error>> {
    // Two threads: one may be busy with many watchers while the other takes changes.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let served = runtime.block_on(async {
        // Heard before anybody is told that the daemon is ready: whoever knows may send a signal.
        let (stop, hangups) = (stop()?, signal(SignalKind::hangup())?);
        let (sender, reloads) = mpsc::channel(1);
        tokio::spawn(reload(flags.clone(), config.clone(), log.clone(), hangups, sender));
        run_reloading(Listener::open(config)?, stop, reloads).await?;
        Ok(())
    });
    // Settings are written. A thread that looks at what somebody handed over is waited for by nobody.
    runtime.shutdown_background();
    served
}

/// Until the first SIGTERM or SIGINT from now on.
fn stop() -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Reads the settings again at each SIGHUP. Where they are wrong, or not right for what stays, the old ones stay.
async fn reload(
    flags: Flags,
    mut config: Config,
    log: LogLevel,
    mut hangups: Signal,
    configs: mpsc::Sender<Config>,
) {
    while hangups.recv().await.is_some() {
        match Config::load(&flags).and_then(|read| read.in_place_of(&config)) {
            Ok(read) => {
                config = read;
                let _ = log.reload(LevelFilter::from_level(config.log));
                if configs.send(config.clone()).await.is_err() {
                    return;
                }
            }
            Err(problems) => tracing::error!(%problems, "settings stay as they are"),
        }
    }
}
