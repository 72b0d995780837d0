//! One instruction of one thread.

use half::f16;

use super::{
    Result,
    arithmetic::{bit_field, fma_down, permute},
    decode::{Entry, Instruction, Operand, Special, Ty, type_of},
    machine::{State, Thread},
    memory::{Reach, Space},
};

pub(super) fn step(entry: &Entry, thread: &mut Thread, reach: &mut Reach<'_>) -> Result<()> {
    let instruction = entry.code.get(thread.at).ok_or("fell off the end")?;
    thread.steps += 1;
    if let Some((register, value)) = instruction.guard
        && (thread.registers[register] != 0) != value
    {
        thread.at += 1;
        return Ok(());
    }
    match instruction.words[0].as_str() {
        "ret" | "exit" => {
            thread.state = State::Done;
            return Ok(());
        }
        "bar" => {
            thread.state = State::AtBarrier;
            return Ok(());
        }
        "shfl" => {
            thread.state = State::AtShuffle;
            return Ok(());
        }
        "bra" => {
            let Some(Operand::Label(at)) = instruction.operands.first() else {
                return Err("a branch to nowhere".into());
            };
            thread.at = *at;
            return Ok(());
        }
        "nop" => {}
        "ld" => load(instruction, thread, reach)?,
        "st" => store(instruction, thread, reach)?,
        "mov" => assign(instruction, thread)?,
        _ => {
            let value = compute(instruction, thread)?;
            set(instruction, thread, value)?;
        }
    }
    thread.at += 1;
    Ok(())
}

fn value(thread: &Thread, operand: &Operand) -> Result<u64> {
    match operand {
        Operand::Register(register) => Ok(thread.registers[*register]),
        Operand::Immediate(value) => Ok(*value),
        Operand::Special(Special::ThreadX) => Ok(thread.id.into()),
        Operand::Special(Special::BlockX) => Ok(thread.block.0.into()),
        Operand::Special(Special::BlockY) => Ok(thread.block.1.into()),
        other => Err(format!("{other:?} as a value")),
    }
}

fn argument(instruction: &Instruction, thread: &Thread, index: usize) -> Result<u64> {
    let operand = instruction.operands.get(index).ok_or("an operand is missing")?;
    value(thread, operand)
}

fn set(instruction: &Instruction, thread: &mut Thread, value: u64) -> Result<()> {
    match instruction.operands.first() {
        Some(Operand::Register(register)) => thread.registers[*register] = value,
        other => return Err(format!("{other:?} as a destination")),
    }
    Ok(())
}

fn space(instruction: &Instruction) -> Result<Space> {
    match instruction.words.get(1).map(String::as_str) {
        Some("global") => Ok(Space::Global),
        Some("shared") => Ok(Space::Shared),
        other => Err(format!("address space {other:?}")),
    }
}

fn address(thread: &Thread, operand: &Operand) -> Result<u64> {
    match operand {
        Operand::Address(base, offset) => Ok(value(thread, base)?.wrapping_add_signed(*offset)),
        other => Err(format!("{other:?} as an address")),
    }
}

/// The registers of an operand that may be several.
fn registers(operand: &Operand) -> Result<Vec<usize>> {
    match operand {
        Operand::Register(register) => Ok(vec![*register]),
        Operand::Group(registers) => Ok(registers.clone()),
        other => Err(format!("{other:?} as a destination")),
    }
}

fn load(instruction: &Instruction, thread: &mut Thread, reach: &mut Reach<'_>) -> Result<()> {
    let [to, from] = instruction.operands.as_slice() else {
        return Err("a load of two operands is known".into());
    };
    let bytes = instruction.ty.bytes()?;
    if instruction.words.get(1).is_some_and(|word| word == "param") {
        let at = match from {
            Operand::Param(at) => *at,
            other => address(thread, other)? as usize,
        };
        let mut found = [0; 8];
        let params = reach
            .params
            .get(at..at + bytes)
            .ok_or("a parameter that is not there")?;
        found[..bytes].copy_from_slice(params);
        return set(instruction, thread, u64::from_le_bytes(found));
    }
    let (space, at) = (space(instruction)?, address(thread, from)?);
    for (k, register) in registers(to)?.into_iter().enumerate() {
        thread.registers[register] = reach.load(space, at + (k * bytes) as u64, bytes, thread.number)?;
    }
    Ok(())
}

