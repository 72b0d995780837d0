//! A decode step on the device: its buffers, and the launches that fill them.

use std::{collections::HashMap, sync::Arc};

use candle_core::{MetalDevice, Result, bail};
use candle_metal_kernels::metal::Buffer;
use needle_kernels::{
    RowState,
    plan::{BufferSpec, DecodePlan, Keeping, Name, Role},
};

use crate::{Pipelines, launch::launch, storage::Place};

/// The weights of a step, shared by any number of steps of one model, whatever their batch.
#[derive(Clone, Default)]
pub struct Weights {
    by_role: HashMap<Role, Arc<Buffer>>,
}

impl Weights {
    /// Brings every weight of a plan to the device; `bytes` gives them as the plan's kernels read them.
    ///
    /// # Errors
    /// What `bytes` gives, a weight of another size than the plan's, or the device's refusal.
    pub fn upload(
        device: &MetalDevice,
        plan: &DecodePlan,
        mut bytes: impl FnMut(&BufferSpec) -> Result<Vec<u8>>,
    ) -> Result<Self> {
        let mut by_role = HashMap::new();
        for spec in plan
            .buffers
            .iter()
            .filter(|spec| spec.role.name.keeping() == Keeping::Weight)
        {
            let bytes = bytes(spec)?;
            if bytes.len() != spec.bytes {
                bail!("{:?}: expected {} bytes, found {}", spec.role, spec.bytes, bytes.len());
            }
            by_role.insert(spec.role, device.new_buffer_with_data(&bytes)?);
        }
        Ok(Self { by_role })
    }
}

/// A decode step with its own cache and scratch.
pub struct Step {
    pipelines: Arc<Pipelines>,
    plan: DecodePlan,
    buffers: Vec<Arc<Buffer>>,
    /// Launches that may not have ended: what they read must not be overwritten.
    is_pending: bool,
}

impl Step {
    /// Allocates what the plan needs beside its weights, all zero.
    ///
    /// # Errors
    /// When a weight is missing, or the device refuses.
    pub fn new(pipelines: &Arc<Pipelines>, plan: DecodePlan, weights: &Weights) -> Result<Self> {
        let hold = |spec: &BufferSpec| match (weights.by_role.get(&spec.role), spec.role.name.keeping()) {
            (Some(shared), Keeping::Weight) => Ok(shared.clone()),
            (None, Keeping::Weight) => bail!("{:?} was not uploaded", spec.role),
            _ => pipelines.device().new_buffer_with_data(&vec![0u8; spec.bytes]),
        };
        let buffers = plan.buffers.iter().map(hold).collect::<Result<_>>()?;
        Ok(Self {
            pipelines: pipelines.clone(),
            plan,
            buffers,
            is_pending: false,
        })
    }

    /// One token for every row.
    ///
    /// # Errors
    /// When `states` are not as many as the plan's rows, or the device refuses.
    pub fn run(&mut self, states: &[RowState]) -> Result<()> {
        let state = Role::of(Name::State, 0);
        let expected = self
            .plan
            .buffer(state)
            .map_or(0, |number| self.plan.buffers[number].bytes);
        let words: Vec<u8> = states
            .iter()
            .flat_map(|state| state.words())
            .flat_map(u32::to_ne_bytes)
            .collect();
        if words.len() != expected {
            let (rows, found) = (expected / (4 * RowState::WORDS), states.len());
            bail!("the step advances {rows} rows, found the states of {found}");
        }
        self.write(state, 0, &words)?;
        self.is_pending = true;
        let place = |&number: &usize| {
            Ok(Place {
                buffer: &self.buffers[number],
                offset_bytes: 0,
            })
        };
        self.plan
            .launches
            .iter()
            .try_for_each(|planned| launch(&self.pipelines, planned.launch.try_map(place)))
    }

    /// Overwrites a buffer of the step's own, from a byte of it on, after earlier runs have ended.
    ///
    /// # Errors
    /// When there is no such buffer, it is shared or shorter, or the device refuses.
    pub fn write(&mut self, role: Role, from: usize, bytes: &[u8]) -> Result<()> {
        let Some(number) = self.plan.buffer(role) else {
            bail!("the step has no {role:?}")
        };
        let spec = self.plan.buffers[number];
        if role.name.keeping() == Keeping::Weight {
            bail!("{role:?} is shared");
        }
        if from + bytes.len() > spec.bytes {
            bail!("{role:?} ends before byte {}", from + bytes.len());
        }
        self.wait()?;
        let to = self.buffers[number].contents();
        // SAFETY: the buffer is shared memory of `spec.bytes` bytes, the range lies inside it, and no launch that uses it
        // is under way.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.add(from), bytes.len()) };
        Ok(())
    }

    /// A buffer's contents, after earlier runs have ended: the logits, for one.
    ///
    /// # Errors
    /// When there is no such buffer, or the device refuses.
    pub fn read(&mut self, role: Role) -> Result<Vec<u8>> {
        let Some(number) = self.plan.buffer(role) else {
            bail!("the step has no {role:?}")
        };
        self.wait()?;
        let mut bytes = vec![0; self.plan.buffers[number].bytes];
        let from = self.buffers[number].contents();
        // SAFETY: the buffer is shared memory of as many bytes, and no launch that writes it is under way.
        unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len()) };
        Ok(bytes)
    }

    fn wait(&mut self) -> Result<()> {
        if self.is_pending {
            self.pipelines.device().flush_and_wait_current()?;
            self.is_pending = false;
        }
        Ok(())
    }
}
