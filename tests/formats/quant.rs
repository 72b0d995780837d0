//! Cactus Quants against the oracle's numbers.

use half::f16;
use needle_core::{
    quant::{CodeWidth, Packed, levels, pack, walsh_hadamard},
    weights::Bytes,
};
use proptest::prelude::*;

use crate::golden;

const WIDTHS: [(CodeWidth, &str); 5] = [
    (CodeWidth::Binary, "1"),
    (CodeWidth::Ternary, "ternary"),
    (CodeWidth::Two, "2"),
    (CodeWidth::Three, "3"),
    (CodeWidth::Four, "4"),
];

#[test]
fn codebooks_equal_the_oracle() {
    let mut compared = 0;
    for file in ["gen2/quant.safetensors", "gen3/quant.safetensors"] {
        for (name, expected) in golden::tensors(file) {
            let Some((book, group)) = name.split_once(".group").filter(|(book, _)| !book.contains('.')) else {
                continue;
            };
            let width = WIDTHS.iter().find(|(_, tag)| book.ends_with(tag)).unwrap().0;
            let expected = expected.to_vec1::<f32>().unwrap();
            assert_eq!(levels(width, group.parse().unwrap()), expected, "{file}: {name}");
            compared += 1;
        }
    }
    assert_eq!(compared, 27);
}

