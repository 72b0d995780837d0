//! Tokens a second on a device: packed and float weights, batches, and the ways to carry out a step. One JSON object a line,
//! so that whoever reads them has what was measured before time ran out.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use needle_core::{
    Config, DeviceSpec, Session, Window,
    cpu::CpuOptions,
    device::{self, Selected},
    gpu::{Decoding, GpuBatch, GpuOptions, Launching},
    ops::OpForm,
    quant::CodeWidth,
    runner::Runner,
    train::{AdapterShape, Row, TrainOptions, Trainable, Trainer},
};
use serde_json::{Value, json};

use super::random_model::{self, Stored};

const BATCHES: [usize; 3] = [1, 8, 64];
const WEIGHTS: [(&str, Stored); 3] = [
    ("2-bit", Stored::Packed(CodeWidth::Two)),
    ("4-bit", Stored::Packed(CodeWidth::Four)),
    ("bf16", Stored::Floats),
];

/// Tokens that a prompt has, and tokens that are read before decoding is timed.
const PROMPT: usize = 512;
const CONTEXT: usize = 64;
/// Decoding is timed over so many steps, or over so long.
const STEPS: usize = 128;
const LONGEST: Duration = Duration::from_secs(4);

/// `speed DEVICE full|small`.
pub(super) fn run(args: &[&str]) -> Result<()> {
    let (device, config) = match args {
        [device, "full"] => (device, random_model::full()?),
        [device, "small"] => (device, random_model::small()?),
        _ => bail!("expected a device and full or small"),
    };
    let selected = device.parse::<DeviceSpec>()?.open()?;
    say(&json!({ "what": "machine", "report": device::report() }));
    for (name, stored) in WEIGHTS {
        for mode in Mode::ALL {
            let before = device::free_memory(&selected.device);
            let runner = load(&config, stored, &selected, mode)?;
            let after = device::free_memory(&selected.device);
            let loaded = before.zip(after).map(|(before, after)| before.saturating_sub(after));
            for batch in BATCHES {
                let mut line = measured(&runner, mode, batch)?;
                line["what"] = "speed".into();
                line["weights"] = name.into();
                line["dtype"] = runner.dtype().as_str().into();
                line["batch"] = batch.into();
                line["step"] = mode.name().into();
                line["memory_bytes"] = json!(loaded);
                say(&line);
            }
        }
    }
    say(&json!({ "what": "training", "seconds_per_step": training_step(&config, &selected)? }));
    say(&json!({ "what": "process", "peak_ram_mb": device::peak_ram_mb() }));
    Ok(())
}

fn say(line: &Value) {
    println!("{line}");
}

fn load(config: &Config, stored: Stored, selected: &Selected, mode: Mode) -> Result<Runner> {
    let checkpoint = random_model::checkpoint(config.clone(), stored)?;
    let (cpu, gpu) = (CpuOptions::default(), mode.options());
    Ok(Runner::load_with(&checkpoint, selected, selected.dtype, cpu, gpu)?)
}

/// How a decode step is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// One operation after another, as tensors.
    Plain,
    /// The fused kernels, launched one by one.
    Fused,
    /// The fused kernels as a captured graph.
    Graph,
}

impl Mode {
    const ALL: [Self; 3] = [Self::Plain, Self::Fused, Self::Graph];

    fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Fused => "fused",
            Self::Graph => "fused, graph",
        }
    }

    fn options(self) -> GpuOptions {
        let launching = Launching::Single;
        match self {
            Self::Plain => GpuOptions {
                decoding: Decoding::Tensors,
                ops: OpForm::Composed,
                ..GpuOptions::default()
            },
            Self::Fused => GpuOptions {
                launching,
                ..GpuOptions::default()
            },
            Self::Graph => GpuOptions::default(),
        }
    }

    /// Whether the runner computes so: a processor has no fused steps, and a model may have no kernels.
    fn is_offered(self, runner: &Runner) -> bool {
        self == Self::Plain || matches!(runner, Runner::Gpu(_))
    }
}

fn sessions(runner: &Runner, batch: usize) -> Result<Vec<Session>> {
    let size = runner.config().effective_kv_window();
    let open = |_| Ok(runner.session(Window { size, sinks: 0 })?);
    (0..batch).map(open).collect()
}

/// Rows and tokens of the batch that one step of fine-tuning is timed with.
const ROWS: usize = 4;
const ROW_TOKENS: usize = 256;

/// Seconds of one step of fine-tuning, the second of two.
fn training_step(config: &Config, selected: &Selected) -> Result<f64> {
    let model = random_model::checkpoint(config.clone(), Stored::Floats)?;
    let options = TrainOptions::new(Trainable::Adapter(AdapterShape::default()), 2);
    let mut trainer = Trainer::new(&model, selected, options)?;
    let ids = prompt(ROW_TOKENS, config.vocab_size);
    let rows = vec![
        Row {
            ids,
            target_start: ROW_TOKENS / 2
        };
        ROWS
    ];
    let rows: Vec<&Row> = rows.iter().collect();
    trainer.step(&rows)?;
    let start = Instant::now();
    trainer.step(&rows)?;
    Ok(start.elapsed().as_secs_f64())
}

