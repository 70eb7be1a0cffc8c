//! What libraries need that sit inside programs which do not know them: an NCCL plugin, a layer under MPI.
//!
//! Such a library is told by the environment how to go about it ([`EnvSettings`]), has somebody else's messages to carry, and may
//! carry them only by what is there already. So it *seals* each message: an [`envelope`] of 32 bytes says what follows, a
//! frame or the raw bytes. A [`Coder`] seals and opens them by the process's policy, under the settings that an
//! operator gives through the control page.
//!
//! ```
//! use mgcomp_codecs::Element;
//! use mgcomp_selector::{LinkFacts, Overlap, StreamId};
//! use mgcomp_transport::attach::{Coder, EnvSettings, To};
//! use mgcomp_transport::link::Position;
//! use mgcomp_transport::message::Rank;
//!
//! let settings = EnvSettings { policy: "fixed:bdi".parse()?, ..EnvSettings::default() };
//! let coder = Coder::new(Position { rank: Rank(0), ranks: 2 }, &settings);
//! let link = LinkFacts::try_new(1.0, 20_000, Overlap::None)?;
//!
//! let raw: Vec<u8> = (0..4096u32).flat_map(u32::to_le_bytes).collect();
//! let mut message = vec![0; Coder::max_len(raw.len())];
//! let to = To { peer: 1, stream: StreamId(0), element: Some(Element::U32), link: Some(link) };
//! let len = coder.seal(&to, &raw, &mut message)?;
//! assert!(len < raw.len() / 2);
//!
//! let mut back = vec![0; raw.len()];
//! assert_eq!(coder.open(1, &message[..len], &mut back)?, raw.len());
//! assert_eq!(back, raw);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod coder;
mod comparison;
pub mod envelope;
mod guess;
mod log;
mod settings;

pub use coder::{Coder, OpenError, SealError, Sealed, To};
pub use comparison::{Comparisons, PartOf, REPORT_LEN, UnderWay};
pub use guess::guess_element;
pub use log::log;
pub use settings::{EnvSettings, EnvSettingsError};

#[cfg(test)]
mod tests;