fn store(instruction: &Instruction, thread: &mut Thread, reach: &mut Reach<'_>) -> Result<()> {
    let [to, from] = instruction.operands.as_slice() else {
        return Err("a store of two operands is known".into());
    };
    let bytes = instruction.ty.bytes()?;
    let (space, at) = (space(instruction)?, address(thread, to)?);
    let values = match from {
        Operand::Group(registers) => registers.iter().map(|&register| thread.registers[register]).collect(),
        other => vec![value(thread, other)?],
    };
    for (k, value) in values.into_iter().enumerate() {
        reach.store(space, at + (k * bytes) as u64, bytes, thread.number, value)?;
    }
    Ok(())
}

/// `mov`, also to and from the parts of a register.
fn assign(instruction: &Instruction, thread: &mut Thread) -> Result<()> {
    let [to, from] = instruction.operands.as_slice() else {
        return Err("a move of two operands is known".into());
    };
    let part_bits = |parts: &[usize]| -> Result<usize> { Ok(8 * instruction.ty.bytes()? / parts.len()) };
    match (to, from) {
        (_, Operand::Group(parts)) => {
            let bits = part_bits(parts)?;
            let mask = (1u64 << bits) - 1;
            let joined = parts.iter().enumerate().fold(0, |joined, (k, &part)| {
                joined | (thread.registers[part] & mask) << (k * bits)
            });
            set(instruction, thread, joined)
        }
        (Operand::Group(parts), from) => {
            let bits = part_bits(parts)?;
            let whole = value(thread, from)?;
            for (k, &part) in parts.iter().enumerate() {
                thread.registers[part] = whole >> (k * bits) & ((1 << bits) - 1);
            }
            Ok(())
        }
        _ => {
            let value = instruction.ty.clip(argument(instruction, thread, 1)?);
            set(instruction, thread, value)
        }
    }
}

fn compute(instruction: &Instruction, thread: &Thread) -> Result<u64> {
    let get = |index| argument(instruction, thread, index);
    let ty = instruction.ty;
    match instruction.words[0].as_str() {
        "cvta" => get(1),
        "setp" => compare(&instruction.words[1], ty, get(1)?, get(2)?).map(u64::from),
        "selp" => Ok(if get(3)? != 0 { get(1)? } else { get(2)? }),
        "cvt" => convert(instruction, get(1)?),
        _ => {
            let count = instruction.operands.len();
            let x = get(1)?;
            let y = if count > 2 { get(2)? } else { 0 };
            let z = if count > 3 { get(3)? } else { 0 };
            match ty {
                Ty::F32 => float(instruction, x, y, z),
                Ty::Pred => logic(instruction, x, y),
                _ => whole(instruction, x, y, z),
            }
        }
    }
}

fn f(value: u64) -> f32 {
    f32::from_bits(value as u32)
}

fn signed(ty: Ty, value: u64) -> i64 {
    match ty {
        Ty::Unsigned(bits) | Ty::Signed(bits) if bits < 64 => ((value << (64 - bits)) as i64) >> (64 - bits),
        _ => value as i64,
    }
}

fn compare(how: &str, ty: Ty, x: u64, y: u64) -> Result<bool> {
    let order = match ty {
        Ty::F32 => f(x).partial_cmp(&f(y)),
        Ty::Signed(_) => Some(signed(ty, x).cmp(&signed(ty, y))),
        _ => Some(ty.clip(x).cmp(&ty.clip(y))),
    };
    Ok(match (order, how) {
        // Of something that is no number only the forms ending in u hold.
        (None, how) => how.len() == 3 && how.ends_with('u'),
        (Some(order), "eq" | "equ") => order.is_eq(),
        (Some(order), "ne" | "neu") => order.is_ne(),
        (Some(order), "lt" | "ltu" | "lo") => order.is_lt(),
        (Some(order), "le" | "leu" | "ls") => order.is_le(),
        (Some(order), "gt" | "gtu" | "hi") => order.is_gt(),
        (Some(order), "ge" | "geu" | "hs") => order.is_ge(),
        _ => return Err(format!("comparison {how}")),
    })
}

