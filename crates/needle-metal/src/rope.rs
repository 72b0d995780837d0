//! q/k norm, rotary positions and the write to the cache.

use candle_core::{Layout, MetalStorage, Result};
use needle_kernels::{
    RowState,
    ops::{HeadsShape, Rope},
};

use crate::{
    Pipelines,
    launch::launch,
    storage::{In, Room, elem, read, read_as, read_f32, rows},
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
    pipelines: &Pipelines,
    inputs: RopeInputs<'_>,
    shape: HeadsShape,
    k_cache: (&mut MetalStorage, &Layout),
    v_cache: (&mut MetalStorage, &Layout),
) -> Result<(MetalStorage, MetalStorage)> {
    let device = pipelines.device();
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
    let q_out = Room::new(device, elem, count(&[rows, h, k]))?;
    let k_out = Room::new(device, elem, count(&[rows, g, k]))?;
    let sequences = rows.div_ceil(shape.rows_a_sequence.max(1));
    if inputs.state.1.shape().elem_count() != rows as usize * RowState::WORDS {
        candle_core::bail!(
            "rope: expected {} words of state a row, found {:?}",
            RowState::WORDS,
            inputs.state.1.shape()
        );
    }
    let op = Rope {
        qkv: read_as(inputs.qkv, elem, count(&[rows, stride]))?,
        q_norm: read_f32(inputs.q_norm, k as usize)?,
        k_norm: read_f32(inputs.k_norm, k as usize)?,
        angles: read(inputs.angles)?,
        state: read(inputs.state)?,
        q: q_out.place(),
        k: k_out.place(),
        k_cache: read_as((k_cache.0, k_cache.1), cache, count(&[sequences, slots, g, k]))?,
        v_cache: read_as((v_cache.0, v_cache.1), cache, count(&[sequences, slots, g, v]))?,
    };
    launch(pipelines, op.launch(elem, cache, shape, stride))?;
    Ok((q_out.into_storage(device), k_out.into_storage(device)))
}

/// As [`rope`], with nothing cached: every row's slot is [`RowState::NO_SLOT`].
///
/// # Errors
/// As [`rope`].
pub fn turn(pipelines: &Pipelines, inputs: RopeInputs<'_>, shape: HeadsShape) -> Result<(MetalStorage, MetalStorage)> {
    let device = pipelines.device();
    let (_, stride) = rows(inputs.qkv.1)?;
    let HeadsShape { rows, h, g, k, v, .. } = shape;
    let elem = elem(inputs.qkv.0)?;
    let count = |numbers: &[u32]| numbers.iter().map(|&number| number as usize).product::<usize>();
    let q_out = Room::new(device, elem, count(&[rows, h, k]))?;
    let k_out = Room::new(device, elem, count(&[rows, g, k]))?;
    // Places for the caches that the kernel has arguments for: no slot is written.
    let shape = HeadsShape {
        rows_a_sequence: rows,
        slots: 1,
        ..shape
    };
    let k_none = Room::new(device, elem, count(&[g, k]))?;
    let v_none = Room::new(device, elem, count(&[g, v]))?;
    if inputs.state.1.shape().elem_count() != rows as usize * RowState::WORDS {
        candle_core::bail!(
            "rope: expected {} words of state a row, found {:?}",
            RowState::WORDS,
            inputs.state.1.shape()
        );
    }
    let op = Rope {
        qkv: read_as(inputs.qkv, elem, count(&[rows, stride]))?,
        q_norm: read_f32(inputs.q_norm, k as usize)?,
        k_norm: read_f32(inputs.k_norm, k as usize)?,
        angles: read(inputs.angles)?,
        state: read(inputs.state)?,
        q: q_out.place(),
        k: k_out.place(),
        k_cache: k_none.place(),
        v_cache: v_none.place(),
    };
    launch(pipelines, op.launch(elem, elem, shape, stride))?;
    Ok((q_out.into_storage(device), k_out.into_storage(device)))
}
