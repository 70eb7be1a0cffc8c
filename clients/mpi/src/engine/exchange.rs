//! Blocks between two ranks, which both know how long they are: pieces of a long one are messages that say of themselves
//! what they are. A message of one byte says that the block follows as it is, or that it does not come.

use std::ffi::c_int;
use std::time::{Duration, Instant};

use mgcomp_transport::attach::{Coder, PartOf, To, UnderWay};

use super::Kind;
use super::pieces::{Cut, Pieces};
use crate::communicator::Communicator;
use crate::data::{Bytes, Data, Landing};
use crate::failure::{Came, Failure};
use crate::layer::Layer;
use crate::mpi::{Operation, Shape, Tag};
use crate::types::Comm;

/// The byte that says that a block follows as it is,
const AS_IT_IS: u8 = 0;
/// and that its receiver is to say how long it took.
const TELL: u8 = 1;
/// The byte that comes in place of a block that was not to be had.
const SPOILED: u8 = 2;

/// What a rank and another one have for each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) peer: c_int,
    pub(crate) send: Option<Data>,
    pub(crate) receive: Option<Data>,
    /// What is to be sent is not good for anything. The peer is told that, and gets nothing.
    pub(crate) is_spoiled: bool,
}

/// Exchanges blocks with other ranks.
#[derive(Debug)]
pub(crate) struct Exchange<'a> {
    pub(crate) layer: &'a Layer,
    pub(crate) comm: &'a Communicator,
    pub(crate) shadow: Comm,
    pub(crate) kind: Kind,
    /// What is sent is like.
    pub(crate) sent: Shape,
    /// What is received is like.
    pub(crate) received: Shape,
    /// Whether what comes takes the place of what goes.
    pub(crate) is_in_place: bool,
    /// What is compared, if they are a part of that.
    pub(crate) collective: Option<&'a UnderWay>,
}

impl Exchange<'_> {
    /// Exchanges what there is with some peers at once, which all do so with this rank in the same turn.
    pub(crate) fn run(&self, steps: &[Step]) -> Result<Came, Failure> {
        self.finish(steps, Vec::new())
    }

    /// Makes ready what goes first to these peers, up to the first block that is compressed.
    pub(crate) fn begin<'a>(&'a self, steps: &'a [Step]) -> Result<Vec<Outgoing<'a>>, Failure> {
        let mut begun = Vec::new();
        for step in steps {
            begun.extend(self.outgoing(step)?);
            if begun.last().is_some_and(Outgoing::is_compressed) {
                break;
            }
        }
        Ok(begun)
    }

    /// Does what [`run`](Self::run) does, of which that much is `begun`.
    pub(crate) fn finish<'a>(&'a self, steps: &'a [Step], begun: Vec<Outgoing<'a>>) -> Result<Came, Failure> {
        let incoming =
            |step: &'a Step| Some(Incoming::new(self, step.receive.as_ref()?, step.peer, self.cut(step)));
        let mut incoming: Vec<_> = steps.iter().map(incoming).collect();
        let (mut begun, mut outgoing, started) = (begun.into_iter(), Vec::new(), Instant::now());
        loop {
            let post = |incoming: &Option<Incoming<'_>>| incoming.as_ref().map_or(Ok(None), Incoming::post);
            let receiving = incoming.iter().map(post).collect::<Result<Vec<_>, _>>()?;
            let mut sending = Vec::new();
            for (index, step) in steps.iter().enumerate() {
                if index == outgoing.len() {
                    // While the others are on their way.
                    let begun = step.send.as_ref().and_then(|_| begun.next());
                    outgoing.push(if begun.is_some() { begun } else { self.outgoing(step)? });
                }
                if let Some(outgoing) = &mut outgoing[index] {
                    sending.extend(outgoing.post()?);
                }
            }
            if sending.is_empty() && receiving.iter().all(Option::is_none) {
                break;
            }
            outgoing.iter_mut().flatten().try_for_each(|outgoing| outgoing.prepare().map(drop))?;
            for (incoming, receiving) in incoming.iter_mut().zip(receiving) {
                if let (Some(incoming), Some(receiving)) = (incoming, receiving) {
                    incoming.take(receiving)?;
                }
            }
            for operation in sending {
                self.layer.pool.give(operation.wait()?.0);
            }
            // What is sent at the same time, and nothing comes, shares the link.
            let comes = incoming.iter().any(Option::is_some);
            let sent = |outgoing: &Outgoing<'_>| outgoing.data.len(&self.sent);
            let plain: Vec<_> =
                outgoing.iter().flatten().filter(|one| one.is_plain && !comes).map(sent).collect();
            outgoing.iter_mut().flatten().try_for_each(|outgoing| outgoing.learn(&plain))?;
        }
        if steps.iter().all(|step| self.goes_both_ways(step)) {
            let messages = |incoming: &Incoming<'_>| incoming.messages_len;
            self.comm.rate.learn_at_least(incoming.iter().flatten().map(messages).sum(), started.elapsed());
        }
        let mut came = Ok(());
        for incoming in incoming.into_iter().flatten() {
            came = came.and(incoming.finish());
        }
        Ok(came)
    }

    /// How both cut what goes between this rank and another one. Where it goes one way alone, nothing keeps many ranks from sending to one that is
    /// not there yet, and MPI from keeping that there: with long pieces they mostly wait until they are asked for them.
    fn cut(&self, step: &Step) -> Cut {
        if self.goes_both_ways(step) { self.layer.pieces.cut() } else { Pieces::LONGEST.cut() }
    }

    /// Which both know.
    fn goes_both_ways(&self, step: &Step) -> bool {
        let len = |data: Option<Data>, shape| data.map_or(0, |data| data.len(shape));
        len(step.send, &self.sent) > 0 && len(step.receive, &self.received) > 0
    }

    /// What goes to a peer, if anything does.
    fn outgoing<'a>(&'a self, step: &'a Step) -> Result<Option<Outgoing<'a>>, Failure> {
        let outgoing = |data| match step.is_spoiled {
            true => Ok(Outgoing::spoiled(self, data, step.peer)),
            false => Outgoing::new(self, data, step.peer, self.cut(step)),
        };
        step.send.as_ref().map(outgoing).transpose()
    }
}

