//! What holds to the last bit, whatever the weights.

use std::sync::Arc;

use candle_core::{DType, Device};
use needle_core::{DecodeOptions, Error, Flow, Model, Overflow, Session, StopReason, Window, generate, ops::Mask};

use super::model_on;

fn model(relative: &str) -> Arc<Model> {
    model_on(relative, DType::F32, &Device::Cpu)
}

fn tokens(count: usize, vocabulary: u32) -> Vec<u32> {
    (0..count as u32).map(|i| (i * 7919 + 13) % vocabulary).collect()
}

#[test]
fn a_prefill_equals_single_steps() {
    for name in ["a64", "b96", "c48"] {
        let model = model(&format!("gen2/checkpoints/{name}.safetensors"));
        let tokens = tokens(40, 140);
        let at_once = Session::new(&model).unwrap().extend_all(&tokens).unwrap();
        let mut session = Session::new(&model).unwrap();
        for (position, &token) in tokens.iter().enumerate() {
            assert_eq!(
                session.extend(&[token]).unwrap(),
                at_once[position],
                "{name}, position {position}"
            );
        }
        let mut session = Session::new(&model).unwrap();
        for part in tokens.chunks(7) {
            session.extend(part).unwrap();
        }
        assert_eq!(session.extend(&[3]).unwrap(), {
            let mut session = Session::new(&model).unwrap();
            session.extend(&[tokens.as_slice(), &[3]].concat()).unwrap()
        });
    }
}

#[test]
fn a_cached_pass_equals_the_whole_pass() {
    let model = model("gen2/checkpoints/a64.safetensors");
    let tokens = tokens(33, 160);
    let whole = model
        .forward(std::slice::from_ref(&tokens), &Mask::causal(33))
        .unwrap()
        .squeeze(0)
        .unwrap();
    assert_eq!(
        Session::new(&model).unwrap().extend_all(&tokens).unwrap(),
        whole.to_vec2::<f32>().unwrap()
    );
}

#[test]
fn a_batch_equals_its_rows_alone() {
    for name in ["a64", "b96", "c48"] {
        let model = model(&format!("gen2/checkpoints/{name}.safetensors"));
        let rows: Vec<Vec<u32>> = (0..3).map(|row| tokens(20, 140 - row)).collect();
        let batch = model
            .forward(&rows, &Mask::causal(20))
            .unwrap()
            .to_vec3::<f32>()
            .unwrap();
        for (row, logits) in rows.iter().zip(&batch) {
            let alone = model
                .forward(std::slice::from_ref(row), &Mask::causal(20))
                .unwrap()
                .squeeze(0)
                .unwrap();
            assert_eq!(logits, &alone.to_vec2::<f32>().unwrap(), "{name}");
        }
    }
}

#[test]
fn padding_on_the_right_changes_nothing() {
    let model = model("gen2/checkpoints/b96.safetensors");
    let row = tokens(15, 140);
    let padded: Vec<u32> = row.iter().copied().chain([0; 9]).collect();
    let keep = vec![(0..24).map(|t| t < 15).collect()];
    let alone = model.forward(std::slice::from_ref(&row), &Mask::causal(15)).unwrap();
    let batch = model
        .forward(&[padded], &Mask::padded(&keep))
        .unwrap()
        .narrow(1, 0, 15)
        .unwrap();
    assert_eq!(batch.to_vec3::<f32>().unwrap(), alone.to_vec3::<f32>().unwrap());
}

#[test]
fn a_long_pass_through_a_turning_ring_equals_single_steps_closely() {
    let model = model("gen2/checkpoints/a64.safetensors");
    let window = Window { size: 11, sinks: 3 };
    let tokens = tokens(60, 160);
    let mut single = Session::with_window(&model, window).unwrap();
    let single: Vec<Vec<f32>> = tokens.iter().map(|&token| single.extend(&[token]).unwrap()).collect();
    for chunk in [2, 9, 14, 15, 31, 60] {
        let mut session = Session::with_window(&model, window).unwrap();
        let found: Vec<Vec<f32>> = tokens
            .chunks(chunk)
            .flat_map(|part| session.extend_all(part).unwrap())
            .collect();
        // The ring holds its keys in another order, so sums are added in another order.
        for (found, single) in found.iter().flatten().zip(single.iter().flatten()) {
            assert!((found - single).abs() < 1e-5, "chunks of {chunk}: {found} and {single}");
        }
    }
}

