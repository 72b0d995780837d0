//! Portable GPU kernel texts of needle with their launch geometry: no device code, no tensors, no candle.
//!
//! Each fused operation is one text in `kernels/`, written once. A prelude gives its words their meaning for CUDA, for
//! Metal, or (feature `emulator`) for a host program that runs it with true barrier and shuffle semantics and reports
//! accesses out of bounds, undefined reads and data races. Beside each text stands the struct in [`ops`] that turns named
//! buffers into a [`Launch`]: kernel, grid, threads, shared memory, arguments, parameters. A backend only has to turn a
//! [`Launch`] into a real one. [`plan`] strings the launches of a whole decode step together.
//!
//! # Operations
//!
//! `zcrms(x; s) = (1 + s) ∘ x / sqrt(mean(x²) + 1e-6)`, `H` the orthonormal Walsh-Hadamard matrix, `σ` the logistic sigmoid,
//! `X` the `n` lanes of a row.
//!
//! | struct | kernels | equation | reads | writes | block, grid |
//! | --- | --- | --- | --- | --- | --- |
//! | [`RmsNorm`](ops::RmsNorm) | `rms_norm_S` | `y = zcrms(x; s)` | x, s | y | 128, rows |
//! | [`RmsNormAdd`](ops::RmsNormAdd) | `rms_norm_add_S` | `y = skip + gate·zcrms(x; s)` | x, s, gate, skip | y | 128, rows |
//! | [`Hadamard`](ops::Hadamard) | `hadamard_M_S` | `y = (d₃ ∘ H silu(d₂ ∘ H (d₁ ∘ x)))[..d]` | x, d₁, d₂, d₃ | y | M/4 or so, rows |
//! | [`HadamardResidual`](ops::HadamardResidual) | the same | `y = x + mlp(zcrms(x; s))` | x, s, d₁, d₂, d₃ | y | the same |
//! | [`LanesFront`](ops::LanesFront) | `lanes_front_S_W` | `pre, post, R` from `rms_unit(X)·Φ`; `u = Σ pre_i X_i` | X, Φ, bias, scale | u, mix | 512, rows |
//! | [`LanesRecall`](ops::LanesRecall) | `lanes_recall_W` | the same, then `u + α Σ_j taps_j ∘ v_{t−j·dilation}` | X, Φ, bias, scale, key, values, taps, state | y, mix | 512, rows |
//! | [`LanesMix`](ops::LanesMix) | `lanes_mix_S` | `X_i ← Σ_j R_ij X_j + post_i (y − u)` | X, y, mix | X | 128, rows |
//! | [`BlockBack`](ops::BlockBack) | `block_back_M_S` | gated residual, Hadamard MLP with residual, lane mix | X, x, a, norms, gate, d₁, d₂, d₃, mix | X | M/4 or so, rows |
//! | [`Rope`](ops::Rope) | `rope_S_C` | `rope(zcrms(q))`, `rope(zcrms(k))`, cache write | q k v, norms, angles, state | q', k', caches | 128, rows × heads/4 |
//! | [`Attention`](ops::Attention) | `attention_K_C` | the same for one position a row, then `σ(gate) ∘ softmax(q·K/√k)·V` | q k v gate, norms, angles, state, caches | out, caches | 256, heads × rows |
//! | [`Linear`](ops::Linear) | `linear_W_xB`, `packed_BITS_S_xB` | `y = x·Wᵀ` | x, W | y | 256, n_out/8 × rows/B |
//! | [`NormLinear`](ops::NormLinear) | `norm_linear_W_xB`, `norm_packed_BITS_f32_xB` | `y = zcrms(mean of lanes; s)·Wᵀ` | x, s, W | y | the same |
//! | [`Embed`](ops::Embed) | `embed_S` | `X_i = E[token]·sqrt(d)` | state, E | X, history | 128, rows |
//! | [`EngramGather`](ops::EngramGather) | `engram_gather_S` | `e =` hashed rows of all tables | history, state, tables | e | 128, rows |
//! | [`EngramRecall`](ops::EngramRecall) | `engram_recall_W`, `engram_recall_packed_BITS` | the same, then `[k, v] = e·[Wk; Wv]ᵀ` | history, state, tables, W | key, values | 256, d/4 × rows |
//!
//! `S` is the storage of activations, `W` of weights, `C` of the cache: f32, bf16 or f16, the arithmetic always float32.
//! `M` is the padded width (64 to 1024), `K` the widest head (64 or 128), `B` the rows a block takes at once (1 or 8), `BITS`
//! the width of a packed code (2, 3 or 4; ternary is 2 with a codebook of its own). Packed weights are read where they lie:
//! `W_o·x = Σ_g norm_og Σ_k level[code_ogk]·(H x_g)_k`, so a block rotates its rows of `x` once.
//!
//! # What a kernel may rely on
//!
//! Buffers are contiguous, aligned to 4 bytes, and as large as their shapes say; no buffer that is written overlaps
//! another argument; tokens lie inside the vocabulary, positions inside the table of angles, slots inside the cache. Checking
//! that is the host's part: a kernel that met a bad token could only hide it. Squares are float32: a row of numbers beyond 1e19 has no
//! norm.

#[cfg(feature = "emulator")]
pub mod cases;
#[cfg(feature = "emulator")]
pub mod emulator;
mod error;
mod launch;
pub mod ops;
pub mod plan;
#[cfg(feature = "emulator")]
pub mod ptx;
mod state;
mod storage;
mod text;

pub use error::Unsupported;
pub use launch::{Arg, Launch, Params};
pub use state::RowState;
pub use storage::{CodeBits, Elem, Format, Matrix};
pub use text::{Module, Part};