/// A block on its way out.
pub(crate) struct Outgoing<'a> {
    exchange: &'a Exchange<'a>,
    data: &'a Data,
    bytes: Bytes<'a>,
    peer: c_int,
    /// What has been made ready,
    cut: Cut,
    /// unless all of it goes as it is.
    is_plain: bool,
    /// Messages that are under way, or were.
    messages: usize,
    ready: Option<Ready>,
    /// Where the peer says how long it took.
    told: Option<Operation>,
    /// Whether its beginning is compressed.
    is_compressed: bool,
}

/// What is to be sent next.
enum Ready {
    Message(Vec<u8>, usize),
    AsItIs,
    Spoiled,
}

impl<'a> Outgoing<'a> {
    fn new(exchange: &'a Exchange<'a>, data: &'a Data, peer: c_int, cut: Cut) -> Result<Self, Failure> {
        let (layer, shape) = (exchange.layer, &exchange.sent);
        let bytes = match exchange.is_in_place {
            true => Bytes::Packed(data.packed(shape, layer)?),
            false => data.bytes(shape, layer)?,
        };
        let (is_plain, ready, told, is_compressed) = (false, None, None, false);
        let mut new =
            Self { exchange, data, bytes, peer, cut, is_plain, messages: 0, ready, told, is_compressed };
        new.is_compressed = new.prepare()?;
        layer.count(new.is_compressed);
        Ok(new)
    }

    pub(crate) fn is_compressed(&self) -> bool {
        self.is_compressed
    }

    /// A block that does not come.
    fn spoiled(exchange: &'a Exchange<'a>, data: &'a Data, peer: c_int) -> Self {
        let ready = (data.len(&exchange.sent) > 0).then_some(Ready::Spoiled);
        let (bytes, cut) = (Bytes::There(&[][..]), exchange.layer.pieces.cut());
        Self {
            exchange,
            data,
            bytes,
            peer,
            cut,
            is_plain: true,
            messages: 0,
            ready,
            told: None,
            is_compressed: false,
        }
    }

    /// Makes ready what is next, if there is more; returns whether that is compressed.
    fn prepare(&mut self) -> Result<bool, Failure> {
        let Exchange { layer, collective, is_in_place, .. } = *self.exchange;
        if self.is_plain {
            return Ok(false);
        }
        let Some(raw) = self.bytes.as_slice() else {
            self.leave(0);
            return Ok(false);
        };
        let (piece, is_first) = (&raw[self.cut.next(raw.len())], self.cut.done() == 0);
        let len = piece.len();
        if len == 0 {
            return Ok(false);
        }
        let mut message = layer.pool.take(Coder::max_len(len));
        let part_of = collective.map(|collective| PartOf { collective, is_first });
        let sealed = layer.seal(&self.way(len), piece, &mut message, part_of)?;
        let message_len = match sealed {
            Some(len) => len,
            None if is_first && !is_in_place => {
                layer.pool.give(message);
                self.leave(len);
                return Ok(false);
            }
            None => layer.seal_raw(piece, &mut message)?,
        };
        self.cut.pass(len, message_len);
        self.ready = Some(Ready::Message(message, message_len));
        Ok(sealed.is_some())
    }

    /// Where a piece of so many bytes goes.
    fn way(&self, piece: usize) -> To {
        let Exchange { comm, kind, sent, .. } = self.exchange;
        let way = comm.way(*kind, self.peer);
        To { link: way.link.map(|link| Pieces::link(link, piece, self.data.len(sent))), ..way }
    }

    /// Lets all of the block go as it is, of which so many bytes were counted already.
    fn leave(&mut self, counted_len: usize) {
        let Exchange { layer, sent, .. } = self.exchange;
        let len = self.data.len(sent);
        layer.coder.sent_raw(&self.way(len), len - counted_len);
        self.ready = Some(Ready::AsItIs);
        self.is_plain = true;
    }

