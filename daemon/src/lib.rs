//! `mgcomp-daemon`: shows and steers every program of a node that uses mgcomp.
//!
//! Programs hand it their control pages (`mgcomp_transport::control`) over its Unix socket; operators talk to it as the
//! gRPC service of `mgcomp_proto`, over the same socket or over TCP; Prometheus reads `/metrics` there,
//! and a browser shows the dashboard.
//!
//! ```no_run
//! use mgcomp_daemon::{Config, Listener, run};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let config = Config::private("/run/user/1000/mgcomp.sock".into(), "/home/me/.local/state/mgcomp".into());
//! run(Listener::open(config)?, async { drop(tokio::signal::ctrl_c().await) }).await?;
//! # Ok(())
//! # }
//! ```
//!
//! | module | what lives there |
//! |---|---|
//! | `config/` | file, environment and flags; every problem at once |
//! | `listen/` | sockets, TLS, who may do what |
//! | `processes` | the pages that were handed over |
//! | `gone` | what those counted that are there no longer |
//! | `settings/` | what is set at which scope, kept on disk |
//! | `snapshot` | what all pages say at one moment |
//! | `service/` | the calls of the service, one file for each kind |
//! | `watch` | what watchers of the same thing share |
//! | `metrics` | the page for Prometheus |
//! | `told` | what of that is told one by one |
//! | `dashboard/` | the page for people |

#![forbid(unsafe_code)]

mod config;
mod crowd;
mod dashboard;
mod error;
mod gone;
mod listen;
mod metrics;
mod node;
mod notify;
#[cfg(test)]
mod played;
mod processes;
mod rows;
mod service;
mod settings;
mod snapshot;
mod told;
mod watch;

pub use config::{Config, Flags, Problem, Problems, Token};
pub use error::DaemonError;
pub use listen::Listener;
pub use node::{run, run_reloading};
pub use settings::{Scope, SettingsFileError};
