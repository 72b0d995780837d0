//! The compiled kernels.

use needle_kernels::Module;

macro_rules! compiled {
    ($name:literal) => {
        include_str!(concat!(env!("OUT_DIR"), "/", $name, ".ptx"))
    };
}

/// The PTX that the build script made of a module.
pub(crate) fn ptx(module: Module) -> &'static str {
    match module {
        Module::RmsNorm => compiled!("needle_rms_norm"),
        Module::Hadamard => compiled!("needle_hadamard"),
        Module::Lanes => compiled!("needle_lanes"),
        Module::Block => compiled!("needle_block"),
        Module::Rope => compiled!("needle_rope"),
        Module::Attention => compiled!("needle_attention"),
        Module::Linear => compiled!("needle_linear"),
        Module::Packed => compiled!("needle_packed"),
        Module::Embed => compiled!("needle_embed"),
        Module::Engram => compiled!("needle_engram"),
    }
}
