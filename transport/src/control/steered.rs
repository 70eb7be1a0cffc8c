//! A policy that an operator steers: reads the settings of the stream at each plan, and counts what comes of it.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::time::Duration;

use mgcomp_codecs::Element;
use mgcomp_selector::speeds::Speeds;
use mgcomp_selector::{
    CheapFacts, Decision, Estimate, Lambda, Outcome, Plan, Policy, PolicySpec, Reason, Steering,
};

use super::claims::NodeSlots;
use super::layout::OWN_SLOTS;
use super::settings::{PolicyName, Settings, SizeGate};
use super::slot::Slot;
use super::view::SlotKind;
use crate::calibrate;

/// Samples under way that are remembered at most. Only jobs that failed leave any behind.
const MOST_SAMPLES: usize = 4096;
/// The program's own policy.
const OWN: usize = 0;
/// What a stream without a slot of its own goes by.
const OTHER: u32 = 0;

/// The program's policy under the operator's settings.
#[derive(Debug)]
pub(super) struct Steered {
    own: Box<dyn Policy>,
    /// What policies in its place start from. None = codecs run on this machine's processors.
    speeds: Option<Arc<Speeds>>,
    /// What else streams go by, where settings differ from the program's own; index 0 stands for that.
    variants: Vec<Option<Variant>>,
    streams: Vec<Stream>,
    by_key: HashMap<u64, u32, BuildHasherDefault<Mixed>>,
    /// The last stream that was asked for: most often the next one too.
    last: (u64, u32),
    samples: Vec<(SampleKey, usize)>,
    slots: Arc<NodeSlots>,
    /// What its slots count: what is sent, or what is copied, which is not counted here.
    kind: SlotKind,
}

#[derive(Debug)]
struct Stream {
    slot: Slot,
    /// The settings that it goes by.
    word: u64,
    off: bool,
    least_bytes: u64,
    variant: usize,
    /// The λ that its policy is told with each transfer.
    lambda: Option<Lambda>,
}

/// A policy that settings ask for.
#[derive(Debug)]
struct Variant {
    key: (PolicySpec, Option<Lambda>),
    policy: Box<dyn Policy>,
    /// Streams that go by it.
    streams: usize,
}

/// What tells samples apart, as far as that is needed.
#[derive(Debug, PartialEq, Eq)]
struct SampleKey {
    peer: u32,
    stream: u32,
    raw_bytes: u64,
    element: Element,
}

impl Stream {
    fn new(slot: Slot) -> Self {
        Self { slot, word: 0, off: false, least_bytes: 0, variant: OWN, lambda: None }
    }
}

impl Steered {
    pub(super) fn new(
        own: Box<dyn Policy>,
        speeds: Option<Arc<Speeds>>,
        slots: Arc<NodeSlots>,
        kind: SlotKind,
    ) -> Self {
        let other = Stream::new(slots.other());
        Self {
            own,
            speeds,
            variants: vec![None],
            streams: vec![other],
            by_key: HashMap::default(),
            last: (u64::MAX, OTHER),
            samples: Vec::new(),
            slots,
            kind,
        }
    }

    /// The stream of a transfer, known from now on.
    fn stream(&mut self, facts: &CheapFacts) -> usize {
        let key = u64::from(facts.peer) << 32 | u64::from(facts.stream.0);
        if self.last.0 == key {
            return self.last.1 as usize;
        }
        let known = self.by_key.get(&key).copied();
        let index = known.unwrap_or_else(|| self.meet(key, facts));
        self.last = (key, index);
        index as usize
    }

    #[cold]
    fn meet(&mut self, key: u64, facts: &CheapFacts) -> u32 {
        if self.by_key.len() >= OWN_SLOTS {
            return OTHER;
        }
        let slot = self.slots.claim(facts.peer, facts.stream.0, self.kind);
        let index = self.streams.len() as u32;
        self.streams.push(Stream::new(slot));
        self.by_key.insert(key, index);
        index
    }

