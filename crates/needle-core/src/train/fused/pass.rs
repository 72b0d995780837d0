//! All layers, forward and back: the model from ids to a loss and its gradients, on slices of float32.

use std::ops::Range;

use super::{
    engram::{Fetch, RecallSlopes, Recalled},
    factors::FactorPlaces,
    head::{Output, OutputSlopes},
    layer::{Adapter, Desk, Layer, LayerGradients, Rest},
    places::{Places, Sizes},
};

/// A model's values.
#[derive(Clone, Copy)]
pub(super) struct Model<'a> {
    pub(super) sizes: Sizes,
    pub(super) places: &'a Places,
    pub(super) weights: &'a [f32],
    /// Rows of the embedding that have a logit.
    pub(super) out_vocab: usize,
    /// The engram site of each layer.
    pub(super) site_of: &'a [Option<usize>],
    pub(super) adapter: Option<(&'a FactorPlaces, &'a [f32], f32)>,
}

/// One pass's positions.
pub(super) struct Scene<'a> {
    pub(super) ids: &'a [u32],
    pub(super) scored: &'a [u32],
    pub(super) targets: &'a [u32],
    pub(super) texts: Vec<Range<usize>>,
    pub(super) fetch: Fetch,
    /// `[places, K/2]` each.
    pub(super) cos: Vec<f32>,
    pub(super) sin: Vec<f32>,
}

/// Buffers that outlive a pass, so that their memory is asked for once.
#[derive(Default)]
pub(super) struct Workshop {
    /// What goes into each layer, and out of the last.
    inputs: Vec<Vec<f32>>,
    rests: Vec<Rest>,
    slope: Vec<f32>,
    desk: Desk,
}

/// What is kept of the layers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    Everything,
    Inputs,
}

