//! What an engram site recalls at every position, and its gradients: `k = rms_unit(e·Wk)`, `v_t = Σ_j taps_j ∘ (e·Wv)_{t−jδ}`.

use std::ops::Range;

use super::{
    norm,
    places::SitePlaces,
    product::{Crew, Matrix, Out, product},
    vector::{add_scaled, dot, sigmoid},
};

/// Rows of the tables that the positions of a pass read, the same at every site.
pub(super) struct Fetch {
    /// `[T·tables]`, into the stacked tables.
    pub(super) rows: Vec<u32>,
    /// `[T·tables]`: 0 where an n-gram reaches before its text, else 1.
    pub(super) seen: Vec<f32>,
    /// Each position's place in its text.
    pub(super) places: Vec<u32>,
    /// Positions between two taps.
    pub(super) dilation: usize,
}

/// What a site recalls; `[T, D]` each.
pub(super) struct Recalled {
    e: Vec<f32>,
    pub(super) key: Vec<f32>,
    raw_key: Vec<f32>,
    raw_value: Vec<f32>,
    pub(super) value: Vec<f32>,
}

/// Gradients of what a site recalled, `[T, D]` each.
pub(super) struct RecallSlopes {
    pub(super) key: Vec<f32>,
    pub(super) value: Vec<f32>,
}

impl Recalled {
    pub(super) fn of(site: &SitePlaces, weights: &[f32], fetch: &Fetch, d: usize) -> Self {
        let places = &fetch.places;
        let t = places.len();
        let tables = &weights[site.tables.clone()];
        let width = d * t / fetch.rows.len();
        let mut e = vec![0.0; t * d];
        for ((e, &row), &seen) in e.chunks_exact_mut(width).zip(&fetch.rows).zip(&fetch.seen) {
            if seen != 0.0 {
                e.copy_from_slice(&tables[row as usize * width..][..width]);
            }
        }
        let project = |range: &Range<usize>| {
            let mut y = vec![0.0; t * d];
            let weight = Matrix::new(&weights[range.clone()], d);
            product(Out::over(&mut y, d), 1.0, Matrix::new(&e, d), weight.t(), Crew::All);
            y
        };
        let (raw_key, raw_value) = (project(&site.key_proj), project(&site.value_proj));
        let mut key = raw_key.clone();
        for (key, raw) in key.chunks_exact_mut(d).zip(raw_key.chunks_exact(d)) {
            let r = norm::inverse(raw);
            key.iter_mut().for_each(|x| *x *= r);
        }
        let mut value = vec![0.0; t * d];
        for (at, value) in value.chunks_exact_mut(d).enumerate() {
            for (j, taps) in weights[site.taps.clone()].chunks_exact(d).enumerate() {
                let back = j * fetch.dilation;
                if back <= places[at] as usize {
                    let raw = &raw_value[(at - back) * d..][..d];
                    for ((value, tap), raw) in value.iter_mut().zip(taps).zip(raw) {
                        *value += tap * raw;
                    }
                }
            }
        }
        Self {
            e,
            key,
            raw_key,
            raw_value,
            value,
        }
    }

    /// Adds the gradients of the site's weights to `gradient`.
    pub(super) fn back(
        &self,
        slopes: &RecallSlopes,
        site: &SitePlaces,
        weights: &[f32],
        gradient: &mut [f32],
        fetch: &Fetch,
        d: usize,
    ) {
        let places = &fetch.places;
        let zero = vec![0.0; d];
        let mut d_key = vec![0.0; self.key.len()];
        let rows = d_key
            .chunks_exact_mut(d)
            .zip(self.raw_key.chunks_exact(d))
            .zip(slopes.key.chunks_exact(d));
        for ((d_key, raw), slope) in rows {
            norm::add_gradient(d_key, raw, &zero, norm::inverse(raw), slope);
        }
        let mut d_value = vec![0.0; self.value.len()];
        for (at, slope) in slopes.value.chunks_exact(d).enumerate() {
            for j in 0..site.taps.len() / d {
                let back = j * fetch.dilation;
                if back <= places[at] as usize {
                    let earlier = (at - back) * d..(at - back + 1) * d;
                    let taps = site.taps.start + j * d..site.taps.start + (j + 1) * d;
                    for i in 0..d {
                        d_value[earlier.start + i] += weights[taps.start + i] * slope[i];
                        gradient[taps.start + i] += self.raw_value[earlier.start + i] * slope[i];
                    }
                }
            }
        }
        let mut d_e = vec![0.0; self.e.len()];
        for (slope, range) in [(&d_key, &site.key_proj), (&d_value, &site.value_proj)] {
            let slope = Matrix::new(slope, d);
            product(
                Out::onto(&mut d_e, d),
                1.0,
                slope,
                Matrix::new(&weights[range.clone()], d),
                Crew::All,
            );
            let e = Matrix::new(&self.e, d);
            product(Out::onto(&mut gradient[range.clone()], d), 1.0, slope.t(), e, Crew::All);
        }
        let width = self.e.len() / fetch.rows.len();
        let tables = &mut gradient[site.tables.clone()];
        for ((d_e, &row), &seen) in d_e.chunks_exact(width).zip(&fetch.rows).zip(&fetch.seen) {
            add_scaled(&mut tables[row as usize * width..][..width], seen, d_e);
        }
    }
}

/// How a position agrees with its key: `α = σ(r·⟨u, key⟩/√D)`.
pub(super) struct Agreement {
    r: f32,
    /// `r·⟨u, key⟩`
    product: f32,
    pub(super) alpha: f32,
}

impl Agreement {
    #[inline(always)]
    pub(super) fn of(u: &[f32], key: &[f32]) -> Self {
        let r = norm::inverse(u);
        let product = r * dot(u, key);
        Self {
            r,
            product,
            alpha: sigmoid(product / (u.len() as f32).sqrt()),
        }
    }

    /// `slope`: the gradient of `u + α·value` in, that of `u` out; those of key and value are put where they are wanted.
    #[inline(always)]
    pub(super) fn back(
        &self,
        slope: &mut [f32],
        u: &[f32],
        key: &[f32],
        value: &[f32],
        wanted: Option<(&mut [f32], &mut [f32])>,
    ) {
        let d = u.len() as f32;
        let Self { r, product, alpha } = *self;
        let inner = dot(slope, value) * alpha * (1.0 - alpha) / d.sqrt();
        if let Some((d_key, d_value)) = wanted {
            d_value
                .iter_mut()
                .zip(slope.iter())
                .for_each(|(to, slope)| *to = alpha * slope);
            d_key.iter_mut().zip(u).for_each(|(to, u)| *to = inner * r * u);
        }
        for ((slope, u), key) in slope.iter_mut().zip(u).zip(key) {
            *slope += inner * r * (key - r * u * product / d);
        }
    }
}
