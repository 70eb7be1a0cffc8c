//! What a rank has goes to all: broadcast and all_gather.

use mgcomp_codecs::Element;
use mgcomp_codecs::device::{Region, Stream};

use super::choices::{Key, Moved};
use super::entry::{Entry, call_number};
use super::lane::{Incoming, Outgoing};
use super::{NcclCommunicator, NcclError, Sent, count, count_plain};

/// One call on one rank.
#[derive(Clone, Debug)]
pub(super) struct Spread<'a> {
    pub(super) key: Key,
    pub(super) element: Element,
    /// What this rank has, if it has any.
    pub(super) own: Option<Region<'a>>,
    /// By rank: where that goes which it has. Empty for ranks that have nothing.
    pub(super) into: Vec<Region<'a>>,
    /// All of `into` in one, if it is parts of equal length, one after the other.
    pub(super) whole: Option<Region<'a>>,
}

impl Spread<'_> {
    /// What ranks must agree on.
    fn call_number(&self, calls: u64) -> u32 {
        let (kind, root) = match self.key {
            Key::Broadcast { root } => (1, u64::from(root)),
            _ => (2, 0),
        };
        let lens = self.into.iter().map(Region::len);
        let facts = [kind, root, calls, u64::from(self.element.number())];
        call_number(&facts.into_iter().chain(lens).collect::<Vec<_>>())
    }

    /// Its bytes that come from this rank.
    pub(super) fn own_len(&self) -> u64 {
        self.own.map_or(0, |own| own.len())
    }
}

impl NcclCommunicator {
    /// By headers and frames.
    pub(super) fn spread(&mut self, stream: &Stream, spread: &Spread<'_>) -> Result<Sent, NcclError> {
        let can_look = self.ready()?;
        let call = spread.call_number(self.calls);
        self.calls += 1;
        // A rank without bytes has a header all the same.
        let own = spread.own.unwrap_or_else(|| spread.into[0].slice(0..0));
        let (out, choice) =
            self.choices.choose((spread.key, Some(spread.key), self.rank), (own, spread.element), can_look);
        let mut out = [out];
        self.lane.begin((&self.handle, stream), (spread.element, call), &mut out, self.ranks as usize)?;
        self.neighbours.meet(&self.handle, 0..self.ranks)?;
        let (lane, handle) = (&self.lane, &self.handle);
        handle.group(|handle| handle.all_gather(lane.outgoing(), lane.incoming(), &lane.stream))?;
        let (mine, entries) = lane.headers(handle, (self.rank, call), |rank| rank as u32)?;
        for (rank, (entry, into)) in entries.iter().zip(&spread.into).enumerate() {
            entry.check_len(rank as u32, into.len())?;
        }
        self.choices.observe(&choice, &mine[0], self.lane.encoding_time(&out, 0));
        self.choices.learn(spread.key, &entries);
        self.lane.expect(&entries, Some(self.rank), |rank| rank as u32)?;
        self.neighbours.meet(&self.handle, 0..self.ranks)?;
        let is_timed = self.choices.measures() && self.lane.begin_move();
        self.move_all(spread, &out[0], &entries)?;
        if is_timed {
            self.lane.end_move(Moved { key: spread.key, bytes: forwarded(&entries) });
        }
        self.take_all(spread, &entries)?;
        stream.follow(&self.lane.stream)?;
        count(&mut self.stats, &mine[0]);
        Ok(Sent { raw_bytes: own.len(), stored_bytes: mine[0].stored_len() })
    }

    /// Enqueues what moves frames and raw bytes, in one group.
    fn move_all(&self, spread: &Spread<'_>, out: &Outgoing<'_>, entries: &[Entry]) -> Result<(), NcclError> {
        let (lane, rank) = (&self.lane, self.rank as usize);
        self.handle.group(|handle| {
            for (root, (entry, &into)) in entries.iter().zip(&spread.into).enumerate() {
                let (from, to) = match (entry.coding().is_some(), root == rank) {
                    (true, true) => {
                        (lane.leaving(0, entry.stored_len()), lane.leaving(0, entry.stored_len()))
                    }
                    (true, false) => (lane.coming(root), lane.coming(root)),
                    (false, true) => (out.region, into),
                    (false, false) => (into, into),
                };
                if !to.is_empty() {
                    handle.broadcast(from, to, root as u32, &lane.stream)?;
                }
            }
            Ok(())
        })
    }

    /// Enqueues what is left to do when all has come.
    fn take_all(&mut self, spread: &Spread<'_>, entries: &[Entry]) -> Result<(), NcclError> {
        let rank = self.rank as usize;
        let all = entries.iter().zip(&spread.into).enumerate();
        let incoming = all
            .map(|(i, (entry, &region))| (i, entry, Incoming { from: i as u32, region }))
            .filter(|(i, ..)| *i != rank);
        self.lane.decode_all(incoming, self.choices.times_decoders())?;
        if let Some(own) = spread.own
            && entries[rank].coding().is_some()
            && own != spread.into[rank]
        {
            self.lane.stream.copy(own, spread.into[rank])?;
        }
        Ok(())
    }

    /// By NCCL's own calls.
    pub(super) fn spread_plain(&mut self, stream: &Stream, spread: &Spread<'_>) -> Result<Sent, NcclError> {
        self.lane.plain_group(&self.handle, stream, |handle, stream| {
            if let (Some(own), Some(whole)) = (spread.own, spread.whole) {
                return handle.all_gather(own, whole, stream);
            }
            for (root, &into) in (0..).zip(&spread.into) {
                let from = spread.own.filter(|_| root == self.rank).unwrap_or(into);
                if !into.is_empty() {
                    handle.broadcast(from, into, root, stream)?;
                }
            }
            Ok(())
        })?;
        count_plain(&mut self.stats, spread.own_len());
        Ok(Sent::plain(spread.own_len()))
    }
}

/// What the busiest rank of a ring hands on: what all have, but for what is the next one's own.
fn forwarded(entries: &[Entry]) -> u64 {
    let lens = || entries.iter().map(Entry::stored_len);
    lens().sum::<u64>() - lens().min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_a_ring_hand_on_what_is_not_the_next_one_s() {
        let bytes =
            |lens: &[u64]| forwarded(&lens.iter().map(|&len| Entry::new(len, None, 1)).collect::<Vec<_>>());
        // A broadcast to any number of ranks, and what three ranks gather.
        assert_eq!((bytes(&[100, 0]), bytes(&[0, 100, 0, 0])), (100, 100));
        assert_eq!((bytes(&[100, 100, 100]), bytes(&[50, 100, 200]), bytes(&[100])), (200, 300, 0));
    }
}
