//! Fused operations of needle as functions on candle's CUDA storage.
//!
//! A leaf: it knows storages and layouts, never a layer, a config or a token. Without the feature `cuda` it is empty, so
//! that the workspace builds on a machine that has no CUDA toolkit. The operations come with the GPU work.
#![cfg(feature = "cuda")]
