//! The decode step: how many kernels it launches, that nothing is read before it is written, and that a model of the
//! oracle's decodes through it, in the emulator, to the oracle's logits.

use std::collections::HashSet;

use needle_kernels::{
    Arg, CodeBits, Elem, Format, RowState,
    cases::PackedMatrix,
    emulator::{Memory, Schedule, run},
    ops::EngramHash,
    plan::{DecodePlan, EngramGeometry, Geometry, Keeping, Part, Role, StepPart, Storage},
};

pub(crate) use needle_kernels::plan::Name;

use crate::golden::{Golden, close, json, transposed};

const DENSE: Format = Format::Dense(Elem::F32);

/// Storages of a model all of whose matrices are stored alike.
#[derive(Clone, Copy)]
struct Alike {
    storage: Storage,
    format: Format,
}

fn storage(format: Format, cache: Elem) -> Alike {
    let storage = Storage {
        cache,
        phi: match format {
            Format::Dense(elem) => elem,
            Format::Packed { .. } => Elem::Bf16,
        },
        embedding: format,
        tables: format,
    };
    Alike { storage, format }
}

/// The published base preset of generation 2.
fn base(rows: u32) -> Geometry {
    Geometry {
        rows,
        n: 4,
        d: 512,
        layers: 27,
        h: 8,
        g: 4,
        k: 64,
        v: 64,
        vocabulary: 8192,
        out_vocabulary: 8192,
        slots: 704,
        positions: 2048,
        engram: Some(EngramGeometry {
            hash: EngramHash {
                orders: vec![2, 3],
                heads: 2,
                stride: 2,
                slots: 8192,
                cols: 128,
                ring: 16,
            },
            layers: vec![2, 15],
        }),
    }
}

fn packed(bits: CodeBits) -> Format {
    Format::Packed { bits, group: 128 }
}

fn plan(geometry: &Geometry, alike: Alike) -> DecodePlan {
    DecodePlan::new(geometry, alike.storage, |_, _| alike.format).unwrap()
}

#[test]
fn a_layer_launches_five_kernels_and_six_at_an_engram_site() {
    for rows in [1, 8, 64] {
        for format in [
            DENSE,
            Format::Dense(Elem::Bf16),
            packed(CodeBits::Two),
            packed(CodeBits::Four),
        ] {
            let geometry = base(rows);
            let plan = plan(&geometry, storage(format, Elem::Bf16));
            for layer in 0..geometry.layers {
                let site = [2, 15].contains(&layer);
                assert_eq!(
                    plan.count(StepPart::Layer(layer)),
                    5 + usize::from(site),
                    "layer {layer}"
                );
            }
            assert_eq!((plan.count(StepPart::Opening), plan.count(StepPart::Closing)), (1, 1));
            assert_eq!(plan.launches.len(), 139);
            assert!(plan.launches.len() <= 6 * geometry.layers);
        }
    }
}

#[test]
fn a_step_reads_only_what_is_given_or_written_before() {
    let plan = plan(&base(1), storage(packed(CodeBits::Four), Elem::Bf16));
    let mut known: HashSet<usize> = (0..plan.buffers.len())
        .filter(|&number| {
            let keeping = plan.buffers[number].role.name.keeping();
            matches!(keeping, Keeping::Weight | Keeping::Input | Keeping::Sequence)
        })
        .collect();
    for planned in &plan.launches {
        for arg in &planned.launch.args {
            let spec = plan.buffers[*arg.buffer()];
            if !matches!(arg, Arg::Out(_)) {
                assert!(
                    known.contains(arg.buffer()),
                    "{} reads {:?}",
                    planned.launch.kernel,
                    spec.role
                );
            }
            if arg.is_written() {
                assert_ne!(
                    spec.role.name.keeping(),
                    Keeping::Weight,
                    "{} writes a weight",
                    planned.launch.kernel
                );
            }
        }
        known.extend(
            planned
                .launch
                .args
                .iter()
                .filter(|arg| arg.is_written())
                .map(|arg| *arg.buffer()),
        );
    }
    assert!(known.contains(&plan.buffer(Role::of(Name::Logits, 0)).unwrap()));
}

#[test]
fn a_model_without_a_kernel_is_refused_by_name() {
    let refused = |change: fn(&mut Geometry)| {
        let mut geometry = base(1);
        change(&mut geometry);
        let storage = storage(DENSE, Elem::F32).storage;
        DecodePlan::new(&geometry, storage, |_, _| DENSE)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        refused(|geometry| geometry.n = 5),
        "lanes: the number of lanes is 5, the kernels take 1 to 4"
    );
    assert!(
        refused(|geometry| geometry.d = 2048).contains("4096")
            || refused(|geometry| geometry.d = 2048).contains("1024")
    );
    assert!(refused(|geometry| geometry.k = 130).contains("the width of a key is 130"));
    assert!(refused(|geometry| geometry.out_vocabulary = 9000).contains("9000"));
}

