//! Runs every case of needle-kernels on the first Apple GPU: the same launches, buffers and expectations as in the
//! emulator. Says what differs, and fails when something does.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::{error::Error, process::ExitCode};

use candle_core::Device;
use needle_kernels::cases::{self, Extent};
use needle_metal::Pipelines;

/// Exponentials and roots of the device are less exact than the host's.
const DIFFERENCE_MAX: f64 = 4.0;

fn main() -> ExitCode {
    match check() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(wrong) => {
            eprintln!("error: {wrong} cases are wrong");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn check() -> Result<usize, Box<dyn Error>> {
    let device = Device::new_metal(0)?;
    let pipelines = Pipelines::new(device.as_metal_device()?);
    let cases = cases::all(Extent::Quick)?;
    let mut wrong = 0;
    for case in &cases {
        let mut buffers: Vec<Vec<u8>> = (0..case.memory.count())
            .map(|buffer| case.memory.to_bytes(buffer))
            .collect();
        needle_metal::run_on_bytes(&pipelines, &case.launch, &mut buffers)?;
        let mut memory = case.memory.clone();
        for (buffer, bytes) in buffers.iter().enumerate() {
            memory.write(buffer, 0, bytes);
        }
        let difference = case.difference(&memory);
        if difference > DIFFERENCE_MAX {
            println!("{}: {difference} times what is allowed", case.name);
            wrong += 1;
        }
    }
    println!("{} cases, {wrong} wrong", cases.len());
    Ok(wrong)
}
