//! From the text of a program to instructions.
//!
//! One statement a line, as the compiler writes it. Names may be declared anew within braces.

use std::collections::HashMap;

use super::decode;
use super::fault::{ParseError, ParseProblem};
use super::instruction::{Entry, Instruction, Operand, Operation, SPECIAL};

/// Where the dynamic object of shared memory lies: behind all that a block may have besides.
pub(super) const DYNAMIC_AT: u64 = 1 << 16;

/// Bytes between objects of shared memory, so that an access that misses one does not hit the next.
const GAP: u64 = 256;

/// Directives that change nothing of what a program does.
const IDLE: [&str; 10] = [
    ".version",
    ".target",
    ".address_size",
    ".global",
    ".maxntid",
    ".minnctapersm",
    ".pragma",
    ".loc",
    ".file",
    ".param",
];

/// A text with kernels.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its kernels.
    pub entries: Vec<Entry>,
}

impl Program {
    /// Reads a program as the compiler writes it, without functions and kernels that call them: no codec's kernel does.
    ///
    /// # Errors
    /// The first line that is not understood.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut parser = Parser::default();
        for (index, text) in lines_of_kernels(text).into_iter().enumerate() {
            let line = index as u32 + 1;
            let statement = text.split("//").next().unwrap_or_default().trim();
            parser.statement(statement, line).map_err(|problem| {
                let text = text.trim().to_owned();
                ParseError { line, text, problem }
            })?;
        }
        let end = ParseError { line: 0, text: "the end".to_owned(), problem: ParseProblem::Nesting };
        if parser.kernel.is_none() { Ok(Self { entries: parser.entries }) } else { Err(end) }
    }

    /// The kernel `name`, if there is one.
    #[must_use]
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }
}

/// The lines of a program, those empty that belong to functions and to kernels that call them.
fn lines_of_kernels(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    let is_function = |line: &str| line.starts_with(".func");
    for start in 0..lines.len() {
        if !is_function(lines[start]) && !lines[start].starts_with(".visible .entry") {
            continue;
        }
        let end = start + block_len(&lines[start..]);
        let calls = |line: &&str| line.trim_start().starts_with("call");
        if is_function(lines[start]) || lines[start..end].iter().any(calls) {
            lines[start..end].fill("");
        }
    }
    lines
}

/// Lines up to the end of the braces, or to the semicolon of what has none.
fn block_len(lines: &[&str]) -> usize {
    let (mut depth, mut opened) = (0i64, false);
    for (at, line) in lines.iter().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        depth += code.matches('{').count() as i64 - code.matches('}').count() as i64;
        opened |= depth > 0;
        if depth <= 0 && (opened || code.trim() == ";") {
            return at + 1;
        }
    }
    lines.len()
}

/// Names that hold within a pair of braces.
#[derive(Debug, Default)]
struct Scope {
    registers: HashMap<String, u32>,
    /// Prefix of the names, first register, and how many there are.
    ranges: Vec<(String, u32, u32)>,
}

/// A kernel that is being read.
#[derive(Debug, Default)]
struct Kernel {
    name: String,
    scopes: Vec<Scope>,
    registers: u32,
    symbols: HashMap<String, u64>,
    shared: Vec<(u64, u64)>,
    code: Vec<Instruction>,
    labels: HashMap<String, u32>,
    /// Branches, and the line and label of each.
    branches: Vec<(usize, String)>,
}

#[derive(Debug, Default)]
struct Parser {
    entries: Vec<Entry>,
    /// Shared memory of the program.
    symbols: HashMap<String, u64>,
    shared: Vec<(u64, u64)>,
    kernel: Option<Kernel>,
    /// Whether what follows, up to the end of the braces, is for debuggers.
    skips: bool,
}

impl Parser {
    fn statement(&mut self, text: &str, line: u32) -> Result<(), ParseProblem> {
        if self.skips {
            self.skips = text != "}";
            return Ok(());
        }
        if text.is_empty()
            || text == ")"
            || IDLE.contains(&text.split_whitespace().next().unwrap_or_default())
        {
            return self.parameter(text);
        }
        if text.starts_with(".section") {
            self.skips = true;
            return Ok(());
        }
        if let Some(name) = text.strip_prefix(".visible .entry ") {
            return self.begin(name.trim_end_matches('('));
        }
        if text.starts_with(".shared") || text.starts_with(".extern .shared") {
            return self.declare_shared(text);
        }
        let kernel = self.kernel.as_mut().ok_or(ParseProblem::Nesting)?;
        match text {
            "{" => kernel.scopes.push(Scope::default()),
            "}" => {
                kernel.scopes.pop().ok_or(ParseProblem::Nesting)?;
                if kernel.scopes.len() == 1 {
                    return self.end();
                }
            }
            _ if text.starts_with('.') => return kernel.declare_registers(text),
            _ => match text.strip_suffix(':') {
                Some(label) => {
                    kernel.labels.insert(label.to_owned(), kernel.code.len() as u32);
                }
                None => return kernel.instruction(text, line),
            },
        }
        Ok(())
    }