/// A model of the oracle's, its weights by role.
pub(crate) struct Model {
    golden: Golden,
    pub(crate) geometry: Geometry,
    theta: f32,
    /// Values that take the place of the checkpoint's.
    replaced: Option<Box<Replacement>>,
}

type Replacement = dyn Fn(Name, usize) -> Option<Vec<f32>>;

impl Model {
    pub(crate) fn read(name: &str, rows: u32, slots: u32) -> Self {
        let golden = Golden::read(&format!("gen2/checkpoints/{name}.safetensors"));
        let config = match name {
            "a64" => (4, 2, 100_000.0, vec![1, 3]),
            "b96" => (6, 2, 10_000.0, vec![0, 3]),
            _ => (4, 1, 100_000.0, vec![]),
        };
        let (h, g, theta, sites) = config;
        let [vocabulary, d] = golden.shape("embedding/embedding") else {
            panic!("embedding")
        };
        let [layers, n] = golden.shape("stack/mhc_b_pre") else {
            panic!("b_pre")
        };
        let [_, k] = golden.shape("stack/layers/block/self_attn/q_norm/scale") else {
            panic!("q_norm")
        };
        let engram = (!sites.is_empty()).then(|| {
            let [tables, slots, cols] = *golden.shape("engrams_0/embedding") else {
                panic!("tables")
            };
            EngramGeometry {
                hash: EngramHash {
                    orders: vec![2, 3],
                    heads: tables as u32 / 2,
                    stride: tables as u32 / 2,
                    slots: slots as u32,
                    cols: cols as u32,
                    ring: 4,
                },
                layers: sites,
            }
        });
        let geometry = Geometry {
            rows,
            n: *n as u32,
            d: *d as u32,
            layers: *layers,
            h,
            g,
            k: *k as u32,
            v: *k as u32,
            vocabulary: *vocabulary as u32,
            out_vocabulary: *vocabulary as u32,
            slots,
            positions: 128,
            engram,
        };
        Self {
            golden,
            geometry,
            theta,
            replaced: None,
        }
    }

    /// The values of a weight, `[out, in]` where it is a matrix.
    pub(crate) fn weight(&self, name: Name, index: usize) -> Vec<f32> {
        if let Some(values) = self.replaced.as_ref().and_then(|replaced| replaced(name, index)) {
            return values;
        }
        let Geometry { n, d, .. } = self.geometry;
        let (n, d) = (n as usize, d as usize);
        let block = |name: &str| self.golden.part(&format!("stack/layers/block/{name}"), index).to_vec();
        let attention = |name: &str| transposed(&block(&format!("self_attn/{name}/kernel")), d);
        let lanes = |name: &str| self.golden.part(&format!("stack/mhc_{name}"), index).to_vec();
        let site = |name: &str| self.golden.floats(&format!("engrams_{index}/{name}")).to_vec();
        let home = |lane: usize| if lane == index % n { 1.0 } else { 0.0 };
        match name {
            Name::Embedding => self.golden.floats("embedding/embedding").to_vec(),
            Name::FinalNorm => self.golden.floats("stack/final_norm/scale").to_vec(),
            Name::Angles => self.angles(),
            Name::Phi => ["phi_pre", "phi_post", "phi_res"]
                .iter()
                .flat_map(|name| transposed(&lanes(name), n * d))
                .collect(),
            Name::LaneBias => {
                let pre = lanes("b_pre")
                    .into_iter()
                    .zip(0..)
                    .map(|(b, lane)| b + 8.0 * home(lane) - 4.0);
                let post = lanes("b_post")
                    .into_iter()
                    .zip(0..)
                    .map(|(b, lane)| b - 4.0 * (1.0 - home(lane)));
                pre.chain(post).chain(lanes("b_res")).collect()
            }
            Name::LaneScale => ["a_pre", "a_post", "a_res"]
                .iter()
                .flat_map(|name| lanes(name))
                .collect(),
            Name::NormIn => block("ZCRMSNorm_0/scale"),
            Name::Qkvg => ["q_proj", "k_proj", "v_proj", "gate_proj"]
                .iter()
                .flat_map(|name| attention(name))
                .collect(),
            Name::QNorm => block("self_attn/q_norm/scale"),
            Name::KNorm => block("self_attn/k_norm/scale"),
            Name::Out => {
                let rows = (self.geometry.h * self.geometry.v) as usize;
                transposed(&block("self_attn/out_proj/kernel"), rows)
            }
            Name::PostNorm => block("post_attn_norm/scale"),
            Name::Gate => block("attn_gate")
                .iter()
                .map(|gate| 1.0 / (1.0 + (-gate).exp()))
                .collect(),
            Name::PreNorm => block("pre_hada_norm/scale"),
            Name::D1 => block("hadamard_mlp/d1"),
            Name::D2 => block("hadamard_mlp/d2"),
            Name::D3 => block("hadamard_mlp/d3"),
            Name::Tables => site("embedding"),
            Name::KeyValue => ["key_proj/kernel", "value_proj/kernel"]
                .iter()
                .flat_map(|name| transposed(&site(name), d))
                .collect(),
            Name::Taps => site("taps"),
            other => panic!("{other:?} is no weight"),
        }
    }

