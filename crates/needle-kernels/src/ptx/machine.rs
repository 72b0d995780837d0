//! Threads, blocks, barriers and shuffles.

use super::{
    PtxError, Result,
    decode::{Entry, Operand},
    memory::Reach,
    step::step,
};
use crate::{
    emulator::Memory,
    launch::{Arg, Launch},
};

const SIMD: usize = 32;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Ready,
    AtBarrier,
    AtShuffle,
    Done,
}

pub(super) struct Thread {
    pub(super) id: u32,
    pub(super) block: (u32, u32),
    /// Number over the whole launch.
    pub(super) number: u32,
    pub(super) at: usize,
    pub(super) state: State,
    pub(super) registers: Vec<u64>,
    pub(super) steps: u64,
}

/// Executes `launch` from compiled code; its buffers are numbers of `memory`'s. Gives the number of instructions executed.
///
/// # Errors
/// [`PtxError`]: the launch does not fit the code, the code does something unknown, or the kernel something wrong.
pub fn execute(entry: &Entry, launch: &Launch<usize>, memory: &mut Memory) -> std::result::Result<u64, PtxError> {
    run(entry, launch, memory).map_err(|message| PtxError {
        kernel: entry.name.clone(),
        message,
    })
}

fn run(entry: &Entry, launch: &Launch<usize>, memory: &mut Memory) -> Result<u64> {
    let params = params(entry, launch)?;
    let mut reach = Reach::new(launch, memory, params);
    let mut total = 0;
    for y in 0..launch.grid.1 {
        for x in 0..launch.grid.0 {
            reach.enter_block(entry.shared_bytes);
            total += block(entry, launch, (x, y), &mut reach)?;
        }
    }
    Ok(total)
}

/// The parameters as the code expects them: a pointer for every buffer, then the struct.
fn params(entry: &Entry, launch: &Launch<usize>) -> Result<Vec<u8>> {
    let size = entry
        .params
        .iter()
        .map(|param| param.at + param.bytes)
        .max()
        .unwrap_or(0);
    let mut bytes = vec![0; size];
    let mut arguments: std::slice::Iter<'_, Arg<usize>> = launch.args.iter();
    let mut argument = 0;
    for param in &entry.params {
        let place = &mut bytes[param.at..param.at + param.bytes];
        if param.is_pointer {
            arguments.next().ok_or("more pointers than buffers")?;
            place.copy_from_slice(&Reach::pointer(argument).to_le_bytes());
            argument += 1;
        } else if param.bytes == launch.params.bytes().len() {
            place.copy_from_slice(launch.params.bytes());
        } else {
            let found = launch.params.bytes().len();
            return Err(format!(
                "takes {} bytes of parameters, launched with {found}",
                param.bytes
            ));
        }
    }
    match arguments.next() {
        None => Ok(bytes),
        Some(_) => Err("more buffers than pointers".into()),
    }
}

fn block(entry: &Entry, launch: &Launch<usize>, block: (u32, u32), reach: &mut Reach<'_>) -> Result<u64> {
    let first = (block.1 * launch.grid.0 + block.0) * launch.threads;
    let mut threads: Vec<Thread> = (0..launch.threads)
        .map(|id| Thread {
            id,
            block,
            number: first + id,
            at: 0,
            state: State::Ready,
            registers: vec![0; entry.register_count],
            steps: 0,
        })
        .collect();
    loop {
        for thread in &mut threads {
            while thread.state == State::Ready {
                step(entry, thread, reach).map_err(|message| {
                    let text = entry.code.get(thread.at).map_or("the end", |i| i.text.as_str());
                    format!(
                        "{message} [block {},{}, thread {}]: {text}",
                        block.0, block.1, thread.id
                    )
                })?;
            }
        }
        let mut moved = false;
        for group in threads.chunks_mut(SIMD) {
            if group.iter().all(|thread| thread.state == State::AtShuffle) {
                shuffle(entry, group)?;
                moved = true;
            }
        }
        if moved {
            continue;
        }
        if threads.iter().all(|thread| thread.state == State::Done) {
            return Ok(threads.iter().map(|thread| thread.steps).sum());
        }
        if !threads.iter().all(|thread| thread.state == State::AtBarrier) {
            return Err(format!("divergence in block {},{}", block.0, block.1));
        }
        reach.epoch += 1;
        for thread in &mut threads {
            thread.state = State::Ready;
            thread.at += 1;
        }
    }
}

/// All lanes of a SIMD group stand at a shuffle: exchange and go on.
fn shuffle(entry: &Entry, group: &mut [Thread]) -> Result<()> {
    let value = |thread: &Thread, operand: &Operand| match operand {
        Operand::Register(register) => Ok(thread.registers[*register]),
        Operand::Immediate(value) => Ok(*value),
        other => Err(format!("{other:?} in a shuffle")),
    };
    let mut results = Vec::with_capacity(SIMD);
    for (lane, thread) in group.iter().enumerate() {
        let instruction = &entry.code[thread.at];
        let [_, _, source, clamp, mask] = instruction.operands.as_slice() else {
            return Err(instruction.text.clone());
        };
        if !instruction.words.iter().any(|word| word == "bfly")
            || value(thread, clamp)? != 31
            || value(thread, mask)? as u32 != u32::MAX
        {
            return Err(format!(
                "only butterflies of a whole SIMD group are known: {}",
                instruction.text
            ));
        }
        let from = lane ^ (value(thread, source)? as usize & 31);
        let other = &group[from];
        let theirs = &entry.code[other.at];
        if theirs.words != instruction.words {
            return Err("lanes at different shuffles".into());
        }
        results.push(value(other, &theirs.operands[1])?);
    }
    for (thread, result) in group.iter_mut().zip(results) {
        match &entry.code[thread.at].operands[0] {
            Operand::Register(register) => thread.registers[*register] = result,
            Operand::Pair(register, predicate) => {
                thread.registers[*register] = result;
                thread.registers[*predicate] = 1;
            }
            other => return Err(format!("{other:?} as a destination")),
        }
        thread.at += 1;
        thread.state = State::Ready;
    }
    Ok(())
}
