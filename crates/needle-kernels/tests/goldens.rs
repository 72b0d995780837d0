//! The oracle's single modules, tables and packed matrices, through the kernels in the emulator.

use needle_kernels::{
    CodeBits, Elem, Launch, Matrix, RowState, Unsupported,
    emulator::{Memory, Schedule, run},
    ops::{
        Attention, BlockBack, Embed, EngramGather, EngramHash, Hadamard, HeadsShape, LanesFront, LanesShape, Linear,
        LinearShape, NormLinear, RmsNorm, mix_len,
    },
};

use crate::{
    golden::{Golden, close},
    plan::{Model, Name},
};

const TOLERANCE: f32 = 1e-5;
const MODELS: [&str; 3] = ["a64", "b96", "c48"];
/// Shape of the single modules' inputs.
const SEQUENCES: usize = 2;
const LENGTH: usize = 12;

/// What comes before an attention.
#[derive(Clone, Copy)]
enum Before {
    Nothing,
    /// The layer's norm.
    Norm,
}

/// A module's weights and the memory its kernels run in.
struct Bench {
    model: Model,
    units: Golden,
    memory: Memory,
}

impl Bench {
    fn of(name: &str) -> Self {
        Self {
            model: Model::read(name, SEQUENCES as u32, LENGTH as u32),
            units: Golden::read(&format!("gen2/units/{name}.safetensors")),
            memory: Memory::new(),
        }
    }

    fn d(&self) -> usize {
        self.model.geometry.d as usize
    }

    fn weight(&mut self, name: Name, layer: usize) -> usize {
        let values = self.model.weight(name, layer);
        self.memory.f32s(&values)
    }

    fn matrix(&mut self, name: Name, layer: usize) -> Matrix<usize> {
        let values = self.weight(name, layer);
        Matrix::Dense {
            elem: Elem::F32,
            values,
        }
    }

    fn input(&mut self, name: &str) -> usize {
        self.memory.f32s(self.units.floats(name))
    }

    fn output(&mut self, count: usize) -> usize {
        self.memory.undefined(4 * count)
    }

    fn run(&mut self, launch: Result<Launch<usize>, Unsupported>) {
        let launch = launch.unwrap();
        run(&launch, &mut self.memory, Schedule::default()).unwrap_or_else(|fault| panic!("{fault}"));
    }

    #[track_caller]
    fn expect(&self, buffer: usize, name: &str) {
        let found = self.memory.to_f32s(Elem::F32, buffer);
        close(&found, self.units.floats(name), TOLERANCE, name);
    }

    /// The attention of a layer on `h: [2, 12, d]`, position by position: `[2, 12, d]`. `before` says what comes first.
    fn attention(&mut self, h: usize, layer: usize, before: Before) -> usize {
        let d = self.d();
        let geometry = self.model.geometry.clone();
        let shape = HeadsShape {
            rows: SEQUENCES as u32,
            rows_a_sequence: 1,
            h: geometry.h,
            g: geometry.g,
            k: geometry.k,
            v: geometry.v,
            slots: LENGTH as u32,
        };
        let width = shape.projected();
        let product = |n_in: u32, n_out: u32| LinearShape {
            rows: SEQUENCES as u32,
            n_in,
            n_out,
        };
        let (s, qkvg, out) = (
            self.weight(Name::NormIn, layer),
            self.matrix(Name::Qkvg, layer),
            self.matrix(Name::Out, layer),
        );
        let (q_norm, k_norm, angles) = (
            self.weight(Name::QNorm, layer),
            self.weight(Name::KNorm, layer),
            self.weight(Name::Angles, 0),
        );
        let cache = SEQUENCES * LENGTH * (geometry.g * geometry.k) as usize;
        let (k_cache, v_cache) = (self.output(cache), self.output(cache));
        let whole = self.memory.to_f32s(Elem::F32, h);
        let mut rows = vec![0.0; whole.len()];
        for t in 0..LENGTH {
            let at = |sequence: usize| (sequence * LENGTH + t) * d;
            let step: Vec<f32> = (0..SEQUENCES).flat_map(|s| whole[at(s)..at(s) + d].to_vec()).collect();
            let x = self.memory.f32s(&step);
            let state = RowState {
                token: 0,
                position: t as u32,
                slot: t as u32,
                filled: t as u32 + 1,
            };
            let state = self.memory.u32s(&[state.words(), state.words()].concat());
            let projected = self.output(SEQUENCES * width as usize);
            let attended = self.output(SEQUENCES * (shape.h * shape.v) as usize);
            let y = self.output(SEQUENCES * d);
            let weight = qkvg;
            match before {
                Before::Norm => self.run(
                    NormLinear {
                        x,
                        s,
                        weight,
                        y: projected,
                    }
                    .launch(product(d as u32, width), 1),
                ),
                Before::Nothing => self.run(
                    Linear {
                        x,
                        weight,
                        y: projected,
                    }
                    .launch(Elem::F32, product(d as u32, width)),
                ),
            }
            let attention = Attention {
                qkvg: projected,
                q_norm,
                k_norm,
                angles,
                state,
                k_cache,
                v_cache,
                out: attended,
            };
            self.run(attention.launch(Elem::F32, shape));
            let project = Linear {
                x: attended,
                weight: out,
                y,
            };
            self.run(project.launch(Elem::F32, product(shape.h * shape.v, d as u32)));
            for (sequence, values) in self.memory.to_f32s(Elem::F32, y).chunks_exact(d).enumerate() {
                rows[at(sequence)..at(sequence) + d].copy_from_slice(values);
            }
        }
        self.memory.f32s(&rows)
    }