    fn angles(&self) -> Vec<f32> {
        let Geometry { k, positions, .. } = self.geometry;
        let angle = |p: u32, i: u32| p as f32 * (1.0 / self.theta.powf(2.0 * i as f32 / k as f32));
        (0..positions)
            .flat_map(|p| {
                let cosines = (0..k / 2).map(move |i| angle(p, i).cos());
                cosines
                    .chain((0..k / 2).map(move |i| angle(p, i).sin()))
                    .collect::<Vec<_>>()
            })
            .collect()
    }
}

/// A plan with its buffers.
struct Decoder {
    plan: DecodePlan,
    memory: Memory,
    rows: usize,
}

impl Decoder {
    /// `matrix` gives a matrix's three buffers instead of the model's own values.
    fn new(model: &Model, alike: Alike, matrix: impl Fn(Name, usize) -> Option<PackedMatrix>) -> Self {
        let plan = plan(&model.geometry, alike);
        let mut memory = Memory::new();
        for spec in &plan.buffers {
            let Role { name, index, part } = spec.role;
            let number = match name.keeping() {
                Keeping::Weight => match (matrix(name, index), part) {
                    (None, _) => memory.elems(spec.elem, &model.weight(name, index)),
                    (Some(packed), Part::Values) => memory.bytes(&packed.codes),
                    (Some(packed), Part::Norms) => memory.bytes(&packed.norm_bytes()),
                    (Some(packed), Part::Levels) => memory.f32s(&packed.levels),
                },
                _ => memory.undefined(spec.bytes),
            };
            assert_eq!(memory.len_bytes(number), spec.bytes, "{:?}", spec.role);
        }
        Self {
            plan,
            memory,
            rows: model.geometry.rows as usize,
        }
    }

    /// One token for every row; logits row by row.
    fn step(&mut self, states: &[RowState]) -> Vec<f32> {
        let words: Vec<u8> = states
            .iter()
            .flat_map(|state| state.words())
            .flat_map(u32::to_ne_bytes)
            .collect();
        let number = |name| self.plan.buffer(Role::of(name, 0)).unwrap();
        self.memory.write(number(Name::State), 0, &words);
        for planned in &self.plan.launches {
            let fault = |fault| panic!("{:?}: {fault}", planned.part);
            run(&planned.launch, &mut self.memory, Schedule::default()).unwrap_or_else(fault);
        }
        self.memory.to_f32s(Elem::F32, number(Name::Logits))
    }
}

/// Where a position goes and what it sees: `sinks` pinned positions, a ring of `size`.
fn state(token: u32, position: u32, size: u32, sinks: u32) -> RowState {
    let slot = if position < sinks {
        position
    } else {
        sinks + (position - sinks) % size
    };
    RowState {
        token,
        position,
        slot,
        filled: (position + 1).min(size + sinks),
    }
}

/// Runs a case of the oracle's: the prompt, then `steps` of its own tokens; compares the logits of each.
fn decode(name: &str, case: &str, steps: usize, alike: Alike, tolerance: f32) {
    let cases = json(&format!("gen2/decode/{name}.json"));
    let case_json = cases["cases"]
        .as_array()
        .unwrap()
        .iter()
        .find(|entry| entry["case"] == case)
        .unwrap();
    let sinks = case_json["sink_len"].as_u64().unwrap() as u32;
    let size = match case_json["kv_window"].as_u64().unwrap() as u32 {
        0 => 100,
        window => window,
    };
    let golden = Golden::read(&format!("gen2/decode/{name}.safetensors"));
    let prompt = golden.wholes(&format!("{case}.prompt"));
    let ids = golden.wholes(&format!("{case}.ids"));
    let model = Model::read(name, 1, size + sinks);
    let mut decoder = Decoder::new(&model, alike, |_, _| None);
    let text: Vec<u32> = prompt.iter().chain(ids).copied().collect();
    let last = prompt.len() + steps - 1;
    for (position, &token) in text.iter().enumerate().take(last) {
        let logits = decoder.step(&[state(token, position as u32, size, sinks)]);
        if let Some(step) = (position + 1).checked_sub(prompt.len()) {
            let expected = golden.part(&format!("{case}.logits"), step);
            close(&logits, expected, tolerance, &format!("{name} {case} step {step}"));
        }
    }
}

