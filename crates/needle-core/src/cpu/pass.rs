//! A pass: some new positions of one sequence, or of several at once, through all layers.
//!
//! Many positions are shared out among the threads, each with its own desk, which then computes whole products. Of few
//! positions there is one desk, and every product is shared out by rows.

use std::borrow::BorrowMut;

use super::{
    attention::{QUERIES, Queries, attend, tile_width},
    crew::Hands,
    desk::{Desk, Shape},
    hyper::mean_lanes,
    layer::{K, Layer, Q, V},
    memory::Memory,
    model::CpuModel,
    simd::{Isa, LANES},
    tools::Tools,
    vector::rms_norm,
};

/// Positions of one desk at most.
pub(super) const DESK_TOKENS: usize = 48;
/// Positions of a desk from which several desks pay.
const DESK_WORTH: usize = 8;

/// Is shown every cell of a pass: the token's place in it, the depth from 0 to `L`, and the mean of the lanes.
pub(super) type Observer<'a> = Option<&'a mut dyn FnMut(usize, usize, &[f32])>;

/// Consecutive new positions of one sequence.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// First of the pass's tokens.
    pub(super) first: usize,
    pub(super) count: usize,
    /// Position of that token in its sequence.
    pub(super) position: usize,
}

/// Buffers of a pass.
#[derive(Debug, Default)]
pub(super) struct Work {
    desks: Vec<Desk>,
    /// The desks' projections for the engram sites, while all read them.
    raw: Vec<Vec<Vec<f32>>>,
    benches: Vec<Bench>,
    /// What each position sees: `[tokens, blocks]`.
    sights: Vec<u16>,
    blocks: usize,
    cell: Vec<f32>,
    /// Final rows, and their logits.
    rows: Vec<f32>,
    logits: Vec<f32>,
    spans: Vec<Span>,
    /// The span of each token.
    span_of: Vec<usize>,
    /// Tokens of a desk in this pass.
    each: usize,
}

/// Buffers of one key head.
#[derive(Debug, Default)]
struct Bench {
    queries: Vec<f32>,
    scores: Vec<f32>,
    /// `[tokens, group, Kv]`
    out: Vec<f32>,
}

impl Work {
    /// Room for the largest pass over caches of `blocks` blocks.
    pub(super) fn new(model: &CpuModel, blocks: usize) -> Self {
        let shape = &model.shape;
        let desks = model.crew.size();
        let tokens = desks * DESK_TOKENS;
        let bench = || Bench {
            queries: vec![0.0; QUERIES * shape.key_width],
            scores: vec![0.0; QUERIES * blocks * LANES],
            out: vec![0.0; tokens * shape.group() * shape.value_width],
        };
        Self {
            desks: (0..desks).map(|_| Desk::new(model, DESK_TOKENS)).collect(),
            raw: vec![Vec::new(); desks],
            benches: (0..shape.kv_heads).map(|_| bench()).collect(),
            sights: vec![0; tokens * blocks],
            blocks,
            cell: vec![0.0; shape.d],
            rows: vec![0.0; model.isa.widest() * shape.d],
            logits: vec![0.0; model.isa.widest() * model.output.rows()],
            spans: Vec::with_capacity(tokens),
            span_of: Vec::with_capacity(tokens),
            each: 0,
        }
    }

    /// Makes room for caches of more blocks.
    pub(super) fn widen(&mut self, blocks: usize) {
        if blocks > self.blocks {
            self.blocks = blocks;
            self.sights.resize(self.desks.len() * DESK_TOKENS * blocks, 0);
            let scores = QUERIES * blocks * LANES;
            self.benches
                .iter_mut()
                .for_each(|bench| bench.scores.resize(scores, 0.0));
        }
    }

    /// Takes `tokens` through all layers: `counts[i]` of them, one after the other, belong to the sequence of `memories[i]`.
    /// At most [`DESK_TOKENS`] for every thread in hand.
    pub(super) fn run<M: BorrowMut<Memory> + Sync>(
        &mut self,
        model: &CpuModel,
        tools: &Tools<'_>,
        memories: &mut [M],
        tokens: &[u32],
        counts: impl Iterator<Item = usize>,
        observe: &mut Observer<'_>,
    ) {
        self.place(model, tools, memories, tokens.len(), counts);
        self.begin(model, tools, memories, tokens);
        self.observe(model, memories, 0, observe);
        for (l, layer) in model.layers.iter().enumerate() {
            self.layer(model, tools, memories, (l, layer));
            self.observe(model, memories, l + 1, observe);
        }
        self.remember(model, memories, tokens);
    }

