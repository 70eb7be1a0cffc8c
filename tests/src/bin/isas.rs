//! Prints the instruction sets that the codecs can run on here, one per line, for `tests/run`; behind the one that
//! they run on where nobody says otherwise stands "default".

fn main() {
    let active = mgcomp_codecs::Cpu::active().isa();
    for isa in mgcomp_codecs::Cpu::available().map(mgcomp_codecs::Cpu::isa) {
        println!("{isa}{}", if isa == active { " default" } else { "" });
    }
}
