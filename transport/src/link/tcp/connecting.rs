//! Making connections: the higher rank connects to the lower one.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::net::{TcpStream, lookup_host};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::handshake::Arrival;
use super::lane::Connection;
use super::rank_file::host;
use super::record::Record;
use crate::link::LinkError;
use crate::link::movement::Movement;
use crate::message::Rank;

/// How long one address may take to answer.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(3);
/// It gets so long even where nearly no time is left: less would only say that it was cut short.
const LEAST_TIMEOUT: Duration = Duration::from_millis(500);
/// Pause between attempts to connect.
const ATTEMPT_PAUSE: Duration = Duration::from_millis(50);

/// A peer that is to be reached, or to come.
pub(super) struct Peer {
    pub(super) rank: Rank,
    pub(super) address: String,
    /// How long it may take.
    pub(super) limit: Duration,
}

/// What is tried to reach a peer, for as long as it may take.
pub(super) struct Search<'a> {
    peer: &'a Peer,
    started: Instant,
    /// Addresses where nobody answered: others come first from then on.
    unheard: Vec<SocketAddr>,
}

impl Peer {
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

impl<'a> Search<'a> {
    /// Begins now.
    pub(super) fn of(peer: &'a Peer) -> Self {
        Self { peer, started: Instant::now(), unheard: Vec::new() }
    }

    /// Connects and says the `opening`, trying again until it has taken too long: ranks do not start at the same moment, and whoever
    /// had the port before may still have it.
    pub(super) async fn open(&mut self, opening: &[Record]) -> Result<Connection, LinkError> {
        loop {
            let text = match self.attempt().await {
                Ok(stream) => match say(&stream, opening).await {
                    Ok(()) => return Ok(Connection { stream, records: 0 }),
                    Err(error) => {
                        self.ask_last(&stream);
                        error.to_string()
                    }
                },
                Err(text) => text,
            };
            self.pause(text).await?;
        }
    }

    /// Whoever took this connection has ended it unheard: other addresses of the name come first from now on, of which one may
    /// be the peer's.
    pub(super) fn ask_last(&mut self, stream: &TcpStream) {
        if let Ok(address) = stream.peer_addr() {
            self.put_last(address);
        }
    }

    /// After those that are last already, whose turn has come again.
    fn put_last(&mut self, address: SocketAddr) {
        self.unheard.retain(|&other| other != address);
        self.unheard.push(address);
    }

    /// Waits a moment before it is tried again. If it has taken too long, the error says why the last attempt failed.
    pub(super) async fn pause(&self, text: String) -> Result<(), LinkError> {
        if self.started.elapsed() + ATTEMPT_PAUSE >= self.peer.limit {
            return Err(self.peer.unreachable(text));
        }
        sleep(ATTEMPT_PAUSE).await;
        Ok(())
    }

    /// Connects once, or says why it cannot. A name that is not known may be so later, when its machine has come up.
    async fn attempt(&mut self) -> Result<TcpStream, String> {
        let address = &self.peer.address;
        let unknown = |why: String| format!("cannot resolve {}: {why}", host(address));
        // Until then nothing can be tried; systems wait for seconds before they ask another server of names.
        let found = timeout(self.left().max(LEAST_TIMEOUT), lookup_host(address)).await;
        let found = found.map_err(|_| unknown("no answer".to_owned()))?;
        let addresses = found.map_err(|error| unknown(error.to_string()))?.collect();
        self.connect_to(addresses).await
    }

    /// Connects to the first of these addresses that answers. Each has a time of its own: one that is behind a wall must not use up
    /// that of the others, unless there are so many that there is no time for all of them.
    async fn connect_to(&mut self, mut addresses: Vec<SocketAddr>) -> Result<TcpStream, String> {
        // Else in their order.
        addresses.sort_by_key(|address| self.unheard.iter().position(|unheard| unheard == address));
        let mut failed = Vec::new();
        for (tried, &address) in addresses.iter().enumerate() {
            // A little longer, or one that does not answer could keep the next from being tried at all.
            if self.started.elapsed() > self.peer.limit.saturating_add(LEAST_TIMEOUT) {
                failed.push((address, "no time was left for it".to_owned()));
                break;
            }
            let limit = self.share(addresses.len() - tried);
            let text = match timeout(limit, TcpStream::connect(address)).await {
                // Where nobody listens on this machine, a socket can get the very port that it asks for.
                Ok(Ok(stream)) if is_own(&stream) => "it does not listen yet".to_owned(),
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => error.to_string(),
                Err(_) => {
                    self.put_last(address);
                    "no answer".to_owned()
                }
            };
            failed.push((address, text));
        }
        Err(match &failed[..] {
            [] => "its name stands for no address".to_owned(),
            [(_, text)] => text.clone(),
            several => {
                let each = several.iter().map(|(address, text)| format!("{address}: {text}"));
                each.collect::<Vec<_>>().join("; ")
            }
        })
    }