    fn begin(&mut self, name: &str) -> Result<(), ParseProblem> {
        if self.kernel.is_some() {
            return Err(ParseProblem::Nesting);
        }
        let registers = SPECIAL.into_iter().map(str::to_owned).zip(0..).collect();
        let special = Scope { registers, ranges: Vec::new() };
        self.kernel = Some(Kernel {
            name: name.to_owned(),
            scopes: vec![special],
            registers: SPECIAL.len() as u32,
            symbols: self.symbols.clone(),
            shared: self.shared.clone(),
            ..Kernel::default()
        });
        Ok(())
    }

    /// Takes note of where a parameter lies, which is at 0: kernels have one.
    fn parameter(&mut self, text: &str) -> Result<(), ParseProblem> {
        let (Some(kernel), true) = (&mut self.kernel, text.starts_with(".param")) else { return Ok(()) };
        let name = text.split_whitespace().next_back().and_then(|name| name.split('[').next());
        let before = kernel.symbols.insert(name.unwrap_or_default().to_owned(), 0);
        if before.is_none() { Ok(()) } else { Err(ParseProblem::Directive) }
    }

    /// `.shared .align 4 .b8 name[32];`, or `.u32 name;`, or `.extern` and no length.
    fn declare_shared(&mut self, text: &str) -> Result<(), ParseProblem> {
        let (symbols, shared) = match &mut self.kernel {
            Some(kernel) => (&mut kernel.symbols, &mut kernel.shared),
            None => (&mut self.symbols, &mut self.shared),
        };
        let words: Vec<&str> = text.trim_end_matches(';').split_whitespace().collect();
        let (Some(declared), false) = (words.last(), words.len() < 3) else {
            return Err(ParseProblem::Directive);
        };
        if words[0] == ".extern" {
            let name = declared.strip_suffix("[]").ok_or(ParseProblem::Directive)?;
            symbols.insert(name.to_owned(), DYNAMIC_AT);
            return Ok(());
        }
        let len = match (declared.split_once('['), words[words.len() - 2]) {
            (Some((_, len)), ".b8") => len.trim_end_matches(']').parse().ok(),
            (None, ".u32") => Some(4),
            _ => None,
        };
        let len: u64 = len.ok_or(ParseProblem::Directive)?;
        let at = shared.last().map_or(0, |(at, len)| (at + len).next_multiple_of(GAP) + GAP);
        if at + len > DYNAMIC_AT - GAP {
            return Err(ParseProblem::Directive);
        }
        shared.push((at, len));
        symbols.insert(declared.split('[').next().unwrap_or_default().to_owned(), at);
        Ok(())
    }

    fn end(&mut self) -> Result<(), ParseProblem> {
        let Kernel { name, registers, shared, mut code, labels, branches, .. } =
            self.kernel.take().ok_or(ParseProblem::Nesting)?;
        for (index, label) in branches {
            let target = *labels.get(&label).ok_or_else(|| ParseProblem::Undeclared(label.clone()))?;
            if let Operation::Branch { target: to, .. } = &mut code[index].operation {
                *to = target;
            }
        }
        if !matches!(
            code.last().map(|last| last.operation),
            Some(Operation::Return | Operation::Branch { when: None, .. })
        ) {
            return Err(ParseProblem::Nesting);
        }
        self.entries.push(Entry { name, code, registers, shared });
        Ok(())
    }
}

impl Kernel {
    /// `.reg .b32 %r<445>;` or `.reg .pred p;`
    fn declare_registers(&mut self, text: &str) -> Result<(), ParseProblem> {
        let mut words = text.trim_end_matches(';').split_whitespace();
        let (Some(".reg"), Some(_), Some(name), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(ParseProblem::Directive);
        };
        let scope = self.scopes.last_mut().ok_or(ParseProblem::Nesting)?;
        match name.split_once('<') {
            None => {
                scope.registers.insert(name.to_owned(), self.registers);
                self.registers += 1;
            }
            Some((prefix, count)) => {
                let count = count.trim_end_matches('>').parse().map_err(|_| ParseProblem::Directive)?;
                scope.ranges.push((prefix.to_owned(), self.registers, count));
                self.registers += count;
            }
        }
        Ok(())
    }

