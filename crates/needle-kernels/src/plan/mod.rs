//! A whole decode step as a list of launches: one new token for every row of a batch.
//!
//! Nothing in the list depends on the token, the position or the cache's filling: the kernels read those from
//! [`Name::State`], all grids are fixed, all scratch is listed and can be allocated once. So a step is captured in a CUDA
//! graph as it is, and replayed after the state has been overwritten.
//!
//! ```text
//! embed                                                             X_i = E[token]·sqrt(d)
//! every layer:  [engram_recall]   at an engram site                 k, v from the hashed rows
//!               lanes_front | lanes_recall                          u (+ α v), what the lanes decide
//!               norm_linear                                         q | k | v | gate
//!               attention                                           norm, rotation, cache, softmax, gate
//!               linear                                              output projection
//!               block_back                                          residual, Hadamard MLP, lane mix
//! norm_linear                                                       mean of lanes, final norm, logits
//! ```

mod buffers;
mod builder;
mod geometry;

pub use buffers::{BufferSpec, Keeping, Name, Part, Role};
pub use geometry::{EngramGeometry, Geometry, Storage};

use builder::Builder;

use crate::{error::Unsupported, launch::Launch, storage::Format};

/// To which part of a step a launch belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepPart {
    /// Before the first layer.
    Opening,
    /// A layer.
    Layer(usize),
    /// After the last layer.
    Closing,
}

/// A launch of a step; its buffers are numbers of [`DecodePlan::buffers`].
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedLaunch {
    /// Where it belongs.
    pub part: StepPart,
    /// The launch.
    pub launch: Launch<usize>,
}

/// A decode step: what it launches, in order, and the buffers that it needs.
#[derive(Clone, Debug, PartialEq)]
pub struct DecodePlan {
    /// The launches.
    pub launches: Vec<PlannedLaunch>,
    /// The buffers.
    pub buffers: Vec<BufferSpec>,
}

impl DecodePlan {
    /// The step of a model. `projections` says how each projection is stored: it is asked for [`Name::Qkvg`] and
    /// [`Name::Out`] of every layer, and for [`Name::KeyValue`] of every site. What is one matrix here must be of one
    /// storage and one codebook; a model whose q, k, v and gate differ widens them first.
    ///
    /// # Errors
    /// [`Unsupported`] names the first size or storage that has no kernel.
    pub fn new(
        geometry: &Geometry,
        storage: Storage,
        projections: impl Fn(Name, usize) -> Format,
    ) -> Result<Self, Unsupported> {
        let mut builder = Builder::new(geometry, storage);
        builder.open()?;
        for layer in 0..geometry.layers {
            builder.layer(layer, &projections)?;
        }
        builder.close()?;
        Ok(builder.done())
    }

    /// The number of a buffer, if the step needs it.
    pub fn buffer(&self, role: Role) -> Option<usize> {
        self.buffers.iter().position(|spec| spec.role == role)
    }

    /// How many kernels a part of the step launches.
    pub fn count(&self, part: StepPart) -> usize {
        self.launches.iter().filter(|planned| planned.part == part).count()
    }
}
