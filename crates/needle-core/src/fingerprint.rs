//! Short texts that tell contents apart.

use sha2::{Digest, Sha256};

use crate::{
    config::Config,
    json,
    weights::{Weight, Weights},
};

/// Bytes of each tensor that the weights' fingerprint reads; enough to tell weights apart, few enough to cost nothing at start.
const SAMPLE: usize = 256;

/// SHA-256 in lower-case hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// 64-bit FNV-1a over the geometry and the first bytes of every tensor.
pub(crate) fn of_weights(config: &Config, weights: &Weights) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let mut take = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    };
    take(json::compact(&config.to_json().into()).as_bytes());
    for (name, weight) in weights.iter() {
        take(name.as_bytes());
        let parts = match weight {
            Weight::Dense(dense) => [&dense.bytes[..], &[]],
            Weight::Packed(packed) => [packed.codes(), packed.norms()],
        };
        for bytes in parts {
            take(&bytes[..bytes.len().min(SAMPLE)]);
        }
    }
    format!("{hash:016x}")
}
