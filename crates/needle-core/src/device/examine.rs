//! Whether the devices compute: a small product on each, whose result every type holds exactly.

use candle_core::{DType, Tensor};
use serde::Serialize;

use super::{
    Refusal, Selected, Target, driver,
    machine::{Backend, Machine},
};

/// One device, and whether it computes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The device, such as `cpu` or `cuda:0`.
    pub device: String,
    /// The types that it was tried in.
    pub dtypes: Vec<&'static str>,
    /// What is wrong with it; nothing where every result is right.
    pub fault: Option<String>,
}

/// Computes on every device that answers.
pub fn examine() -> Vec<Check> {
    let machine = Machine::probe();
    let present = |backend: &Backend| match backend {
        Backend::Present { devices } => devices.len(),
        Backend::NotCompiled | Backend::Unavailable(_) => 0,
    };
    let cuda = (0..present(&machine.cuda)).map(Target::Cuda);
    let metal = (0..present(&machine.metal)).map(Target::Metal);
    let targets = std::iter::once(Target::Cpu).chain(cuda).chain(metal);
    targets.map(|target| check(&machine, target)).collect()
}

fn check(machine: &Machine, target: Target) -> Check {
    let opened = machine.offers(target).and_then(|()| driver::open(target));
    let (dtypes, fault) = match opened.map(|opened| Selected::new(target, opened)) {
        Ok(selected) => {
            let mut dtypes = vec![DType::F32];
            dtypes.extend((selected.dtype != DType::F32).then_some(selected.dtype));
            let fault = dtypes.iter().find_map(|dtype| {
                let product = driver::guarded(|| {
                    product(&selected, *dtype).map_err(|error| Refusal::of(super::first_line(&error.to_string())))
                });
                product
                    .err()
                    .map(|refusal| format!("{}: {}", dtype.as_str(), refusal.reason))
            });
            (dtypes, fault)
        }
        Err(refusal) => (Vec::new(), Some(refusal.reason)),
    };
    Check {
        device: target.to_string(),
        dtypes: dtypes.into_iter().map(|dtype| dtype.as_str()).collect(),
        fault,
    }
}

/// `x` times the matrix that turns the order of its columns around.
fn product(selected: &Selected, dtype: DType) -> candle_core::Result<()> {
    const SIDE: usize = 8;
    let device = &selected.device;
    let numbers: Vec<f32> = (0u8..64).map(f32::from).collect();
    let turn: Vec<f32> = (0..64)
        .map(|at| if at / SIDE + at % SIDE == SIDE - 1 { 1.0 } else { 0.0 })
        .collect();
    let tensor = |numbers: &[f32]| Tensor::from_slice(numbers, (SIDE, SIDE), device)?.to_dtype(dtype);
    let found = tensor(&numbers)?
        .matmul(&tensor(&turn)?)?
        .to_dtype(DType::F32)?
        .flatten_all()?
        .to_vec1::<f32>()?;
    let expected = numbers.chunks(SIDE).flat_map(|row| row.iter().rev());
    if !found.iter().eq(expected) {
        candle_core::bail!("a product is wrong");
    }
    Ok(())
}