fn measured(runner: &Runner, mode: Mode, batch: usize) -> Result<Value> {
    if !mode.is_offered(runner) {
        let why = runner.notice().unwrap_or("not on this device");
        return Ok(json!({ "prefill_tps": "not offered", "decode_tps": "not offered", "why": why }));
    }
    let vocab = runner.config().vocab_size;
    // A first pass loads kernels and fills pools.
    let mut readers = sessions(runner, batch)?;
    for session in &mut readers {
        session.extend(&prompt(CONTEXT, vocab))?;
    }
    let fresh = sessions(runner, batch)?;
    let prompt_tokens = PROMPT.min(fresh.first().map_or(PROMPT, |session| session.window().size));
    let prefill = prefill(fresh, &prompt(prompt_tokens, vocab))?;
    let states: Vec<_> = readers.iter().filter_map(Session::gpu).collect();
    if states.is_empty() || mode == Mode::Plain {
        return Ok(json!({ "prefill_tps": prefill, "decode_tps": decode(readers, vocab)? }));
    }
    let (decode, recording) = decode_together(GpuBatch::of(&states)?, batch, vocab)?;
    Ok(json!({ "prefill_tps": prefill, "decode_tps": decode, "recording": recording }))
}

fn prompt(tokens: usize, vocab: usize) -> Vec<u32> {
    (0..tokens).map(|at| ((at * 7919 + 13) % vocab) as u32).collect()
}

/// Tokens of prompts read a second. The logits that end each prompt make sure that it was.
fn prefill(sessions: Vec<Session>, prompt: &[u32]) -> Result<f64> {
    let start = Instant::now();
    let mut read = 0;
    for mut session in sessions {
        session.extend(prompt)?;
        read += prompt.len();
        if start.elapsed() > LONGEST {
            break;
        }
    }
    Ok(read as f64 / start.elapsed().as_secs_f64())
}

/// Tokens written a second by all sequences together, each the likeliest.
fn decode(mut sessions: Vec<Session>, vocab: usize) -> Result<f64> {
    let mut tokens = vec![1u32; sessions.len()];
    let start = Instant::now();
    let mut written = 0;
    'steps: for _ in 0..STEPS {
        for (session, token) in sessions.iter_mut().zip(&mut tokens) {
            let logits = session.extend(&[*token])?;
            *token = likeliest(&logits)? % vocab as u32;
            written += 1;
            if start.elapsed() > LONGEST {
                break 'steps;
            }
        }
    }
    Ok(f64::from(written) / start.elapsed().as_secs_f64())
}

/// The same by one step for all of them, and what became of its recording as a graph.
fn decode_together(mut batch: GpuBatch, rows: usize, vocab: usize) -> Result<(f64, String)> {
    let mut tokens = vec![1u32; rows];
    let start = Instant::now();
    let mut written = 0;
    for _ in 0..STEPS {
        for (logits, token) in batch.step(&tokens)?.iter().zip(&mut tokens) {
            *token = likeliest(logits)? % vocab as u32;
            written += 1;
        }
        if start.elapsed() > LONGEST {
            break;
        }
    }
    Ok((
        f64::from(written) / start.elapsed().as_secs_f64(),
        format!("{:?}", batch.recording()),
    ))
}

fn likeliest(logits: &[f32]) -> Result<u32> {
    if logits.iter().any(|logit| !logit.is_finite()) {
        bail!("a logit is no number");
    }
    let best = logits
        .iter()
        .enumerate()
        .max_by(|left, right| left.1.total_cmp(right.1));
    Ok(best.map_or(0, |(token, _)| token as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_small_model_is_measured_on_the_processor() {
        let selected = DeviceSpec::Cpu.open().unwrap();
        let config = random_model::small().unwrap();
        for (name, stored) in WEIGHTS {
            let runner = load(&config, stored, &selected, Mode::Plain).unwrap();
            let line = measured(&runner, Mode::Plain, 2).unwrap();
            let fused = measured(&runner, Mode::Fused, 2).unwrap();
            assert_eq!(fused["decode_tps"], "not offered");
            for rate in ["prefill_tps", "decode_tps"] {
                assert!(line[rate].as_f64().is_some_and(|rate| rate > 0.0), "{name}: {line}");
            }
        }
    }

    #[test]
    fn wrong_arguments_and_devices_are_refused() {
        for args in [&["cpu"][..], &["cpu", "huge"], &["tpu", "small"]] {
            assert!(run(args).is_err(), "{args:?}");
        }
    }
}