    /// The second half of a layer on `lanes: [24, n, d]`, in place.
    fn back(&mut self, lanes: usize, x: usize, a: usize, mix: usize, n: usize, layer: usize) {
        let back = BlockBack {
            lanes,
            x,
            a,
            post_norm: self.weight(Name::PostNorm, layer),
            gate: self.weight(Name::Gate, layer),
            pre_norm: self.weight(Name::PreNorm, layer),
            d1: self.weight(Name::D1, layer),
            d2: self.weight(Name::D2, layer),
            d3: self.weight(Name::D3, layer),
            mix,
        };
        let shape = LanesShape {
            rows: (SEQUENCES * LENGTH) as u32,
            n: n as u32,
            d: self.model.geometry.d,
        };
        self.run(back.launch(Elem::F32, shape));
    }
}

#[test]
fn rms_norms() {
    for name in MODELS {
        let mut bench = Bench::of(name);
        let d = bench.d();
        let rows = SEQUENCES * LENGTH;
        for (expected, scale) in [
            ("rmsnorm", bench.model.weight(Name::NormIn, 0)),
            ("rms_unit", vec![0.0; d]),
        ] {
            let (x, s, y) = (bench.input("x"), bench.memory.f32s(&scale), bench.output(rows * d));
            bench.run(RmsNorm { x, s, y }.launch(Elem::F32, rows as u32, d as u32));
            bench.expect(y, expected);
        }
    }
}

#[test]
fn hadamard_mlps() {
    for name in MODELS {
        let mut bench = Bench::of(name);
        let (rows, d) = (SEQUENCES * LENGTH, bench.d());
        let mlp = Hadamard {
            x: bench.input("x"),
            d1: bench.weight(Name::D1, 0),
            d2: bench.weight(Name::D2, 0),
            d3: bench.weight(Name::D3, 0),
            y: bench.output(rows * d),
        };
        let y = mlp.y;
        bench.run(mlp.launch(Elem::F32, rows as u32, d as u32));
        bench.expect(y, "hadamard_mlp");
    }
}

#[test]
fn attentions() {
    for name in MODELS {
        let mut bench = Bench::of(name);
        let x = bench.input("x");
        let y = bench.attention(x, 0, Before::Nothing);
        bench.expect(y, "attention");
    }
}

#[test]
fn blocks() {
    for name in MODELS {
        let mut bench = Bench::of(name);
        let rows = SEQUENCES * LENGTH;
        let x = bench.input("x");
        let a = bench.attention(x, 0, Before::Norm);
        // One lane that reads nothing, keeps nothing and takes the block's result as it is.
        let mix = bench.memory.f32s(&[0.0, 1.0, 0.0].repeat(rows));
        let lane = bench.memory.f32s(&vec![0.0; rows * bench.d()]);
        bench.back(lane, x, a, mix, 1, 0);
        bench.expect(lane, "block");
    }
}

