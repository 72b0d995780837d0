//! `needle inspect`: what a model file or an adapter holds.

use std::{
    io::{self, Write},
    path::Path,
};

use anyhow::Result;
use needle_core::{
    Checkpoint, Config,
    checkpoint::{Adapter, Encoding, FormatKind, Record},
    quant::CodeWidth,
};
use serde_json::{Value, json};

use crate::{args::InspectArgs, input, progress::Progress};

pub(crate) fn run(args: &InspectArgs) -> Result<()> {
    let mut out = io::stdout().lock();
    let described = match input::checkpoint(Some(&args.file), &Progress::stderr()) {
        Ok(checkpoint) => model(&checkpoint)?,
        // An adapter is no checkpoint; where the file is neither, the checkpoint's error says more.
        Err(error) => match Adapter::open(Path::new(&args.file)) {
            Ok(found) => adapter(&found),
            Err(_) => return Err(error),
        },
    };
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&described)?)?;
    } else {
        text(&mut out, &described)?;
    }
    Ok(())
}

fn model(checkpoint: &Checkpoint) -> Result<Value> {
    let Checkpoint { config, format, .. } = checkpoint;
    let kind = match format.kind {
        FormatKind::Cact => "cact",
        FormatKind::Safetensors => "safetensors",
        FormatKind::Pickle => "pickle",
    };
    let tokenizer = match &checkpoint.tokenizer_blob {
        Some(_) => json!({ "pieces": checkpoint.tokenizer()?.vocab_size() }),
        None => Value::Null,
    };
    let records: Vec<Value> = format.records.iter().map(record).collect();
    Ok(json!({
        "file": checkpoint.path.display().to_string(),
        "format": kind,
        "version": format.version,
        "generation": format.generation.number(),
        "size_bytes": format.size_bytes,
        "geometry": geometry(config),
        "tokenizer": tokenizer,
        "heads": format.heads,
        "step": format.step,
        "run": format.run,
        "tensors": records,
    }))
}

fn geometry(config: &Config) -> Value {
    json!({
        "vocab_size": config.vocab_size, "out_vocab": config.out_vocab, "d_model": config.d_model,
        "num_layers": config.num_layers, "num_heads": config.num_heads, "num_kv_heads": config.num_kv_heads,
        "qk_head_dim": config.qk_head_dim, "v_head_dim": config.v_head_dim, "mhc_lanes": config.mhc_lanes,
        "max_seq_len": config.max_seq_len, "kv_window": config.effective_kv_window(), "rope_theta": config.rope_theta,
        "engram_layers": config.engram.layers, "engram_orders": config.engram.orders,
        "engram_tables": config.engram_tables(), "engram_slots": config.engram.slots,
    })
}

fn record(record: &Record) -> Value {
    let (stored, group) = match record.encoding {
        Encoding::Float(dtype) => (dtype.as_str().to_owned(), None),
        Encoding::Packed { width, group } => (bits(width).to_owned(), Some(group)),
        Encoding::Raw => ("raw".to_owned(), None),
    };
    json!({
        "name": record.name, "stored": stored, "group": group, "shape": record.shape,
        "offset": record.offset, "size_bytes": record.size_bytes,
    })
}

fn bits(width: CodeWidth) -> &'static str {
    match width {
        CodeWidth::Binary => "1-bit",
        CodeWidth::Ternary => "ternary",
        CodeWidth::Two => "2-bit",
        CodeWidth::Three => "3-bit",
        CodeWidth::Four => "4-bit",
    }
}

fn adapter(adapter: &Adapter) -> Value {
    json!({
        "format": "adapter", "rank": adapter.rank, "scale": adapter.scale, "base": adapter.base,
        "tensors": adapter.pairs.keys().collect::<Vec<_>>(),
    })
}

/// Facts one a line, lists of plain values in one, tensors as a table.
fn text(out: &mut impl Write, described: &Value) -> Result<()> {
    for (key, value) in described
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, _)| *key != "tensors")
    {
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                writeln!(out, "{key}")?;
                for (key, value) in fields {
                    writeln!(out, "  {key:<16}{}", plain(value))?;
                }
            }
            _ => writeln!(out, "{key:<18}{}", plain(value))?,
        }
    }
    let tensors = described["tensors"].as_array().map_or(&[][..], Vec::as_slice);
    writeln!(out, "tensors {:>9}", tensors.len())?;
    for tensor in tensors {
        match tensor {
            Value::String(name) => writeln!(out, "  {name}")?,
            tensor => {
                let group = tensor["group"]
                    .as_u64()
                    .map(|group| format!("/{group}"))
                    .unwrap_or_default();
                let stored = format!("{}{group}", plain(&tensor["stored"]));
                let (name, shape) = (plain(&tensor["name"]), plain(&tensor["shape"]));
                writeln!(
                    out,
                    "  {name:<40} {stored:<11} {shape:<18} {:>10} bytes",
                    plain(&tensor["size_bytes"])
                )?;
            }
        }
    }
    Ok(())
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null | Value::Object(_) => "none".into(),
        Value::String(text) => text.clone(),
        Value::Array(values) if values.is_empty() => "none".into(),
        Value::Array(values) => values.iter().map(plain).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}
