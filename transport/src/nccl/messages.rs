//! What goes from one rank to another: sends and receives in groups, and the collectives that consist of them.

use std::collections::BTreeSet;

use mgcomp_codecs::Element;
use mgcomp_codecs::device::{Region, Stream};

use super::choices::{Key, Moved};
use super::entry::{Entry, call_number};
use super::lane::{Incoming, Outgoing};
use super::{NcclCommunicator, NcclError, Sent, count, count_plain};

/// One send or receive of a group.
#[derive(Clone, Copy, Debug)]
pub enum Message<'a> {
    /// To a rank.
    Send {
        /// Which rank.
        to: u32,
        /// What it gets.
        from: Region<'a>,
    },
    /// From a rank.
    Receive {
        /// Which rank.
        from: u32,
        /// Where it goes.
        to: Region<'a>,
    },
}

/// A message, and its place among those with headers in its direction, if it has one.
type Planned<'a> = (Message<'a>, Option<usize>);

impl NcclCommunicator {
    /// Carries messages out that do not go to this rank itself.
    pub(super) fn carry(
        &mut self,
        stream: &Stream,
        element: Element,
        messages: &[Message<'_>],
    ) -> Result<Sent, NcclError> {
        // Most are too short, and then nothing else is asked.
        let is_long = messages.iter().any(|message| self.choices.is_long(message.region().len()));
        if !is_long || stream.is_capturing()? {
            return self.carry_plain(stream, messages);
        }
        let planned = self.plan(messages);
        if planned.iter().all(|(_, place)| place.is_none()) {
            return self.carry_plain(stream, messages);
        }
        self.relaxed(|world| world.carry_coded(stream, element, &planned))
    }

    /// Says which messages have headers: both ends of each come to the same.
    fn plan<'a>(&mut self, messages: &[Message<'a>]) -> Vec<Planned<'a>> {
        let (mut sends, mut receives) = (0, 0);
        let mut place = |message: &Message<'_>| {
            let is_open = self.choices.is_long(message.region().len()) && self.choices.is_open(message.key());
            let count = match message {
                Message::Send { .. } => &mut sends,
                Message::Receive { .. } => &mut receives,
            };
            is_open.then(|| {
                *count += 1;
                *count - 1
            })
        };
        messages.iter().map(|message| (*message, place(message))).collect()
    }

    fn carry_coded(
        &mut self,
        stream: &Stream,
        element: Element,
        planned: &[Planned<'_>],
    ) -> Result<Sent, NcclError> {
        let can_look = self.ready()?;
        let call = call_number(&[3, u64::from(element.number())]);
        let timed = self.is_exchange(planned).then_some(Key::Exchange);
        let (mut outgoing, mut choices, mut incoming) = (Vec::new(), Vec::new(), Vec::new());
        for (message, _) in planned.iter().filter(|(_, place)| place.is_some()) {
            match *message {
                Message::Send { to, from } => {
                    let key = Key::To(to);
                    let (out, choice) = self.choices.choose((key, timed, to), (from, element), can_look);
                    outgoing.push(out);
                    choices.push((key, choice));
                }
                Message::Receive { from, to } => incoming.push(Incoming { from, region: to }),
            }
        }
        self.lane.begin((&self.handle, stream), (element, call), &mut outgoing, incoming.len())?;
        self.neighbours.meet(&self.handle, peers(planned))?;
        self.send_headers(planned)?;
        let headers = self.lane.headers(&self.handle, (self.rank, call), |i| incoming[i].from)?;
        let (mine, theirs) = &headers;
        for (entry, into) in theirs.iter().zip(&incoming) {
            entry.check_len(into.from, into.region.len())?;
            self.choices.learn(Key::From(into.from), [entry]);
        }
        for (i, (entry, (key, choice))) in mine.iter().zip(&choices).enumerate() {
            self.choices.observe(choice, entry, self.lane.encoding_time(&outgoing, i));
            self.choices.learn(*key, [entry]);
        }
        self.lane.expect(theirs, None, |i| incoming[i].from)?;
        self.neighbours.meet(&self.handle, peers(planned))?;
        let timed = timed.filter(|_| self.choices.measures() && self.lane.begin_move());
        self.move_messages(planned, &outgoing, &headers)?;
        if let Some(key) = timed {
            self.lane.end_move(Moved { key, bytes: moved(planned, &headers) });
        }
        let frames = theirs.iter().zip(&incoming).enumerate().map(|(i, (entry, into))| (i, entry, *into));
        self.lane.decode_all(frames, self.choices.times_decoders())?;
        stream.follow(&self.lane.stream)?;
        mine.iter().for_each(|entry| count(&mut self.stats, entry));
        let without = planned.iter().filter(|(_, place)| place.is_none()).map(|(message, _)| message);
        sends(without).for_each(|len| count_plain(&mut self.stats, len));
        let saved: u64 = mine.iter().map(|entry| entry.raw_len - entry.stored_len()).sum();
        let raw_bytes: u64 = sends(planned.iter().map(|(message, _)| message)).sum();
        Ok(Sent { raw_bytes, stored_bytes: raw_bytes - saved })
    }

    /// Whether there is a message with a header to each other rank and from each, so that all have met when they have those.
    fn is_exchange(&self, planned: &[Planned<'_>]) -> bool {
        let mut peers = [BTreeSet::new(), BTreeSet::new()];
        let with_headers = planned.iter().filter(|(_, place)| place.is_some());
        for (message, _) in with_headers {
            peers[usize::from(matches!(message, Message::Send { .. }))].insert(message.peer());
        }
        planned.iter().all(|(_, place)| place.is_some())
            && peers.iter().all(|peers| peers.len() + 1 == self.ranks as usize)
    }

    fn send_headers(&self, planned: &[Planned<'_>]) -> Result<(), NcclError> {
        let lane = &self.lane;
        self.handle.group(|handle| {
            for &(message, place) in planned {
                match (message, place) {
                    (_, None) => {}
                    (Message::Send { to, .. }, Some(i)) => {
                        handle.send(lane.own_header(i), to, &lane.stream)?;
                    }
                    (Message::Receive { from, .. }, Some(i)) => {
                        handle.receive(lane.their_header(i), from, &lane.stream)?;
                    }
                }
            }
            Ok(())
        })
    }

    /// Enqueues what moves frames and raw bytes, in one group.
    fn move_messages(
        &self,
        planned: &[Planned<'_>],
        outgoing: &[Outgoing<'_>],
        (mine, theirs): &(Vec<Entry>, Vec<Entry>),
    ) -> Result<(), NcclError> {
        let lane = &self.lane;
        self.handle.group(|handle| {
            for &(message, place) in planned {
                match message {
                    Message::Send { to, from } => {
                        let frame = place.filter(|&i| mine[i].coding().is_some());
                        let raw = place.map_or(from, |i| outgoing[i].region);
                        let from = frame.map_or(raw, |i| lane.leaving(i, mine[i].stored_len()));
                        handle.send(from, to, &lane.stream)?;
                    }
                    Message::Receive { from, to } => {
                        let frame = place.filter(|&i| theirs[i].coding().is_some());
                        handle.receive(frame.map_or(to, |i| lane.coming(i)), from, &lane.stream)?;
                    }
                }
            }
            Ok(())
        })
    }

    /// By NCCL's own calls.
    fn carry_plain(&mut self, stream: &Stream, messages: &[Message<'_>]) -> Result<Sent, NcclError> {
        self.lane.plain_group(&self.handle, stream, |handle, stream| {
            messages.iter().try_for_each(|message| match *message {
                Message::Send { to, from } => handle.send(from, to, stream),
                Message::Receive { from, to } => handle.receive(to, from, stream),
            })
        })?;
        sends(messages).for_each(|len| count_plain(&mut self.stats, len));
        Ok(Sent::plain(sends(messages).sum()))
    }
}

impl<'a> Message<'a> {
    /// The other rank.
    pub(super) const fn peer(&self) -> u32 {
        match *self {
            Self::Send { to, .. } => to,
            Self::Receive { from, .. } => from,
        }
    }

    pub(super) const fn region(&self) -> Region<'a> {
        match *self {
            Self::Send { from, .. } => from,
            Self::Receive { to, .. } => to,
        }
    }

    const fn key(&self) -> Key {
        match *self {
            Self::Send { to, .. } => Key::To(to),
            Self::Receive { from, .. } => Key::From(from),
        }
    }
}

/// The other ends of messages with headers. For what has none another rank may make a plain call, which waits for nobody.
fn peers<'a>(planned: &[Planned<'a>]) -> impl Iterator<Item = u32> {
    planned.iter().filter(|(_, place)| place.is_some()).map(|(message, _)| message.peer())
}

/// The length of each message that is sent.
fn sends<'a, 'b: 'a>(messages: impl IntoIterator<Item = &'a Message<'b>>) -> impl Iterator<Item = u64> {
    let sent = messages.into_iter().filter(|message| matches!(message, Message::Send { .. }));
    sent.map(|message| message.region().len())
}

/// The bytes that are sent or received, whichever are more: links carry as much each way.
fn moved(planned: &[Planned<'_>], (mine, theirs): &(Vec<Entry>, Vec<Entry>)) -> u64 {
    let (mut sent, mut received) = (0, 0);
    for (message, place) in planned {
        let (bytes, entries) = match message {
            Message::Send { .. } => (&mut sent, mine),
            Message::Receive { .. } => (&mut received, theirs),
        };
        *bytes += place.map_or(message.region().len(), |i| entries[i].stored_len());
    }
    sent.max(received)
}
