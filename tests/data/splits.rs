//! Splits: repeatable, nothing on both sides, every kind on both.

use std::collections::HashSet;

use needle_core::data::Split;

use super::{read, rows};

fn queries(rows: &[needle_core::data::Row]) -> HashSet<String> {
    rows.iter().map(|row| row.example.query.to_lowercase()).collect()
}

fn lines(split: &Split) -> [Vec<usize>; 2] {
    [&split.train, &split.held_out].map(|rows| rows.iter().map(|row| row.line).collect())
}

#[test]
fn the_same_seed_holds_out_the_same_rows() {
    let data = read(&rows(200));
    assert_eq!(lines(&data.split(0.1, 7)), lines(&data.split(0.1, 7)));
    assert_ne!(lines(&data.split(0.1, 7)), lines(&data.split(0.1, 8)));
    let split = data.split(0.1, 7);
    assert_eq!((split.train.len(), split.held_out.len()), (180, 20));
    assert!(lines(&split).iter().all(|lines| lines.is_sorted()));
}

#[test]
fn rows_that_ask_the_same_stay_together() {
    let twice = format!("{}\n{}", rows(50), rows(50).replace("now", "Now!"));
    let data = read(&twice);
    for seed in 0..20 {
        let split = data.split(0.2, seed);
        assert_eq!(split.train.len() + split.held_out.len(), 100);
        assert_eq!(split.held_out.len(), 20);
        let stems = |rows: &[needle_core::data::Row]| -> HashSet<String> {
            queries(rows).into_iter().map(|query| query.replace('!', "")).collect()
        };
        assert!(stems(&split.train).is_disjoint(&stems(&split.held_out)));
    }
}

#[test]
fn every_kind_gives_its_share() {
    let mut text = rows(80);
    for number in 0..20 {
        text += &format!("\n{{\"query\":\"joke {number} please\",\"tools\":[{{\"name\":\"ping\"}}],\"answers\":[]}}");
    }
    let data = read(&text);
    for seed in 0..20 {
        let held = data.split(0.2, seed).held_out;
        let refusals = held.iter().filter(|row| row.calls.is_empty()).count();
        assert_eq!((held.len(), refusals), (20, 4), "seed {seed}");
    }
}

#[test]
fn small_sets_and_extreme_shares_leave_something_to_train_on() {
    for (count, fraction, held) in [
        (0, 0.1, 0),
        (1, 0.5, 0),
        (2, 0.01, 1),
        (3, 0.1, 1),
        (10, 1.0, 9),
        (10, 0.0, 0),
        (10, f64::NAN, 0),
        (10, -1.0, 0),
        (10, 5.0, 9),
    ] {
        let split = read(&rows(count)).split(fraction, 1);
        assert_eq!(
            (split.held_out.len(), split.train.len()),
            (held, count - held),
            "{count} {fraction}"
        );
    }
    // One question asked 32 times (A7) cannot be cut.
    let same = vec![rows(1); 32].join("\n");
    assert_eq!(read(&same).split(0.1, 0).held_out.len(), 0);
}
