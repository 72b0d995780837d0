//! `y = x·Wᵀ` with a frozen `W`: its gradient is that of `x` alone. candle's own product would form that of `W` too.

use candle_core::{
    CpuStorage, CudaStorage, CustomOp2, Layout, MetalStorage, Result, Shape, Tensor, backend::BackendStorage,
};

/// `y: [n, out]` = `x: [n, in]` · `w: [out, in]`ᵀ; no gradient reaches `w`.
pub(super) fn frozen_linear(x: &Tensor, w: &Tensor) -> Result<Tensor> {
    x.contiguous()?.apply_op2(&w.t()?, FrozenLinear)
}

struct FrozenLinear;

/// The backend's own product of `x: [m, k]` and `w: [k, n]`.
fn product<S: BackendStorage>(x: &S, xl: &Layout, w: &S, wl: &Layout) -> Result<(S, Shape)> {
    let ((m, k), (_, n)) = (xl.shape().dims2()?, wl.shape().dims2()?);
    Ok((x.matmul(w, (1, m, n, k), xl, wl)?, Shape::from((m, n))))
}

impl CustomOp2 for FrozenLinear {
    fn name(&self) -> &'static str {
        "frozen_linear"
    }

    fn cpu_fwd(&self, x: &CpuStorage, xl: &Layout, w: &CpuStorage, wl: &Layout) -> Result<(CpuStorage, Shape)> {
        product(x, xl, w, wl)
    }

    fn cuda_fwd(&self, x: &CudaStorage, xl: &Layout, w: &CudaStorage, wl: &Layout) -> Result<(CudaStorage, Shape)> {
        product(x, xl, w, wl)
    }

    fn metal_fwd(&self, x: &MetalStorage, xl: &Layout, w: &MetalStorage, wl: &Layout) -> Result<(MetalStorage, Shape)> {
        product(x, xl, w, wl)
    }

    fn bwd(&self, _x: &Tensor, w: &Tensor, _y: &Tensor, dy: &Tensor) -> Result<(Option<Tensor>, Option<Tensor>)> {
        Ok((Some(dy.contiguous()?.matmul(&w.t()?)?), None))
    }
}