    /// How long the first of so many addresses may take that are still to be tried.
    fn share(&self, of: usize) -> Duration {
        (self.left() / of as u32).clamp(LEAST_TIMEOUT, ATTEMPT_TIMEOUT)
    }

    /// How long it may still take.
    fn left(&self) -> Duration {
        self.peer.limit.saturating_sub(self.started.elapsed())
    }
}

/// Writes these records.
async fn say(stream: &TcpStream, opening: &[Record]) -> std::io::Result<()> {
    for record in opening {
        record.clone().write(stream, &Movement::new()).await?;
    }
    Ok(())
}

/// Whether both ends of a connection are the same socket.
fn is_own(stream: &TcpStream) -> bool {
    stream.local_addr().is_ok_and(|local| stream.peer_addr().is_ok_and(|peer| local == peer))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn run<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
    }

    fn peer(address: &str, limit: Duration) -> Peer {
        Peer { rank: Rank(1), address: address.to_owned(), limit }
    }

    #[test]
    fn a_name_that_nobody_knows_is_named() {
        let peer = peer("no-such-host.invalid:7400", Duration::ZERO);
        let error = run(Search::of(&peer).open(&[])).unwrap_err().to_string();
        assert!(error.contains("cannot resolve no-such-host.invalid: "), "{error}");
    }

    /// A listener that takes no connections any more, and does not say so, with those that it has; none if this system says so.
    fn black_hole() -> Option<(TcpListener, Vec<std::net::TcpStream>)> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let (address, mut waiting) = (listener.local_addr().unwrap(), Vec::new());
        for _ in 0..10 {
            match std::net::TcpStream::connect_timeout(&address, LEAST_TIMEOUT) {
                Ok(stream) => waiting.push(stream),
                Err(error) if error.kind() == std::io::ErrorKind::TimedOut => {
                    return Some((listener, waiting));
                }
                Err(error) => panic!("{error}"),
            }
        }
        None
    }

    #[test]
    fn an_address_that_does_not_answer_does_not_keep_others_from_being_tried() {
        let Some((hole, _waiting)) = black_hole() else {
            return println!("SKIPPED: this system lets more connections wait than it is told to");
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let [silent, good] = [&hole, &listener].map(|listener| listener.local_addr().unwrap());
        // With time for one attempt, and with less.
        for limit in [ATTEMPT_TIMEOUT, 4 * LEAST_TIMEOUT] {
            let peer = peer("several:1", limit);
            let mut search = Search::of(&peer);
            let stream = run(search.connect_to(vec![silent, good])).unwrap();
            assert_eq!(stream.peer_addr().unwrap(), good);
            // It is asked last from then on.
            assert_eq!(search.unheard, [silent]);
        }
    }

    #[test]
    fn who_ends_connections_does_not_keep_others_from_being_tried() {
        let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [a, b, c] = listeners.each_ref().map(|listener| listener.local_addr().unwrap());
        let peer = peer("several:1", ATTEMPT_TIMEOUT);
        let mut search = Search::of(&peer);
        // In turn, as long as none is heard of.
        let mut turns = Vec::new();
        for _ in 0..4 {
            let stream = run(search.connect_to(vec![a, b, c])).unwrap();
            search.ask_last(&stream);
            turns.push(stream.peer_addr().unwrap());
        }
        assert_eq!(turns, [a, b, c, a]);
    }

    #[test]
    fn each_address_says_why_it_cannot_be_reached() {
        // Addresses that no other test has ports of.
        let closed = ["127.0.0.10:0", "127.0.0.11:0"].map(TcpListener::bind);
        let [Ok(one), Ok(other)] = closed else {
            return println!("SKIPPED: this machine has but one loopback address");
        };
        let addresses = [one, other].map(|listener| listener.local_addr().unwrap());
        let peer = peer("several:1", LEAST_TIMEOUT);
        let text = run(Search::of(&peer).connect_to(addresses.to_vec())).unwrap_err();
        for address in addresses {
            assert!(text.contains(&format!("{address}: ")), "{text}");
        }
        assert_eq!(run(Search::of(&peer).connect_to(vec![])).unwrap_err(), "its name stands for no address");
    }
}
