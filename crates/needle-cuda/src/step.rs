//! A decode step on the device: its buffers, and the launches that fill them, one by one or as a captured graph.
//!
//! Nothing but the stream orders the launches, so the device should have a stream of its own
//! (`Device::new_cuda_with_stream`): candle's default is the calling thread's, and a step may move between threads.

use std::{collections::HashMap, sync::Arc};

use candle_core::{
    CudaDevice, Result, bail,
    cuda_backend::{
        WrapErr,
        cudarc::driver::{CudaFunction, CudaGraph, CudaSlice, LaunchConfig, sys},
    },
};
use needle_kernels::{
    RowState,
    plan::{BufferSpec, DecodePlan, Keeping, Name, Role},
};

use crate::{
    launch::{ParamBytes, config, enqueue, function},
    storage::address,
};

/// The weights of a step, shared by any number of steps of one model, whatever their batch.
#[derive(Clone, Default)]
pub struct Weights {
    by_role: HashMap<Role, Arc<CudaSlice<u8>>>,
}

impl Weights {
    /// Brings every weight of a plan to the device; `bytes` gives them as the plan's kernels read them.
    ///
    /// # Errors
    /// What `bytes` gives, a weight of another size than the plan's, or the device's refusal.
    pub fn upload(
        device: &CudaDevice,
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
            by_role.insert(spec.role, Arc::new(device.clone_htod(&bytes[..])?));
        }
        Ok(Self { by_role })
    }
}

/// Whose a buffer is.
enum Held {
    Shared(Arc<CudaSlice<u8>>),
    Own(CudaSlice<u8>),
}

/// A launch with everything looked up.
struct Ready {
    function: CudaFunction,
    addresses: Vec<u64>,
    params: ParamBytes,
    config: LaunchConfig,
}

/// A captured step.
struct Graph(CudaGraph);

// SAFETY: a graph may be used from any thread as long as no two use it at once; `Step` uses it through `&mut self` alone.
unsafe impl Send for Graph {}
// SAFETY: there is no way to use it through a shared reference.
unsafe impl Sync for Graph {}

/// A decode step with its own cache and scratch.
pub struct Step {
    device: CudaDevice,
    plan: DecodePlan,
    buffers: Vec<Held>,
    launches: Vec<Ready>,
    graph: Option<Graph>,
    has_run: bool,
}

impl Step {
    /// Allocates what the plan needs beside its weights, all zero.
    ///
    /// # Errors
    /// When a weight is missing, or the device refuses.
    pub fn new(device: &CudaDevice, plan: DecodePlan, weights: &Weights) -> Result<Self> {
        let hold = |spec: &BufferSpec| match (weights.by_role.get(&spec.role), spec.role.name.keeping()) {
            (Some(shared), Keeping::Weight) => Ok(Held::Shared(shared.clone())),
            (None, Keeping::Weight) => bail!("{:?} was not uploaded", spec.role),
            _ => Ok(Held::Own(device.alloc_zeros(spec.bytes)?)),
        };
        let buffers = plan.buffers.iter().map(hold).collect::<Result<Vec<_>>>()?;
        let stream = device.cuda_stream();
        let addresses: Vec<u64> = buffers
            .iter()
            .map(|held| match held {
                Held::Shared(bytes) => address(bytes, &stream),
                Held::Own(bytes) => address(bytes, &stream),
            })
            .collect();
        let ready = |launch: &needle_kernels::Launch<usize>| {
            Ok(Ready {
                function: function(device, launch)?,
                addresses: launch.args.iter().map(|arg| addresses[*arg.buffer()]).collect(),
                params: ParamBytes::of(&launch.params),
                config: config(launch),
            })
        };
        let launches = plan
            .launches
            .iter()
            .map(|planned| ready(&planned.launch))
            .collect::<Result<_>>()?;
        Ok(Self {
            device: device.clone(),
            plan,
            buffers,
            launches,
            graph: None,
            has_run: false,
        })
    }

    /// One token for every row: replays the captured step, or launches its kernels one by one.
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
        self.has_run = true;
        match &self.graph {
            Some(graph) => graph.0.launch().w(),
            None => self.launch(),
        }
    }

    /// Records the step, so that later runs replay it. Where this fails the step goes on launching one by one.
    ///
    /// # Errors
    /// Before the first run, which loads the kernels; or when the driver refuses.
    pub fn capture(&mut self) -> Result<()> {
        if !self.has_run {
            bail!("a step is captured after its first run");
        }
        let stream = self.device.cuda_stream();
        stream
            .begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
            .w()?;
        let recorded = self.launch();
        // Also after a failure: the stream must leave its capturing state.
        let graph = stream.end_capture(sys::CUgraphInstantiate_flags(0)).w();
        recorded?;
        match graph? {
            Some(graph) => {
                graph.upload().w()?;
                self.graph = Some(Graph(graph));
                Ok(())
            }
            None => bail!("the driver captured nothing"),
        }
    }

    /// Whether runs replay a captured step.
    pub fn is_captured(&self) -> bool {
        self.graph.is_some()
    }

    /// Overwrites a buffer of the step's own, from a byte of it on.
    ///
    /// # Errors
    /// When there is no such buffer, it is shared or shorter, or the device refuses.
    pub fn write(&mut self, role: Role, from: usize, bytes: &[u8]) -> Result<()> {
        let Some(number) = self.plan.buffer(role) else {
            bail!("the step has no {role:?}")
        };
        let Held::Own(buffer) = &mut self.buffers[number] else {
            bail!("{role:?} is shared")
        };
        let Some(mut view) = buffer.try_slice_mut(from..from + bytes.len()) else {
            bail!("{role:?} ends before byte {}", from + bytes.len());
        };
        self.device.memcpy_htod(bytes, &mut view)
    }

    /// A buffer's contents, once all earlier work of the stream is done: the logits, for one.
    ///
    /// # Errors
    /// When there is no such buffer, or the device refuses.
    pub fn read(&self, role: Role) -> Result<Vec<u8>> {
        let Some(number) = self.plan.buffer(role) else {
            bail!("the step has no {role:?}")
        };
        match &self.buffers[number] {
            Held::Shared(bytes) => self.device.clone_dtoh(bytes.as_ref()),
            Held::Own(bytes) => self.device.clone_dtoh(bytes),
        }
    }

    fn launch(&self) -> Result<()> {
        let stream = self.device.cuda_stream();
        self.launches
            .iter()
            .try_for_each(|ready| enqueue(&stream, &ready.function, &ready.addresses, &ready.params, ready.config))
    }
}
