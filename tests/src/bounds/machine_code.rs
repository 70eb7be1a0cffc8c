//! Machine code as `nvdisasm` prints it, each instruction with the line of the PTX that it comes from.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use thiserror::Error;

/// The section of a cubin that holds the PTX it was made of, lines divided by zeros.
const PTX_SECTION: &str = ".nv_debug_ptx_txt";

/// Why machine code cannot be read.
#[derive(Debug, Error)]
pub enum MachineCodeError {
    /// The cubin is no ELF file of 64 bits with the section of the PTX.
    #[error("a cubin without its PTX")]
    Cubin,
    /// The disassembler does not run.
    #[error("{program} does not run: {error}")]
    Start {
        /// The disassembler.
        program: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The disassembler fails.
    #[error("{program} fails: {message}")]
    Failed {
        /// The disassembler.
        program: PathBuf,
        /// What it says.
        message: String,
    },
}

/// A kernel as machine code.
#[derive(Clone, Debug, Default)]
pub struct Function {
    /// Its blocks: what has one way in, at its start, and one out, at its end.
    pub blocks: Vec<Vec<Instruction>>,
}

/// An instruction of machine code.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Instruction {
    /// Its opcode with all that follows in it, `LOP3.LUT` say.
    pub opcode: String,
    /// The line of the PTX, from 1.
    pub line: u32,
}

/// The PTX that a cubin was made of.
///
/// # Errors
/// [`MachineCodeError::Cubin`].
pub fn ptx_of(cubin: &[u8]) -> Result<String, MachineCodeError> {
    let text = section(cubin, PTX_SECTION).ok_or(MachineCodeError::Cubin)?;
    Ok(String::from_utf8_lossy(text).replace('\0', "\n"))
}

/// The section `name` of an ELF file of 64 bits.
fn section<'a>(elf: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let number = |at: usize, len: usize| -> Option<usize> {
        let bytes = elf.get(at..at.checked_add(len)?)?;
        let value = bytes.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        usize::try_from(value).ok()
    };
    let (headers, header_len) = (number(0x28, 8)?, number(0x3a, 2)?);
    let (count, names) = (number(0x3c, 2)?, number(0x3e, 2)?);
    let header = |index: usize| headers.checked_add(index.checked_mul(header_len)?);
    let names = number(header(names)? + 0x18, 8)?;
    (0..count).find_map(|index| {
        let at = header(index)?;
        let own = elf.get(names.checked_add(number(at, 4)?)?..)?;
        let is_it = own.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0));
        let (start, len) = (number(at + 0x18, 8)?, number(at + 0x20, 8)?);
        if is_it { elf.get(start..start.checked_add(len)?) } else { None }
    })
}

/// The kernels of a cubin, by name, as the disassembler `program` prints them. `folder` is for a file of its own.
///
/// # Errors
/// What the disassembler says.
pub fn disassemble(
    program: &Path,
    cubin: &[u8],
    folder: &Path,
) -> Result<HashMap<String, Function>, MachineCodeError> {
    let start = |error| MachineCodeError::Start { program: program.to_owned(), error };
    let file = folder.join(format!("bounds-{}.cubin", std::process::id()));
    std::fs::write(&file, cubin).map_err(start)?;
    let output = Command::new(program).args(["-c", "-gp"]).arg(&file).output();
    let _ = std::fs::remove_file(&file);
    let output = output.map_err(start)?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(MachineCodeError::Failed { program: program.to_owned(), message });
    }
    Ok(parse(&String::from_utf8_lossy(&output.stdout)))
}

/// An instruction, and what may come next.
struct Line {
    instruction: Instruction,
    /// Whether it is a way to where lanes that have parted are dealt with, which the kernels' never have.
    is_cold: bool,
    is_branch: bool,
    /// Whether the next one may follow.
    falls_through: bool,
    targets: Vec<String>,
}

