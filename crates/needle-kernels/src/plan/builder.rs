//! How a step comes about, launch by launch.

use super::{DecodePlan, EngramGeometry, Geometry, Name, PlannedLaunch, Role, StepPart, Storage, buffers::Buffers};
use crate::{
    error::{Unsupported, within},
    launch::Launch,
    ops::{
        Attention, BlockBack, Embed, EngramHash, EngramRecall, HeadsShape, LanesFront, LanesRecall, LanesShape, Linear,
        LinearShape, NormLinear, Recall, hadamard_size, mix_len,
    },
    state::RowState,
    storage::{Elem, Format, Matrix},
};

pub(super) struct Builder<'a> {
    geometry: &'a Geometry,
    storage: Storage,
    buffers: Buffers,
    launches: Vec<PlannedLaunch>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(geometry: &'a Geometry, storage: Storage) -> Self {
        Self {
            geometry,
            storage,
            buffers: Buffers::default(),
            launches: Vec::new(),
        }
    }

    pub(super) fn done(self) -> DecodePlan {
        DecodePlan {
            launches: self.launches,
            buffers: self.buffers.into_specs(),
        }
    }

    fn push(&mut self, part: StepPart, launch: Launch<usize>) {
        self.launches.push(PlannedLaunch { part, launch });
    }

    fn lanes(&self) -> LanesShape {
        let Geometry { rows, n, d, .. } = *self.geometry;
        LanesShape { rows, n, d }
    }

    fn product(&self, n_in: u32, n_out: u32) -> LinearShape {
        LinearShape {
            rows: self.geometry.rows,
            n_in,
            n_out,
        }
    }

    /// A buffer of float32, one for the whole step.
    fn floats(&mut self, name: Name, count: u32) -> usize {
        self.floats_of(name, 0, count)
    }

    fn floats_of(&mut self, name: Name, index: usize, count: u32) -> usize {
        let role = Role::of(name, index);
        self.buffers.number(role, Elem::F32, 4 * count as usize)
    }

    fn state(&mut self) -> usize {
        let bytes = self.geometry.rows as usize * RowState::WORDS * 4;
        self.buffers.number(Role::of(Name::State, 0), Elem::F32, bytes)
    }

    fn x(&mut self) -> usize {
        self.floats(Name::Lanes, self.geometry.rows * self.geometry.n * self.geometry.d)
    }

    fn mix(&mut self) -> usize {
        self.floats(Name::Mix, self.geometry.rows * mix_len(self.geometry.n))
    }

    fn history(&mut self) -> (usize, u32) {
        let ring = self.geometry.engram.as_ref().map_or(0, |engram| engram.hash.ring);
        // Without an engram nothing is kept, but the kernel has an argument for it.
        (self.floats(Name::History, self.geometry.rows * ring.max(1)), ring)
    }

    fn matrix(&mut self, name: Name, index: usize, format: Format, rows: u32, cols: u32) -> Matrix<usize> {
        self.buffers.matrix(name, index, format, rows, cols)
    }

    pub(super) fn open(&mut self) -> Result<(), Unsupported> {
        let Geometry { vocabulary, d, .. } = *self.geometry;
        let (history, ring) = self.history();
        let embed = Embed {
            state: self.state(),
            table: self.matrix(Name::Embedding, 0, self.storage.embedding, vocabulary, d),
            x: self.x(),
            history,
        };
        let launch = embed.launch(Elem::F32, self.lanes(), vocabulary, ring, 1)?;
        self.push(StepPart::Opening, launch);
        Ok(())
    }

    pub(super) fn layer(&mut self, layer: usize, matrix: &impl Fn(Name, usize) -> Format) -> Result<(), Unsupported> {
        let geometry = self.geometry;
        let site = |engram: &EngramGeometry| engram.layers.iter().position(|&at| at == layer);
        match geometry
            .engram
            .as_ref()
            .and_then(|engram| Some((engram, site(engram)?)))
        {
            Some((engram, site)) => {
                self.recall(layer, engram, site, matrix(Name::KeyValue, site))?;
                self.front_with_recall(layer, engram, site)?;
            }
            None => self.front(layer)?,
        }
        self.attend(layer, matrix(Name::Qkvg, layer), matrix(Name::Out, layer))?;
        self.back(layer)
    }

    fn recall(
        &mut self,
        layer: usize,
        engram: &EngramGeometry,
        site: usize,
        format: Format,
    ) -> Result<(), Unsupported> {
        let Geometry { rows, d, .. } = *self.geometry;
        let EngramHash { slots, cols, .. } = engram.hash;
        let ring = engram.value_ring();
        let recall = EngramRecall {
            history: self.history().0,
            state: self.state(),
            tables: self.matrix(
                Name::Tables,
                site,
                self.storage.tables,
                engram.hash.tables() * slots,
                cols,
            ),
            weight: self.matrix(Name::KeyValue, site, format, 2 * d, d),
            key: self.floats(Name::EngramKey, rows * d),
            values: self.floats_of(Name::EngramValues, site, rows * ring * d),
        };
        let launch = recall.launch(&engram.hash, rows, 1, ring)?;
        self.push(StepPart::Layer(layer), launch);
        Ok(())
    }

    /// `Φ`, its bias and its scale.
    fn projections(&mut self, layer: usize) -> [usize; 3] {
        let Geometry { n, d, .. } = *self.geometry;
        let elem = self.storage.phi;
        let bytes = (mix_len(n) * n * d) as usize * elem.size_bytes();
        [
            self.buffers.number(Role::of(Name::Phi, layer), elem, bytes),
            self.floats_of(Name::LaneBias, layer, mix_len(n)),
            self.floats_of(Name::LaneScale, layer, 3),
        ]
    }

    fn front(&mut self, layer: usize) -> Result<(), Unsupported> {
        let [phi, bias, scale] = self.projections(layer);
        let front = LanesFront {
            x: self.x(),
            phi,
            bias,
            scale,
            u: self.floats(Name::X, self.geometry.rows * self.geometry.d),
            mix: self.mix(),
        };
        let launch = front.launch(Elem::F32, self.storage.phi, self.lanes())?;
        self.push(StepPart::Layer(layer), launch);
        Ok(())
    }

    fn front_with_recall(&mut self, layer: usize, engram: &EngramGeometry, site: usize) -> Result<(), Unsupported> {
        let Geometry { rows, d, .. } = *self.geometry;
        let [phi, bias, scale] = self.projections(layer);
        let place = Recall {
            ring: engram.value_ring(),
            dilation: engram.dilation(),
            rows_a_sequence: 1,
        };
        let front = LanesRecall {
            x: self.x(),
            phi,
            bias,
            scale,
            key: self.floats(Name::EngramKey, rows * d),
            values: self.floats_of(Name::EngramValues, site, rows * place.ring * d),
            taps: self.floats_of(Name::Taps, site, 4 * d),
            state: self.state(),
            y: self.floats(Name::X, rows * d),
            mix: self.mix(),
        };
        let launch = front.launch(self.storage.phi, self.lanes(), place)?;
        self.push(StepPart::Layer(layer), launch);
        Ok(())
    }

    fn attend(&mut self, layer: usize, qkvg: Format, out: Format) -> Result<(), Unsupported> {
        let Geometry {
            rows,
            d,
            h,
            g,
            k,
            v,
            slots,
            positions,
            ..
        } = *self.geometry;
        let shape = HeadsShape {
            rows,
            rows_a_sequence: 1,
            h,
            g,
            k,
            v,
            slots,
        };
        let projected = self.floats(Name::Projected, rows * shape.projected());
        let project = NormLinear {
            x: self.floats(Name::X, rows * d),
            s: self.floats_of(Name::NormIn, layer, d),
            weight: self.matrix(Name::Qkvg, layer, qkvg, shape.projected(), d),
            y: projected,
        };
        let launch = project.launch(self.product(d, shape.projected()), 1)?;
        self.push(StepPart::Layer(layer), launch);

        let cache = self.storage.cache;
        let cache_bytes = |width: u32| (rows * slots * g * width) as usize * cache.size_bytes();
        let attended = self.floats(Name::Attended, rows * h * v);
        let attention = Attention {
            qkvg: projected,
            q_norm: self.floats_of(Name::QNorm, layer, k),
            k_norm: self.floats_of(Name::KNorm, layer, k),
            angles: self.floats(Name::Angles, positions * k),
            state: self.state(),
            k_cache: self
                .buffers
                .number(Role::of(Name::KeyCache, layer), cache, cache_bytes(k)),
            v_cache: self
                .buffers
                .number(Role::of(Name::ValueCache, layer), cache, cache_bytes(v)),
            out: attended,
        };
        let launch = attention.launch(cache, shape)?;
        self.push(StepPart::Layer(layer), launch);

        let project = Linear {
            x: attended,
            weight: self.matrix(Name::Out, layer, out, d, h * v),
            y: self.floats(Name::Output, rows * d),
        };
        let launch = project.launch(Elem::F32, self.product(h * v, d))?;
        self.push(StepPart::Layer(layer), launch);
        Ok(())
    }

    fn back(&mut self, layer: usize) -> Result<(), Unsupported> {
        let Geometry { rows, d, .. } = *self.geometry;
        let m = hadamard_size(d)?;
        let back = BlockBack {
            lanes: self.x(),
            x: self.floats(Name::X, rows * d),
            a: self.floats(Name::Output, rows * d),
            post_norm: self.floats_of(Name::PostNorm, layer, d),
            gate: self.floats_of(Name::Gate, layer, 1),
            pre_norm: self.floats_of(Name::PreNorm, layer, d),
            d1: self.floats_of(Name::D1, layer, m),
            d2: self.floats_of(Name::D2, layer, m),
            d3: self.floats_of(Name::D3, layer, m),
            mix: self.mix(),
        };
        let launch = back.launch(Elem::F32, self.lanes())?;
        self.push(StepPart::Layer(layer), launch);
        Ok(())
    }

    pub(super) fn close(&mut self) -> Result<(), Unsupported> {
        let Geometry {
            rows,
            n,
            d,
            vocabulary,
            out_vocabulary,
            ..
        } = *self.geometry;
        within(
            "decode",
            "the rows that logits are made of",
            out_vocabulary,
            1,
            vocabulary,
        )?;
        let logits = NormLinear {
            x: self.x(),
            s: self.floats(Name::FinalNorm, d),
            weight: self.matrix(Name::Embedding, 0, self.storage.embedding, vocabulary, d),
            y: self.floats(Name::Logits, rows * out_vocabulary),
        };
        let launch = logits.launch(self.product(d, out_vocabulary), n)?;
        self.push(StepPart::Closing, launch);
        Ok(())
    }
}