impl Model<'_> {
    fn recalled(&self, scene: &Scene<'_>) -> Vec<Recalled> {
        let of = |site| Recalled::of(site, self.weights, &scene.fetch, self.sizes.d);
        self.places.sites.iter().map(of).collect()
    }

    fn layer<'a>(&'a self, l: usize, scene: &'a Scene<'_>, recalled: &'a [Recalled]) -> Layer<'a> {
        Layer {
            l,
            sizes: self.sizes,
            places: &self.places.layers[l],
            weights: self.weights,
            adapter: self.adapter.map(|(places, values, scale)| Adapter {
                values,
                places: &places.layers[l],
                rank: places.rank,
                scale,
            }),
            recalled: self.site_of[l].map(|site| &recalled[site]),
            cos: &scene.cos,
            sin: &scene.sin,
            texts: &scene.texts,
        }
    }

    fn output(&self) -> Output<'_> {
        let d = self.sizes.d;
        Output {
            embedding: &self.weights[self.places.embedding.clone()][..self.out_vocab * d],
            final_norm: &self.weights[self.places.final_norm.clone()],
            lanes: self.sizes.n,
        }
    }

    /// The lanes as they start.
    fn embed(&self, x: &mut Vec<f32>, scene: &Scene<'_>) {
        let Sizes { d, n, .. } = self.sizes;
        let embedding = &self.weights[self.places.embedding.clone()];
        let factor = (d as f32).sqrt();
        x.resize(scene.ids.len() * n * d, 0.0);
        for (lanes, &id) in x.chunks_exact_mut(n * d).zip(scene.ids) {
            let row = &embedding[id as usize * d..][..d];
            for lane in lanes.chunks_exact_mut(d) {
                lane.iter_mut().zip(row).for_each(|(x, row)| *x = factor * row);
            }
        }
    }

    /// The loss summed over the scored positions.
    pub(super) fn loss(&self, scene: &Scene<'_>, workshop: &mut Workshop) -> f64 {
        let recalled = self.recalled(scene);
        workshop.inputs.resize_with(workshop.inputs.len().max(2), Vec::new);
        workshop.rests.resize_with(workshop.rests.len().max(1), Rest::default);
        let Workshop {
            inputs, rests, desk, ..
        } = workshop;
        let [x, next, ..] = &mut inputs[..] else { return 0.0 };
        self.embed(x, scene);
        next.resize(x.len(), 0.0);
        for l in 0..self.places.layers.len() {
            let layer = self.layer(l, scene, &recalled);
            layer.attend(x, &mut rests[0], desk);
            layer.leave(next, x, &rests[0]);
            std::mem::swap(x, next);
        }
        self.output().loss(x, scene.scored, scene.targets, None)
    }

    /// The loss; `gradient`, in the places of the adapter's factors or else of the weights, receives that of `factor` times it.
    pub(super) fn slope(
        &self,
        scene: &Scene<'_>,
        workshop: &mut Workshop,
        keep: Keep,
        factor: f32,
        gradient: &mut [f32],
    ) -> f64 {
        let Sizes { d, n, .. } = self.sizes;
        let layers = self.places.layers.len();
        let recalled = self.recalled(scene);
        let kept = if keep == Keep::Everything { layers } else { 1 };
        workshop.inputs.resize_with(layers + 1, Vec::new);
        workshop.rests.resize_with(kept, Rest::default);
        let Workshop {
            inputs,
            rests,
            slope,
            desk,
        } = workshop;
        self.embed(&mut inputs[0], scene);
        for l in 0..layers {
            let layer = self.layer(l, scene, &recalled);
            let (before, after) = inputs.split_at_mut(l + 1);
            let (x, next, rest) = (&before[l], &mut after[0], &mut rests[l % kept]);
            next.resize(x.len(), 0.0);
            layer.attend(x, rest, desk);
            layer.leave(next, x, rest);
        }
        let trains_all = self.adapter.is_none();
        slope.clear();
        slope.resize(inputs[layers].len(), 0.0);
        let loss = {
            let (embedding, norm) = (self.places.embedding.clone(), self.places.final_norm.clone());
            let (first, second) = if trains_all {
                gradient.split_at_mut(norm.start)
            } else {
                gradient.split_at_mut(0)
            };
            let weights = trains_all.then(|| (&mut first[embedding][..self.out_vocab * d], &mut second[..norm.len()]));
            let slopes = OutputSlopes {
                x: &mut slope[..],
                weights,
                factor,
            };
            self.output()
                .loss(&inputs[layers], scene.scored, scene.targets, Some(slopes))
        };
        for l in (0..layers).rev() {
            let layer = self.layer(l, scene, &recalled);
            let (x, rest) = (&inputs[l], &mut rests[l % kept]);
            if keep == Keep::Inputs && l + 1 < layers {
                layer.attend(x, rest, desk);
            }
            if !trains_all {
                layer.back(slope, x, rest, desk, LayerGradients::Adapter(gradient));
                continue;
            }
            let mut recall = self.site_of[l].map(|_| RecallSlopes {
                key: vec![0.0; scene.ids.len() * d],
                value: vec![0.0; scene.ids.len() * d],
            });
            layer.back(
                slope,
                x,
                rest,
                desk,
                LayerGradients::Everything(gradient, recall.as_mut()),
            );
            if let (Some(site), Some(recall)) = (self.site_of[l], recall) {
                let places = &self.places.sites[site];
                recalled[site].back(&recall, places, self.weights, gradient, &scene.fetch, d);
            }
        }
        if trains_all {
            let embedding = &mut gradient[self.places.embedding.clone()];
            let factor = (d as f32).sqrt();
            for (lanes, &id) in slope.chunks_exact(n * d).zip(scene.ids) {
                let row = &mut embedding[id as usize * d..][..d];
                for lane in lanes.chunks_exact(d) {
                    row.iter_mut().zip(lane).for_each(|(row, slope)| *row += factor * slope);
                }
            }
        }
        loss
    }
}
