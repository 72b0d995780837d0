//! The 16-bit numerics beside float32, on every instruction set.

use needle_core::cpu::{CachePrecision, CpuOptions, CpuState, Isa, Numerics};

use super::{ARCHIVES, WHOLE, argmax, deviation, ids, logits, model, options, state, tokens, values};
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
    // Archives without a golden text: the two numerics against each other.
    for name in ARCHIVES {
        let relative = format!("gen2/cact/{name}.cact");
        let [exact, fast] = [Numerics::Exact, Numerics::Fast].map(|numerics| model(&relative, options(numerics)));
        for seed in 1..=4 {
            let prompt = tokens(5 * seed, exact.config().vocab_size as u32);
            let [exact, fast] = [&exact, &fast].map(|model| {
                let mut state = state(model);
                let mut picked = vec![argmax(state.extend(&prompt).unwrap())];
                while picked.len() < 32 {
                    picked.push(argmax(state.extend(&picked[picked.len() - 1..]).unwrap()));
                }
                picked
            });
            assert_eq!(exact, fast, "{name}");
        }
    }
}

#[test]
fn a_cache_of_bytes_stays_near_float32() {
    for name in ARCHIVES {
        let model = model(&format!("gen2/cact/{name}.cact"), options(Numerics::Exact));
        let tokens = tokens(60, model.config().vocab_size as u32);
        let float = logits(&mut state(&model), &tokens);
        let mut bytes = CpuState::with_precision(&model, WHOLE, CachePrecision::Int8).unwrap();
        let (largest, mean) = deviation(&logits(&mut bytes, &tokens), &float);
        println!("{name}: largest {largest:.1e}, mean {mean:.1e}");
        assert!(largest < 0.05 && mean < 0.01, "{name}: {largest:.1e}, {mean:.1e}");
    }
}
