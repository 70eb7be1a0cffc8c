//! The calls that move bytes.

use mgcomp_codecs::Element;
use mgcomp_codecs::device::{Region, Stream};

use super::choices::Key;
use super::messages::Message;
use super::spread::Spread;
use super::{NcclCommunicator, NcclError, Sent};
use crate::communicator::{Block, CommunicatorError};

/// What a call's arguments may be wrong in.
type Checked<T> = Result<T, CommunicatorError>;

impl NcclCommunicator {
    /// What `root` has in `buffer` is what all have there.
    ///
    /// # Errors
    /// [`NcclError`]; see "Failures" of this module.
    pub fn broadcast(
        &mut self,
        stream: &Stream,
        root: u32,
        buffer: Region<'_>,
        element: Element,
    ) -> Result<Sent, NcclError> {
        self.usable()?;
        self.check_rank(root)?;
        let at = |rank| if rank == root { buffer } else { buffer.slice(0..0) };
        let own = (self.rank == root).then_some(buffer);
        let spread = Spread {
            key: Key::Broadcast { root },
            element,
            own,
            into: (0..self.ranks).map(at).collect(),
            whole: None,
        };
        self.spread_somehow(stream, &spread, buffer.len())
    }

    /// What all have in `from` is in `into` on all, by rank. `from` may be this rank's part of `into`.
    ///
    /// # Errors
    /// [`NcclError`]; see "Failures" of this module.
    pub fn all_gather(
        &mut self,
        stream: &Stream,
        from: Region<'_>,
        into: Region<'_>,
        element: Element,
    ) -> Result<Sent, NcclError> {
        self.usable()?;
        let len = from.len();
        check_len("what is gathered", into, len.saturating_mul(self.ranks.into()))?;
        let part = |rank: u64| into.slice(rank * len..(rank + 1) * len);
        let parts = (0..u64::from(self.ranks)).map(part).collect();
        let spread = Spread { key: Key::AllGather, element, own: Some(from), into: parts, whole: Some(into) };
        self.spread_somehow(stream, &spread, len)
    }