/// The published levels came out of drawn samples: they are near the optimum for a unit Gaussian, where every level is
/// the mean of its cell, `(φ(a) − φ(b)) / (Φ(b) − Φ(a))`.
#[test]
fn codebooks_are_nearly_lloyd_max() {
    let density = |x: f64| (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    for (width, tag) in WIDTHS {
        let levels: Vec<f64> = levels(width, 64).iter().map(|&level| f64::from(level) * 8.0).collect();
        for (i, &level) in levels.iter().enumerate() {
            let low = if i == 0 { -9.0 } else { (levels[i - 1] + level) / 2.0 };
            let high = levels.get(i + 1).map_or(9.0, |next| (level + next) / 2.0);
            // Simpson's rule for the cell's mass and first moment.
            let (steps, mut mass, mut moment) = (2000, 0.0, 0.0);
            for step in 0..=steps {
                let x = low + (high - low) * f64::from(step) / f64::from(steps);
                let weight = if step == 0 || step == steps {
                    1.0
                } else {
                    f64::from(2 + 2 * (step % 2))
                };
                mass += weight * density(x);
                moment += weight * density(x) * x;
            }
            let mean = moment / mass;
            assert!(
                (mean - level).abs() < 0.01,
                "{tag}: level {i} is {level}, its cell's mean {mean}"
            );
        }
    }
}

#[test]
fn rotation_equals_the_oracle() {
    let goldens = golden::tensors("gen2/quant.safetensors");
    for size in [32, 64, 128] {
        let matrix = goldens[&format!("hadamard.{size}")].to_vec2::<f32>().unwrap();
        for (i, expected) in matrix.iter().enumerate() {
            let mut row = vec![0.0; size];
            row[i] = 1.0;
            walsh_hadamard(&mut row);
            let worst = row.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(worst < 1e-7, "row {i} of {size}: {worst}");
        }
    }
}

#[test]
fn packing_equals_the_oracle() {
    let mut compared = 0;
    for file in ["gen2/quant.safetensors", "gen3/quant.safetensors"] {
        let goldens = golden::tensors(file);
        let input = goldens["cq.input"].flatten_all().unwrap().to_vec1::<f32>().unwrap();
        for (width, tag) in WIDTHS {
            for group in [32, 128] {
                let name = |what: &str| format!("cq.{tag}.group{group}.{what}");
                let Some(codes) = goldens.get(&name("packed")) else {
                    continue;
                };
                let packed = pack(&input, (6, 200), group, width).unwrap();
                let codes = codes.flatten_all().unwrap().to_vec1::<u8>().unwrap();
                assert_eq!(packed.codes(), codes, "{file}: {}", name("packed"));
                let norms = goldens[&name("norms_f16")]
                    .flatten_all()
                    .unwrap()
                    .to_vec1::<f16>()
                    .unwrap();
                let norms: Vec<u8> = norms.iter().flat_map(|norm| norm.to_le_bytes()).collect();
                assert_eq!(packed.norms(), norms, "{file}: {}", name("norms_f16"));
                let expected = goldens[&name("dequant")]
                    .flatten_all()
                    .unwrap()
                    .to_vec1::<f32>()
                    .unwrap();
                let worst = worst_difference(&packed.dequantize(), &expected);
                assert!(worst < 1e-6, "{file}: {}: {worst}", name("dequant"));
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 18);
}

#[test]
fn contradictions_are_refused() {
    let build = |shape, group, width, levels: &[f32], codes: usize, norms: usize| {
        Packed::new(
            shape,
            group,
            width,
            levels,
            Bytes::new(vec![0; codes]),
            Bytes::new(vec![0; norms]),
        )
        .unwrap_err()
        .to_string()
    };
    let two = levels(CodeWidth::Two, 32);
    let cases = [
        (
            build((2, 40), 32, CodeWidth::Two, &two, 31, 8),
            "takes 32 bytes of codes",
        ),
        (build((2, 40), 32, CodeWidth::Two, &two, 32, 9), "and 8 of norms"),
        (build((2, 40), 33, CodeWidth::Two, &two, 32, 8), "groups of 33"),
        (build((2, 40), 0, CodeWidth::Two, &two, 32, 8), "groups of 0"),
        (build((2, 40), 4, CodeWidth::Two, &two, 32, 8), "groups of 4;"),
        (
            build((2, 40), 1 << 40, CodeWidth::Two, &two, 32, 8),
            "groups of 1099511627776",
        ),
        (build((0, 40), 32, CodeWidth::Two, &two, 0, 0), "holds no values"),
        (
            build((usize::MAX, usize::MAX), 32, CodeWidth::Two, &two, 0, 0),
            "larger than any memory",
        ),
        (
            build((2, 40), 32, CodeWidth::Two, &two[..3], 32, 8),
            "expected 4 levels, found 3",
        ),
        (
            build((2, 40), 32, CodeWidth::Two, &[-1.0, f32::NAN, 0.5, 1.0], 32, 8),
            "a level is NaN",
        ),
        (
            build((2, 40), 32, CodeWidth::Two, &[-1.0, 0.0, 0.5, 1e30], 32, 8),
            "a level is 1",
        ),
    ];
    for (error, part) in cases {
        assert!(error.contains(part), "{error:?} does not say {part:?}");
    }
}

#[test]
fn impossible_codes_and_norms_are_refused() {
    let three = levels(CodeWidth::Ternary, 32);
    let ternary = |codes: Vec<u8>, norms: [f32; 4]| {
        let norms: Vec<u8> = norms
            .iter()
            .flat_map(|&norm| f16::from_f32(norm).to_le_bytes())
            .collect();
        Packed::new(
            (2, 40),
            32,
            CodeWidth::Ternary,
            &three,
            Bytes::new(codes),
            Bytes::new(norms),
        )
        .map(|packed| packed.dequantize())
        .map_err(|error| error.to_string())
    };
    let mut codes = vec![0b1101_0011; 32];
    assert!(ternary(codes.clone(), [1.0; 4]).is_ok());
    codes[20] = 0b0010_0000;
    assert!(ternary(codes, [1.0; 4]).unwrap_err().contains("row 1 holds the code 2"));
    for bad in [f32::NAN, f32::INFINITY, -1.0] {
        let error = ternary(vec![0; 32], [1.0, 0.5, bad, 1.0]).unwrap_err();
        assert!(error.contains("the norm of row 1, group 0 is"), "{error}");
    }
    assert!(
        pack(&[1e5; 64], (1, 64), 64, CodeWidth::Four)
            .unwrap_err()
            .to_string()
            .contains("more than float16")
    );
    assert!(pack(&[f32::NAN; 64], (1, 64), 64, CodeWidth::Four).is_err());
    assert!(pack(&[0.0; 63], (1, 64), 64, CodeWidth::Four).is_err());
}

proptest! {
    /// Widening is linear in the rounding: packing what was widened gives the same values but for the rounding of norms,
    /// rows and slices of rows equal the whole.
    #[test]
    fn rows_and_slices_equal_the_whole(rows in 1usize..6, cols in 1usize..80, seed in any::<u64>(), place in 0usize..5) {
        let (width, _) = WIDTHS[place];
        let mut state = seed | 1;
        let values: Vec<f32> = (0..rows * cols)
            .map(|_| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (state >> 40) as f32 / (1 << 24) as f32 - 0.5
            })
            .collect();
        let packed = pack(&values, (rows, cols), 16, width).unwrap();
        let all = packed.dequantize();
        for row in 0..rows {
            let mut one = vec![0.0; cols];
            packed.row(row, &mut one);
            prop_assert_eq!(&one[..], &all[row * cols..][..cols]);
            let slice = packed.slice_rows(row..rows).unwrap();
            prop_assert_eq!(&slice.dequantize()[..], &all[row * cols..]);
        }
        prop_assert!(packed.slice_rows(0..rows + 1).is_none());
        if width == CodeWidth::Four {
            let norm = |values: &[f32]| values.iter().map(|value| value * value).sum::<f32>().sqrt();
            let off: Vec<f32> = values.iter().zip(&all).map(|(a, b)| a - b).collect();
            prop_assert!(norm(&off) < 0.25 * norm(&values) + 1e-3);
        }
    }
}

/// The largest difference, as a part of the largest expected value (of 1 where all are smaller).
pub(super) fn worst_difference(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    assert!(found.iter().all(|value| value.is_finite()));
    let largest = expected.iter().fold(1.0, |most: f32, value| most.max(value.abs()));
    let worst = found
        .iter()
        .zip(expected)
        .fold(0.0, |most: f32, (a, b)| most.max((a - b).abs()));
    worst / largest
}
