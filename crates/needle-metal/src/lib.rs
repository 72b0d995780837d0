//! Fused operations of needle as functions on candle's Metal storage.
//!
//! A leaf: it knows storages and layouts, never a layer, a config or a token. Without the feature `metal` it is empty, so
//! that the workspace builds on machines other than Macs. The operations come with the GPU work.
#![cfg(feature = "metal")]
