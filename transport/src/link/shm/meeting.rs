//! Meeting peers: the higher rank connects to the lower one, shows that it belongs to the job, and hands over the memory
//! that both will share.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use super::ShmJob;
use super::credentials::Credentials;
use super::hello::{self, ANSWER_LEN, Form, HELLO_LEN, MARK, ShmHello};
use super::poller::{Poller, Token};
use super::segment::Segment;
use super::socket::{self, Heard};
use crate::link::{LinkError, Position};
use crate::message::{Rank, Status};

/// How long a stranger may take for its hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// How long it may take while others wait to be let in.
const CROWDED_HELLO_TIMEOUT: Duration = Duration::from_millis(500);
/// Strangers whose hello is awaited at once.
const STRANGERS: usize = 64;
/// How many are let in before peers have their turn.
const MOST_AT_ONCE: usize = 64;
/// Pause between attempts to connect, and after the system refused a connection.
const PAUSE: Duration = Duration::from_millis(20);

/// Where peers are met.
pub(super) struct Door {
    job: ShmJob,
    own: Position,
    form: Form,
    ring_bytes: u64,
    listener: OwnedFd,
    /// Whether connections are being accepted, and when they will be again if not.
    closed_until: Option<Instant>,
    /// Because there were too many, and not for want of something that others may give back.
    is_crowded: bool,
    strangers: Vec<Stranger>,
    next_stranger: u32,
    /// The peers that are not met yet.
    seats: BTreeMap<Rank, Seat>,
    /// When those are given up, and how long that is.
    until: Instant,
    limit: Duration,
    met: Vec<(Rank, Met)>,
}

/// A connection whose hello is awaited.
struct Stranger {
    number: u32,
    socket: OwnedFd,
    since: Instant,
}

enum Seat {
    /// The peer connects to this rank.
    Awaited,
    /// This rank connects to it, next at this time; and why it did not work the last time.
    Calling(Instant, String),
    /// It was shown this rank's hello.
    Called(OwnedFd, Segment),
}

/// Whose socket is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Visitor {
    /// Somebody connects.
    Anybody,
    /// A stranger says something.
    Stranger(u32),
    /// A peer answers.
    Called(Rank),
}

/// What became of meeting a peer.
pub(super) enum Met {
    /// It is there.
    Peer { socket: OwnedFd, segment: Segment, is_maker: bool },
    /// It does not let this rank in.
    Refusal(Status),
    /// It was not met.
    Nobody(LinkError),
}

impl Door {
    /// Waits for the ranks above `own` and looks for those below, for at most `limit`.
    pub(super) fn open(
        job: ShmJob,
        own: Position,
        (form, ring_bytes, limit): (Form, u64, Duration),
        listener: OwnedFd,
        poller: &Poller,
    ) -> io::Result<Self> {
        let now = Instant::now();
        poller.add(&listener, Token::Door(Visitor::Anybody))?;
        let seat = |peer| match peer < own.rank {
            true => (peer, Seat::Calling(now, String::new())),
            false => (peer, Seat::Awaited),
        };
        Ok(Self {
            job,
            own,
            form,
            ring_bytes,
            listener,
            closed_until: None,
            is_crowded: false,
            strangers: Vec::new(),
            next_stranger: 0,
            seats: own.peers().map(seat).collect(),
            until: now.checked_add(limit).unwrap_or(now + Duration::from_secs(1 << 30)),
            limit,
            met: Vec::new(),
        })
    }

    /// Takes in what a visitor does.
    pub(super) fn visit(&mut self, visitor: Visitor, poller: &Poller) {
        match visitor {
            Visitor::Anybody => self.let_in(poller),
            Visitor::Stranger(number) => {
                if let Some(i) = self.strangers.iter().position(|stranger| stranger.number == number) {
                    let stranger = self.strangers.swap_remove(i);
                    poller.remove(&stranger.socket);
                    self.hear_hello(stranger.socket);
                }
            }
            Visitor::Called(peer) => {
                if let Some(seat) = self.seats.remove(&peer) {
                    self.hear_answer(peer, seat, poller);
                }
            }
        }
    }

