//! The 16-bit numerics beside float32, on every instruction set.

use std::{path::Path, sync::Arc};

use needle_core::{
    Checkpoint, Window,
    cpu::{CachePrecision, CpuModel, CpuOptions, CpuState, Isa, Numerics},
    json,
    prompt::{IM_END, Prompt},
};

use super::{ARCHIVES, CHECKPOINTS, argmax, deviation, ids, logits, model, options, state, tokens, values};
use crate::golden;

#[test]
fn sixteen_bits_stay_close_to_the_goldens() {
    for isa in Isa::all() {
        for name in ARCHIVES {
            let options = CpuOptions {
                isa,
                ..options(Numerics::Fast)
            };
            let model = model(&format!("gen2/cact/{name}.cact"), options);
            let golden = golden::tensors(&format!("gen2/cact/{name}.logits.safetensors"));
            for t in [7, 33] {
                let found = logits(&mut state(&model), &ids(&golden[&format!("len{t}.tokens")]));
                let golden = values(&golden[&format!("len{t}.logits")]);
                let (largest, mean) = deviation(&found[found.len() - golden.len()..], &golden);
                println!("{isa} {name} len{t}: largest {largest:.1e}, mean {mean:.1e}");
                assert!(
                    largest < 2e-3 && mean < 3e-4,
                    "{isa} {name} len{t}: {largest:.1e}, {mean:.1e}"
                );
            }
        }
    }
}

#[test]
fn greedy_texts_are_the_same_in_both_numerics() {
    let lines = String::from_utf8(golden::bytes("gen2/cact/tok64_w4.text.jsonl")).unwrap();
    for numerics in [Numerics::Exact, Numerics::Fast] {
        let model = model("gen2/cact/tok64_w4.cact", options(numerics));
        for line in lines.lines() {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            let list = |key: &str| -> Vec<u32> {
                let ids = line[key].as_array().unwrap().iter();
                ids.map(|id| id.as_u64().unwrap() as u32).collect()
            };
            let mut state = state(&model);
            let mut next = argmax(state.extend(&list("prompt_ids")).unwrap());
            for expected in list("ids") {
                assert_eq!(next, expected, "{numerics:?}");
                next = argmax(state.extend(&[next]).unwrap());
            }
        }
    }
}

#[test]
fn both_numerics_pick_the_same_after_every_token_of_the_goldens() {
    for name in ARCHIVES {
        let golden = golden::tensors(&format!("gen2/cact/{name}.logits.safetensors"));
        let picked = [Numerics::Exact, Numerics::Fast].map(|numerics| {
            let model = model(&format!("gen2/cact/{name}.cact"), options(numerics));
            let v = model.config().vocab_size;
            let texts = ["len7", "len33"].map(|length| ids(&golden[&format!("{length}.tokens")]));
            let rows = texts.iter().flat_map(|text| logits(&mut state(&model), text));
            rows.collect::<Vec<f32>>().chunks(v).map(argmax).collect::<Vec<u32>>()
        });
        assert_eq!(picked[0], picked[1], "{name}");
    }
    for name in CHECKPOINTS {
        let golden = golden::tensors(&format!("gen2/decode/{name}.safetensors"));
        let model = model(&format!("gen2/checkpoints/{name}.safetensors"), options(Numerics::Fast));
        let mut state = state(&model);
        let mut next = argmax(state.extend(&ids(&golden["full_p24.prompt"])).unwrap());
        for expected in ids(&golden["full_p24.ids"]) {
            assert_eq!(next, expected, "{name}");
            next = argmax(state.extend(&[next]).unwrap());
        }
    }
}

/// Why the 16-bit numerics are the default.
#[test]
fn two_hundred_prompts_of_the_demo_model_are_answered_alike() {
    let checkpoint = Checkpoint::demo().unwrap();
    let tokenizer = checkpoint.tokenizer().unwrap();
    let [exact, fast] = [Numerics::Exact, Numerics::Fast].map(|numerics| {
        Arc::new(CpuModel::load_with(&checkpoint.config, &checkpoint.weights, options(numerics)).unwrap())
    });
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let read = |name: &str| std::fs::read_to_string(examples.join(name)).unwrap();
    let queries: Vec<serde_json::Value> = read("queries.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let openings = ["", "please ", "now ", "could you ", "hey, ", "next: ", "ok, "];
    let prompts = openings
        .iter()
        .flat_map(|opening| queries.iter().map(move |query| (opening, query)));
    let end = [tokenizer.eos_id(), tokenizer.id(IM_END).unwrap()];
    let mut tokens = 0;
    for (opening, query) in prompts.take(200) {
        let tools: serde_json::Value = serde_json::from_str(&read(query["tools"].as_str().unwrap())).unwrap();
        let text = format!("{opening}{}", query["query"].as_str().unwrap());
        let prompt = Prompt {
            system: None,
            tools: &json::compact(&tools),
            query: &text,
        };
        let prompt = prompt.render().encode(&tokenizer).ids;
        let [exact, fast] = [&exact, &fast].map(|model| {
            let mut state = CpuState::new(model, Window { size: 512, sinks: 0 }).unwrap();
            let mut picked = vec![argmax(state.extend(&prompt).unwrap())];
            while picked.len() < 64 && !end.contains(&picked[picked.len() - 1]) {
                picked.push(argmax(state.extend(&picked[picked.len() - 1..]).unwrap()));
            }
            picked
        });
        assert_eq!(exact, fast, "{text}");
        tokens += exact.len();
    }
    assert!(tokens > 2000, "{tokens} tokens say little");
}

#[test]
fn a_cache_of_bytes_stays_near_float32() {
    for name in ARCHIVES {
        let file = format!("gen2/cact/{name}.cact");
        let float = model(&file, options(Numerics::Exact));
        let cache = Some(CachePrecision::Int8);
        let bytes = model(
            &file,
            CpuOptions {
                cache,
                ..options(Numerics::Exact)
            },
        );
        let tokens = tokens(60, float.config().vocab_size as u32);
        let [float, bytes] = [float, bytes].map(|model| logits(&mut state(&model), &tokens));
        let (largest, mean) = deviation(&bytes, &float);
        assert!(largest > 0.0, "{name}: stored as floats after all");
        println!("{name}: largest {largest:.1e}, mean {mean:.1e}");
        assert!(largest < 0.05 && mean < 0.01, "{name}: {largest:.1e}, {mean:.1e}");
    }
}