fn convert(instruction: &Instruction, x: u64) -> Result<u64> {
    let words = &instruction.words;
    let (from, to) = (instruction.ty, type_of(&words[words.len() - 2]));
    Ok(match (to, from) {
        (Ty::F32, Ty::F32) if words.iter().any(|word| word == "sat") => u64::from(f(x).clamp(0.0, 1.0).to_bits()),
        (Ty::F32, Ty::F16) => f16::from_bits(x as u16).to_f32().to_bits().into(),
        (Ty::F16, Ty::F32) => f16::from_f32(f(x)).to_bits().into(),
        (Ty::F32, Ty::Unsigned(_)) => (from.clip(x) as f32).to_bits().into(),
        (Ty::F32, Ty::Signed(_)) => (signed(from, x) as f32).to_bits().into(),
        (Ty::Unsigned(_) | Ty::Signed(_), Ty::Unsigned(_)) => to.clip(from.clip(x)),
        (Ty::Unsigned(_) | Ty::Signed(_), Ty::Signed(_)) => to.clip(signed(from, x) as u64),
        _ => return Err("conversion".into()),
    })
}

fn float(instruction: &Instruction, x: u64, y: u64, z: u64) -> Result<u64> {
    let (x, y, z) = (f(x), f(y), f(z));
    let result = match instruction.words[0].as_str() {
        "add" => x + y,
        "sub" => x - y,
        "mul" => x * y,
        "div" => x / y,
        "fma" if instruction.words[1] == "rm" => fma_down(x, y, z),
        "fma" => x.mul_add(y, z),
        "max" => x.max(y),
        "min" => x.min(y),
        "neg" => -x,
        "abs" => x.abs(),
        "sqrt" => x.sqrt(),
        "rsqrt" => 1.0 / x.sqrt(),
        "rcp" => 1.0 / x,
        "ex2" => x.exp2(),
        "lg2" => x.log2(),
        _ => return Err("unknown instruction".into()),
    };
    Ok(result.to_bits().into())
}

fn logic(instruction: &Instruction, x: u64, y: u64) -> Result<u64> {
    match instruction.words[0].as_str() {
        "and" => Ok(x & y),
        "or" => Ok(x | y),
        "xor" => Ok(x ^ y),
        "not" => Ok(u64::from(x == 0)),
        _ => Err("unknown instruction".into()),
    }
}

fn whole(instruction: &Instruction, x: u64, y: u64, z: u64) -> Result<u64> {
    let ty = instruction.ty;
    let bits = 8 * ty.bytes()? as u64;
    let is_signed = matches!(ty, Ty::Signed(_));
    let wide = instruction.words.get(1).is_some_and(|word| word == "wide");
    let product = || match wide {
        true if is_signed => signed(ty, x).wrapping_mul(signed(ty, y)) as u64,
        true => ty.clip(x).wrapping_mul(ty.clip(y)),
        false => x.wrapping_mul(y),
    };
    let result = match instruction.words[0].as_str() {
        "add" => x.wrapping_add(y),
        "sub" => x.wrapping_sub(y),
        "mul" => product(),
        "mad" => product().wrapping_add(z),
        "div" if !is_signed => ty.clip(x).checked_div(ty.clip(y)).unwrap_or(u64::MAX),
        "rem" if !is_signed => ty.clip(x).checked_rem(ty.clip(y)).unwrap_or(x),
        "and" => x & y,
        "or" => x | y,
        "xor" => x ^ y,
        "not" => !x,
        "neg" => x.wrapping_neg(),
        "shl" if y >= bits => 0,
        "shl" => x << y,
        "shr" if is_signed => (signed(ty, x) >> y.min(bits - 1)) as u64,
        "shr" if y >= bits => 0,
        "shr" => ty.clip(x) >> y,
        "bfe" if !is_signed => bit_field(ty.clip(x), y & 255, z & 255),
        "prmt" => permute(x, y, z),
        "min" if is_signed => signed(ty, x).min(signed(ty, y)) as u64,
        "max" if is_signed => signed(ty, x).max(signed(ty, y)) as u64,
        "min" => ty.clip(x).min(ty.clip(y)),
        "max" => ty.clip(x).max(ty.clip(y)),
        _ => return Err("unknown instruction".into()),
    };
    Ok(if wide { result } else { ty.clip(result) })
}
