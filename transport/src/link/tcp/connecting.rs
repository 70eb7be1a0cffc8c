//! Making connections: the higher rank connects to the lower one.

use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::connections::Connections;
use super::handshake::Arrival;
use super::join::Join;
use super::lane::Connection;
use super::rank_file::host;
use super::record::Record;
use crate::link::movement::Movement;
use crate::link::{LinkError, Position};
use crate::message::{Rank, Secret};

/// How long one attempt to connect may take.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(3);
/// Pause between attempts to connect.
const ATTEMPT_PAUSE: Duration = Duration::from_millis(50);

/// A peer that is to be reached, or to come.
pub(super) struct Peer {
    pub(super) rank: Rank,
    pub(super) address: String,
    /// How long it may take.
    pub(super) limit: Duration,
}

impl Peer {
    /// Makes all connections with it as `own` rank, each of which says which it is where there are several.
    pub(super) async fn connect(
        &self,
        secret: Secret,
        own: Position,
        connections: Connections,
    ) -> Result<Vec<Connection>, LinkError> {
        let (started, mut made) = (Instant::now(), Vec::with_capacity(connections.count()));
        for join in Join::new_set(secret, own, connections) {
            let stream = self.reach(started).await?;
            if let Some(join) = join {
                let record = Record::of(&join.encode(), Bytes::new());
                let written = record.write(&stream, &Movement::new()).await;
                written.map_err(|error| LinkError::io("writing to rank", self.rank, &error))?;
            }
            made.push(Connection { stream, records: 0 });
        }
        Ok(made)
    }

    /// Connects, trying again until it has taken too long since it was `started`: ranks do not start at the same moment.
    async fn reach(&self, started: Instant) -> Result<TcpStream, LinkError> {
        loop {
            let text = match timeout(ATTEMPT_TIMEOUT, self.attempt()).await {
                // Where nobody listens on this machine, a socket can get the very port that it asks for.
                Ok(Ok(stream)) if is_own(&stream) => "it does not listen yet".to_owned(),
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(text)) => text,
                Err(_) => "no answer".to_owned(),
            };
            if started.elapsed() + ATTEMPT_PAUSE >= self.limit {
                return Err(self.unreachable(text));
            }
            sleep(ATTEMPT_PAUSE).await;
        }
    }

    /// Connects once, or says why it cannot. A name that is not known may be so later, when its machine has come up.
    async fn attempt(&self) -> Result<TcpStream, String> {
        let found = lookup_host(&self.address).await;
        let addresses = found.map_err(|error| format!("cannot resolve {}: {error}", host(&self.address)))?;
        let addresses: Vec<_> = addresses.collect();
        TcpStream::connect(&addresses[..]).await.map_err(|error| error.to_string())
    }

    /// Waits for the connections that it makes, which arrive at `seat`.
    pub(super) async fn await_all(
        &self,
        mut seat: mpsc::Receiver<Result<Arrival, LinkError>>,
    ) -> Result<Vec<Connection>, LinkError> {
        let mut come: Vec<Option<Connection>> = Vec::new();
        let all = async {
            while come.is_empty() || come.iter().any(Option::is_none) {
                let Some(arrival) = seat.recv().await.transpose()? else { break };
                come.resize_with(arrival.connections, || None);
                come[arrival.place] = Some(arrival.connection);
            }
            Ok(())
        };
        if let Ok(Err(error)) = timeout(self.limit, all).await {
            return Err(error);
        }
        let (expected, come) = (come.len(), come.into_iter().flatten().collect::<Vec<_>>());
        match come.len() {
            0 => Err(self.unreachable("it did not connect".to_owned())),
            some if some < expected => {
                Err(self.unreachable(format!("{some} of {expected} connections came")))
            }
            _ => Ok(come),
        }
    }

    fn unreachable(&self, text: String) -> LinkError {
        let (peer, address) = (self.rank, self.address.clone());
        LinkError::Unreachable { peer, address, seconds: self.limit.as_secs(), text }
    }
}

/// Whether both ends of a connection are the same socket.
fn is_own(stream: &TcpStream) -> bool {
    stream.local_addr().is_ok_and(|local| stream.peer_addr().is_ok_and(|peer| local == peer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_nobody_knows_is_named() {
        let address = "no-such-host.invalid:7400".to_owned();
        let peer = Peer { rank: Rank(1), address, limit: Duration::ZERO };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let error = runtime.block_on(peer.reach(Instant::now())).unwrap_err().to_string();
        assert!(error.contains("cannot resolve no-such-host.invalid: "), "{error}");
    }
}
