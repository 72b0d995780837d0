//! The kernel texts and how they join into the source of one module: prelude, base, what the operation builds on, the
//! operation. A module is the unit that a GPU backend compiles and caches, so each has a name of its own.

/// One file of kernel text.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Its name in `kernels/`.
    pub file: &'static str,
    /// What it says.
    pub text: &'static str,
}

macro_rules! part {
    ($file:literal) => {
        Part {
            file: $file,
            text: include_str!(concat!("../kernels/", $file)),
        }
    };
}

const CUDA: Part = part!("cuda.h");
const METAL: Part = part!("metal.h");
const BASE: Part = part!("base.h");
const HADAMARD_CORE: Part = part!("hadamard_core.h");
const MIX_CORE: Part = part!("mix_core.h");
const ROPE_CORE: Part = part!("rope_core.h");
const LINEAR_CORE: Part = part!("linear_core.h");
const TABLE_CORE: Part = part!("table_core.h");
const ENGRAM_CORE: Part = part!("engram_core.h");

/// A kernel file and everything it stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Module {
    /// Zero-centred RMS norm.
    RmsNorm,
    /// Walsh-Hadamard MLP.
    Hadamard,
    /// Hyper-connections: reading, deciding, mixing.
    Lanes,
    /// The second half of a layer.
    Block,
    /// q/k norm, rotary positions, cache write.
    Rope,
    /// Decode attention.
    Attention,
    /// Products with dense weights.
    Linear,
    /// Products with packed weights.
    Packed,
    /// Embedding.
    Embed,
    /// Hashed n-gram memory.
    Engram,
}

impl Module {
    /// Every module.
    pub const ALL: [Self; 10] = [
        Self::RmsNorm,
        Self::Hadamard,
        Self::Lanes,
        Self::Block,
        Self::Rope,
        Self::Attention,
        Self::Linear,
        Self::Packed,
        Self::Embed,
        Self::Engram,
    ];

    /// The name under which a backend caches the compiled module; also its file name, before the extension.
    pub fn name(self) -> &'static str {
        match self {
            Self::RmsNorm => "needle_rms_norm",
            Self::Hadamard => "needle_hadamard",
            Self::Lanes => "needle_lanes",
            Self::Block => "needle_block",
            Self::Rope => "needle_rope",
            Self::Attention => "needle_attention",
            Self::Linear => "needle_linear",
            Self::Packed => "needle_packed",
            Self::Embed => "needle_embed",
            Self::Engram => "needle_engram",
        }
    }

    /// The portable parts, in the order in which they follow a prelude.
    pub fn parts(self) -> &'static [Part] {
        match self {
            Self::RmsNorm => &[BASE, part!("rms_norm.h")],
            Self::Hadamard => &[BASE, HADAMARD_CORE, part!("hadamard.h")],
            Self::Lanes => &[BASE, MIX_CORE, part!("lanes.h")],
            Self::Block => &[BASE, HADAMARD_CORE, MIX_CORE, part!("block.h")],
            Self::Rope => &[BASE, ROPE_CORE, part!("rope.h")],
            Self::Attention => &[BASE, ROPE_CORE, part!("attention.h")],
            Self::Linear => &[BASE, LINEAR_CORE, part!("linear.h")],
            Self::Packed => &[BASE, LINEAR_CORE, part!("packed.h")],
            Self::Embed => &[BASE, TABLE_CORE, part!("embed.h")],
            Self::Engram => &[BASE, LINEAR_CORE, TABLE_CORE, ENGRAM_CORE, part!("engram.h")],
        }
    }

    /// The whole text for nvcc or NVRTC; it includes nothing.
    pub fn cuda(self) -> String {
        self.after(CUDA)
    }

    /// The whole text for Metal's run-time compiler.
    pub fn metal(self) -> String {
        self.after(METAL)
    }

    fn after(self, prelude: Part) -> String {
        let parts = std::iter::once(&prelude).chain(self.parts());
        parts.map(|part| part.text).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_module_has_a_name_of_its_own() {
        let names: HashSet<&str> = Module::ALL.iter().map(|module| module.name()).collect();
        assert_eq!(names.len(), Module::ALL.len());
    }

    #[test]
    fn a_text_includes_nothing_but_metals_library() {
        for module in Module::ALL {
            let includes = |text: String| text.lines().filter(|line| line.starts_with("#include")).count();
            assert_eq!(
                (includes(module.cuda()), includes(module.metal())),
                (0, 1),
                "{module:?}"
            );
        }
    }
}