/// What the disassembler prints, taken apart.
fn parse(text: &str) -> HashMap<String, Function> {
    let mut functions = HashMap::new();
    let mut of = String::new();
    let (mut lines, mut labels, mut line) = (Vec::new(), HashMap::new(), 0);
    let mut end = |of: &mut String, lines: &mut Vec<Line>, labels: &mut HashMap<String, usize>| {
        let (lines, labels) = (std::mem::take(lines), std::mem::take(labels));
        if !lines.is_empty() {
            functions.insert(std::mem::take(of), Function { blocks: blocks(lines, &labels) });
        }
    };
    for text in text.lines().map(str::trim) {
        if let Some(name) = text.strip_prefix(".section\t.text.") {
            end(&mut of, &mut lines, &mut labels);
            of = name.split(',').next().unwrap_or_default().to_owned();
        } else if let Some(rest) = text.strip_prefix("//## File ") {
            line = rest.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0);
        } else if let Some(label) = text.strip_suffix(':') {
            labels.insert(label.to_owned(), lines.len());
        } else if let Some((_, code)) = text.strip_prefix("/*").and_then(|rest| rest.split_once("*/")) {
            lines.push(parse_instruction(code.trim(), line));
        }
    }
    end(&mut of, &mut lines, &mut labels);
    functions
}

fn parse_instruction(code: &str, line: u32) -> Line {
    let (guard, rest) = match code.strip_prefix('@') {
        Some(rest) => {
            rest.split_once(char::is_whitespace).map_or((true, ""), |(_, rest)| (true, rest.trim()))
        }
        None => (false, code),
    };
    let opcode = rest.split([' ', ';']).next().unwrap_or_default().to_owned();
    let base = opcode.split('.').next().unwrap_or_default();
    let is_cold = opcode == "BRA.DIV";
    let is_branch = matches!(base, "BRA" | "BRX" | "EXIT" | "RET" | "CALL");
    let leaves = is_branch && base != "CALL" && !is_cold;
    // Behind a predicate, or one among the operands, a branch may stay.
    let is_conditional =
        guard || rest.split([' ', ',']).any(|word| word.starts_with(['P', '!', 'U']) && is_predicate(word));
    let is_label = |c: char| c.is_ascii_alphanumeric() || "._$".contains(c);
    let words = rest.split(|c| !is_label(c)).filter(|word| word.starts_with(".L") || word.starts_with("$__"));
    let targets = words.map(str::to_owned).collect();
    Line {
        instruction: Instruction { opcode, line },
        is_cold,
        is_branch,
        falls_through: !leaves || is_conditional,
        targets,
    }
}

/// Whether an operand is a predicate: `P0`, `!UP1`.
fn is_predicate(word: &str) -> bool {
    let word = word.trim_start_matches('!').trim_start_matches('U');
    word.strip_prefix('P').is_some_and(|number| number.parse::<u32>().is_ok())
}

/// Those instructions that the start leads to, but for where parted lanes are dealt with, in blocks.
fn blocks(lines: Vec<Line>, labels: &HashMap<String, usize>) -> Vec<Vec<Instruction>> {
    let targets = |line: &Line| -> Vec<usize> {
        if line.is_cold {
            Vec::new()
        } else {
            line.targets.iter().filter_map(|name| labels.get(name).copied()).collect()
        }
    };
    let (mut reached, mut starts, mut open) = (HashSet::new(), HashSet::new(), vec![0]);
    while let Some(at) = open.pop() {
        let Some(line) = lines.get(at).filter(|_| reached.insert(at)) else { continue };
        let targets = targets(line);
        if line.is_branch {
            starts.insert(at + 1);
        }
        starts.extend(&targets);
        open.extend(targets);
        if line.falls_through {
            open.push(at + 1);
        }
    }
    let mut blocks: Vec<Vec<Instruction>> = Vec::new();
    for (at, line) in lines.into_iter().enumerate().filter(|(at, _)| reached.contains(at)) {
        if starts.contains(&at) || blocks.is_empty() {
            blocks.push(Vec::new());
        }
        blocks.last_mut().expect("one").push(line.instruction);
    }
    blocks
}
