//! Prints the instruction sets that the codecs can run on here, one per line, for `tests/run`.

fn main() {
    for cpu in mgcomp_codecs::Cpu::available() {
        println!("{}", cpu.isa());
    }
}
