//! The run of one rank. All ranks do the same; rank 0 decides how often and how far, and hears what the others saw.

use std::thread;
use std::time::{Duration, Instant};

use mgcomp_transport::communicator::{Communicator, CommunicatorError};

use super::agreement::{word_of_root, words_of_all};
use super::apart::{Apart, GoesOn, PART_BYTES};
use super::check::Expected;
use super::common::{Disagreement, disagreement, told};
use super::data::Data;
use super::error::PerfError;
use super::member::{Member, Step};
use super::nccl::Nccl;
use super::operation::{Op, Piece, Place, ROOT};
use super::options::{Args, Mode};
use super::row::{Row, Seen};
use super::watchdog::Watchdog;
use crate::error::note;
use crate::room::Span;

/// Iterations before those that count, if there is time.
const WARMUP: u32 = 10;
/// Iterations that count: at least and at most, where the time decides.
const LEAST: u64 = 3;
const MOST: u64 = 10_000;
/// Of more iterations than this the time is looked at so often.
const MANY: u64 = 100;
const LOOKS: u64 = 10;
/// Results up to this are checked in every iteration.
const ALWAYS_CHECKED_BYTES: usize = 4 << 20;

/// Takes what was measured as it comes; only rank 0 has something to tell.
pub(super) type Sink<'a> = dyn FnMut(Row) -> Result<(), PerfError> + 'a;

/// One rank at work.
pub(super) struct Run<'a> {
    args: &'a Args,
    data: &'a Data,
    // Goes before the rank that it watches over.
    watchdog: Watchdog,
    member: Member,
}

/// Whether a result is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    Not,
    Checked,
    /// A byte of it is changed before.
    Spoiled,
}

impl<'a> Run<'a> {
    pub(super) fn new(args: &'a Args, data: &'a Data, member: Member) -> Result<Self, PerfError> {
        let watchdog = Watchdog::start(member.world.clone(), args.timeout).map_err(PerfError::Watchdog)?;
        Ok(Self { args, data, member, watchdog })
    }

    /// Measures everything. Returns how many values were wrong, as far as this rank knows.
    pub(super) fn all(&self, sink: &mut Sink<'_>) -> Result<u64, PerfError> {
        self.ops(sink).map_err(|error| {
            if let Some(nccl) = &self.member.nccl {
                nccl.abort();
            }
            match self.watchdog.late() {
                Some(what) => PerfError::Late { rank: self.rank(), what, limit: self.args.timeout },
                None => error,
            }
        })
    }

    fn ops(&self, sink: &mut Sink<'_>) -> Result<u64, PerfError> {
        self.member.world.node().set_compression(false);
        let told = told(self.args, self.member.world.size() as usize, self.data);
        let found = self.together(|world| disagreement(world, &told))?;
        if let Some(Disagreement { other, differences }) = found {
            return Err(PerfError::Disagree { rank: self.rank(), other, differences });
        }
        let ops = self.args.op.len() as u32;
        let mut wrong = 0;
        for &op in &self.args.op {
            wrong += self.sizes(op, self.args.seconds / ops, sink)?;
        }
        // Nobody leaves while others may still need it.
        self.together(Communicator::barrier)?;
        Ok(wrong)
    }

    fn rank(&self) -> u32 {
        self.member.world.rank()
    }

    fn is_root(&self) -> bool {
        self.rank() as usize == ROOT
    }

    fn failed(&self, source: CommunicatorError) -> PerfError {
        PerfError::Communicator { rank: self.rank(), source }
    }

    /// Does something that all ranks have to do with.
    fn together<T>(
        &self,
        what: impl FnOnce(&Communicator) -> Result<T, CommunicatorError>,
    ) -> Result<T, PerfError> {
        let _watched = self.watchdog.watch();
        what(&self.member.world).map_err(|error| self.failed(error))
    }

