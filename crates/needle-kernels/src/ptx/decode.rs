//! From PTX text to instructions.

use std::collections::HashMap;

use super::{PtxError, Result};

/// One kernel of a PTX module, decoded.
#[derive(Clone, Debug)]
pub struct Entry {
    pub(super) name: String,
    pub(super) params: Vec<Param>,
    pub(super) code: Vec<Instruction>,
    pub(super) register_count: usize,
    pub(super) shared_bytes: usize,
}

/// One declared parameter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Param {
    pub(super) at: usize,
    pub(super) bytes: usize,
    pub(super) is_pointer: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Instruction {
    /// The predicate register that decides, and the value it must have.
    pub(super) guard: Option<(usize, bool)>,
    /// `ld.global.nc.f32` as `[ld, global, nc, f32]`.
    pub(super) words: Vec<String>,
    pub(super) ty: Ty,
    pub(super) operands: Vec<Operand>,
    pub(super) text: String,
}

/// Type of an instruction, its last word; `b` types are unsigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ty {
    None,
    Pred,
    Unsigned(u32),
    Signed(u32),
    F16,
    F32,
}

#[derive(Clone, Debug)]
pub(super) enum Operand {
    Register(usize),
    /// Destination and predicate of a shuffle.
    Pair(usize, usize),
    /// Registers in braces, the lowest part first.
    Group(Vec<usize>),
    Immediate(u64),
    Special(Special),
    /// An instruction's number.
    Label(usize),
    /// Register or immediate plus offset.
    Address(Box<Operand>, i64),
    /// Offset in the parameters.
    Param(usize),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Special {
    ThreadX,
    BlockX,
    BlockY,
}

impl Entry {
    /// Finds and decodes `name` in a PTX module.
    ///
    /// # Errors
    /// [`PtxError`] when it is not there or the text is not understood.
    pub fn decode(module: &str, name: &str) -> std::result::Result<Self, PtxError> {
        decode(module, name).map_err(|message| PtxError {
            kernel: name.into(),
            message,
        })
    }

    /// How many barriers stand in the code.
    pub fn barrier_count(&self) -> usize {
        self.code.iter().filter(|i| i.is("bar")).count()
    }

    /// The same without one of its barriers.
    pub fn without_barrier(&self, index: usize) -> Self {
        self.with_barrier_replaced(index, "nop")
    }

    /// The same with an unknown instruction for one of its barriers: it stops where it comes by.
    pub fn trapping_at_barrier(&self, index: usize) -> Self {
        self.with_barrier_replaced(index, "trap")
    }

    fn with_barrier_replaced(&self, index: usize, word: &str) -> Self {
        let mut entry = self.clone();
        if let Some(barrier) = entry.code.iter_mut().filter(|i| i.is("bar")).nth(index) {
            barrier.words = vec![word.into()];
        }
        entry
    }
}

impl Instruction {
    fn is(&self, word: &str) -> bool {
        self.words.first().is_some_and(|first| first == word)
    }
}

impl Ty {
    pub(super) fn bytes(self) -> Result<usize> {
        match self {
            Self::Unsigned(bits) | Self::Signed(bits) => Ok(bits as usize / 8),
            Self::F16 => Ok(2),
            Self::F32 => Ok(4),
            Self::None | Self::Pred => Err("a type without a size".into()),
        }
    }

    /// The lowest bits that a value of this type has.
    pub(super) fn clip(self, value: u64) -> u64 {
        match self {
            Self::Unsigned(bits) | Self::Signed(bits) if bits < 64 => value & ((1 << bits) - 1),
            Self::F16 => value & 0xffff,
            Self::F32 => value & 0xffff_ffff,
            Self::Pred => u64::from(value != 0),
            _ => value,
        }
    }

