//! Which combinations are measured.

use mgcomp_codecs::Cpu;

use super::subject::Subject;
use crate::data::Item;

/// What a run may choose from. A dimension that a flag names is taken whole; of each other one a choice, so
/// that a run without flags stays short and yet shows each codec where it belongs.
pub(super) struct Choices<'a> {
    /// Every codec and library to measure.
    pub(super) subjects: Vec<Subject>,
    pub(super) items: &'a [Item],
    /// Whether flags name the data; else each codec gets the sample that it is made for.
    pub(super) items_named: bool,
    /// The plainest first.
    pub(super) cpus: Vec<Cpu>,
    /// Whether flags name them; else the last one, and the others on one thread and the smallest buffer.
    pub(super) cpus_named: bool,
    pub(super) threads: Vec<usize>,
    /// Buffer sizes.
    pub(super) bytes: Vec<usize>,
}

/// One row to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Combination<'a> {
    pub(super) bytes: usize,
    pub(super) item: &'a Item,
    pub(super) threads: usize,
    pub(super) subject: Subject,
    /// None for libraries, which choose theirs on their own.
    pub(super) cpu: Option<Cpu>,
}

impl<'a> Choices<'a> {
    /// The combinations, those of one buffer one after the other.
    pub(super) fn combinations(&self) -> Vec<Combination<'a>> {
        let mut found = Vec::new();
        for &bytes in &self.bytes {
            for item in self.items {
                for &threads in &self.threads {
                    for &subject in self.subjects.iter().filter(|subject| self.takes(**subject, item)) {
                        let cpus = self.cpus_of(subject, threads, bytes);
                        found.extend(cpus.into_iter().map(|cpu| Combination {
                            bytes,
                            item,
                            threads,
                            subject,
                            cpu,
                        }));
                    }
                }
            }
        }
        found
    }

    fn takes(&self, subject: Subject, item: &Item) -> bool {
        self.items_named || subject.is_at_home(item.element)
    }

    fn cpus_of(&self, subject: Subject, threads: usize, bytes: usize) -> Vec<Option<Cpu>> {
        if matches!(subject, Subject::Library(_)) {
            return vec![None];
        }
        let is_plain = threads == self.threads[0] && bytes == self.bytes[0];
        let skipped = if self.cpus_named || is_plain { 0 } else { self.cpus.len() - 1 };
        self.cpus[skipped..].iter().copied().map(Some).collect()
    }
}

#[cfg(test)]
mod tests {
    use mgcomp_codecs::{Algorithm, Element};

    use super::*;
    use crate::baseline::Library;

    const ZVC: Subject = Subject::Codec(Algorithm::Zvc);
    const BDI: Subject = Subject::Codec(Algorithm::Bdi);
    const LZ4: Subject = Subject::Library(Library::Lz4);

    fn item(element: Element) -> Item {
        Item { label: element.name().into(), path: "x".into(), element, kind: None }
    }

    fn rows(choices: &Choices<'_>) -> Vec<(usize, Element, usize, Subject, Option<&'static str>)> {
        let row = |c: Combination<'_>| {
            (c.bytes, c.item.element, c.threads, c.subject, c.cpu.map(|cpu| cpu.isa().name()))
        };
        choices.combinations().into_iter().map(row).collect()
    }

    #[test]
    fn named_dimensions_are_taken_whole() {
        let items = [item(Element::F32), item(Element::U8)];
        let choices = Choices {
            subjects: vec![ZVC, LZ4],
            items: &items,
            items_named: true,
            cpus: vec![Cpu::Portable],
            cpus_named: true,
            threads: vec![1, 2],
            bytes: vec![5, 6],
        };
        let expected = [5, 6].into_iter().flat_map(|bytes| {
            [Element::F32, Element::U8].into_iter().flat_map(move |element| {
                [1, 2].into_iter().flat_map(move |threads| {
                    [(ZVC, Some("portable")), (LZ4, None)]
                        .map(|(subject, isa)| (bytes, element, threads, subject, isa))
                })
            })
        });
        assert_eq!(rows(&choices), expected.collect::<Vec<_>>());
    }

    #[test]
    fn what_is_not_named_is_chosen() {
        let items = [item(Element::F32), item(Element::U32), item(Element::U8)];
        // The same instruction set twice stands for two: this machine may have but one.
        let choices = Choices {
            subjects: vec![BDI, ZVC, LZ4],
            items: &items,
            items_named: false,
            cpus: vec![Cpu::Portable, Cpu::Portable],
            cpus_named: false,
            threads: vec![1, 2],
            bytes: vec![5, 6],
        };
        let found = rows(&choices);
        let count = |bytes, element, threads, subject| {
            let same =
                |row: &&(_, _, _, _, _)| (row.0, row.1, row.2, row.3) == (bytes, element, threads, subject);
            found.iter().filter(same).count()
        };
        // Both instruction sets on the small buffer and one thread, else one.
        assert_eq!(count(5, Element::F32, 1, ZVC), 2);
        assert_eq!(count(5, Element::F32, 2, ZVC), 1);
        assert_eq!(count(6, Element::F32, 1, ZVC), 1);
        assert_eq!(count(5, Element::U32, 1, BDI), 2);
        // Each codec has its own sample; libraries have all of these.
        assert_eq!(count(5, Element::U32, 1, ZVC), 0);
        assert_eq!(count(5, Element::F32, 1, BDI), 0);
        assert_eq!(count(5, Element::F32, 1, LZ4), 1);
        assert_eq!(count(6, Element::U32, 2, LZ4), 1);
        assert!(found.iter().all(|row| row.1 != Element::U8), "{found:?}");
    }
}