    /// Does what each rank does by itself, while the others wait.
    fn apart<T>(
        &self,
        step: &Step,
        work: impl FnOnce(GoesOn<'_>) -> Result<T, PerfError>,
    ) -> Result<T, PerfError> {
        let ranks = (&self.member.world, &self.watchdog);
        let mut apart = Apart::begin(ranks, step.case.bytes, self.args.timeout);
        let done = work(&mut || apart.goes_on())?;
        apart.done()?;
        Ok(done)
    }

    /// What the root says.
    fn agreed(&self, word: u64) -> Result<u64, PerfError> {
        self.together(|world| word_of_root(world, word))
    }

    /// All sizes of an operation.
    fn sizes(&self, op: Op, time: Duration, sink: &mut Sink<'_>) -> Result<u64, PerfError> {
        let sizes = self.args.sizes(op, self.member.world.size() as usize);
        let until = Instant::now() + time;
        let (mut wrong, mut last) = (0, None);
        for (index, &bytes) in sizes.iter().enumerate() {
            let left = until.saturating_duration_since(Instant::now());
            let fits = self.args.iters.is_some() || fits(last, bytes, left);
            if self.agreed(fits.into())? == 0 {
                if self.is_root() {
                    let (count, name) = (sizes.len() - index, op.name());
                    note(&format!(
                        "{name}: {count} sizes from {bytes} bytes on are left out: no time (--seconds)"
                    ));
                }
                break;
            }
            let share = left / (sizes.len() - index) as u32;
            let (round, found) = self.size(op, bytes, share, sink)?;
            last = Some((bytes, round));
            wrong += found;
        }
        Ok(wrong)
    }

    /// One size. Returns the time of a round of all modes, and how many values were wrong.
    fn size(
        &self,
        op: Op,
        bytes: usize,
        time: Duration,
        sink: &mut Sink<'_>,
    ) -> Result<(Duration, u64), PerfError> {
        let step = self.member.step(self.args, op, bytes);
        let placed = |piece: Piece| {
            let place = step.at(piece.place, piece.at.clone());
            (piece, place)
        };
        let pieces = op.result(step.case).into_iter().map(placed).collect();
        let combined = (step.task, self.args.order());
        let modes = self.args.modes();
        let mut seen = vec![Seen::default(); modes.len()];

        let expected = self.apart(&step, |goes_on| {
            Expected::new(self.data, step.case.ranks, self.args.values(), combined, (pieces, goes_on))
        })?;
        let started = Instant::now();
        self.apart(&step, |goes_on| self.fill(&step, goes_on))?;
        let mut round = self.warm_up(&step, &expected, time, &mut seen)?;
        let mut iterations = self.iterations(time.saturating_sub(started.elapsed()), round)?;
        let mut iteration = 0;
        while iteration < iterations {
            let round_started = Instant::now();
            // The same on all ranks: over NCCL they compare together.
            let is_checked = [0, iterations - 1].contains(&iteration) || bytes <= ALWAYS_CHECKED_BYTES;
            let check = match iteration == 0 && self.args.spoil && self.is_root() {
                true => Check::Spoiled,
                false if is_checked => Check::Checked,
                false => Check::Not,
            };
            for (&mode, seen) in modes.iter().zip(&mut seen) {
                self.iterate(&step, &expected, mode, check, seen)?;
            }
            if round.is_none() {
                // Nothing was known of what fits before the first one.
                round = Some(round_started.elapsed());
                iterations = self.iterations(time.saturating_sub(started.elapsed()), round)?;
            }
            // They may take longer than those before: a look at the time now and then.
            if self.args.iters.is_none() && iterations > MANY && iteration % (iterations / LOOKS) == 0 {
                let goes_on = started.elapsed() < time + time / 4;
                if self.agreed(goes_on.into())? == 0 {
                    iterations = cut_short(iterations, iteration);
                }
            }
            iteration += 1;
        }
        let wrong = self.report(&step, seen, sink)?;
        Ok((round.unwrap_or_default(), wrong))
    }

    /// How many iterations there are to be, if a round takes so long.
    fn iterations(&self, left: Duration, round: Option<Duration>) -> Result<u64, PerfError> {
        self.agreed(self.args.iters.map_or_else(|| fitting(left, round), u64::from))
    }

    /// Iterations whose times do not count, but whose results do. Returns the time of the last round, if there is any.
    fn warm_up(
        &self,
        step: &Step,
        expected: &Expected<'_>,
        time: Duration,
        seen: &mut [Seen],
    ) -> Result<Option<Duration>, PerfError> {
        let (started, modes) = (Instant::now(), self.args.modes());
        let count = self.args.warmup.unwrap_or(WARMUP);
        let mut round = None;
        for index in 0..count {
            let round_started = Instant::now();
            let check = if index == 0 || step.case.bytes <= ALWAYS_CHECKED_BYTES {
                Check::Checked
            } else {
                Check::Not
            };
            for (&mode, seen) in modes.iter().zip(&mut *seen) {
                let mut warm = Seen::default();
                self.iterate(step, expected, mode, check, &mut warm)?;
                seen.wrong += warm.wrong;
            }
            let took = round_started.elapsed();
            round = Some(took);
            let goes_on = self.args.warmup.is_some() || started.elapsed() + took < time / 4;
            if self.agreed(goes_on.into())? == 0 {
                break;
            }
        }
        Ok(round)
    }

    /// Puts this rank's data where it has to be.
    fn fill(&self, step: &Step, goes_on: GoesOn<'_>) -> Result<(), PerfError> {
        let Some(input) = step.op.input(step.case) else { return Ok(()) };
        self.fill_at(step, &step.at(Place::Main, input.at), goes_on)
    }

    /// Puts this rank's data elsewhere.
    fn fill_at(&self, step: &Step, place: &Span, goes_on: GoesOn<'_>) -> Result<(), PerfError> {
        for (start, part) in place.parts(PART_BYTES) {
            part.fill(|offset, bytes| self.data.fill(step.case.rank, start + offset, bytes))?;
            goes_on()?;
        }
        Ok(())
    }

    /// One iteration of one mode.
    fn iterate(
        &self,
        step: &Step,
        expected: &Expected<'_>,
        mode: Mode,
        check: Check,
        seen: &mut Seen,
    ) -> Result<(), PerfError> {
        if check != Check::Not || step.op.reduces() {
            self.apart(step, |goes_on| {
                if check != Check::Not {
                    expected.spoil(goes_on)?;
                }
                self.fill(step, goes_on)
            })?;
        }
        self.carry_out(step, mode, seen)?;
        if check == Check::Spoiled {
            expected.change_a_bit()?;
        }
        if check != Check::Not {
            seen.wrong += self.apart(step, |goes_on| expected.wrong(goes_on))?;
        }
        if let (Some(nccl), Mode::Compressed, true) = (&self.member.nccl, mode, check != Check::Not) {
            seen.wrong += self.differing(nccl, step)?;
        }
        Ok(())
    }

    /// Lets all ranks carry the operation out, and counts what that took.
    fn carry_out(&self, step: &Step, mode: Mode, seen: &mut Seen) -> Result<(), PerfError> {
        let world = &self.member.world;
        self.watchdog.step(step.op, step.case.bytes);
        // Only between operations that all ranks have finished.
        world.node().set_compression(mode == Mode::Compressed);
        let before = self.member.counts(mode);
        pause(Duration::from_micros(self.args.pause_us.into()));
        let _watched = self.watchdog.watch();
        world.barrier().map_err(|error| self.failed(error))?;
        let started = Instant::now();
        self.member.carry_out(step, mode)?;
        let took = started.elapsed();
        // Peers may still be reading what lies here.
        world.barrier().map_err(|error| self.failed(error))?;
        seen.count(took, &before, &self.member.counts(mode));
        // What ranks agree on is no part of what is measured, and nothing for a policy to learn from.
        world.node().set_compression(false);
        Ok(())
    }

    /// How many values of a compressed result are not those of a plain call over NCCL, which is made for it.
    fn differing(&self, nccl: &Nccl, step: &Step) -> Result<u64, PerfError> {
        let twin = nccl.twin(step);
        self.apart(step, |goes_on| match twin.input(step) {
            Some(place) => self.fill_at(step, &place, goes_on),
            None => Ok(()),
        })?;
        {
            let _watched = self.watchdog.watch();
            let carried = nccl.carry_out_on(step, &twin);
            carried.map_err(|source| PerfError::Nccl { rank: self.rank(), source })?;
        }
        self.apart(step, |goes_on| twin.differing(step, goes_on))
    }

    /// Brings what all ranks have seen to the root. Returns how many values were wrong.
    fn report(&self, step: &Step, seen: Vec<Seen>, sink: &mut Sink<'_>) -> Result<u64, PerfError> {
        let mut wrong = 0;
        for (&mode, seen) in self.args.modes().iter().zip(seen) {
            let words = self.together(|world| words_of_all(world, &seen.words()))?;
            if self.is_root() {
                let row = Row::new(self.args, step, (mode, self.member.device_name()), &words);
                wrong += row.wrong;
                sink(row)?;
            }
        }
        Ok(wrong)
    }
}

/// Lets time go by without sleep, from which threads come back slowly.
fn pause(time: Duration) {
    let started = Instant::now();
    while started.elapsed() < time {
        thread::yield_now();
    }
}

/// How many rounds fit into the time that is left; the fewest where it is not known what one takes.
fn fitting(left: Duration, round: Option<Duration>) -> u64 {
    let fitting = |round: Duration| left.as_nanos() / round.as_nanos().max(1);
    round.map_or(0, fitting).clamp(LEAST.into(), MOST.into()) as u64
}

/// How many iterations there are to be if the time is up after this one: one more, for the last one is checked.
fn cut_short(iterations: u64, iteration: u64) -> u64 {
    iterations.min(iteration + 2)
}

/// Whether there is time for `bytes`, after a round of `last` bytes took so long.
fn fits(last: Option<(usize, Duration)>, bytes: usize, left: Duration) -> bool {
    let Some((last_bytes, round)) = last else { return true };
    let growth = bytes as f64 / last_bytes.max(1) as f64;
    // One round to warm up, and those that count at least.
    round.as_secs_f64() * growth * (1 + LEAST) as f64 <= left.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_rounds_are_made_as_fit() {
        let second = Duration::from_secs(1);
        assert_eq!(fitting(40 * second, Some(second)), 40);
        assert_eq!(fitting(second, Some(40 * second)), LEAST);
        assert_eq!(fitting(second, Some(Duration::ZERO)), MOST);
        assert_eq!(fitting(1000 * second, None), LEAST, "who does not know begins with few");
    }

    #[test]
    fn a_last_one_follows_when_the_time_is_up() {
        assert_eq!(cut_short(1000, 200), 202);
        assert_eq!(cut_short(1000, 998), 1000);
        assert_eq!(cut_short(1000, 999), 1000, "that was the last");
    }

    #[test]
    fn long_buffers_are_left_out_when_time_is_short() {
        let second = Duration::from_secs(1);
        assert!(fits(None, 1 << 30, Duration::ZERO));
        assert!(fits(Some((1 << 20, second)), 2 << 20, 8 * second));
        assert!(!fits(Some((1 << 20, second)), 2 << 20, 7 * second));
    }
}