#[test]
fn a_rewound_or_forked_session_goes_on_as_if_nothing_had_been() {
    let model = model("gen2/checkpoints/a64.safetensors");
    let mut session = Session::new(&model).unwrap();
    session.extend(&tokens(20, 160)).unwrap();
    let (mark, mut fork) = (session.mark(), session.fork().unwrap());
    session.extend(&[1, 2, 3]).unwrap();
    session.rewind(&mark).unwrap();
    assert_eq!(session.position(), 20);
    assert_eq!(session.extend(&[9, 8]).unwrap(), fork.extend(&[9, 8]).unwrap());
    assert_eq!(session.extend(&[7]).unwrap(), fork.extend(&[7]).unwrap());

    let mut moved = Session::with_window(&model, Window { size: 8, sinks: 2 }).unwrap();
    moved.extend(&tokens(6, 160)).unwrap();
    let mark = moved.mark();
    moved.extend(&tokens(20, 160)).unwrap();
    assert!(
        moved
            .rewind(&mark)
            .unwrap_err()
            .to_string()
            .contains("window has moved")
    );
}

#[test]
fn a_full_window_ends_a_completion_and_refuses_a_prompt() {
    let model = model("gen2/checkpoints/a64.safetensors");
    let window = Window { size: 16, sinks: 0 };
    let session = || Session::with_window(&model, window).unwrap();
    let options = DecodeOptions::until(&[]);
    let completion = generate(&mut session(), &tokens(10, 160), &options, |_| Flow::Continue).unwrap();
    assert_eq!((completion.stop, completion.ids.len()), (StopReason::Window, 6));
    match generate(&mut session(), &tokens(16, 160), &options, |_| Flow::Continue) {
        Err(Error::PromptTooLong { tokens: 16, limit: 15 }) => {}
        other => panic!("{other:?}"),
    }
    let sliding = DecodeOptions {
        overflow: Overflow::Slide,
        max_new_tokens: 30,
        ..options
    };
    let completion = generate(&mut session(), &tokens(16, 160), &sliding, |_| Flow::Continue).unwrap();
    assert_eq!((completion.stop, completion.ids.len()), (StopReason::Budget, 30));
}

#[test]
fn sampling_repeats_with_its_seed_and_a_callback_can_stop() {
    use needle_core::Sampling;
    let model = model("gen2/checkpoints/a64.safetensors");
    let run = |seed| {
        let sampling = Sampling::Random {
            temperature: 1.0,
            top_k: Some(50),
            top_p: Some(0.95),
            seed,
        };
        let options = DecodeOptions {
            sampling,
            max_new_tokens: 20,
            ..DecodeOptions::until(&[])
        };
        generate(&mut Session::new(&model).unwrap(), &tokens(5, 160), &options, |_| {
            Flow::Continue
        })
        .unwrap()
        .ids
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
    let mut seen = Vec::new();
    let stopped = generate(
        &mut Session::new(&model).unwrap(),
        &[2, 3],
        &DecodeOptions::until(&[]),
        |id| {
            seen.push(id);
            if seen.len() == 4 { Flow::Stop } else { Flow::Continue }
        },
    );
    let stopped = stopped.unwrap();
    assert_eq!((stopped.stop, stopped.ids), (StopReason::Caller, seen));
}

#[test]
fn a_token_outside_the_vocabulary_is_named() {
    let model = model("gen2/checkpoints/c48.safetensors");
    let error = Session::new(&model).unwrap().extend(&[140]).unwrap_err().to_string();
    assert!(error.contains("140"), "{error}");
    assert!(Session::new(&model).unwrap().extend(&[]).is_err());
}
