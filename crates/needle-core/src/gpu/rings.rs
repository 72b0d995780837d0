//! What an engram remembers of a sequence, in the two forms that passes and steps want.
//!
//! A pass wants the values of the last positions in order, `[1, reach, D]` in the model's type; a step wants them in a ring,
//! `[1, ring, D]` float32, position `p` at `p mod ring`, and the last tokens in another. The ring has one place more than a
//! pass keeps, the present position's own.

use candle_core::{DType, Result, Tensor};

/// The values before `position` as a ring of `ring` places. `values: [1, ring − 1, D]`.
pub(super) fn wound(values: &Tensor, position: usize, ring: usize) -> Result<Tensor> {
    let (_, kept, d) = values.dims3()?;
    let wound = Tensor::zeros((1, ring, d), DType::F32, values.device())?;
    let values = values.to_dtype(DType::F32)?;
    for Run { first, count, place } in runs(position, kept, ring) {
        wound.slice_set(&values.narrow(1, first, count)?.contiguous()?, 1, place)?;
    }
    Ok(wound)
}

/// The values before `position` in order, `[1, ring − 1, D]`.
pub(super) fn unwound(ring: &Tensor, position: usize, dtype: DType) -> Result<Tensor> {
    let (_, places, _) = ring.dims3()?;
    let parts = runs(position, places - 1, places)
        .map(|Run { count, place, .. }| ring.narrow(1, place, count))
        .collect::<Result<Vec<_>>>()?;
    Tensor::cat(&parts, 1)?.to_dtype(dtype)
}

/// The last tokens before `position` as a ring of `ring` places; places of positions before the text hold 0.
pub(super) fn history(tokens: &[u32], position: usize, ring: usize) -> Vec<u32> {
    let mut history = vec![0; ring];
    for (back, &token) in tokens.iter().rev().enumerate().take(position) {
        history[(position - 1 - back) % ring] = token;
    }
    history
}

/// Consecutive values and the first of their consecutive places.
struct Run {
    first: usize,
    count: usize,
    place: usize,
}

/// Where the `kept` positions before `position` lie in a ring. Positions before the text count on backwards.
fn runs(position: usize, kept: usize, ring: usize) -> impl Iterator<Item = Run> {
    let place = (position + ring - kept % ring) % ring;
    let ahead = kept.min(ring - place);
    let (ahead, around) = (
        Run {
            first: 0,
            count: ahead,
            place,
        },
        Run {
            first: ahead,
            count: kept - ahead,
            place: 0,
        },
    );
    [ahead, around].into_iter().filter(|run| run.count > 0)
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    #[test]
    fn a_ring_holds_each_position_at_its_place_and_gives_it_back() -> Result<()> {
        let (kept, ring) = (9, 10);
        for position in 0..25usize {
            // Each value is its own position; those before the text are 0.
            let of = |at: usize| (position + at).saturating_sub(kept) as f32;
            let values = Tensor::from_vec((0..kept).map(of).collect(), (1, kept, 1), &Device::Cpu)?;
            let wound = wound(&values, position, ring)?;
            let places = wound.flatten_all()?.to_vec1::<f32>()?;
            for p in position.saturating_sub(kept)..position {
                assert_eq!(places[p % ring], p as f32, "position {p} before {position}");
            }
            let back = unwound(&wound, position, DType::F32)?;
            assert_eq!(back.to_vec3::<f32>()?, values.to_vec3::<f32>()?);
        }
        Ok(())
    }

    #[test]
    fn a_history_ends_before_its_position() {
        assert_eq!(history(&[], 0, 3), [0, 0, 0]);
        assert_eq!(history(&[7], 1, 3), [7, 0, 0]);
        assert_eq!(history(&[5, 6], 4, 3), [6, 0, 5]);
    }
}
