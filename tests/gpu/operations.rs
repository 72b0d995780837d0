//! The operations of a pass as a GPU gets them, launched on the emulator with the library's own weights: what a kernel calls
//! a buffer must be what the library puts there.

use candle_core::{DType, Device, Tensor};
use needle_core::ops::{BackWeights, FrontWeights, Kernels, Rope};
use needle_kernels::{
    Elem, Launch, RowState,
    emulator::{Memory, Schedule, run},
    ops::{BlockBack, HeadsShape, LanesFront, LanesShape, RmsNorm, mix_len},
};

use super::close;

const LIMIT: f32 = 2e-5;

fn random(shape: &[usize]) -> Tensor {
    Tensor::randn(0f32, 0.7, shape, &Device::Cpu).unwrap()
}

fn floats(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

struct Bench(Memory);

impl Bench {
    fn put(&mut self, tensor: &Tensor) -> usize {
        self.0.f32s(&floats(tensor))
    }

    fn room(&mut self, count: usize) -> usize {
        self.0.undefined(4 * count)
    }

    fn run(&mut self, launch: &Launch<usize>) {
        run(launch, &mut self.0, Schedule::default()).unwrap_or_else(|fault| panic!("{fault}"));
    }

    fn take(&self, buffer: usize) -> Vec<f32> {
        self.0.to_f32s(Elem::F32, buffer)
    }
}

#[test]
fn norms() {
    let (x, s) = (random(&[2, 3, 48]), random(&[48]));
    let mut bench = Bench(Memory::new());
    let op = RmsNorm {
        x: bench.put(&x),
        s: bench.put(&s),
        y: bench.room(2 * 3 * 48),
    };
    let y = op.y;
    bench.run(&op.launch(Elem::F32, 6, 48).unwrap());
    let expected = Kernels::default().rms_norm(&x, &s).unwrap();
    close("rms_norm", &bench.take(y), &floats(&expected), LIMIT);
}

#[test]
fn both_halves_of_a_layer() {
    for (b, t, n, d) in [(2usize, 3usize, 4usize, 48usize), (1, 2, 1, 64), (1, 1, 3, 96)] {
        let (rows, outs, m) = (b * t, mix_len(n as u32) as usize, d.next_power_of_two());
        let front = FrontWeights {
            phi: (random(&[outs, n * d]) * 0.2).unwrap(),
            bias: random(&[outs]),
            scale: random(&[3]),
        };
        let back = BackWeights {
            post_norm: random(&[d]),
            gate: Tensor::new(0.4f32, &Device::Cpu).unwrap(),
            pre_norm: random(&[d]),
            diagonals: [random(&[m]), random(&[m]), random(&[m])],
        };
        let (lanes, a) = (random(&[b, t, n, d]), random(&[b, t, d]));
        let kernels = Kernels::default();
        let (u, mix) = kernels.lanes_front(&lanes, &front).unwrap();
        let mixed = kernels.block_back(&lanes, &u, &a, &mix, &back).unwrap();

        let shape = LanesShape {
            rows: rows as u32,
            n: n as u32,
            d: d as u32,
        };
        let mut bench = Bench(Memory::new());
        let x = bench.put(&lanes);
        let op = LanesFront {
            x,
            phi: bench.put(&front.phi),
            bias: bench.put(&front.bias),
            scale: bench.put(&front.scale),
            u: bench.room(rows * d),
            mix: bench.room(rows * outs),
        };
        let (u_found, mix_found) = (op.u, op.mix);
        bench.run(&op.launch(Elem::F32, Elem::F32, shape).unwrap());
        let [d1, d2, d3] = &back.diagonals;
        let op = BlockBack {
            lanes: x,
            x: u_found,
            a: bench.put(&a),
            post_norm: bench.put(&back.post_norm),
            gate: bench.put(&back.gate),
            pre_norm: bench.put(&back.pre_norm),
            d1: bench.put(d1),
            d2: bench.put(d2),
            d3: bench.put(d3),
            mix: mix_found,
        };
        bench.run(&op.launch(Elem::F32, shape).unwrap());
        let what = format!("{n} lanes of {d}");
        close(&format!("{what}: u"), &bench.take(u_found), &floats(&u), LIMIT);
        close(
            &format!("{what}: mix"),
            &bench.take(mix_found),
            &floats(mix.tensor()),
            LIMIT,
        );
        close(&format!("{what}: lanes"), &bench.take(x), &floats(&mixed), LIMIT);
    }
}

/// No slot is written, so that the caches are as small as may be.
#[test]
fn heads_are_turned_without_a_cache() {
    let (b, t, h, g, k, v) = (2usize, 3usize, 4usize, 2usize, 16usize, 12usize);
    let (first, theta, rows) = (5, 10_000.0, b * t);
    let (q, key, value) = (random(&[b, t, h, k]), random(&[b, t, g, k]), random(&[b, t, g, v]));
    let (q_norm, k_norm) = (random(&[k]), random(&[k]));
    let kernels = Kernels::default();
    let rope = kernels.rope(first, (b, t), k, theta, &q).unwrap();
    let turned = kernels.turn([&q, &key, &value], [&q_norm, &k_norm], &rope).unwrap();

    let angles = Rope::at(first, t, k, theta, DType::F32, &Device::Cpu).unwrap();
    let angles = Tensor::cat(&[angles.cos(), angles.sin()], 1).unwrap();
    let flat = |heads: &Tensor| heads.reshape((rows, ())).unwrap();
    let qkv = Tensor::cat(&[flat(&q), flat(&key), flat(&value)], 1).unwrap();
    let (_, stride) = qkv.dims2().unwrap();
    let words: Vec<u32> = (0..rows)
        .flat_map(|row| {
            let state = RowState {
                position: (row % t) as u32,
                slot: RowState::NO_SLOT,
                ..RowState::default()
            };
            state.words()
        })
        .collect();
    let mut bench = Bench(Memory::new());
    let (k_found, k_cache) = (bench.room(rows * g * k), bench.room(g * k));
    let op = needle_kernels::ops::Rope {
        qkv: bench.put(&qkv),
        q_norm: bench.put(&q_norm),
        k_norm: bench.put(&k_norm),
        angles: bench.put(&angles),
        state: bench.0.u32s(&words),
        q: bench.room(rows * h * k),
        k: k_found,
        k_cache,
        v_cache: bench.room(g * v),
    };
    let q_found = op.q;
    let shape = HeadsShape {
        rows: rows as u32,
        rows_a_sequence: rows as u32,
        h: h as u32,
        g: g as u32,
        k: k as u32,
        v: v as u32,
        slots: 1,
    };
    bench.run(&op.launch(Elem::F32, Elem::F32, shape, stride as u32).unwrap());
    close("queries", &bench.take(q_found), &floats(&turned.0), LIMIT);
    close("keys", &bench.take(k_found), &floats(&turned.1), LIMIT);
}