    /// `@%p1 opcode operands;`
    fn instruction(&mut self, text: &str, line: u32) -> Result<(), ParseProblem> {
        let text = text.strip_suffix(';').ok_or(ParseProblem::Operands)?;
        let (guard, text) = match text.strip_prefix('@') {
            Some(rest) => {
                rest.split_once(char::is_whitespace).map(|(guard, text)| (Some(guard), text.trim()))
            }
            None => Some((None, text)),
        }
        .ok_or(ParseProblem::Operands)?;
        let (opcode, operands) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let operands = split_operands(operands);
        let operation = self.operation(opcode, &operands)?;
        let guard = guard.map(|guard| self.guard(guard)).transpose()?;
        let (to, from) = ([0; 4], [Operand::Constant(0); 5]);
        let mut instruction = Instruction { operation, guard: None, to, from, line };
        if let Operation::Branch { when, .. } = &mut instruction.operation {
            let [label] = operands[..] else { return Err(ParseProblem::Operands) };
            *when = guard;
            self.branches.push((self.code.len(), label.to_owned()));
        } else if guard.is_some() && !matches!(operation, Operation::Compute(..) | Operation::Atomic(..)) {
            return Err(ParseProblem::Predicated);
        } else {
            instruction.guard = guard;
            self.fill(&mut instruction, &operands)?;
        }
        self.code.push(instruction);
        Ok(())
    }

    fn operation(&self, opcode: &str, operands: &[&str]) -> Result<Operation, ParseProblem> {
        let bits = match opcode {
            "mov.b32" => 32,
            "mov.b64" => 64,
            _ => 0,
        };
        let [to, from] = *operands else { return decode::operation(opcode).ok_or(ParseProblem::Opcode) };
        let parts = |list: &str| list.split(',').count();
        match (bits, to.starts_with('{'), from.starts_with('{')) {
            (1.., true, false) => Ok(Operation::Unpack { parts: parts(to), bits: bits / parts(to) as u32 }),
            (1.., false, true) => Ok(Operation::Pack { parts: parts(from), bits: bits / parts(from) as u32 }),
            _ => decode::operation(opcode).ok_or(ParseProblem::Opcode),
        }
    }

    fn guard(&self, text: &str) -> Result<(u32, bool), ParseProblem> {
        let name = text.strip_prefix('!');
        Ok((self.register(name.unwrap_or(text))?, name.is_none()))
    }

    /// Fills in what an instruction works on. Of its operands, results come first.
    fn fill(&self, instruction: &mut Instruction, operands: &[&str]) -> Result<(), ParseProblem> {
        match &mut instruction.operation {
            Operation::Load(access) => {
                let [to, address] = *operands else { return Err(ParseProblem::Operands) };
                self.results(access.count, to, &mut instruction.to)?;
                (instruction.from[0], access.offset) = self.address(address)?;
            }
            Operation::Store(access) => {
                let [address, values] = *operands else { return Err(ParseProblem::Operands) };
                (instruction.from[0], access.offset) = self.address(address)?;
                self.sources(access.count, values, &mut instruction.from[1..])?;
            }
            Operation::Atomic(access, update) => {
                let count = if *update == super::instruction::Update::CompareAndSwap { 2 } else { 1 };
                let [to, address, ref values @ ..] = *operands else { return Err(ParseProblem::Operands) };
                instruction.to[0] = self.register(to)?;
                (instruction.from[0], access.offset) = self.address(address)?;
                self.list(count, values, &mut instruction.from[1..])?;
            }
            Operation::CopyAsync => {
                let [to, from, "16"] = *operands else { return Err(ParseProblem::Operands) };
                for (operand, address) in instruction.from.iter_mut().zip([to, from]) {
                    let (base, 0) = self.address(address)? else { return Err(ParseProblem::Operands) };
                    *operand = base;
                }
            }
            Operation::WaitCopies(groups) => {
                let [count] = *operands else { return Err(ParseProblem::Operands) };
                *groups = count.parse().map_err(|_| ParseProblem::Operands)?;
            }
            Operation::Pack { parts, .. } => {
                let [to, from] = *operands else { return Err(ParseProblem::Operands) };
                instruction.to[0] = self.register(to)?;
                self.sources(*parts, from, &mut instruction.from)?;
            }
            Operation::Unpack { parts, .. } => {
                let [to, from] = *operands else { return Err(ParseProblem::Operands) };
                self.results(*parts, to, &mut instruction.to)?;
                instruction.from[0] = self.operand(from)?;
            }
            Operation::Barrier { reduces } => {
                // Barrier 0 is the only one.
                let values = if *reduces { &operands[1..] } else { operands };
                let (Some((&"0", rest)), count) = (values.split_first(), usize::from(*reduces)) else {
                    return Err(ParseProblem::Operands);
                };
                if *reduces {
                    instruction.to[0] = self.register(operands[0])?;
                }
                self.list(count, rest, &mut instruction.from)?;
            }
            Operation::Shuffle(_) => {
                let [to, ref values @ ..] = *operands else { return Err(ParseProblem::Operands) };
                let (value, valid) = to.split_once('|').ok_or(ParseProblem::Operands)?;
                instruction.to[0] = self.register(value)?;
                instruction.to[1] = self.register(valid)?;
                self.list(4, values, &mut instruction.from)?;
            }
            operation => {
                let (results, sources) = shape(operation);
                if operands.len() != results + sources {
                    return Err(ParseProblem::Operands);
                }
                if results == 1 {
                    instruction.to[0] = self.register(operands[0])?;
                }
                self.list(sources, &operands[results..], &mut instruction.from)?;
            }
        }
        Ok(())
    }