    /// Takes over new settings. What is wrong with them is counted, and the old ones stay.
    #[cold]
    fn steer(&mut self, index: usize, word: u64, facts: &CheapFacts) {
        self.streams[index].word = word;
        let Ok(settings) = Settings::unpack(word) else {
            self.streams[index].slot.not_understood();
            return;
        };
        let (variant, lambda) = self.variant(&settings, index);
        let before = std::mem::replace(&mut self.streams[index].variant, variant);
        if let Some(Some(variant)) = self.variants.get_mut(variant) {
            variant.streams += 1;
        }
        if let Some(Some(before)) = self.variants.get_mut(before) {
            before.streams -= 1;
        }
        self.forget_unused();
        let stream = &mut self.streams[index];
        stream.lambda = lambda;
        stream.off = settings.compress == Some(false);
        stream.least_bytes = settings.gate.map_or(0, SizeGate::least_bytes);
        stream.slot.in_effect(word);
        if self.kind == SlotKind::Copied && !stream.off && wants_what_is_not_there(&settings, facts) {
            stream.slot.not_followed();
        }
    }

    /// The policy that `settings` ask for, made if there is none yet, and the λ that it is to be told. `adaptive` takes
    /// every λ as it comes: what it knows of data and link is as true under another.
    fn variant(&mut self, settings: &Settings, index: usize) -> (usize, Option<Lambda>) {
        let own = self.own.name().parse::<PolicySpec>().ok();
        let wanted = settings.policy.map(PolicyName::spec).or(own);
        let told = settings.lambda.filter(|_| wanted == Some(PolicySpec::Adaptive));
        let lambda = if told.is_some() { None } else { settings.lambda };
        if lambda.is_none() && wanted == own {
            return (OWN, told);
        }
        let Some(spec) = wanted else {
            // A policy of the program's own making: nobody knows what λ would do to it.
            self.streams[index].slot.not_followed();
            return (OWN, None);
        };
        (self.built(spec, lambda), told)
    }

    /// The place of a policy of this kind, made if there is none yet.
    fn built(&mut self, spec: PolicySpec, lambda: Option<Lambda>) -> usize {
        let key = (spec, lambda);
        let same = |variant: &Option<Variant>| variant.as_ref().is_some_and(|variant| variant.key == key);
        if let Some(known) = self.variants.iter().position(same) {
            return known;
        }
        let speeds = self.speeds.clone().unwrap_or_else(calibrate::speeds);
        let policy = spec.build(&Steering { lambda, speeds });
        let variant = Some(Variant { key, policy, streams: 0 });
        // The first place is the program's own.
        match self.variants.iter().skip(1).position(Option::is_none) {
            Some(free) => {
                self.variants[free + 1] = variant;
                free + 1
            }
            None => {
                self.variants.push(variant);
                self.variants.len() - 1
            }
        }
    }

    /// Drops policies that no stream goes by: what they learned is worth less than their memory.
    fn forget_unused(&mut self) {
        for (index, variant) in self.variants.iter_mut().enumerate() {
            let sampling = self.samples.iter().any(|(_, of)| *of == index);
            if !sampling && variant.as_ref().is_some_and(|variant| variant.streams == 0) {
                *variant = None;
            }
        }
    }

    fn policy(&mut self, variant: usize) -> &mut dyn Policy {
        match self.variants.get_mut(variant) {
            Some(Some(variant)) => variant.policy.as_mut(),
            _ => self.own.as_mut(),
        }
    }

    /// Which policy asked for the sample of `facts`, if any did.
    fn sampled(&mut self, facts: &CheapFacts) -> Option<usize> {
        let key = sample_key(facts);
        let at = self.samples.iter().position(|(sample, _)| *sample == key)?;
        Some(self.samples.remove(at).1)
    }
}

impl Policy for Steered {
    fn name(&self) -> String {
        self.own.name()
    }