#[test]
fn hyper_connections() {
    for name in MODELS {
        let mut bench = Bench::of(name);
        let (rows, d, n) = (SEQUENCES * LENGTH, bench.d(), bench.model.geometry.n);
        let front = LanesFront {
            x: bench.input("lanes_in"),
            phi: bench.weight(Name::Phi, 1),
            bias: bench.weight(Name::LaneBias, 1),
            scale: bench.weight(Name::LaneScale, 1),
            u: bench.output(rows * d),
            mix: bench.output(rows * mix_len(n) as usize),
        };
        let (lanes, u, mix) = (front.x, front.u, front.mix);
        let shape = LanesShape {
            rows: rows as u32,
            n,
            d: d as u32,
        };
        bench.run(front.launch(Elem::F32, Elem::F32, shape));
        let a = bench.attention(u, 1, Before::Norm);
        bench.back(lanes, u, a, mix, n as usize, 1);
        bench.expect(lanes, "lanes_out_layer1_no_engram");
    }
}

#[test]
fn sinkhorn_tables() {
    let tables = Golden::read("gen2/tables.safetensors");
    for n in [2usize, 3, 4] {
        let (inputs, outputs) = (format!("sinkhorn{n}.input"), format!("sinkhorn{n}.output"));
        for case in 0..6 {
            // Without projections the bias alone decides.
            let mut memory = Memory::new();
            let bias = [&vec![0.0; 2 * n][..], tables.part(&inputs, case)].concat();
            let front = LanesFront {
                x: memory.f32s(&vec![1.0; n * 32]),
                phi: memory.f32s(&vec![0.0; (n * (n + 2)) * n * 32]),
                bias: memory.f32s(&bias),
                scale: memory.f32s(&[1.0; 3]),
                u: memory.undefined(32 * 4),
                mix: memory.undefined(n * (n + 2) * 4),
            };
            let mix = front.mix;
            let shape = LanesShape {
                rows: 1,
                n: n as u32,
                d: 32,
            };
            let launch = front.launch(Elem::F32, Elem::F32, shape).unwrap();
            run(&launch, &mut memory, Schedule::default()).unwrap();
            let found = &memory.to_f32s(Elem::F32, mix)[2 * n..];
            close(found, tables.part(&outputs, case), 2e-6, &outputs);
        }
    }
}

#[test]
fn engram_slot_tables() {
    let tables = Golden::read("gen2/tables.safetensors");
    let tokens = tables.wholes("engram.tokens");
    let length = tokens.len() / 2;
    for (name, orders, heads, slots) in [
        ("engram.orders2-3-4.heads1.slots1000", &[2u32, 3, 4][..], 1u32, 1000u32),
        ("engram.orders2-3.heads1.slots50", &[2, 3], 1, 50),
        ("engram.orders2-3.heads2.slots8192", &[2, 3], 2, 8192),
        ("engram.orders2-3.heads2.slots96", &[2, 3], 2, 96),
        ("engram.orders2-3.heads3.slots8192", &[2, 3], 3, 8192),
    ] {
        let hash = EngramHash {
            orders: orders.to_vec(),
            heads,
            stride: heads,
            slots,
            cols: 1,
            ring: length as u32,
        };
        // Tables whose rows hold their own numbers.
        let numbers: Vec<f32> = (0..hash.tables())
            .flat_map(|_| (0..slots).map(|slot| slot as f32))
            .collect();
        let expected = tables.wholes(name);
        for sequence in 0..2 {
            let mut memory = Memory::new();
            let states = (0..length as u32).flat_map(|position| {
                RowState {
                    position,
                    ..RowState::default()
                }
                .words()
            });
            let states: Vec<u32> = states.collect();
            let gather = EngramGather {
                history: memory.u32s(&tokens[sequence * length..][..length]),
                state: memory.u32s(&states),
                tables: Matrix::Dense {
                    elem: Elem::F32,
                    values: memory.f32s(&numbers),
                },
                e: memory.undefined(length * hash.tables() as usize * 4),
            };
            let e = gather.e;
            let launch = gather.launch(Elem::F32, &hash, length as u32, length as u32).unwrap();
            run(&launch, &mut memory, Schedule::default()).unwrap();
            let found = memory.to_f32s(Elem::F32, e);
            let per = hash.tables() as usize;
            for (at, &found) in found.iter().enumerate() {
                let (t, table) = (at / per, at % per);
                let order = orders[table / heads as usize] as usize;
                let slot = expected[sequence * length * per + at] as f32;
                // A row that begins before the text is not there at all.
                let expected = if t + 1 < order { 0.0 } else { slot };
                assert_eq!(
                    found, expected,
                    "{name}: sequence {sequence}, position {t}, table {table}"
                );
            }
        }
    }
}

