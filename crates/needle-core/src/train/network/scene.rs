//! What a pass computes once for all its layers: who sees whom, rotary angles, engram rows.

use candle_core::{DType, Device, Tensor};

use crate::{
    config::Config,
    error::Result,
    ops::{EngramHash, Mask, Rope, engram_slots},
    train::packed::Packed,
};

pub(super) struct Scene {
    pub(super) mask: Mask,
    /// `[T, K/2]`
    pub(super) cos: Tensor,
    pub(super) sin: Tensor,
    /// Rows of the stacked tables, `[T·tables]`.
    pub(super) engram_rows: Tensor,
    /// `[1, T, tables, 1]`: zero where an n-gram reaches before its text.
    pub(super) engram_seen: Tensor,
    /// `[1, T, 1]` for each tap of an engram value's filter: zero where the tap lies before the text.
    pub(super) taps_seen: Vec<Tensor>,
}

impl Scene {
    pub(super) fn new(config: &Config, packed: &Packed, taps: usize, dtype: DType, device: &Device) -> Result<Self> {
        let places = &packed.places;
        let t = packed.len();
        let longest = places.iter().copied().max().unwrap_or(0) as usize + 1;
        let rope = Rope::at(0, longest, config.qk_head_dim, config.rope_theta, dtype, device)?;
        let at = Tensor::new(&places[..], device)?;
        let seen = |back: usize| {
            places
                .iter()
                .map(move |&place| f32::from(u8::from(back <= place as usize)))
        };
        let column = |back: usize| -> Result<Tensor> {
            let values: Vec<f32> = seen(back).collect();
            Ok(Tensor::from_vec(values, (1, t, 1), device)?.to_dtype(dtype)?)
        };
        let (engram_rows, engram_seen) = engram(config, packed);
        let tables = config.engram_tables();
        Ok(Self {
            mask: Mask::new(1, t, t, |_, t, s| s <= t && t - s <= places[t] as usize),
            cos: rope.cos().index_select(&at, 0)?,
            sin: rope.sin().index_select(&at, 0)?,
            engram_rows: Tensor::new(engram_rows, device)?,
            engram_seen: Tensor::from_vec(engram_seen, (1, t, tables, 1), device)?.to_dtype(dtype)?,
            taps_seen: (0..taps)
                .map(|tap| column(tap * config.engram_dilation()))
                .collect::<Result<_>>()?,
        })
    }
}

/// Rows of the stacked tables that each position reads, and 0 for those that reach before its text, 1 for the others:
/// `[T·tables]` each, tables of one position together.
pub(in crate::train) fn engram(config: &Config, packed: &Packed) -> (Vec<u32>, Vec<f32>) {
    let hash = EngramHash {
        orders: config.engram.orders.clone(),
        heads: config.engram.heads,
        stride: config.engram.seed_heads.unwrap_or(config.engram.heads),
        slots: config.engram.slots,
    };
    let tables = config.engram_tables();
    let (mut rows, mut seen) = (vec![], vec![]);
    let mut start = 0;
    for t in 0..packed.len() {
        let ends = packed.places.get(t + 1).is_none_or(|&next| next == 0);
        if ends {
            let slots = engram_slots(&hash, &packed.ids[start..=t], t + 1 - start);
            rows.extend(
                slots
                    .iter()
                    .enumerate()
                    .map(|(at, slot)| (at % tables * hash.slots) as u32 + slot),
            );
            start = t + 1;
        }
    }
    for &place in &packed.places {
        for &order in &hash.orders {
            let visible = if order <= place as usize + 1 { 1.0 } else { 0.0 };
            seen.extend(std::iter::repeat_n(visible, hash.heads));
        }
    }
    (rows, seen)
}