#[test]
fn a_cache_that_never_fills_decodes_to_the_oracles_logits() {
    for name in ["a64", "b96", "c48"] {
        decode(name, "full_p9", 6, storage(DENSE, Elem::F32), 2e-5);
    }
}

#[test]
fn a_ring_with_pinned_positions_decodes_to_the_oracles_logits() {
    decode("a64", "window16_sink7_p24", 12, storage(DENSE, Elem::F32), 2e-5);
    decode("c48", "window16_p24", 4, storage(DENSE, Elem::F32), 2e-5);
    decode("a64", "window6_p12", 8, storage(DENSE, Elem::F32), 2e-5);
}

#[test]
fn half_precision_weights_stay_near_the_oracles_logits() {
    decode("a64", "full_p9", 2, storage(Format::Dense(Elem::F16), Elem::F16), 2e-2);
    decode(
        "b96",
        "full_p9",
        2,
        storage(Format::Dense(Elem::Bf16), Elem::Bf16),
        1e-1,
    );
}

#[test]
fn rows_of_a_batch_do_not_touch_each_other() {
    let tokens = [
        [5u32, 9, 14, 3],
        [7, 7, 2, 90],
        [1, 0, 30, 31],
        [4, 44, 100, 8],
        [60, 61, 62, 63],
    ];
    let alone: Vec<Vec<f32>> = tokens
        .iter()
        .map(|text| {
            let mut decoder = Decoder::new(&Model::read("a64", 1, 8), storage(DENSE, Elem::F32), |_, _| None);
            let steps = text
                .iter()
                .zip(0..)
                .map(|(&token, position)| decoder.step(&[state(token, position, 3, 1)]));
            steps.last().unwrap()
        })
        .collect();
    let mut decoder = Decoder::new(&Model::read("a64", 5, 8), storage(DENSE, Elem::F32), |_, _| None);
    let mut last = Vec::new();
    for position in 0..4 {
        let states: Vec<RowState> = tokens
            .iter()
            .map(|text| state(text[position], position as u32, 3, 1))
            .collect();
        last = decoder.step(&states);
    }
    assert_eq!(decoder.rows, 5);
    close(&last, &alone.concat(), 2e-5, "five rows together");
}

/// Random codes for every matrix, decoded as they are and widened to float32: the same logits.
#[test]
fn packed_weights_decode_as_their_widened_values() {
    for (bits, group) in [(CodeBits::Two, 64), (CodeBits::Three, 32), (CodeBits::Four, 128)] {
        let packed = Format::Packed { bits, group };
        let with = |format| {
            let mut alike = storage(format, Elem::F32);
            alike.storage.phi = Elem::F32;
            alike
        };
        for rows in [1, 4] {
            let mut model = Model::read("a64", rows, 8);
            let random = move |name: Name, index: usize| {
                let (rows, cols) = match name {
                    Name::Embedding => (160, 64),
                    Name::Qkvg => (192, 64),
                    Name::Out => (64, 64),
                    Name::Tables => (384, 16),
                    Name::KeyValue => (128, 64),
                    _ => return None,
                };
                Some(PackedMatrix::random(
                    bits,
                    group,
                    rows,
                    cols,
                    7 * name as u32 + index as u32,
                ))
            };
            let mut in_place = Decoder::new(&model, with(packed), random);
            model.replaced = Some(Box::new(move |name, index| {
                random(name, index).map(|packed| packed.widened().iter().map(|&value| value as f32).collect())
            }));
            let mut widened = Decoder::new(&model, with(DENSE), |_, _| None);
            for position in 0..3 {
                let states: Vec<RowState> = (0..rows)
                    .map(|row| state(40 * row + position, position, 6, 0))
                    .collect();
                let (found, expected) = (in_place.step(&states), widened.step(&states));
                close(
                    &found,
                    &expected,
                    2e-5,
                    &format!("{bits:?} in groups of {group}, {rows} rows"),
                );
            }
        }
    }
}