    /// Shares the tokens out and works out what each sees.
    fn place<M: BorrowMut<Memory>>(
        &mut self,
        model: &CpuModel,
        tools: &Tools<'_>,
        memories: &mut [M],
        count: usize,
        counts: impl Iterator<Item = usize>,
    ) {
        let members = tools.hands.count();
        let desks = if count >= members * DESK_WORTH {
            members
        } else {
            // As few as hold them all: work that is not worth a member each.
            count.div_ceil(DESK_TOKENS)
        };
        self.each = count.div_ceil(desks);
        for (i, desk) in self.desks.iter_mut().enumerate() {
            desk.tokens = (i * self.each).min(count)..((i + 1) * self.each).min(count);
        }
        self.spans.clear();
        self.span_of.clear();
        let mut first = 0;
        for (i, (memory, count)) in memories.iter_mut().zip(counts).enumerate() {
            let cache = &mut memory.borrow_mut().cache;
            let position = cache.position();
            cache.place(count);
            for t in 0..count {
                let sight = &mut self.sights[(first + t) * self.blocks..][..cache.blocks()];
                cache.sight(position + t, sight);
                self.span_of.push(i);
            }
            self.spans.push(Span { first, count, position });
            first += count;
        }
        debug_assert_eq!(model.shape.kv_heads, self.benches.len());
    }

    /// Embeds the tokens and recalls what the engram sites hold for them.
    fn begin<M: BorrowMut<Memory> + Sync>(
        &mut self,
        model: &CpuModel,
        tools: &Tools<'_>,
        memories: &[M],
        tokens: &[u32],
    ) {
        let (spans, span_of, each) = (&self.spans, &self.span_of, self.each);
        let place = |token: usize| {
            let span = &spans[span_of[token]];
            (span, token - span.first)
        };
        let desks = &mut self.desks[..tokens.len().div_ceil(each)];
        on_desks(tools, desks, |tools, desk| {
            for token in desk.tokens.clone() {
                let (span, at) = place(token);
                desk.embed(model, token - desk.tokens.start, tokens[token], span.position + at);
            }
            for (s, site) in model.sites.iter().enumerate() {
                for token in desk.tokens.clone() {
                    let (span, at) = place(token);
                    let memory: &Memory = memories[span_of[token]].borrow();
                    let back = |r: usize| match (r <= at, r <= span.position + at) {
                        (true, _) => Some(tokens[token - r]),
                        (false, true) => Some(memory.engram.token(span.position + at - r)),
                        (false, false) => None,
                    };
                    let e = model.shape.row_mut(&mut desk.h, token - desk.tokens.start);
                    site.fetch(&model.hash, back, e, &mut desk.scratch);
                }
                let e = &desk.h[..desk.tokens.len() * model.shape.d];
                site.projections.apply(tools, e, &mut desk.prepared, &mut desk.raw[s]);
            }
        });
        if model.sites.is_empty() {
            return;
        }
        for (desk, raw) in desks.iter_mut().zip(&mut self.raw) {
            std::mem::swap(&mut desk.raw, raw);
        }
        let raw = &self.raw;
        on_desks(tools, desks, |_, desk| {
            for (s, site) in model.sites.iter().enumerate() {
                let rows = site.projections.rows();
                let row = |token: usize, weight: usize| {
                    let row = &raw[token / each][s][token % each * rows..][..rows];
                    &row[site.projections.first_row(weight)..][..model.shape.d]
                };
                for token in desk.tokens.clone() {
                    let (span, at) = place(token);
                    let memory: &Memory = memories[span_of[token]].borrow();
                    let earlier = |b: usize| match (b <= at, b <= span.position + at) {
                        (true, _) => Some(row(token - b, 1)),
                        (false, true) => Some(memory.engram.value(s, span.position + at - b)),
                        (false, false) => None,
                    };
                    let t = token - desk.tokens.start;
                    let recalled = &mut desk.recalled[s];
                    model
                        .shape
                        .row_mut(&mut recalled.keys, t)
                        .copy_from_slice(row(token, 0));
                    site.filter(earlier, model.shape.row_mut(&mut recalled.values, t));
                }
            }
        });
        for (desk, raw) in desks.iter_mut().zip(&mut self.raw) {
            std::mem::swap(&mut desk.raw, raw);
        }
    }