    /// `count` registers, in braces if there are several.
    fn results(&self, count: usize, text: &str, to: &mut [u32]) -> Result<(), ParseProblem> {
        let names = split_list(text);
        if names.len() != count || count > to.len() {
            return Err(ParseProblem::Operands);
        }
        for (to, name) in to.iter_mut().zip(names) {
            *to = self.register(name)?;
        }
        Ok(())
    }

    /// `count` operands, in braces if there are several.
    fn sources(&self, count: usize, text: &str, from: &mut [Operand]) -> Result<(), ParseProblem> {
        self.list(count, &split_list(text), from)
    }

    fn list(&self, count: usize, texts: &[&str], from: &mut [Operand]) -> Result<(), ParseProblem> {
        if texts.len() != count || count > from.len() {
            return Err(ParseProblem::Operands);
        }
        for (from, text) in from.iter_mut().zip(texts) {
            *from = self.operand(text)?;
        }
        Ok(())
    }

    /// `[base]` or `[base+offset]`.
    fn address(&self, text: &str) -> Result<(Operand, i64), ParseProblem> {
        let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        let inner = inner.ok_or(ParseProblem::Operands)?;
        let (base, offset) = inner.split_once('+').unwrap_or((inner, "0"));
        Ok((self.operand(base)?, offset.parse().map_err(|_| ParseProblem::Operands)?))
    }

    /// A register, a number, or where something lies.
    fn operand(&self, text: &str) -> Result<Operand, ParseProblem> {
        if text.starts_with('%') {
            return self.register(text).map(Operand::Register);
        }
        if let Some(&address) = self.symbols.get(text) {
            return Ok(Operand::Constant(address));
        }
        // Bits of floats: `0f3F800000` is 1.
        if let Some(digits) = text.strip_prefix("0f").or_else(|| text.strip_prefix("0d")) {
            let bits = u64::from_str_radix(digits, 16);
            return bits.map(Operand::Constant).map_err(|_| ParseProblem::Undeclared(text.to_owned()));
        }
        let number = text.parse::<i64>().map(i64::cast_unsigned).or_else(|_| text.parse::<u64>());
        number.map(Operand::Constant).map_err(|_| ParseProblem::Undeclared(text.to_owned()))
    }

    fn register(&self, name: &str) -> Result<u32, ParseProblem> {
        let in_scope = |scope: &Scope| {
            let in_range = |(prefix, first, count): &(String, u32, u32)| {
                let number: u32 = name.strip_prefix(prefix.as_str())?.parse().ok()?;
                (number < *count).then_some(first + number)
            };
            scope.registers.get(name).copied().or_else(|| scope.ranges.iter().find_map(in_range))
        };
        let found = self.scopes.iter().rev().find_map(in_scope);
        found.ok_or_else(|| ParseProblem::Undeclared(name.to_owned()))
    }
}

/// How many results and sources an instruction has whose operands are plain.
fn shape(operation: &Operation) -> (usize, usize) {
    match operation {
        Operation::Compute(sources, _) => (1, *sources),
        Operation::Ballot | Operation::Any | Operation::MatchAny | Operation::Reduce(_) => (1, 2),
        Operation::WarpBarrier | Operation::Sleep => (0, 1),
        _ => (0, 0),
    }
}

/// Operands, which commas divide outside of braces and brackets.
fn split_operands(text: &str) -> Vec<&str> {
    let mut depth = 0;
    let divides = |c: char| {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    };
    let operands: Vec<&str> = text.split(divides).map(str::trim).collect();
    if operands == [""] { Vec::new() } else { operands }
}

/// The one operand, or those in braces.
fn split_list(text: &str) -> Vec<&str> {
    let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    inner.unwrap_or(text).split(',').map(str::trim).collect()
}
