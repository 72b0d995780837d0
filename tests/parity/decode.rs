//! Greedy continuations through the cache: full, windowed, with pinned positions; log-probabilities; the end id.

use candle_core::{Device, Tensor};
use needle_core::{DecodeOptions, Flow, Overflow, Session, StopReason, Window, generate};
use serde_json::Value;

use super::{LOGITS, expect_close, model};
use crate::golden;

/// Longer than any golden.
const WHOLE: usize = 256;

#[test]
fn every_greedy_continuation_and_its_logits() {
    for name in ["a64", "b96", "c48"] {
        let model = model(&format!("gen2/checkpoints/{name}.safetensors"));
        let golden = golden::tensors(&format!("gen2/decode/{name}.safetensors"));
        for case in cases(name)
            .iter()
            .filter(|case| golden.contains_key(&format!("{}.ids", text(case, "case"))))
        {
            let (tag, sinks) = (text(case, "case"), number(case, "sink_len"));
            let size = Some(number(case, "kv_window"))
                .filter(|&size| size > 0)
                .unwrap_or(WHOLE);
            let prompt = ids(&golden[&format!("{tag}.prompt")]);
            let mut session = Session::with_window(&model, Window { size, sinks }).unwrap();
            let mut found = vec![session.extend(&prompt).unwrap()];
            for id in &ids(&golden[&format!("{tag}.ids")])[..47] {
                found.push(session.extend(&[*id]).unwrap());
            }
            let picked: Vec<u32> = found.iter().map(|row| argmax(row)).collect();
            assert_eq!(picked, ids(&golden[&format!("{tag}.ids")]), "{name} {tag}");
            let found = Tensor::new(found, &Device::Cpu).unwrap();
            expect_close(
                &format!("{name} {tag}"),
                &found,
                &golden[&format!("{tag}.logits")],
                LOGITS,
            );
        }
    }
}

#[test]
fn a_completion_stops_at_the_end_id_by_itself() {
    let model = model("gen2/checkpoints/b96.safetensors");
    let case = cases("b96")
        .into_iter()
        .find(|case| text(case, "case") == "stops_at_end_id")
        .unwrap();
    let completion = generate(
        &mut Session::new(&model).unwrap(),
        &list(&case["prompt"]),
        &DecodeOptions::until(&[1]),
        |_| Flow::Continue,
    );
    let completion = completion.unwrap();
    assert_eq!(completion.ids, list(&case["ids"]));
    assert_eq!(completion.stop, StopReason::End);
}

#[test]
fn log_probabilities_of_the_reference_batch() {
    let model = model("gen2/checkpoints/a64.safetensors");
    for case in cases("a64")
        .iter()
        .filter(|case| text(case, "case").starts_with("left_padded_batch"))
    {
        let size = Some(number(case, "kv_window"))
            .filter(|&size| size > 0)
            .unwrap_or(WHOLE);
        for row in case["rows"].as_array().unwrap() {
            let mut prompt = vec![2];
            prompt.extend(list(&row["prompt_without_bos"]));
            let mut session = Session::with_window(&model, Window { size, sinks: 0 }).unwrap();
            let options = DecodeOptions {
                max_new_tokens: number(case, "max_new_tokens"),
                overflow: Overflow::Slide,
                ..DecodeOptions::until(&[1])
            };
            let completion = generate(&mut session, &prompt, &options, |_| Flow::Continue).unwrap();
            assert_eq!(completion.ids, list(&row["ids"]), "{}", text(case, "case"));
            let golden: Vec<f32> = row["token_logprobs"]
                .as_array()
                .unwrap()
                .iter()
                .map(|p| p.as_f64().unwrap() as f32)
                .collect();
            for (found, golden) in completion.logprobs.iter().zip(&golden) {
                assert!(
                    (found - golden).abs() < 2e-5,
                    "{}: {found} and {golden}",
                    text(case, "case")
                );
            }
        }
    }
}

fn cases(name: &str) -> Vec<Value> {
    golden::json(&format!("gen2/decode/{name}.json"))["cases"]
        .as_array()
        .unwrap()
        .clone()
}

fn text(case: &Value, key: &str) -> String {
    case[key].as_str().unwrap().to_owned()
}

fn number(case: &Value, key: &str) -> usize {
    case[key].as_u64().unwrap() as usize
}

fn list(ids: &Value) -> Vec<u32> {
    ids.as_array()
        .unwrap()
        .iter()
        .map(|id| id.as_u64().unwrap() as u32)
        .collect()
}

fn ids(golden: &Tensor) -> Vec<u32> {
    golden
        .to_vec1::<i32>()
        .unwrap()
        .into_iter()
        .map(|id| id as u32)
        .collect()
}

fn argmax(row: &[f32]) -> u32 {
    (0..row.len()).rev().max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap() as u32
}