    fn layer<M: BorrowMut<Memory> + Sync>(
        &mut self,
        model: &CpuModel,
        tools: &Tools<'_>,
        memories: &mut [M],
        (l, layer): (usize, &Layer),
    ) {
        let (isa, shape) = (model.isa, &model.shape);
        let desks = &mut self.desks[..self.span_of.len().div_ceil(self.each)];
        on_desks(tools, desks, |tools, desk| layer.enter(tools, shape, desk));

        for (span, memory) in self.spans.iter().zip(memories.iter_mut()) {
            let cache = &mut memory.borrow_mut().cache;
            for t in 0..span.count {
                let slot = cache.slot(span.position + t);
                let inputs = inputs_of(desks, self.each, layer, span.first + t);
                for g in 0..shape.kv_heads {
                    let key = &inputs[layer.inputs.first_row(K) + g * shape.key_width..][..shape.key_width];
                    let value = &inputs[layer.inputs.first_row(V) + g * shape.value_width..][..shape.value_width];
                    cache.stored.write(isa, (l, g), slot, key, value);
                }
            }
        }

        let attention = Attention {
            isa,
            shape,
            layer,
            desks,
            each: self.each,
            sights: &self.sights,
            blocks: self.blocks,
        };
        let (spans, memories) = (&self.spans, &*memories);
        tools.hands.each(&mut self.benches, |g, bench| {
            for (span, memory) in spans.iter().zip(memories) {
                let memory: &Memory = memory.borrow();
                attention.attend(span, &memory.cache, (l, g), bench);
            }
        });

        let benches = &self.benches;
        on_desks(tools, desks, |tools, desk| {
            let width = shape.group() * shape.value_width;
            for token in desk.tokens.clone() {
                let o = &mut desk.h[(token - desk.tokens.start) * shape.kv_heads * width..];
                for (o, bench) in o.chunks_exact_mut(width).zip(benches) {
                    o.copy_from_slice(&bench.out[token * width..][..width]);
                }
            }
            layer.leave(tools, shape, desk);
        });
    }

    /// Shows the cells of depth `depth` to whoever asked for them, and adds them to what each sequence pools.
    fn observe<M: BorrowMut<Memory>>(
        &mut self,
        model: &CpuModel,
        memories: &mut [M],
        depth: usize,
        observe: &mut Observer<'_>,
    ) {
        for (token, &sequence) in self.span_of.iter().enumerate() {
            let pooling = &mut memories[sequence].borrow_mut().pooling;
            if pooling.is_none() && observe.is_none() {
                continue;
            }
            let x = model.shape.x(&self.desks[token / self.each].x, token % self.each);
            mean_lanes(model.isa, x, &mut self.cell);
            if let Some(observe) = observe {
                observe(token, depth, &self.cell);
            }
            if let Some(pooling) = pooling
                && let Some(head) = model.head(pooling.head)
            {
                head.pool(model.isa, &self.cell, pooling);
            }
        }
    }

    /// Keeps what later passes look back on.
    fn remember<M: BorrowMut<Memory>>(&mut self, model: &CpuModel, memories: &mut [M], tokens: &[u32]) {
        for (span, memory) in self.spans.iter().zip(memories) {
            let memory = memory.borrow_mut();
            let last = span.count.saturating_sub(memory.engram.reach());
            for t in last..span.count {
                let (token, position) = (span.first + t, span.position + t);
                memory.engram.remember_token(position, tokens[token]);
                for (s, site) in model.sites.iter().enumerate() {
                    let rows = site.projections.rows();
                    let row = &self.desks[token / self.each].raw[s][token % self.each * rows..][..rows];
                    let value = &row[site.projections.first_row(1)..][..model.shape.d];
                    memory.engram.remember_value(s, position, value);
                }
            }
            memory.cache.advance(span.count);
        }
    }

