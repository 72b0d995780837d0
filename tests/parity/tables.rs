//! Integer tables and small functions: engram rows, Sinkhorn, rotary angles, Walsh-Hadamard, cache windows.

use candle_core::{DType, Device, Tensor};
use needle_core::{
    Config, Generation,
    ops::{self, EngramHash, Rope},
};

use super::{expect_close, rows};
use crate::golden;

#[test]
fn engram_rows() {
    let golden = golden::tensors("gen2/tables.safetensors");
    let tokens = rows(&golden["engram.tokens"]);
    let mut compared = 0;
    for (name, table) in golden.iter().filter(|(name, _)| name.starts_with("engram.orders")) {
        let part = |key: &str| name.split('.').find_map(|part| part.strip_prefix(key)).unwrap();
        let orders: Vec<usize> = part("orders").split('-').map(|order| order.parse().unwrap()).collect();
        let heads = part("heads").parse().unwrap();
        let hash = EngramHash {
            orders,
            heads,
            stride: heads,
            slots: part("slots").parse().unwrap(),
        };
        let golden = table.to_dtype(DType::U32).unwrap().to_vec3::<u32>().unwrap();
        for (tokens, golden) in tokens.iter().zip(golden) {
            assert_eq!(
                ops::engram_slots(&hash, tokens, tokens.len()),
                golden.concat(),
                "{name}"
            );
            compared += 1;
        }
    }
    assert_eq!(compared, 10);
}

#[test]
fn sinkhorn_scaling() {
    let golden = golden::tensors("gen2/tables.safetensors");
    for n in [2, 3, 4] {
        let input = &golden[&format!("sinkhorn{n}.input")];
        let output = &golden[&format!("sinkhorn{n}.output")];
        expect_close(&format!("sinkhorn {n}"), &ops::sinkhorn(input).unwrap(), output, 1e-5);
        expect_close(
            &format!("sinkhorn {n} composed"),
            &ops::sinkhorn_composed(input).unwrap(),
            output,
            1e-5,
        );
    }
}

#[test]
fn rotary_angles_and_their_use() {
    let golden = golden::tensors("gen2/tables.safetensors");
    let positions = golden["rope.positions"].to_vec1::<i32>().unwrap();
    for (k, theta) in [(12, 1e5), (16, 1e5), (16, 1e4), (64, 1e5)] {
        let rope = Rope::at(0, 2048, k, theta, DType::F32, &Device::Cpu).unwrap();
        for (which, table) in [("cos", rope.cos()), ("sin", rope.sin())] {
            let golden = golden[&format!("rope.dim{k}.theta{theta}.{which}")]
                .to_vec2::<f32>()
                .unwrap();
            let found = table.to_vec2::<f32>().unwrap();
            for (&position, golden) in positions.iter().zip(&golden) {
                let limit = if position < 100 { 1e-5 } else { 1e-3 };
                for (found, golden) in found[position as usize].iter().zip(golden) {
                    assert!(
                        (found - golden).abs() < limit,
                        "{which} at {position}: {found} and {golden}"
                    );
                }
            }
        }
    }
    let x = golden["apply_rope.input"].transpose(1, 2).unwrap();
    let y = Rope::at(0, 6, 16, 1e5, DType::F32, &Device::Cpu)
        .unwrap()
        .apply(&x)
        .unwrap()
        .transpose(1, 2)
        .unwrap();
    expect_close(
        "apply_rope",
        &y.contiguous().unwrap(),
        &golden["apply_rope.output_dim16_theta100000"],
        1e-5,
    );
}

#[test]
fn walsh_matrices() {
    let golden = golden::tensors("gen2/tables.safetensors");
    for n in [32, 64, 128] {
        let unit = Tensor::eye(n, DType::F32, &Device::Cpu).unwrap();
        expect_close(
            &format!("walsh {n}"),
            &ops::hadamard(&unit).unwrap(),
            &golden[&format!("walsh.{n}")],
            1e-6,
        );
    }
}

#[test]
fn norms_of_the_units_file() {
    for name in ["a64", "b96", "c48"] {
        let golden = golden::tensors(&format!("gen2/units/{name}.safetensors"));
        expect_close(
            &format!("{name} rms_unit"),
            &ops::rms_unit(&golden["x"]).unwrap(),
            &golden["rms_unit"],
            1e-6,
        );
        let weights = golden::tensors(&format!("gen2/checkpoints/{name}.safetensors"));
        let scale = weights["stack/layers/block/ZCRMSNorm_0/scale"].get(0).unwrap();
        expect_close(
            &format!("{name} rms_norm"),
            &ops::rms_norm(&golden["x"], &scale).unwrap(),
            &golden["rmsnorm"],
            1e-6,
        );
    }
}

#[test]
fn windows_of_every_published_geometry() {
    let cases = golden::json("gen2/kv_windows.json");
    let cases = cases.as_array().unwrap();
    for case in cases {
        let config = Config::from_json(case["fields"].as_object().unwrap(), Generation::Two).unwrap();
        let golden = case["effective"].as_u64().unwrap() as usize;
        assert_eq!(config.effective_kv_window(), golden, "{}", case["fields"]);
    }
    assert_eq!(cases.len(), 35);
}