    fn plan(&mut self, facts: &CheapFacts) -> Plan {
        if facts.raw_bytes == 0 {
            return self.own.plan(facts);
        }
        let index = self.stream(facts);
        let word = self.streams[index].slot.settings_word();
        if word != self.streams[index].word {
            self.steer(index, word, facts);
        }
        let Stream { off, least_bytes, variant, lambda, .. } = self.streams[index];
        if off {
            return Plan::Use(Decision::bypass(facts, Reason::SwitchedOff));
        }
        if facts.raw_bytes < least_bytes {
            return Plan::Use(Decision::bypass(facts, Reason::TooShort { least_bytes }));
        }
        let plan = self.policy(variant).plan(&CheapFacts { lambda, ..*facts });
        // Copies ask again whenever settings change, so whoever decides then is who has asked.
        if matches!(plan, Plan::Sample { .. }) && self.kind == SlotKind::Sent {
            if self.samples.len() >= MOST_SAMPLES {
                self.samples.remove(0);
            }
            self.samples.push((sample_key(facts), variant));
        }
        plan
    }

    fn choose(&mut self, facts: &CheapFacts, estimates: &[Estimate]) -> Decision {
        let asked = self.sampled(facts);
        let index = self.stream(facts);
        let Stream { variant, lambda, .. } = self.streams[index];
        self.policy(asked.unwrap_or(variant)).choose(&CheapFacts { lambda, ..*facts }, estimates)
    }

    fn observe(&mut self, facts: &CheapFacts, decision: &Decision, outcome: &Outcome) {
        if facts.raw_bytes == 0 {
            return self.own.observe(facts, decision, outcome);
        }
        let index = self.stream(facts);
        let Stream { slot, variant, off, lambda, .. } = &self.streams[index];
        if self.kind == SlotKind::Sent {
            slot.sent(facts, decision, outcome);
        }
        let (variant, lambda) = (*variant, *lambda);
        let is_off = *off || decision.reason == Reason::SwitchedOff;
        if !is_off {
            self.policy(variant).observe(&CheapFacts { lambda, ..*facts }, decision, outcome);
        }
    }

    fn decoded(&mut self, facts: &CheapFacts, decision: &Decision, coded_bytes: u64, took: Duration) {
        let index = self.stream(facts);
        let Stream { variant, off, lambda, .. } = self.streams[index];
        if !off {
            self.policy(variant).decoded(&CheapFacts { lambda, ..*facts }, decision, coded_bytes, took);
        }
    }

    fn goes_by_time(&self) -> bool {
        let mut variants = self.variants.iter().flatten().filter(|variant| variant.streams > 0);
        self.own.goes_by_time() || variants.any(|variant| variant.policy.goes_by_time())
    }
}

/// Whether `settings` name an algorithm that transfers like this one can never have.
fn wants_what_is_not_there(settings: &Settings, facts: &CheapFacts) -> bool {
    match settings.policy.map(PolicyName::spec) {
        Some(PolicySpec::Fixed(fixed)) => !facts.allows(fixed.algorithm()),
        _ => false,
    }
}

fn sample_key(facts: &CheapFacts) -> SampleKey {
    let CheapFacts { peer, stream, raw_bytes, element, .. } = *facts;
    SampleKey { peer, stream: stream.0, raw_bytes, element }
}

/// A hash of one 64-bit number that costs a multiplication. The numbers are ranks and streams of the program itself, at most
/// 1,024 of them.
#[derive(Default)]
pub(super) struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(self.0 ^ u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }
}

/// What `MGCOMP=off` makes of every policy.
#[derive(Debug)]
pub(super) struct SwitchedOff;

impl Policy for SwitchedOff {
    fn name(&self) -> String {
        "fixed:none".to_owned()
    }

    fn plan(&mut self, facts: &CheapFacts) -> Plan {
        Plan::Use(Decision::bypass(facts, Reason::SwitchedOff))
    }

    fn choose(&mut self, facts: &CheapFacts, _: &[Estimate]) -> Decision {
        Decision::bypass(facts, Reason::SwitchedOff)
    }

    fn observe(&mut self, _: &CheapFacts, _: &Decision, _: &Outcome) {}
}