    /// Logits `[V]` after each of these tokens of the pass that has just run, in turn.
    pub(super) fn logits(
        &mut self,
        model: &CpuModel,
        tools: &Tools<'_>,
        tokens: impl Iterator<Item = usize>,
        mut take: impl FnMut(usize, &[f32]),
    ) {
        let (isa, shape, most) = (model.isa, &model.shape, model.isa.widest());
        let rows = model.output.rows();
        let mut tokens = tokens.enumerate().peekable();
        while let Some((first, _)) = tokens.peek().copied() {
            let mut count = 0;
            while let Some((_, token)) = tokens.next_if(|(i, _)| *i < first + most) {
                let x = shape.x(&self.desks[token / self.each].x, token % self.each);
                mean_lanes(isa, x, &mut self.cell);
                rms_norm(isa, &self.cell, &model.final_norm, shape.row_mut(&mut self.rows, count));
                count += 1;
            }
            let Some(desk) = self.desks.first_mut() else { return };
            let x = &self.rows[..count * shape.d];
            model.output.apply(tools, x, &mut desk.prepared, &mut self.logits);
            for (i, logits) in self.logits.chunks_exact(rows).take(count).enumerate() {
                take(first + i, &logits[..model.config().vocab_size]);
            }
        }
    }
}

/// Does one desk's work with all hands, or every desk's with one thread each.
fn on_desks(tools: &Tools<'_>, desks: &mut [Desk], work: impl Fn(&Tools<'_>, &mut Desk) + Sync) {
    match desks {
        [desk] => work(tools, desk),
        desks => tools.hands.each(desks, |_, desk| {
            let alone = Tools {
                hands: &Hands::alone(),
                ..*tools
            };
            work(&alone, desk);
        }),
    }
}

/// Queries, keys, values and gates of a token.
fn inputs_of<'a>(desks: &'a [Desk], each: usize, layer: &Layer, token: usize) -> &'a [f32] {
    let rows = layer.inputs.rows();
    &desks[token / each].inputs[token % each * rows..][..rows]
}

/// What the key heads of one layer share while they attend.
struct Attention<'a> {
    isa: Isa,
    shape: &'a Shape,
    layer: &'a Layer,
    desks: &'a [Desk],
    each: usize,
    sights: &'a [u16],
    blocks: usize,
}

impl Attention<'_> {
    /// All queries of one sequence's span that read key head `g` of layer `l`, a tile at a time.
    fn attend(&self, span: &Span, cache: &super::cache::Cache, (l, g): (usize, usize), bench: &mut Bench) {
        let Shape {
            key_width, value_width, ..
        } = *self.shape;
        let group = self.shape.group();
        let heads = group.min(QUERIES);
        let tokens = QUERIES / heads;
        let first_row = self.layer.inputs.first_row(Q);
        for first in (0..span.count).step_by(tokens) {
            let tokens = tokens.min(span.count - first);
            for first_head in (0..group).step_by(heads) {
                let heads = heads.min(group - first_head);
                let width = tile_width(tokens * heads);
                let mut sights: [&[u16]; QUERIES] = [&[]; QUERIES];
                for (row, sight) in sights.iter_mut().enumerate().take(tokens * heads) {
                    let token = span.first + first + row / heads;
                    let head = g * group + first_head + row % heads;
                    let inputs = inputs_of(self.desks, self.each, self.layer, token);
                    let query = &inputs[first_row + head * key_width..][..key_width];
                    for (place, q) in bench.queries.chunks_exact_mut(width).zip(query) {
                        place[row] = *q;
                    }
                    *sight = &self.sights[token * self.blocks..][..cache.blocks()];
                }
                let queries = Queries {
                    values: &bench.queries[..key_width * width],
                    sights: &sights[..tokens * heads],
                };
                let from = ((span.first + first) * group + first_head) * value_width;
                let out = &mut bench.out[from..][..tokens * heads * value_width];
                attend(
                    self.isa,
                    cache.stored.head(l, g),
                    value_width,
                    queries,
                    &mut bench.scores,
                    out,
                );
            }
        }
    }
}