    /// As [`all_gather`](Self::all_gather), where each rank has another length: `blocks` are the parts of `into`, by rank, and
    /// the same on all.
    ///
    /// # Errors
    /// [`NcclError`]; see "Failures" of this module.
    pub fn all_gather_v(
        &mut self,
        stream: &Stream,
        from: Region<'_>,
        (into, blocks): (Region<'_>, &[Block]),
        element: Element,
    ) -> Result<Sent, NcclError> {
        self.usable()?;
        let into = self.parts(into, blocks)?;
        check_len("what is gathered", from, into[self.rank as usize].len())?;
        let longest = into.iter().map(Region::len).max().unwrap_or(0);
        self.spread_somehow(
            stream,
            &Spread { key: Key::AllGather, element, own: Some(from), into, whole: None },
            longest,
        )
    }

    /// Part `i` of `from` goes to rank `i`, and part `i` of `into` comes from there. The two do not overlap.
    ///
    /// # Errors
    /// [`NcclError`]; see "Failures" of this module.
    pub fn all_to_all(
        &mut self,
        stream: &Stream,
        from: Region<'_>,
        into: Region<'_>,
        element: Element,
    ) -> Result<Sent, NcclError> {
        self.usable()?;
        check_len("what is received", into, from.len())?;
        let blocks = self.equal_blocks("what is sent", from)?;
        self.all_to_all_v(stream, (from, &blocks), (into, &blocks), element)
    }

    /// As [`all_to_all`](Self::all_to_all), with parts of any length, each as long as the one that it comes from or goes to.
    ///
    /// # Errors
    /// [`NcclError`]; see "Failures" of this module.
    pub fn all_to_all_v(
        &mut self,
        stream: &Stream,
        (from, from_blocks): (Region<'_>, &[Block]),
        (into, into_blocks): (Region<'_>, &[Block]),
        element: Element,
    ) -> Result<Sent, NcclError> {
        self.usable()?;
        let sends = (0..).zip(self.parts(from, from_blocks)?).map(|(to, from)| Message::Send { to, from });
        let receives =
            (0..).zip(self.parts(into, into_blocks)?).map(|(from, to)| Message::Receive { from, to });
        self.exchange(stream, &sends.chain(receives).collect::<Vec<_>>(), element)
    }

    /// What all have in `from` is in `into` on `root`, by rank. The others' `into` is not looked at.
    ///
    /// # Errors
    /// [`NcclError`]; see "Failures" of this module.
    pub fn gather(
        &mut self,
        stream: &Stream,
        root: u32,
        (from, into): (Region<'_>, Region<'_>),
        element: Element,
    ) -> Result<Sent, NcclError> {
        self.usable()?;
        self.check_rank(root)?;
        let mut messages = vec![Message::Send { to: root, from }];
        if self.rank == root {
            check_len("what is gathered", into, from.len().saturating_mul(self.ranks.into()))?;
            let blocks = self.equal_blocks("what is gathered", into)?;
            let parts = self.parts(into, &blocks)?;
            messages.extend((0..).zip(parts).map(|(from, to)| Message::Receive { from, to }));
        }
        self.exchange(stream, &messages, element)
    }

    /// Part `i` of what `root` has in `from` is in `into` on rank `i`. The others' `from` is not looked at.
    ///
    /// # Errors
    /// [`NcclError`]; see "Failures" of this module.
    pub fn scatter(
        &mut self,
        stream: &Stream,
        root: u32,
        (from, into): (Region<'_>, Region<'_>),
        element: Element,
    ) -> Result<Sent, NcclError> {
        self.usable()?;
        self.check_rank(root)?;
        let mut messages = vec![Message::Receive { from: root, to: into }];
        if self.rank == root {
            check_len("what is scattered", from, into.len().saturating_mul(self.ranks.into()))?;
            let blocks = self.equal_blocks("what is scattered", from)?;
            let parts = self.parts(from, &blocks)?;
            messages.extend((0..).zip(parts).map(|(to, from)| Message::Send { to, from }));
        }
        self.exchange(stream, &messages, element)
    }

    /// Sends `from` to a rank, which receives it.
    ///
    /// # Errors
    /// [`NcclError`]; see "Failures" of this module.
    pub fn send(
        &mut self,
        stream: &Stream,
        to: u32,
        from: Region<'_>,
        element: Element,
    ) -> Result<Sent, NcclError> {
        self.exchange(stream, &[Message::Send { to, from }], element)
    }

    /// Receives `to` from a rank, which sends as many bytes.
    ///
    /// # Errors
    /// [`NcclError`]; see "Failures" of this module.
    pub fn receive(
        &mut self,
        stream: &Stream,
        from: u32,
        to: Region<'_>,
        element: Element,
    ) -> Result<(), NcclError> {
        self.exchange(stream, &[Message::Receive { from, to }], element).map(drop)
    }

    /// Sends and receives as one group, so that ranks may send to each other at once. Of messages between two ranks, the
    /// first that is sent is the first that is received, and so on; a rank may have some for itself. Long messages are in groups with
    /// the same partners at both ends; see "Order" of this module.
    ///
    /// # Errors
    /// [`NcclError`]; see "Failures" of this module.
    pub fn exchange(
        &mut self,
        stream: &Stream,
        messages: &[Message<'_>],
        element: Element,
    ) -> Result<Sent, NcclError> {
        self.usable()?;
        messages.iter().try_for_each(|message| self.check_rank(message.peer()))?;
        let rank = self.rank;
        let (own, others): (Vec<_>, Vec<_>) =
            messages.iter().copied().partition(|message| message.peer() == rank);
        let pairs = own_pairs(&own)?;
        let filled = others.into_iter().filter(|message| !message.region().is_empty()).collect::<Vec<_>>();
        let carried = pairs
            .into_iter()
            .filter(|(from, to)| from != to)
            .try_for_each(|(from, to)| stream.copy(from, to))
            .map_err(NcclError::from)
            .and_then(|()| {
                if filled.is_empty() { Ok(Sent::default()) } else { self.carry(stream, element, &filled) }
            });
        self.kept_on(stream, carried)
    }

    /// Headers go ahead if the longest part is worth it.
    fn spread_somehow(
        &mut self,
        stream: &Stream,
        spread: &Spread<'_>,
        longest: u64,
    ) -> Result<Sent, NcclError> {
        let worth = || Ok(self.choices.is_long(longest) && !stream.is_capturing()?);
        let moved = match worth() {
            Err(error) => Err(NcclError::Device(error)),
            Ok(true) if self.choices.is_open(spread.key) => {
                self.relaxed(|world| world.spread(stream, spread))
            }
            Ok(_) => self.spread_plain(stream, spread),
        };
        self.kept_on(stream, moved)
    }

    fn check_rank(&self, rank: u32) -> Checked<()> {
        let ranks = self.ranks;
        if rank < ranks { Ok(()) } else { Err(CommunicatorError::Rank { rank, ranks }) }
    }

    /// Parts of equal length, one for each rank.
    fn equal_blocks(&self, what: &'static str, buffer: Region<'_>) -> Checked<Vec<Block>> {
        let ranks = self.ranks as usize;
        let len = buffer.len() as usize / ranks;
        check_len(what, buffer, (len * ranks) as u64)?;
        Ok((0..ranks).map(|rank| Block { offset: rank * len, len }).collect())
    }

    /// The parts of `buffer` that `blocks` name, one for each rank.
    fn parts<'a>(&self, buffer: Region<'a>, blocks: &[Block]) -> Checked<Vec<Region<'a>>> {
        if blocks.len() != self.ranks as usize {
            return Err(CommunicatorError::Blocks { got: blocks.len(), ranks: self.ranks });
        }
        let buffer_len = buffer.len() as usize;
        let part = |(block, &Block { offset, len }): (usize, &Block)| match offset.checked_add(len) {
            Some(end) if end <= buffer_len => Ok(buffer.slice(offset as u64..end as u64)),
            _ => Err(CommunicatorError::BlockOutside { block, offset, len, buffer_len }),
        };
        blocks.iter().enumerate().map(part).collect()
    }
}

/// Messages of a rank to itself: the first that is sent goes where the first is received.
fn own_pairs<'a>(messages: &[Message<'a>]) -> Checked<Vec<(Region<'a>, Region<'a>)>> {
    let (sends, receives): (Vec<Message<'a>>, Vec<Message<'a>>) =
        messages.iter().copied().partition(|message| matches!(message, Message::Send { .. }));
    let (got, expected) = (receives.len(), sends.len());
    if got != expected {
        let what = "receives of a rank from itself, of which there are as many as sends; their list";
        return Err(CommunicatorError::Length { what, got, expected });
    }
    let pairs = sends.into_iter().zip(receives).map(|(from, to)| (from.region(), to.region()));
    pairs
        .map(|(from, to)| check_len("a receive of a rank from itself", to, from.len()).map(|()| (from, to)))
        .collect()
}

fn check_len(what: &'static str, region: Region<'_>, expected: u64) -> Checked<()> {
    let (got, expected) = (region.len() as usize, expected as usize);
    if got == expected { Ok(()) } else { Err(CommunicatorError::Length { what, got, expected }) }
}
