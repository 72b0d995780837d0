//! Sequences that change between passes and steps, go back, fork and join a batch, against tensors alone.

use candle_core::DType;
use needle_core::{
    DecodeOptions, Flow, Session, Window, generate,
    gpu::{GpuBatch, GpuOptions, GpuState, Recording},
};

use super::{WHOLE, close, emulated, one_by_one, text};
use crate::golden;

const ARCHIVE: &str = "gen2/cact/a64_mixed.cact";
const LIMIT: f32 = 2e-5;

const WINDOWS: [Window; 3] = [WHOLE, Window { size: 11, sinks: 0 }, Window { size: 9, sinks: 4 }];

#[test]
fn passes_and_steps_take_turns() {
    let (model, _) = emulated(ARCHIVE, DType::F32, GpuOptions::default());
    for window in WINDOWS {
        let mut mixed = Session::on_gpu(&model, window).unwrap();
        let mut plain = Session::with_window(model.tensors(), window).unwrap();
        let mut rest = &text(75, 3)[..];
        // Steps from the very first token on, then passes of more tokens than a step takes, single ones between.
        for count in [1, 1, 14, 1, 3, 9, 8, 1, 20, 2, 1, 10, 1] {
            let (tokens, after) = rest.split_at(count);
            let found = mixed.extend_all(tokens).unwrap();
            let expected = plain.extend_all(tokens).unwrap();
            for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
                close(&format!("{window:?} {count} {i}"), found, expected, LIMIT);
            }
            rest = after;
        }
        assert_eq!((rest.len(), mixed.position()), (3, 72));
    }
}

#[test]
fn a_sequence_goes_back_to_a_mark_from_either_side() {
    let (model, _) = emulated(ARCHIVE, DType::F32, GpuOptions::default());
    let (start, branch, other) = (text(17, 5), text(6, 6), text(12, 7));
    let expected = |tokens: &[&[u32]]| {
        let mut session = Session::with_window(model.tensors(), WHOLE).unwrap();
        session.extend(&tokens.concat()).unwrap()
    };
    // The mark after a pass, then after steps; the way on by steps, then by a pass.
    for steps_before in [0, 4] {
        let mut session = Session::on_gpu(&model, WHOLE).unwrap();
        let (pass, steps) = start.split_at(start.len() - steps_before);
        session.extend(pass).unwrap();
        one_by_one(&mut session, steps);
        let mark = session.mark();
        assert_eq!(mark.position(), start.len());
        let mut fork = session.fork().unwrap();
        for way in [&branch, &other, &branch] {
            let found = session.extend(way).unwrap();
            close("after a mark", &found, &expected(&[&start, way]), LIMIT);
            session.rewind(&mark).unwrap();
            assert_eq!(session.position(), start.len());
        }
        close(
            "fork",
            &fork.extend(&branch).unwrap(),
            &expected(&[&start, &branch]),
            LIMIT,
        );
        let both = expected(&[&start, &branch, &other]);
        close("fork, further", &fork.extend(&other).unwrap(), &both, LIMIT);
    }
    let mut moved = Session::on_gpu(&model, Window { size: 6, sinks: 0 }).unwrap();
    one_by_one(&mut moved, &start[..4]);
    let mark = moved.mark();
    one_by_one(&mut moved, &start[4..8]);
    let error = moved.rewind(&mark).unwrap_err().to_string();
    assert!(error.contains("position 4 cannot be restored from 8"), "{error}");
}

#[test]
fn rows_of_a_batch_go_on_where_their_sequences_stood() {
    let (model, _) = emulated(ARCHIVE, DType::F32, GpuOptions::default());
    for window in WINDOWS {
        // After a pass, after steps, and at the beginning.
        let texts = [text(13, 8), text(3, 9), Vec::new()];
        let states: Vec<GpuState> = texts
            .iter()
            .map(|tokens| {
                let mut state = GpuState::new(&model, window).unwrap();
                if !tokens.is_empty() {
                    state.absorb(tokens).unwrap();
                }
                state
            })
            .collect();
        let mut batch = GpuBatch::of(&states.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!(batch.positions(), [13, 3, 0]);
        let mut plain: Vec<Session> = texts
            .iter()
            .map(|tokens| {
                let mut session = Session::with_window(model.tensors(), window).unwrap();
                if !tokens.is_empty() {
                    session.absorb(tokens).unwrap();
                }
                session
            })
            .collect();
        for i in 0..14u32 {
            let tokens = [i * 5 % 90, i * 11 % 90, i * 3 % 90];
            let found = batch.step(&tokens).unwrap();
            for ((found, plain), token) in found.iter().zip(&mut plain).zip(tokens) {
                close(
                    &format!("{window:?} {i}"),
                    found,
                    &plain.extend(&[token]).unwrap(),
                    LIMIT,
                );
            }
        }
        // The sequences themselves stand where they stood.
        assert_eq!(states.iter().map(GpuState::position).collect::<Vec<_>>(), [13, 3, 0]);
    }
}

/// From a text to a text: the loop of every command, on an archive with its own tokenizer.
#[test]
fn text_in_and_text_out() {
    let relative = "gen2/cact/tok64_w4.cact";
    let (model, _) = emulated(relative, DType::F32, GpuOptions::default());
    let lines = String::from_utf8(golden::bytes("gen2/cact/tok64_w4.text.jsonl")).unwrap();
    let line: serde_json::Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    let list = |key: &str| -> Vec<u32> {
        let ids = line[key].as_array().unwrap().iter();
        ids.map(|id| id.as_u64().unwrap() as u32).collect()
    };
    let count = list("ids").len().min(12);
    let options = DecodeOptions {
        max_new_tokens: count,
        ..DecodeOptions::until(&[])
    };
    let mut session = Session::on_gpu(&model, WHOLE).unwrap();
    let completion = generate(&mut session, &list("prompt_ids"), &options, |_| Flow::Continue).unwrap();
    assert_eq!(completion.ids, list("ids")[..count]);
    assert!(
        session
            .gpu()
            .is_some_and(|state| state.recording() == Recording::Replayed)
    );
}

#[test]
fn a_batch_says_what_does_not_fit() {
    let (model, _) = emulated(ARCHIVE, DType::F32, GpuOptions::default());
    let state = |size| GpuState::new(&model, Window { size, sinks: 0 }).unwrap();
    let error = |states: &[&GpuState]| GpuBatch::of(states).unwrap_err().to_string();
    assert!(error(&[]).contains("at least one sequence"));
    assert!(error(&[&state(8), &state(9)]).contains("one model and one window"));
    let mut batch = GpuBatch::of(&[&state(8), &state(8)]).unwrap();
    assert!(
        batch
            .step(&[1])
            .unwrap_err()
            .to_string()
            .contains("2 rows cannot take 1 tokens")
    );
    assert!(
        batch
            .step(&[1, 1_000_000])
            .unwrap_err()
            .to_string()
            .contains("token id 1000000")
    );
    assert_eq!(batch.positions(), [0, 0]);
    let mut state = state(8);
    assert!(
        state
            .extend(&[])
            .unwrap_err()
            .to_string()
            .contains("at least one token")
    );
    assert!(GpuState::new(&model, Window { size: 0, sinks: 3 }).is_err());
}
