//! The stack machine: opcodes that build plain values. Everything that could import, call or instantiate is refused.

use std::collections::HashMap;

use super::{Id, Node, cursor::Cursor, numpy};
use crate::weights::Bytes;

pub(super) const PROTO: u8 = 0x80;

/// Values in the arena; a checkpoint of the largest published model makes under 3,000.
const MAX_NODES: usize = 1 << 16;

/// Values on the stack.
const MAX_STACK: usize = 1 << 14;

/// A reason, without the file.
pub(super) type Outcome<T> = Result<T, String>;

/// The machine's state.
pub(super) struct Machine<'a> {
    input: Cursor<'a>,
    nodes: Vec<Node>,
    stack: Vec<Id>,
    /// Heights of the stack where MARK stood.
    marks: Vec<usize>,
    memo: HashMap<u32, Id>,
    /// Bytes that decoding and reordering may still write: every byte of the file twice, as honest files need at most.
    pub(super) budget_bytes: usize,
}

/// Runs the program to its STOP; the values and the last one.
pub(super) fn run(bytes: &Bytes) -> Outcome<(Vec<Node>, Id)> {
    let mut machine = Machine {
        input: Cursor::new(bytes),
        nodes: vec![],
        stack: vec![],
        marks: vec![],
        memo: HashMap::new(),
        budget_bytes: bytes.len().saturating_mul(2),
    };
    loop {
        let at = machine.input.at();
        let opcode = machine.input.u8()?;
        if opcode == b'.' {
            let root = machine.pop()?;
            return Ok((machine.nodes, root));
        }
        machine.step(opcode).map_err(|reason| format!("{reason} (byte {at})"))?;
    }
}