    /// Does what is due; returns what became of whom.
    pub(super) fn meet(&mut self, poller: &Poller, now: Instant) -> Vec<(Rank, Met)> {
        self.see_off_strangers(poller, now);
        if self.closed_until.is_some_and(|until| until <= now)
            && poller.add(&self.listener, Token::Door(Visitor::Anybody)).is_ok()
        {
            self.closed_until = None;
        }
        if now >= self.until {
            self.give_all_up(poller);
        }
        let due = |seat: &Seat| matches!(seat, Seat::Calling(at, _) if *at <= now);
        let calls: Vec<_> = self.seats.iter().filter(|(_, seat)| due(seat)).map(|(&peer, _)| peer).collect();
        for peer in calls {
            let seat = match self.call(peer, poller) {
                Ok((socket, segment)) => Seat::Called(socket, segment),
                Err(text) => Seat::Calling(now + PAUSE, text),
            };
            self.seats.insert(peer, seat);
        }
        std::mem::take(&mut self.met)
    }

    /// When something will be due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let calls = self.seats.values().filter_map(|seat| match seat {
            Seat::Calling(at, _) => Some(*at),
            Seat::Awaited | Seat::Called(..) => None,
        });
        let patience = self.patience();
        let strangers = self.strangers.iter().map(|stranger| stranger.since + patience);
        let last = (!self.seats.is_empty()).then_some(self.until);
        calls.chain(strangers).chain(last).chain(self.closed_until).min()
    }

    /// `peer` is not to be met any more.
    pub(super) fn give_up(&mut self, peer: Rank, poller: &Poller) {
        if let Some(Seat::Called(socket, _)) = self.seats.remove(&peer) {
            poller.remove(&socket);
        }
    }

    /// Takes in who has come; a few at a time, since peers wait meanwhile and who comes may be anybody.
    fn let_in(&mut self, poller: &Poller) {
        for _ in 0..MOST_AT_ONCE {
            if self.strangers.len() >= STRANGERS {
                self.close_for(CROWDED_HELLO_TIMEOUT, poller);
                self.is_crowded = true;
                return;
            }
            let socket = match socket::accept(&self.listener) {
                Ok(socket) => socket,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    // Out of file descriptors, say: others may close some.
                    tracing::warn!(%error, "cannot accept a connection");
                    self.close_for(PAUSE, poller);
                    return;
                }
            };
            let number = self.next_stranger;
            // The name is anybody's to connect to; the memory of this process is not.
            let is_same_user = Credentials::of(&socket).is_ok_and(|peer| peer.is_same_user());
            if is_same_user && poller.add(&socket, Token::Door(Visitor::Stranger(number))).is_ok() {
                self.next_stranger = number.wrapping_add(1);
                self.strangers.push(Stranger { number, socket, since: Instant::now() });
            }
        }
    }

    /// Accepts nobody for a while.
    fn close_for(&mut self, pause: Duration, poller: &Poller) {
        poller.remove(&self.listener);
        self.closed_until = Some(Instant::now() + pause);
    }

    /// How long strangers may take. Members say hello at once, so whoever waits long is none.
    fn patience(&self) -> Duration {
        if self.strangers.len() < STRANGERS { HELLO_TIMEOUT } else { CROWDED_HELLO_TIMEOUT }
    }

    fn see_off_strangers(&mut self, poller: &Poller, now: Instant) {
        let patience = self.patience();
        self.strangers.retain(|stranger| {
            let stays = now < stranger.since + patience;
            if !stays {
                poller.remove(&stranger.socket);
                tracing::warn!("a connection brought no hello in time");
            }
            stays
        });
        if self.strangers.len() < STRANGERS && self.is_crowded {
            (self.closed_until, self.is_crowded) = (Some(now), false);
        }
    }

    fn hear_hello(&mut self, socket: OwnedFd) {
        let Ok(Heard { message, file, is_lost }) = socket::hear(&socket, HELLO_LEN) else { return };
        if message.is_empty() {
            return; // gone
        }
        if is_lost {
            // Whoever gets no answer comes again, and others may have closed some by then.
            tracing::warn!("no descriptor for the memory of a rank");
            return;
        }
        let admitted = self.admit(&message, file);
        let status = admitted.as_ref().map_or_else(|status| *status, |_| Status::Good);
        let told = socket::say(&socket, &hello::answer(status, self.form), None);
        match (admitted, told) {
            (Ok((peer, segment)), Ok(())) => {
                self.seats.remove(&peer);
                self.met.push((peer, Met::Peer { socket, segment, is_maker: false }));
            }
            (Err(status), _) => tracing::warn!(%status, "a connection was refused"),
            (_, Err(error)) => tracing::warn!(%error, "a connection ended before it was answered"),
        }
    }

    /// Checks a hello and the memory that came with it.
    fn admit(&mut self, message: &[u8], file: Option<OwnedFd>) -> Result<(Rank, Segment), Status> {
        let hello = ShmHello::parse(message).inspect_err(|_| self.turn_other_version_away(message))?;
        hello.verify(self.job.secret, self.own)?;
        let peer = hello.position.rank;
        if !matches!(self.seats.get(&peer), Some(Seat::Awaited)) {
            return Err(Status::WrongRank);
        }
        if hello.form != self.form {
            // A member of the job, which will not come again.
            self.seats.remove(&peer);
            self.met.push((peer, Met::Nobody(self.mismatch(peer, hello.form))));
            return Err(Status::Protocol);
        }
        let file = file.ok_or(Status::Protocol)?;
        let segment = Segment::adopt(&file, hello.ring_bytes).map_err(|error| {
            tracing::warn!(%peer, %error, "the memory of a peer is not used");
            Status::Protocol
        })?;
        Ok((peer, segment))
    }

    /// A member of the job that speaks another version will not come again.
    fn turn_other_version_away(&mut self, message: &[u8]) {
        let member = ShmHello::of_other_version(message, self.job.secret, self.own);
        if let Some((peer, theirs)) = member
            && matches!(self.seats.get(&peer), Some(Seat::Awaited))
        {
            self.seats.remove(&peer);
            let error = LinkError::OtherVersion { peer, theirs, own: MARK.version };
            self.met.push((peer, Met::Nobody(error)));
        }
    }

    /// Connects to `peer` and says hello; or why that did not work.
    fn call(&self, peer: Rank, poller: &Poller) -> Result<(OwnedFd, Segment), String> {
        let text = |error: io::Error| error.to_string();
        let socket = socket::connect_to(&self.job.socket_name(peer)).map_err(text)?;
        // Nobody else is to see the secret, or this memory.
        if !Credentials::of(&socket).map_err(text)?.is_same_user() {
            return Err("another user listens there".to_owned());
        }
        let (segment, file) = Segment::create(self.ring_bytes).map_err(text)?;
        let (secret, position, ring_bytes, form) = (self.job.secret, self.own, self.ring_bytes, self.form);
        let hello = ShmHello { secret, position, ring_bytes, form };
        socket::say(&socket, &hello.encode(), Some(&file)).map_err(text)?;
        poller.add(&socket, Token::Door(Visitor::Called(peer))).map_err(text)?;
        Ok((socket, segment))
    }

    fn hear_answer(&mut self, peer: Rank, seat: Seat, poller: &Poller) {
        let Seat::Called(socket, segment) = seat else {
            self.seats.insert(peer, seat);
            return;
        };
        poller.remove(&socket);
        let heard = socket::hear(&socket, ANSWER_LEN);
        let answer = heard.as_ref().map_or(&[][..], |heard| &heard.message);
        if answer.is_empty() {
            // It may have been the last moment of an earlier job's rank.
            let text = heard.err().map_or("it closed the connection".to_owned(), |error| error.to_string());
            self.seats.insert(peer, Seat::Calling(Instant::now() + PAUSE, text));
            return;
        }
        let met = match hello::parse_answer(answer) {
            // With any other status a side of another form has refused something else.
            Some((Status::Good | Status::Protocol, Some(form))) if form != self.form => {
                Met::Nobody(self.mismatch(peer, form))
            }
            Some((Status::Good, _)) => Met::Peer { socket, segment, is_maker: true },
            Some((status, _)) => Met::Refusal(status),
            None => Met::Nobody(LinkError::Answer { peer, got: answer.len() }),
        };
        self.met.push((peer, met));
    }

    fn mismatch(&self, peer: Rank, theirs: Form) -> LinkError {
        LinkError::OtherLink { peer, theirs: theirs.0, own: self.form.0 }
    }

    fn give_all_up(&mut self, poller: &Poller) {
        for (peer, seat) in std::mem::take(&mut self.seats) {
            let text = match seat {
                Seat::Awaited => "it did not connect".to_owned(),
                Seat::Calling(_, text) => text,
                Seat::Called(socket, _) => {
                    poller.remove(&socket);
                    "no answer".to_owned()
                }
            };
            let address = String::from_utf8_lossy(&self.job.socket_name(peer)).into_owned();
            let seconds = self.limit.as_secs();
            self.met.push((peer, Met::Nobody(LinkError::Unreachable { peer, address, seconds, text })));
        }
    }
}
