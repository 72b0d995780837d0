//! Rotary position angles, half-split: `x = [x₁, x₂]`, `angle(p, i) = p·θ^(−2i/K)`,
//! `y = [x₁ cos − x₂ sin, x₂ cos + x₁ sin]`.

use candle_core::{DType, Device, Result, Tensor};

use super::{Kernels, kernels::Choice, rms_norm, rms_norm_composed};

/// Cosines and sines of consecutive positions.
#[derive(Clone, Debug)]
pub struct Rope {
    cos: Tensor,
    sin: Tensor,
    #[cfg(any(feature = "gpu", feature = "metal"))]
    on_gpu: Option<on_gpu::Table>,
}

impl Rope {
    /// Angles of positions `first..first + count` for heads of width `k`: two tables `[count, k/2]`.
    ///
    /// Computed in float32 as the reference computes them: at position 4,000 a float64 angle differs by 10⁻³.
    pub fn at(first: usize, count: usize, k: usize, theta: f64, dtype: DType, device: &Device) -> Result<Self> {
        let frequency: Vec<f32> = (0..k / 2)
            .map(|i| 1.0 / (theta as f32).powf(2.0 * i as f32 / k as f32))
            .collect();
        let angles =
            || (first..first + count).flat_map(|p| frequency.iter().map(move |frequency| p as f32 * frequency));
        let table = |values: Vec<f32>| Tensor::from_vec(values, (count, k / 2), device)?.to_dtype(dtype);
        Ok(Self {
            cos: table(angles().map(f32::cos).collect())?,
            sin: table(angles().map(f32::sin).collect())?,
            #[cfg(any(feature = "gpu", feature = "metal"))]
            on_gpu: None,
        })
    }

    /// Turns `x: [B, T, H, K]` by the angles of its `T` positions.
    pub fn apply(&self, x: &Tensor) -> Result<Tensor> {
        rope_composed(x, &self.cos, &self.sin)
    }

    /// The cosines, `[T, K/2]`.
    pub fn cos(&self) -> &Tensor {
        &self.cos
    }

    /// The sines, `[T, K/2]`.
    pub fn sin(&self) -> &Tensor {
        &self.sin
    }
}

/// The definition in tensor operations: `x: [B, T, H, K]`, `cos` and `sin: [T, K/2]`.
pub fn rope_composed(x: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    let (_, _, _, k) = x.dims4()?;
    let (cos, sin) = (cos.unsqueeze(1)?, sin.unsqueeze(1)?);
    let (x1, x2) = (x.narrow(3, 0, k / 2)?, x.narrow(3, k / 2, k / 2)?);
    let y1 = (x1.broadcast_mul(&cos)? - x2.broadcast_mul(&sin)?)?;
    let y2 = (x2.broadcast_mul(&cos)? + x1.broadcast_mul(&sin)?)?;
    Tensor::cat(&[y1, y2], 3)
}

impl Kernels {
    /// [`Rope::at`] for the `rows` rows of a batch, to turn heads that come of tensors `like` this one.
    #[cfg_attr(not(any(feature = "gpu", feature = "metal")), allow(unused_variables))]
    pub fn rope(
        &self,
        first: usize,
        (rows, count): (usize, usize),
        k: usize,
        theta: f64,
        like: &Tensor,
    ) -> Result<Rope> {
        let rope = Rope::at(first, count, k, theta, like.dtype(), like.device())?;
        match self.choose(&[like]) {
            #[cfg(any(feature = "gpu", feature = "metal"))]
            Choice::Gpu => {
                let exact = Rope::at(first, count, k, theta, DType::F32, &Device::Cpu)?;
                let on_gpu = Some(on_gpu::Table::new(&exact, rows, like.device())?);
                Ok(Rope { on_gpu, ..rope })
            }
            _ => Ok(rope),
        }
    }

    /// Heads `q: [B, T, H, K]` and `k: [B, T, G, K]`, normalised by `q_norm` and `k_norm: [K]`, then turned; `v: [B, T, G, Kv]`
    /// comes of the same pass.
    pub fn turn(
        &self,
        [q, k, v]: [&Tensor; 3],
        [q_norm, k_norm]: [&Tensor; 2],
        rope: &Rope,
    ) -> Result<(Tensor, Tensor)> {
        match self.choose(&[q, k, v, q_norm, k_norm]) {
            #[cfg(any(feature = "gpu", feature = "metal"))]
            Choice::Gpu if on_gpu::fits([q, k, v], rope)? => self.turn_on_gpu([q, k, v], [q_norm, k_norm], rope),
            Choice::Composed => Ok((
                rope.apply(&rms_norm_composed(q, q_norm)?)?,
                rope.apply(&rms_norm_composed(k, k_norm)?)?,
            )),
            _ => Ok((rope.apply(&rms_norm(q, q_norm)?)?, rope.apply(&rms_norm(k, k_norm)?)?)),
        }
    }
}

