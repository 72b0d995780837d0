//! Decode steps on the emulator: the launches that a GPU would get, run on the host and watched for mistakes.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use candle_core::{DType, Device, Result, Tensor, bail};
use half::{bf16, f16};
use needle_core::ops::{Step, StepDevice, WeightBytes};
use needle_kernels::{
    RowState,
    emulator::{Memory, Schedule, run},
    plan::{BufferSpec, DecodePlan, Keeping, Name, Role},
};

/// What the emulated device has been asked to do.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) steps: AtomicUsize,
    pub(crate) runs: AtomicUsize,
    pub(crate) captures: AtomicUsize,
}

/// Weights, kept as bytes.
#[derive(Debug)]
pub(crate) struct Emulated {
    weights: HashMap<Role, Vec<u8>>,
    /// Whether a step may be recorded; it is not replayed any differently.
    records: bool,
    log: Arc<Log>,
}

impl Emulated {
    /// A device that records steps, or refuses to.
    pub(crate) fn new(records: bool) -> (Self, Arc<Log>) {
        let log = Arc::new(Log::default());
        let device = Self {
            weights: HashMap::new(),
            records,
            log: log.clone(),
        };
        (device, log)
    }
}

impl StepDevice for Emulated {
    fn upload(&mut self, plan: &DecodePlan, bytes: WeightBytes<'_>) -> Result<()> {
        for spec in plan.buffers.iter().filter(|spec| keeping(spec) == Keeping::Weight) {
            let bytes = bytes(spec)?;
            assert_eq!(bytes.len(), spec.bytes, "{:?}", spec.role);
            self.weights.insert(spec.role, bytes);
        }
        Ok(())
    }

    fn step(&self, plan: DecodePlan, tensors: &[(Role, Tensor)]) -> Result<Box<dyn Step>> {
        let mut memory = Memory::new();
        let mut lying = Vec::new();
        for (number, spec) in plan.buffers.iter().enumerate() {
            if let Some((_, tensor)) = tensors.iter().find(|(role, _)| *role == spec.role) {
                assert_eq!(
                    tensor.elem_count() * tensor.dtype().size_in_bytes(),
                    spec.bytes,
                    "{:?}",
                    spec.role
                );
                lying.push((number, tensor.clone()));
            }
            match self.weights.get(&spec.role) {
                Some(bytes) => memory.bytes(bytes),
                // Not zero as on a device: whatever nothing writes must not be read.
                None => memory.undefined(spec.bytes),
            };
        }
        assert_eq!(lying.len(), tensors.len(), "a tensor that the plan has no buffer for");
        self.log.steps.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(EmulatedStep {
            plan,
            memory,
            lying,
            records: self.records,
            log: self.log.clone(),
        }))
    }
}

#[derive(Debug)]
struct EmulatedStep {
    plan: DecodePlan,
    memory: Memory,
    /// Buffers that lie in tensors: copied in before a run and out after it.
    lying: Vec<(usize, Tensor)>,
    records: bool,
    log: Arc<Log>,
}

impl Step for EmulatedStep {
    fn run(&mut self, states: &[RowState]) -> Result<()> {
        let words: Vec<u8> = states
            .iter()
            .flat_map(|state| state.words())
            .flat_map(u32::to_ne_bytes)
            .collect();
        self.write(Role::of(Name::State, 0), 0, &words)?;
        for (number, tensor) in &self.lying {
            self.memory.write(*number, 0, &bytes_of(tensor)?);
        }
        for planned in &self.plan.launches {
            let ran = run(&planned.launch, &mut self.memory, Schedule::default());
            ran.unwrap_or_else(|fault| panic!("{:?}: {fault}", planned.part));
        }
        for (number, tensor) in &self.lying {
            let bytes = self.memory.to_bytes(*number);
            let written = Tensor::from_raw_buffer(&bytes, tensor.dtype(), tensor.dims(), &Device::Cpu)?;
            tensor.slice_set(&written, 0, 0)?;
        }
        self.log.runs.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn capture(&mut self) -> Result<()> {
        self.log.captures.fetch_add(1, Ordering::Relaxed);
        match self.records {
            true => Ok(()),
            false => bail!("nothing records here"),
        }
    }

    fn write(&mut self, role: Role, from: usize, bytes: &[u8]) -> Result<()> {
        let number = self.plan.buffer(role).unwrap();
        assert!(from + bytes.len() <= self.plan.buffers[number].bytes, "{role:?}");
        self.memory.write(number, from, bytes);
        Ok(())
    }

    fn read(&mut self, role: Role) -> Result<Vec<u8>> {
        Ok(self.memory.to_bytes(self.plan.buffer(role).unwrap()))
    }
}

fn keeping(spec: &BufferSpec) -> Keeping {
    spec.role.name.keeping()
}

fn bytes_of(tensor: &Tensor) -> Result<Vec<u8>> {
    let flat = tensor.flatten_all()?;
    Ok(match tensor.dtype() {
        DType::F32 => flat.to_vec1::<f32>()?.into_iter().flat_map(f32::to_ne_bytes).collect(),
        DType::BF16 => flat
            .to_vec1::<bf16>()?
            .into_iter()
            .flat_map(bf16::to_ne_bytes)
            .collect(),
        DType::F16 => flat.to_vec1::<f16>()?.into_iter().flat_map(f16::to_ne_bytes).collect(),
        other => bail!("{other:?}"),
    })
}
