//! Models out of archives, at every mix of bits: logits, cells, heads, and text through the archive's own tokenizer.

use needle_core::{Checkpoint, DecodeOptions, Flow, Session, generate, ops::Mask};

use super::{LOGITS, expect_close, model, rows};
use crate::golden;

const ARCHIVES: [&str; 5] = ["a64_mixed", "b96_mixed_group32", "c48_w2", "tok64_w2", "tok64_w4"];

#[test]
fn logits_cells_and_heads_of_every_archive() {
    for name in ARCHIVES {
        let model = model(&format!("gen2/cact/{name}.cact"));
        let golden = golden::tensors(&format!("gen2/cact/{name}.logits.safetensors"));
        for t in [7, 33] {
            let logits = model
                .forward(&rows(&golden[&format!("len{t}.tokens")]), &Mask::causal(t))
                .unwrap();
            // Archives with a large vocabulary keep the golden of the last rows only.
            let (_, last, _) = golden[&format!("len{t}.logits")].dims3().unwrap();
            let logits = logits.narrow(1, t - last, last).unwrap();
            expect_close(
                &format!("{name} len{t}"),
                &logits,
                &golden[&format!("len{t}.logits")],
                LOGITS,
            );
        }
        if let Some(cells) = golden.get("len33.cells") {
            let found = model.cells(&rows(&golden["len33.tokens"]), &Mask::causal(33)).unwrap();
            expect_close(&format!("{name} cells"), &found, cells, LOGITS);
        }
        let (tokens, keep) = (rows(&golden["len30.tokens"]), vec![vec![true; 30]]);
        let found = model.contrastive(&tokens, &keep, &Mask::causal(30)).unwrap().unwrap();
        expect_close(
            &format!("{name} contrastive"),
            &found,
            &golden["len30.contrastive"],
            LOGITS,
        );
        let found = model.confidence(&tokens, &keep, &Mask::causal(30)).unwrap().unwrap();
        expect_close(
            &format!("{name} confidence"),
            &found,
            &golden["len30.confidence"],
            LOGITS,
        );
    }
}

#[test]
fn text_in_and_text_out() {
    let checkpoint = Checkpoint::open(&golden::path("gen2/cact/tok64_w4.cact")).unwrap();
    let tokenizer = checkpoint.tokenizer().unwrap();
    let model = model("gen2/cact/tok64_w4.cact");
    let lines = String::from_utf8(golden::bytes("gen2/cact/tok64_w4.text.jsonl")).unwrap();
    for line in lines.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let list = |key: &str| -> Vec<u32> {
            line[key]
                .as_array()
                .unwrap()
                .iter()
                .map(|id| id.as_u64().unwrap() as u32)
                .collect()
        };
        let mut prompt = vec![tokenizer.bos_id()];
        prompt.extend(tokenizer.encode(line["prompt"].as_str().unwrap()));
        assert_eq!(prompt, list("prompt_ids"));
        let options = DecodeOptions {
            max_new_tokens: list("ids").len(),
            ..DecodeOptions::until(&[])
        };
        let completion = generate(&mut Session::new(&model).unwrap(), &prompt, &options, |_| {
            Flow::Continue
        })
        .unwrap();
        assert_eq!(completion.ids, list("ids"));
        assert_eq!(tokenizer.decode(&completion.ids), line["text"].as_str().unwrap());
    }
    assert_eq!(lines.lines().count(), 4);
}