    fn of(word: &str) -> Self {
        let bits = || word.get(1..).and_then(|bits| bits.parse().ok());
        match (word, word.chars().next(), bits()) {
            ("pred", ..) => Self::Pred,
            ("f16", ..) => Self::F16,
            ("f32", ..) => Self::F32,
            (_, Some('u' | 'b'), Some(bits @ (8 | 16 | 32 | 64))) => Self::Unsigned(bits),
            (_, Some('s'), Some(bits @ (8 | 16 | 32 | 64))) => Self::Signed(bits),
            _ => Self::None,
        }
    }
}

/// The type that a word names, for `cvt`.
pub(super) fn type_of(word: &str) -> Ty {
    Ty::of(word)
}

/// Names of a kernel and what they stand for.
#[derive(Default)]
struct Names {
    registers: HashMap<String, usize>,
    params: HashMap<String, usize>,
    shared: HashMap<String, u64>,
    labels: HashMap<String, usize>,
}

fn decode(module: &str, name: &str) -> Result<Entry> {
    let at = module.find(&format!(".entry {name}(")).ok_or("not in the module")?;
    let (head, body) = module[at..].split_once('{').ok_or("no body")?;
    let body = body.split("\n}").next().ok_or("no end of body")?;
    let mut names = Names::default();
    let params = params(head, &mut names)?;
    let clean: Vec<&str> = body.lines().filter_map(|line| line.split("//").next()).collect();
    let clean = clean.join("\n").replace(":\n", ":;\n");
    let statements: Vec<&str> = clean
        .split(';')
        .map(str::trim)
        .filter(|s| !matches!(*s, "" | "{" | "}") && !s.starts_with(".reg") && !s.starts_with(".pragma"))
        .collect();

    // Labels first: they are used before they stand anywhere.
    let mut place = 0;
    let mut shared_bytes = 0usize;
    for statement in &statements {
        if let Some(label) = statement.strip_suffix(':') {
            names.labels.insert(label.trim().into(), place);
        } else if statement.starts_with(".shared") {
            let (id, bytes) = declared(statement)?;
            shared_bytes = shared_bytes.next_multiple_of(16);
            names.shared.insert(id, shared_bytes as u64);
            shared_bytes += bytes;
        } else {
            place += 1;
        }
    }
    let code = statements
        .iter()
        .filter(|s| !s.ends_with(':') && !s.starts_with(".shared"))
        .map(|s| instruction(s, &mut names))
        .collect::<Result<Vec<_>>>()?;
    Ok(Entry {
        name: name.into(),
        params,
        code,
        register_count: names.registers.len(),
        shared_bytes,
    })
}

/// `… name[bytes]`.
fn declared(statement: &str) -> Result<(String, usize)> {
    let last = statement.rsplit(' ').next().unwrap_or_default();
    let (id, bytes) = last.split_once('[').ok_or_else(|| statement.to_owned())?;
    let bytes = bytes.trim_end_matches(']').parse().map_err(|_| statement.to_owned())?;
    Ok((id.into(), bytes))
}

fn params(head: &str, names: &mut Names) -> Result<Vec<Param>> {
    let mut params = Vec::new();
    let mut at = 0usize;
    for line in head.lines().map(str::trim).filter(|line| line.starts_with(".param")) {
        let line = line.trim_end_matches(',');
        let is_pointer = line.contains(".u64");
        let (id, bytes) = match line.contains('[') {
            true => declared(line)?,
            false => {
                let id = line.rsplit(' ').next().unwrap_or_default();
                (id.to_owned(), if is_pointer { 8 } else { 4 })
            }
        };
        at = at.next_multiple_of(if is_pointer { 8 } else { 4 });
        names.params.insert(id, at);
        params.push(Param { at, bytes, is_pointer });
        at += bytes;
    }
    Ok(params)
}

fn instruction(statement: &str, names: &mut Names) -> Result<Instruction> {
    let (guard, rest) = match statement.strip_prefix('@') {
        Some(guarded) => {
            let (register, rest) = guarded.split_once(char::is_whitespace).ok_or("a guard alone")?;
            let (register, value) = match register.strip_prefix('!') {
                Some(register) => (register, false),
                None => (register, true),
            };
            (Some((names.register(register), value)), rest.trim())
        }
        None => (None, statement),
    };
    let (operation, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let words: Vec<String> = operation.split('.').map(String::from).collect();
    let ty = words.last().map_or(Ty::None, |word| Ty::of(word));
    let operands = split(rest)
        .into_iter()
        .map(|text| names.operand(text))
        .collect::<Result<_>>()?;
    Ok(Instruction {
        guard,
        words,
        ty,
        operands,
        text: statement.split_whitespace().collect::<Vec<_>>().join(" "),
    })
}

/// At the commas that stand in no braces.
fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut from) = (0, 0);
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[from..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

impl Names {
    fn register(&mut self, name: &str) -> usize {
        let next = self.registers.len();
        *self.registers.entry(name.into()).or_insert(next)
    }

    fn operand(&mut self, text: &str) -> Result<Operand> {
        if let Some(inside) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
            let (base, offset) = match inside.split_once('+') {
                Some((base, offset)) => (base, offset.trim().parse().map_err(|_| text.to_owned())?),
                None => (inside, 0i64),
            };
            if let Some(&at) = self.params.get(base) {
                return Ok(Operand::Param((at as i64 + offset) as usize));
            }
            return Ok(Operand::Address(Box::new(self.operand(base)?), offset));
        }
        if let Some(inside) = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
            return Ok(Operand::Group(
                inside.split(',').map(|name| self.register(name.trim())).collect(),
            ));
        }
        match text {
            "%tid.x" => return Ok(Operand::Special(Special::ThreadX)),
            "%ctaid.x" => return Ok(Operand::Special(Special::BlockX)),
            "%ctaid.y" => return Ok(Operand::Special(Special::BlockY)),
            _ => {}
        }
        if let Some((value, predicate)) = text.split_once('|') {
            return Ok(Operand::Pair(self.register(value), self.register(predicate)));
        }
        if text.starts_with('%') && !text.contains('.') {
            return Ok(Operand::Register(self.register(text)));
        }
        if let Some(&at) = self.labels.get(text) {
            return Ok(Operand::Label(at));
        }
        if let Some(&at) = self.shared.get(text) {
            return Ok(Operand::Immediate(at));
        }
        if let Some(&at) = self.params.get(text) {
            return Ok(Operand::Immediate(at as u64));
        }
        if let Some(hex) = text.strip_prefix("0f").or_else(|| text.strip_prefix("0F")) {
            return u64::from_str_radix(hex, 16)
                .map(Operand::Immediate)
                .map_err(|_| text.to_owned());
        }
        let number: i64 = text.parse().map_err(|_| format!("operand {text}"))?;
        Ok(Operand::Immediate(number as u64))
    }
}
