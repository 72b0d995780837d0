//! What an executed kernel can reach, and who has been there.

use super::Result;
use crate::{
    emulator::Memory,
    launch::{Arg, Launch},
};

/// Where the first buffer lies in the pretended address space; the others follow at this distance.
const BUFFER_SPACE: u64 = 1 << 40;

/// Which part of memory an instruction means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    Global,
    Shared,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

/// Who touched a byte last, in which epoch.
#[derive(Clone, Copy, Default)]
struct Touched {
    write: Option<(u32, u32)>,
    read: Option<(u32, u32)>,
    read_by_many: bool,
}

impl Touched {
    /// Notes an access, and says whether it is in no order with another thread's.
    fn races(&mut self, access: Access, epoch: u32, thread: u32) -> bool {
        let other = |last: Option<(u32, u32)>| last.is_some_and(|(e, t)| e == epoch && t != thread);
        let many = self.read_by_many && self.read.is_some_and(|(e, _)| e == epoch);
        let races = other(self.write) || (access == Access::Write && (other(self.read) || many));
        if access == Access::Write {
            self.write = Some((epoch, thread));
        } else {
            self.read_by_many = self
                .read
                .is_some_and(|(e, t)| e == epoch && (t != thread || self.read_by_many));
            self.read = Some((epoch, thread));
        }
        races
    }
}

struct Shared {
    bytes: Vec<u8>,
    touched: Vec<Touched>,
}

/// Memory of one launch: the buffers, the parameters, and the running block's shared bytes.
pub(super) struct Reach<'a> {
    memory: &'a mut Memory,
    buffers: Vec<usize>,
    /// One entry a byte where a buffer is written, none where it is only read.
    touched: Vec<Vec<Touched>>,
    pub(super) params: Vec<u8>,
    shared: Shared,
    /// Barriers passed, over the whole launch; shared memory alone is ordered by them.
    pub(super) epoch: u32,
}

impl<'a> Reach<'a> {
    pub(super) fn new(launch: &Launch<usize>, memory: &'a mut Memory, params: Vec<u8>) -> Self {
        let touched = |arg: &Arg<usize>| match arg.is_written() {
            true => vec![Touched::default(); memory.len_bytes(*arg.buffer())],
            false => Vec::new(),
        };
        let touched = launch.args.iter().map(touched).collect();
        let buffers = launch.args.iter().map(|arg| *arg.buffer()).collect();
        Self {
            memory,
            buffers,
            touched,
            params,
            shared: Shared {
                bytes: Vec::new(),
                touched: Vec::new(),
            },
            epoch: 1,
        }
    }

    /// The address of an argument's first byte.
    pub(super) fn pointer(argument: usize) -> u64 {
        (argument as u64 + 1) * BUFFER_SPACE
    }

    /// Shared memory as a new block finds it.
    pub(super) fn enter_block(&mut self, shared_bytes: usize) {
        self.epoch += 1;
        self.shared = Shared {
            bytes: vec![0xff; shared_bytes],
            touched: vec![Touched::default(); shared_bytes],
        };
    }

    pub(super) fn load(&mut self, space: Space, address: u64, bytes: usize, thread: u32) -> Result<u64> {
        let at = self.check(space, address, bytes, thread, Access::Read)?;
        match space {
            Space::Shared => {
                let mut value = [0; 8];
                value[..bytes].copy_from_slice(&self.shared.bytes[at..at + bytes]);
                Ok(u64::from_le_bytes(value))
            }
            Space::Global => {
                let argument = (address / BUFFER_SPACE) as usize - 1;
                let found = self.memory.read(self.buffers[argument], at, bytes);
                found.ok_or_else(|| format!("undefined read of argument {argument} at byte {at}"))
            }
        }
    }

    pub(super) fn store(&mut self, space: Space, address: u64, bytes: usize, thread: u32, value: u64) -> Result<()> {
        let at = self.check(space, address, bytes, thread, Access::Write)?;
        let value = &value.to_le_bytes()[..bytes];
        match space {
            Space::Shared => self.shared.bytes[at..at + bytes].copy_from_slice(value),
            Space::Global => {
                let argument = (address / BUFFER_SPACE) as usize - 1;
                self.memory.write(self.buffers[argument], at, value);
            }
        }
        Ok(())
    }

    /// The place of an access in its buffer or in shared memory, if it is in order.
    fn check(&mut self, space: Space, address: u64, bytes: usize, thread: u32, access: Access) -> Result<usize> {
        let (name, at, length, epoch, touched) = match space {
            Space::Shared => {
                let length = self.shared.bytes.len();
                (
                    "shared memory".to_owned(),
                    address as usize,
                    length,
                    self.epoch,
                    &mut self.shared.touched,
                )
            }
            Space::Global => {
                let argument = (address / BUFFER_SPACE) as usize;
                let at = (address % BUFFER_SPACE) as usize;
                let Some(&buffer) = argument.checked_sub(1).and_then(|argument| self.buffers.get(argument)) else {
                    return Err(format!("wild address {address:#x}"));
                };
                let name = format!("argument {}", argument - 1);
                (
                    name,
                    at,
                    self.memory.len_bytes(buffer),
                    1,
                    &mut self.touched[argument - 1],
                )
            }
        };
        if !at.is_multiple_of(bytes) {
            return Err(format!("misaligned access to {name} at byte {at}"));
        }
        if at + bytes > length {
            return Err(format!("out of bounds: {name} at byte {at} of {length}"));
        }
        if access == Access::Write && touched.is_empty() {
            return Err(format!("write to {name}, which is an input"));
        }
        for touched in touched.iter_mut().skip(at).take(bytes) {
            if space == Space::Shared && access == Access::Read && touched.write.is_none() {
                return Err(format!("undefined read of {name} at byte {at}"));
            }
            if touched.races(access, epoch, thread) {
                return Err(format!("race on {name} at byte {at}"));
            }
        }
        Ok(at)
    }
}