/// One launch.
#[cfg(any(feature = "gpu", feature = "metal"))]
mod on_gpu {
    use candle_core::{Device, Result, Storage, Tensor};
    use needle_kernels::{Elem, RowState, ops::HeadsShape};

    use super::{super::kernels, Kernels, Rope};

    /// What the kernel reads.
    #[derive(Clone, Debug)]
    pub(super) struct Table {
        /// `[T, K]` float32: a position's cosines, then its sines.
        angles: Tensor,
        /// `[B·T, 4]`: where each row lies in the table.
        states: Tensor,
    }

    impl Table {
        /// `exact` is in float32, on the CPU.
        pub(super) fn new(exact: &Rope, rows: usize, device: &Device) -> Result<Self> {
            let (count, _) = exact.cos.dims2()?;
            let state = |at: usize| RowState {
                position: (at % count) as u32,
                slot: RowState::NO_SLOT,
                ..RowState::default()
            };
            let words: Vec<u32> = (0..rows * count).flat_map(|at| state(at).words()).collect();
            Ok(Self {
                angles: Tensor::cat(&[&exact.cos, &exact.sin], 1)?.to_device(device)?,
                states: Tensor::from_vec(words, (rows * count, RowState::WORDS), device)?,
            })
        }
    }

    fn shape([q, k, v]: [&Tensor; 3]) -> Result<Option<HeadsShape>> {
        let ((b, t, h, width), (.., g, _), (.., v_width)) = (q.dims4()?, k.dims4()?, v.dims4()?);
        let sizes = [b * t, h, g, width, v_width].map(u32::try_from);
        let [Ok(rows), Ok(h), Ok(g), Ok(k), Ok(v)] = sizes else {
            return Ok(None);
        };
        Ok(Some(HeadsShape {
            rows,
            rows_a_sequence: rows,
            h,
            g,
            k,
            v,
            slots: 1,
        }))
    }

    pub(super) fn fits(heads: [&Tensor; 3], rope: &Rope) -> Result<bool> {
        Ok(rope.on_gpu.is_some() && shape(heads)?.is_some_and(|shape| shape.fits(Elem::Bf16)))
    }

    impl Kernels {
        pub(in crate::ops) fn turn_on_gpu(
            &self,
            heads: [&Tensor; 3],
            [q_norm, k_norm]: [&Tensor; 2],
            rope: &Rope,
        ) -> Result<(Tensor, Tensor)> {
            let (Some(Table { angles, states }), Some(shape)) = (&rope.on_gpu, shape(heads)?) else {
                candle_core::bail!("rope: no table for the kernel")
            };
            let ((b, t, h, width), (.., g, _)) = (heads[0].dims4()?, heads[1].dims4()?);
            let [q, k, v] = heads.map(|heads| heads.reshape((b * t, ())));
            let qkv = Tensor::cat(&[q?, k?, v?], 1)?.contiguous()?;
            let locked = [&qkv, q_norm, k_norm, angles, states].map(Tensor::storage_and_layout);
            let (q, k) = match qkv.device() {
                #[cfg(feature = "gpu")]
                Device::Cuda(_) => {
                    let [qkv, q_norm, k_norm, angles, state] = kernels::on_cuda(&locked)?;
                    let inputs = needle_cuda::RopeInputs {
                        qkv,
                        q_norm,
                        k_norm,
                        angles,
                        state,
                    };
                    let (q, k) = needle_cuda::turn(inputs, shape)?;
                    (Storage::Cuda(q), Storage::Cuda(k))
                }
                #[cfg(feature = "metal")]
                Device::Metal(_) => {
                    let [qkv, q_norm, k_norm, angles, state] = kernels::on_metal(&locked)?;
                    let inputs = needle_metal::RopeInputs {
                        qkv,
                        q_norm,
                        k_norm,
                        angles,
                        state,
                    };
                    let (q, k) = needle_metal::turn(self.pipelines()?, inputs, shape)?;
                    (Storage::Metal(q), Storage::Metal(k))
                }
                device => candle_core::bail!("rope: no kernel on {device:?}"),
            };
            Ok((kernels::made(q, (b, t, h, width)), kernels::made(k, (b, t, g, width))))
        }
    }
}
