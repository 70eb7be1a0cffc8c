//! The links over which ranks may meet.

use std::io;
use std::net::TcpListener;
use std::str::FromStr;
use std::time::Duration;

use mgcomp_transport::link::shm::{Shm, ShmConfig, ShmJob};
use mgcomp_transport::link::tcp::{RankFile, Tcp, TcpConfig};
use mgcomp_transport::link::{Link, LinkError};
use mgcomp_transport::message::{Limits, Rank};

/// A kind of link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// TCP on this machine.
    Tcp,
    /// Shared memory.
    Shm,
}

impl Way {
    /// Its spelling on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Shm => "shm",
        }
    }
}

impl FromStr for Way {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        [Self::Tcp, Self::Shm].into_iter().find(|way| way.name() == name).ok_or(())
    }
}

/// What a rank has before it knows of the others.
pub(super) enum Start {
    Tcp(TcpListener),
    Shm,
}

impl Start {
    pub(super) fn by(way: Way) -> io::Result<Self> {
        Ok(match way {
            Way::Tcp => Self::Tcp(Tcp::bind("127.0.0.1:0")?),
            Way::Shm => Self::Shm,
        })
    }

    /// Where others find `rank`. In shared memory they find each other by the job's secret, and this is but a name.
    pub(super) fn address(&self, rank: Rank) -> io::Result<String> {
        match self {
            Self::Tcp(listener) => Ok(listener.local_addr()?.to_string()),
            Self::Shm => Ok(format!("shm:{}", rank.0 + 1)),
        }
    }

    /// The link to the others, which are looked for for so long.
    pub(super) fn link(
        self,
        job: RankFile,
        rank: Rank,
        limits: Limits,
        connect_timeout: Duration,
    ) -> Result<Box<dyn Link>, LinkError> {
        Ok(match self {
            Self::Tcp(listener) => {
                let config = TcpConfig { connect_timeout, ..TcpConfig::new(limits) };
                Box::new(Tcp::new(listener, job, rank, config)?)
            }
            Self::Shm => {
                let config = ShmConfig { connect_timeout, ..ShmConfig::new(limits) };
                Box::new(Shm::new(ShmJob::new(job.secret, job.ranks()), rank, config)?)
            }
        })
    }
}
