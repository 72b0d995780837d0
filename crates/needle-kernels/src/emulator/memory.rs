//! The buffers of emulated launches. Each byte knows whether anything has defined it.

use half::{bf16, f16};

use crate::storage::Elem;

/// Buffers, known by number.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    cells: Vec<Cell>,
}

#[derive(Clone, Debug)]
struct Cell {
    /// Words, so that the bytes are aligned for every element type.
    words: Vec<u64>,
    bytes: usize,
    /// One flag a byte.
    defined: Vec<u8>,
}

impl Memory {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a buffer of these bytes.
    pub fn bytes(&mut self, bytes: &[u8]) -> usize {
        let mut words = vec![0u64; bytes.len().div_ceil(8)];
        for (word, chunk) in words.iter_mut().zip(bytes.chunks(8)) {
            let mut padded = [0; 8];
            padded[..chunk.len()].copy_from_slice(chunk);
            *word = u64::from_ne_bytes(padded);
        }
        self.cells.push(Cell {
            words,
            bytes: bytes.len(),
            defined: vec![1; bytes.len()],
        });
        self.cells.len() - 1
    }

    /// Adds a buffer of whole numbers.
    pub fn u32s(&mut self, values: &[u32]) -> usize {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        self.bytes(&bytes)
    }

    /// Adds a buffer of float32.
    pub fn f32s(&mut self, values: &[f32]) -> usize {
        self.elems(Elem::F32, values)
    }

    /// Adds a buffer of numbers rounded to `elem`.
    pub fn elems(&mut self, elem: Elem, values: &[f32]) -> usize {
        self.bytes(&encode(elem, values))
    }

    /// Adds a buffer in which nothing is defined; all its bits are set, so that float32 there is no number.
    pub fn undefined(&mut self, bytes: usize) -> usize {
        self.cells.push(Cell {
            words: vec![u64::MAX; bytes.div_ceil(8)],
            bytes,
            defined: vec![0; bytes],
        });
        self.cells.len() - 1
    }

    /// Overwrites a buffer from a byte of it on.
    pub fn write(&mut self, buffer: usize, from: usize, bytes: &[u8]) {
        let cell = &mut self.cells[buffer];
        for (at, &byte) in (from..).zip(bytes) {
            let mut word = cell.words[at / 8].to_ne_bytes();
            word[at % 8] = byte;
            cell.words[at / 8] = u64::from_ne_bytes(word);
            cell.defined[at] = 1;
        }
    }

    /// A number of up to eight bytes, `None` where one of them is undefined or not there.
    pub(crate) fn read(&self, buffer: usize, from: usize, bytes: usize) -> Option<u64> {
        let cell = &self.cells[buffer];
        let flags = cell.defined.get(from..from + bytes)?;
        if flags.contains(&0) {
            return None;
        }
        let mut value = [0; 8];
        for (place, at) in value.iter_mut().zip(from..from + bytes) {
            *place = cell.words[at / 8].to_ne_bytes()[at % 8];
        }
        Some(u64::from_le_bytes(value))
    }

    /// Takes bytes off a buffer's end.
    pub fn shorten(&mut self, buffer: usize, bytes: usize) {
        let cell = &mut self.cells[buffer];
        cell.bytes = cell.bytes.saturating_sub(bytes);
        cell.defined.truncate(cell.bytes);
    }

    /// Bytes of a buffer.
    pub fn len_bytes(&self, buffer: usize) -> usize {
        self.cells[buffer].bytes
    }

    /// How many buffers there are.
    pub fn count(&self) -> usize {
        self.cells.len()
    }

    /// A buffer's contents.
    pub fn to_bytes(&self, buffer: usize) -> Vec<u8> {
        let cell = &self.cells[buffer];
        let mut bytes: Vec<u8> = cell.words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.truncate(cell.bytes);
        bytes
    }

    /// A buffer's contents as numbers of `elem`.
    pub fn to_f32s(&self, elem: Elem, buffer: usize) -> Vec<f32> {
        decode(elem, &self.to_bytes(buffer))
    }

    /// A buffer's contents as whole numbers.
    pub fn to_u32s(&self, buffer: usize) -> Vec<u32> {
        let bytes = self.to_bytes(buffer);
        bytes
            .as_chunks::<4>()
            .0
            .iter()
            .map(|&word| u32::from_ne_bytes(word))
            .collect()
    }

    /// Whether every byte of a buffer has been defined.
    pub fn is_defined(&self, buffer: usize) -> bool {
        self.cells[buffer].defined.iter().all(|&flag| flag != 0)
    }

    /// Pointer, flags and length, for the emulator.
    pub(super) fn raw(&mut self, buffer: usize) -> (*mut u64, *mut u8, usize) {
        let cell = &mut self.cells[buffer];
        (cell.words.as_mut_ptr(), cell.defined.as_mut_ptr(), cell.bytes)
    }
}

/// Numbers as `elem` stores them.
pub(crate) fn encode(elem: Elem, values: &[f32]) -> Vec<u8> {
    match elem {
        Elem::F32 => values.iter().flat_map(|value| value.to_ne_bytes()).collect(),
        Elem::Bf16 => values
            .iter()
            .flat_map(|&value| bf16::from_f32(value).to_ne_bytes())
            .collect(),
        Elem::F16 => values
            .iter()
            .flat_map(|&value| f16::from_f32(value).to_ne_bytes())
            .collect(),
    }
}

pub(crate) fn decode(elem: Elem, bytes: &[u8]) -> Vec<f32> {
    let halves = || bytes.as_chunks::<2>().0.iter();
    match elem {
        Elem::F32 => bytes
            .as_chunks::<4>()
            .0
            .iter()
            .map(|&word| f32::from_ne_bytes(word))
            .collect(),
        Elem::Bf16 => halves().map(|&half| bf16::from_ne_bytes(half).to_f32()).collect(),
        Elem::F16 => halves().map(|&half| f16::from_ne_bytes(half).to_f32()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back() {
        let mut memory = Memory::new();
        let odd = memory.bytes(&[1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(memory.to_bytes(odd), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
        let halves = memory.elems(Elem::F16, &[0.5, -2.0]);
        assert_eq!(memory.to_f32s(Elem::F16, halves), [0.5, -2.0]);
        let nothing = memory.undefined(6);
        assert!(!memory.is_defined(nothing));
        memory.write(nothing, 0, &[9; 6]);
        assert!(memory.is_defined(nothing) && memory.to_bytes(nothing) == [9; 6]);
    }
}