/// Codebook by stored code; ternary stores 3, 0, 1 for −, 0, +.
fn levels(quant: &Golden, width: &str, group: u32) -> Vec<f32> {
    match width {
        "ternary" => {
            let levels = quant.floats(&format!("ternary.group{group}"));
            vec![levels[1], levels[2], 0.0, levels[0]]
        }
        bits => quant.floats(&format!("codebook{bits}.group{group}")).to_vec(),
    }
}

#[test]
fn packed_matrices() {
    let quant = Golden::read("gen2/quant.safetensors");
    let (rows, cols) = (6usize, 200usize);
    for (width, bits) in [
        ("2", CodeBits::Two),
        ("3", CodeBits::Three),
        ("4", CodeBits::Four),
        ("ternary", CodeBits::Two),
    ] {
        for group in [32, 128] {
            let name = |part: &str| format!("cq.{width}.group{group}.{part}");
            let wide = quant.floats(&name("dequant"));
            let place = |memory: &mut Memory| Matrix::Packed {
                bits,
                group,
                codes: memory.bytes(quant.bytes(&name("packed"))),
                norms: memory.bytes(quant.bytes(&name("norms_f16"))),
                levels: memory.f32s(&levels(&quant, width, group)),
            };
            // Products with unit-like inputs, one and many at a time.
            for batch in [1usize, 5] {
                let mut memory = Memory::new();
                let inputs: Vec<f32> = (0..batch * cols)
                    .map(|i| ((i * 37 % 101) as f32 - 50.0) / 50.0)
                    .collect();
                let product = Linear {
                    x: memory.f32s(&inputs),
                    weight: place(&mut memory),
                    y: memory.undefined(batch * rows * 4),
                };
                let y = product.y;
                let shape = LinearShape {
                    rows: batch as u32,
                    n_in: cols as u32,
                    n_out: rows as u32,
                };
                run(
                    &product.launch(Elem::F32, shape).unwrap(),
                    &mut memory,
                    Schedule::default(),
                )
                .unwrap();
                let dot = |x: &[f32], row: &[f32]| {
                    x.iter()
                        .zip(row)
                        .map(|(x, w)| f64::from(*x) * f64::from(*w))
                        .sum::<f64>()
                };
                let expected: Vec<f32> = inputs
                    .chunks_exact(cols)
                    .flat_map(|x| wide.chunks_exact(cols).map(move |row| dot(x, row) as f32))
                    .collect();
                let largest = expected.iter().fold(0.0f32, |largest, y| largest.max(y.abs()));
                close(
                    &memory.to_f32s(Elem::F32, y),
                    &expected,
                    2e-6 * largest,
                    &name("product"),
                );
            }
            // Every row fetched by itself.
            let mut memory = Memory::new();
            let states = (0..rows as u32).flat_map(|token| {
                RowState {
                    token,
                    ..RowState::default()
                }
                .words()
            });
            let states: Vec<u32> = states.collect();
            let embed = Embed {
                state: memory.u32s(&states),
                table: place(&mut memory),
                x: memory.undefined(rows * cols * 4),
                history: memory.undefined(4),
            };
            let x = embed.x;
            let shape = LanesShape {
                rows: rows as u32,
                n: 1,
                d: cols as u32,
            };
            let launch = embed.launch(Elem::F32, shape, rows as u32, 0, 1).unwrap();
            run(&launch, &mut memory, Schedule::default()).unwrap();
            let found = memory.to_f32s(Elem::F32, x);
            let found: Vec<f32> = found.iter().map(|value| value / (cols as f32).sqrt()).collect();
            let largest = wide.iter().fold(0.0f32, |largest, w| largest.max(w.abs()));
            close(&found, wide, 1e-6 * largest, &name("rows"));
        }
    }
}