    /// Begins to send what is ready.
    fn post(&mut self) -> Result<Vec<Operation>, Failure> {
        let Exchange { layer, comm, shadow, .. } = *self.exchange;
        let mpi = &layer.mpi;
        match self.ready.take() {
            None => Ok(Vec::new()),
            Some(Ready::Message(message, len)) => {
                let sending = mpi.send_message((message, len), self.messages, self.peer, shadow)?;
                self.messages += 1;
                Ok(vec![sending])
            }
            Some(Ready::Spoiled) => Ok(vec![mpi.send(vec![SPOILED], 1, self.peer, Tag::Data, shadow)?]),
            Some(Ready::AsItIs) => {
                let tell = comm.rate.is_wanted();
                if tell {
                    self.told = Some(mpi.receive(vec![0; 8], self.peer, Tag::Time, shadow)?);
                }
                let word = vec![if tell { TELL } else { AS_IT_IS }];
                let said = mpi.send(word, 1, self.peer, Tag::Data, shadow)?;
                Ok(vec![said, mpi.send_data(self.data, self.peer, shadow)?])
            }
        }
    }
}

impl Outgoing<'_> {
    /// Hears how long it took, if the peer says so. Blocks of these lengths, or it alone, had the link meanwhile.
    fn learn(&mut self, plain: &[usize]) -> Result<(), Failure> {
        let Some(told) = self.told.take() else { return Ok(()) };
        let (bytes, _) = told.wait()?;
        let nanos = bytes.first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let Exchange { comm, sent, .. } = self.exchange;
        let own = self.data.len(sent);
        let passed = plain.iter().fold(0, |passed: usize, len| passed.saturating_add(own.min(*len)));
        comm.rate.learn(passed.max(own), Duration::from_nanos(nanos));
        Ok(())
    }
}

/// A block on its way in.
struct Incoming<'a> {
    exchange: &'a Exchange<'a>,
    data: &'a Data,
    landing: Option<Landing<'a>>,
    peer: c_int,
    /// What has come,
    cut: Cut,
    /// and whether nothing else does.
    is_over: bool,
    /// Bytes that messages had, without the first, which may have waited for this rank. What is behind that was sent when the peer had taken one.
    messages_len: usize,
    came: Came,
}

impl<'a> Incoming<'a> {
    fn new(exchange: &'a Exchange<'a>, data: &'a Data, peer: c_int, cut: Cut) -> Self {
        Self { exchange, data, landing: None, peer, cut, is_over: false, messages_len: 0, came: Ok(()) }
    }

    fn len(&self) -> usize {
        self.data.len(&self.exchange.received)
    }

    /// Begins to receive what is next, if there is more.
    fn post(&self) -> Result<Option<Operation>, Failure> {
        let piece = self.cut.next(self.len());
        if self.is_over || piece.is_empty() {
            return Ok(None);
        }
        let layer = self.exchange.layer;
        let room = layer.pool.take(Coder::max_len(piece.len()));
        layer.mpi.receive(room, self.peer, Tag::Data, self.exchange.shadow).map(Some)
    }

    /// Waits for it, and puts it where it belongs, before more is sent: MPI is slow to go on with what is under way both ways where nobody calls it
    /// for a while.
    fn take(&mut self, receiving: Operation) -> Result<(), Failure> {
        let (message, len) = receiving.wait()?;
        if self.cut.done() == 0 && len == 1 {
            let word = message[0];
            self.exchange.layer.pool.give(message);
            return self.take_word(word);
        }
        let Exchange { layer, comm, received, .. } = self.exchange;
        let piece = self.cut.next(self.len());
        self.messages_len += if self.cut.done() > 0 { len } else { 0 };
        self.cut.pass(piece.len(), len);
        let landing = self.landing.get_or_insert_with(|| Landing::new(self.data, *received));
        let opened = layer.open(comm, self.peer, &message[..len], &mut landing.room()[piece]);
        // What else is to come is taken even so: the peer sends it.
        self.came = std::mem::replace(&mut self.came, Ok(())).and(opened);
        layer.pool.give(message);
        Ok(())
    }

    /// There are no messages.
    fn take_word(&mut self, word: u8) -> Result<(), Failure> {
        self.is_over = true;
        if word != SPOILED {
            return self.take_as_it_is(word == TELL);
        }
        self.came = Err(Failure::Spoiled { rank: self.peer });
        Ok(())
    }

    fn take_as_it_is(&mut self, tell: bool) -> Result<(), Failure> {
        let Exchange { layer, comm, shadow, .. } = *self.exchange;
        let started = Instant::now();
        layer.mpi.receive_data(self.data, self.peer, shadow)?.wait()?;
        if tell {
            let took = (started.elapsed().as_nanos() as u64).to_le_bytes().to_vec();
            layer.mpi.send(took, 8, self.peer, Tag::Time, shadow)?.wait()?;
        }
        layer.coder.received_raw(comm.peer(self.peer), self.len());
        Ok(())
    }

    fn finish(self) -> Came {
        self.came?;
        self.landing.map_or(Ok(()), |landing| landing.finish(self.exchange.layer))
    }
}