impl Machine<'_> {
    fn step(&mut self, opcode: u8) -> Outcome<()> {
        match opcode {
            PROTO => match self.input.u8()? {
                2..=5 => Ok(()),
                other => Err(format!("protocol {other}; protocols 2 to 5 are read")),
            },
            // FRAME: its length only helps readers of streams.
            0x95 => self.input.take(8).map(drop),
            b'N' => self.push(Node::None),
            0x88 => self.push(Node::Bool(true)),
            0x89 => self.push(Node::Bool(false)),
            b'J' => {
                let value = i32::from_le_bytes(self.input.array()?);
                self.push(Node::Int(value.into()))
            }
            b'K' => {
                let value = self.input.u8()?;
                self.push(Node::Int(value.into()))
            }
            b'M' => {
                let value = u16::from_le_bytes(self.input.array()?);
                self.push(Node::Int(value.into()))
            }
            0x8A => self.long(),
            b'G' => {
                let value = f64::from_be_bytes(self.input.array()?);
                self.push(Node::Float(value))
            }
            0x8C => self.text(1),
            b'X' => self.text(4),
            0x8D => self.text(8),
            b'C' => self.data(1),
            b'B' => self.data(4),
            // BINBYTES8 and BYTEARRAY8
            0x8E | 0x96 => self.data(8),
            b')' => self.push(Node::Tuple(vec![])),
            0x85..=0x87 => {
                let items = self.pop_many(usize::from(opcode - 0x84))?;
                self.push(Node::Tuple(items))
            }
            b't' => {
                let items = self.pop_to_mark()?;
                self.push(Node::Tuple(items))
            }
            b']' => self.push(Node::List(vec![])),
            b'a' => {
                let items = self.pop_many(1)?;
                self.extend_list(items)
            }
            b'e' => {
                let items = self.pop_to_mark()?;
                self.extend_list(items)
            }
            b'}' => self.push(Node::Dict(vec![])),
            b's' => {
                let items = self.pop_many(2)?;
                self.extend_dict(&items)
            }
            b'u' => {
                let items = self.pop_to_mark()?;
                self.extend_dict(&items)
            }
            b'(' => {
                if self.marks.len() == MAX_STACK {
                    return Err(format!("more than {MAX_STACK} marks"));
                }
                self.marks.push(self.stack.len());
                Ok(())
            }
            b'q' => {
                let key = self.input.u8()?;
                self.remember(key.into())
            }
            b'r' => {
                let key = u32::from_le_bytes(self.input.array()?);
                self.remember(key)
            }
            // MEMOIZE: bounded by the arena, since every entry names a value that was pushed.
            0x94 => self.remember(self.memo.len() as u32),
            b'h' => {
                let key = self.input.u8()?;
                self.recall(key.into())
            }
            b'j' => {
                let key = u32::from_le_bytes(self.input.array()?);
                self.recall(key)
            }
            b'c' => {
                let (module, name) = (self.input.line()?, self.input.line()?);
                let global = numpy::global(&module, &name)?;
                self.push(Node::Global(global))
            }
            0x93 => {
                let items = self.pop_many(2)?;
                let [Node::Text(module), Node::Text(name)] = [self.node(items[0]), self.node(items[1])] else {
                    return Err("STACK_GLOBAL without two names".into());
                };
                let global = numpy::global(&String::from_utf8_lossy(module), &String::from_utf8_lossy(name))?;
                self.push(Node::Global(global))
            }
            b'R' => {
                let items = self.pop_many(2)?;
                let value = self.reduce(items[0], items[1])?;
                self.push(value)
            }
            b'b' => {
                let state = self.pop()?;
                let target = *self.stack.last().ok_or("BUILD on an empty stack")?;
                let value = self.build(target, state)?;
                self.nodes[target.0 as usize] = value;
                Ok(())
            }
            other => Err(match refused(other) {
                Some(name) => format!("opcode {name} is refused: plain NumPy arrays do not need it"),
                None => format!("unknown opcode {other:#04x}"),
            }),
        }
    }

    pub(super) fn node(&self, id: Id) -> &Node {
        // Ids are only made by pushing to the arena.
        &self.nodes[id.0 as usize]
    }

    /// Takes a budgeted number of bytes for a copy.
    pub(super) fn spend(&mut self, size_bytes: usize) -> Outcome<()> {
        let left = self.budget_bytes.checked_sub(size_bytes);
        self.budget_bytes = left.ok_or("decodes more bytes than the file holds")?;
        Ok(())
    }

    fn push(&mut self, node: Node) -> Outcome<()> {
        if self.nodes.len() == MAX_NODES {
            return Err(format!("more than {MAX_NODES} values"));
        }
        let id = Id(self.nodes.len() as u32);
        self.nodes.push(node);
        self.push_id(id)
    }

    fn push_id(&mut self, id: Id) -> Outcome<()> {
        if self.stack.len() == MAX_STACK {
            return Err(format!("more than {MAX_STACK} values on the stack"));
        }
        self.stack.push(id);
        Ok(())
    }

    /// Values above the last mark may be taken, those below it not.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn pop(&mut self) -> Outcome<Id> {
        self.pop_many(1).map(|items| items[0])
    }

    fn pop_many(&mut self, count: usize) -> Outcome<Vec<Id>> {
        let start = self
            .stack
            .len()
            .checked_sub(count)
            .filter(|&start| start >= self.floor());
        let start = start.ok_or("too few values on the stack")?;
        Ok(self.stack.split_off(start))
    }

    fn pop_to_mark(&mut self) -> Outcome<Vec<Id>> {
        let start = self.marks.pop().ok_or("no mark on the stack")?;
        Ok(self.stack.split_off(start))
    }

    fn extend_list(&mut self, items: Vec<Id>) -> Outcome<()> {
        match self.top()? {
            Node::List(list) => list.extend(items),
            other => return Err(format!("appends to {}", other.kind())),
        }
        Ok(())
    }

    fn extend_dict(&mut self, items: &[Id]) -> Outcome<()> {
        let (pairs, rest) = items.as_chunks::<2>();
        match self.top()? {
            Node::Dict(_) if !rest.is_empty() => return Err("a key without a value".into()),
            Node::Dict(dict) => dict.extend(pairs.iter().map(|&[key, value]| (key, value))),
            other => return Err(format!("sets items of {}", other.kind())),
        }
        Ok(())
    }

    fn top(&mut self) -> Outcome<&mut Node> {
        let top = self.stack.get(self.floor()..).and_then(<[Id]>::last);
        let id = top.ok_or("too few values on the stack")?;
        Ok(&mut self.nodes[id.0 as usize])
    }

    fn remember(&mut self, key: u32) -> Outcome<()> {
        let value = *self.stack.last().ok_or("too few values on the stack")?;
        self.memo.insert(key, value);
        if self.memo.len() > MAX_NODES {
            return Err(format!("more than {MAX_NODES} remembered values"));
        }
        Ok(())
    }

    fn recall(&mut self, key: u32) -> Outcome<()> {
        let value = *self
            .memo
            .get(&key)
            .ok_or_else(|| format!("no remembered value {key}"))?;
        self.push_id(value)
    }

    fn text(&mut self, width: usize) -> Outcome<()> {
        let data = self.input.counted(width)?;
        std::str::from_utf8(&data.bytes).map_err(|error| format!("a str is not UTF-8: {error}"))?;
        self.push(Node::Text(data.bytes))
    }

    fn data(&mut self, width: usize) -> Outcome<()> {
        let data = self.input.counted(width)?;
        self.push(Node::Data(data))
    }

    /// LONG1: a two's complement number of at most eight bytes.
    fn long(&mut self) -> Outcome<()> {
        let data = self.input.counted(1)?;
        let Some(unused) = 8usize.checked_sub(data.bytes.len()) else {
            return Err(format!("an int of {} bytes", data.bytes.len()));
        };
        let mut wide = [0; 8];
        wide[unused..].copy_from_slice(&data.bytes);
        // The bytes stand at the high end: an arithmetic shift brings them down with their sign.
        let value = if unused == 8 {
            0
        } else {
            i64::from_le_bytes(wide) >> (8 * unused)
        };
        self.push(Node::Int(value))
    }
}

/// Opcodes of other pickles.
fn refused(opcode: u8) -> Option<&'static str> {
    Some(match opcode {
        b'0' => "POP",
        b'1' => "POP_MARK",
        b'2' => "DUP",
        b'F' => "FLOAT",
        b'I' => "INT",
        b'L' => "LONG",
        b'P' => "PERSID",
        b'Q' => "BINPERSID",
        b'S' => "STRING",
        b'T' => "BINSTRING",
        b'U' => "SHORT_BINSTRING",
        b'V' => "UNICODE",
        b'd' => "DICT",
        b'g' => "GET",
        b'i' => "INST",
        b'l' => "LIST",
        b'o' => "OBJ",
        b'p' => "PUT",
        0x81 => "NEWOBJ",
        0x82 => "EXT1",
        0x83 => "EXT2",
        0x84 => "EXT4",
        0x8B => "LONG4",
        0x8F => "EMPTY_SET",
        0x90 => "ADDITEMS",
        0x91 => "FROZENSET",
        0x92 => "NEWOBJ_EX",
        0x97 => "NEXT_BUFFER",
        0x98 => "READONLY_BUFFER",
        _ => return None,
    })
}
