//! The gate on the attention's output, and the gathering of its heads: heads lie apart as `[G, T, group·Kv]`, positions together
//! as `[T, …]`.

use super::{
    attention::Slopes,
    places::Sizes,
    vector::{sigmoid, vectorised},
};

/// A layer's heads and where some positions begin among all `total`.
#[derive(Clone, Copy)]
pub(super) struct Apart<'a> {
    pub(super) out: &'a [f32],
    pub(super) first: usize,
    pub(super) total: usize,
    pub(super) sizes: Sizes,
}

vectorised! {
    /// `gated = out ∘ σ(gate)`.
    pub(super) fn close(gated: &mut [f32], projected: &[f32], heads: Apart<'_>) {
        let Apart { out, first, total, sizes } = heads;
        let (o, p, each) = (sizes.attended(), sizes.projected(), sizes.group * sizes.kv);
        for (t, (gated, projected)) in gated.chunks_exact_mut(o).zip(projected.chunks_exact(p)).enumerate() {
            let gates = projected[p - o..].chunks_exact(each);
            for (g, (gated, gates)) in gated.chunks_exact_mut(each).zip(gates).enumerate() {
                let out = &out[(g * total + first + t) * each..][..each];
                for ((gated, out), gate) in gated.iter_mut().zip(out).zip(gates) {
                    *gated = out * sigmoid(*gate);
                }
            }
        }
    }
}

vectorised! {
    /// Back through [`close`]: the gradient of the gates to its columns of `d_projected`, `slope ∘ σ(gate)` in the place of `slope`.
    pub(super) fn open(d_projected: &mut [f32], slope: &mut [f32], projected: &[f32], heads: Apart<'_>) {
        let Apart { out, first, total, sizes } = heads;
        let (o, p, each) = (sizes.attended(), sizes.projected(), sizes.group * sizes.kv);
        let rows = d_projected.chunks_exact_mut(p).zip(slope.chunks_exact_mut(o)).zip(projected.chunks_exact(p));
        for (t, ((d_projected, slope), projected)) in rows.enumerate() {
            let parts = d_projected[p - o..].chunks_exact_mut(each).zip(slope.chunks_exact_mut(each));
            for (g, ((d_gates, slope), gates)) in parts.zip(projected[p - o..].chunks_exact(each)).enumerate() {
                let out = &out[(g * total + first + t) * each..][..each];
                for (((d_gate, slope), out), gate) in d_gates.iter_mut().zip(slope).zip(out).zip(gates) {
                    let open = sigmoid(*gate);
                    *d_gate = *slope * out * open * (1.0 - open);
                    *slope *= open;
                }
            }
        }
    }
}

/// Positions together to heads apart: one head's part, `[T, group·Kv]`.
pub(super) fn part(apart: &mut [f32], together: &[f32], g: usize, sizes: Sizes) {
    let (o, each) = (sizes.attended(), sizes.group * sizes.kv);
    for (apart, together) in apart.chunks_exact_mut(each).zip(together.chunks_exact(o)) {
        apart.copy_from_slice(&together[g * each..][..each]);
    }
}

/// The gradients of queries, keys and values to their columns of `d_projected`, for the positions from `first` on.
pub(super) fn gather(d_projected: &mut [f32], slopes: &Slopes, first: usize, total: usize, sizes: Sizes) {
    let Sizes {
        g: heads, group, k, kv, ..
    } = sizes;
    let [q, keys, ..] = sizes.outputs();
    for (t, row) in d_projected.chunks_exact_mut(sizes.projected()).enumerate() {
        for g in 0..heads {
            let at = g * total + first + t;
            row[g * group * k..][..group * k].copy_from_slice(&slopes.q[at * group * k..][..group * k]);
            row[q + g * k..][..k].copy_from_slice(&slopes.k[at * k..][..k]);
            row[q + keys + g * kv..][..kv].copy_from_slice(&slopes.v[at * kv..][..kv]);
        }
    }
}
