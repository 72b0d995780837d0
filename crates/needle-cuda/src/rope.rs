//! q/k norm, rotary positions and the write to the cache.

use candle_core::{CudaStorage, Layout, Result, backend::BackendStorage};
use needle_kernels::{
    RowState,
    ops::{HeadsShape, Rope},
};

use crate::{
    launch::launch,
    storage::{In, Uses, elem, empty, rows},
};

/// What [`rope`] reads.
pub struct RopeInputs<'a> {
    /// `[.., stride]`: q at 0, k at `h·k`, v at `(h + g)·k` of each row.
    pub qkv: In<'a>,
    /// `[k]` float32.
    pub q_norm: In<'a>,
    /// `[k]` float32.
    pub k_norm: In<'a>,
    /// `[positions, k]` float32: a position's cosines, then its sines.
    pub angles: In<'a>,
    /// `[.., 4]` u32, one [`RowState`] a row.
    pub state: In<'a>,
}

/// `rope(zcrms(q))` `[.., h, k]` and `rope(zcrms(k))` `[.., g, k]`; the key and value of every row are written into its slot
/// of the caches `[sequences, slots, g, k]` and `[sequences, slots, g, v]`, each with its layout. Positions must lie inside
/// the table of angles and slots inside the cache: the kernel cannot know.
///
/// # Errors
/// When a tensor is of another shape or storage than the kernels take, or the device refuses.
pub fn rope(
    inputs: RopeInputs<'_>,
    shape: HeadsShape,
    k_cache: (&mut CudaStorage, &Layout),
    v_cache: (&mut CudaStorage, &Layout),
) -> Result<(CudaStorage, CudaStorage)> {
    let device = inputs.qkv.0.device().clone();
    let stream = device.cuda_stream();
    let (_, stride) = rows(inputs.qkv.1)?;
    let HeadsShape {
        rows,
        h,
        g,
        k,
        v,
        slots,
        ..
    } = shape;
    let (elem, cache) = (elem(inputs.qkv.0)?, elem(k_cache.0)?);
    let count = |numbers: &[u32]| numbers.iter().map(|&number| number as usize).product::<usize>();
    let mut q_out = empty(&device, elem, count(&[rows, h, k]))?;
    let mut k_out = empty(&device, elem, count(&[rows, g, k]))?;
    let sequences = rows.div_ceil(shape.rows_a_sequence.max(1));
    if inputs.state.1.shape().elem_count() != rows as usize * RowState::WORDS {
        candle_core::bail!(
            "rope: expected {} words of state a row, found {:?}",
            RowState::WORDS,
            inputs.state.1.shape()
        );
    }
    let mut uses = Uses::of(&stream);
    let op = Rope {
        qkv: uses.read_as(inputs.qkv, elem, count(&[rows, stride]))?,
        q_norm: uses.read_f32(inputs.q_norm, k as usize)?,
        k_norm: uses.read_f32(inputs.k_norm, k as usize)?,
        angles: uses.read(inputs.angles)?,
        state: uses.read(inputs.state)?,
        q: uses.fill(&mut q_out)?,
        k: uses.fill(&mut k_out)?,
        k_cache: uses.write(k_cache.0, k_cache.1, cache, count(&[sequences, slots, g, k]))?,
        v_cache: uses.write(v_cache.0, v_cache.1, cache, count(&[sequences, slots, g, v]))?,
    };
    launch(&device, op.launch(elem, cache, shape, stride), uses)?;
    Ok((q_out, k_out))
}

/// As [`rope`], with nothing cached: every row's slot is [`RowState::NO_SLOT`].
///
/// # Errors
/// As [`rope`].
pub fn turn(inputs: RopeInputs<'_>, shape: HeadsShape) -> Result<(CudaStorage, CudaStorage)> {
    let device = inputs.qkv.0.device().clone();
    let stream = device.cuda_stream();
    let (_, stride) = rows(inputs.qkv.1)?;
    let HeadsShape { rows, h, g, k, v, .. } = shape;
    let elem = elem(inputs.qkv.0)?;
    let count = |numbers: &[u32]| numbers.iter().map(|&number| number as usize).product::<usize>();
    let mut q_out = empty(&device, elem, count(&[rows, h, k]))?;
    let mut k_out = empty(&device, elem, count(&[rows, g, k]))?;
    // Places for the caches that the kernel has arguments for: no slot is written.
    let shape = HeadsShape {
        rows_a_sequence: rows,
        slots: 1,
        ..shape
    };
    let (mut k_none, mut v_none) = (
        empty(&device, elem, count(&[g, k]))?,
        empty(&device, elem, count(&[g, v]))?,
    );
    if inputs.state.1.shape().elem_count() != rows as usize * RowState::WORDS {
        candle_core::bail!(
            "rope: expected {} words of state a row, found {:?}",
            RowState::WORDS,
            inputs.state.1.shape()
        );
    }
    let mut uses = Uses::of(&stream);
    let op = Rope {
        qkv: uses.read_as(inputs.qkv, elem, count(&[rows, stride]))?,
        q_norm: uses.read_f32(inputs.q_norm, k as usize)?,
        k_norm: uses.read_f32(inputs.k_norm, k as usize)?,
        angles: uses.read(inputs.angles)?,
        state: uses.read(inputs.state)?,
        q: uses.fill(&mut q_out)?,
        k: uses.fill(&mut k_out)?,
        k_cache: uses.fill(&mut k_none)?,
        v_cache: uses.fill(&mut v_none)?,
    };
    launch(&device, op.launch(elem, elem, shape, stride), uses)?;
    Ok((q_out, k_out))
}
