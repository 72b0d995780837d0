//! Rows to train on and rows to judge by, with nothing on both sides.

use std::collections::HashMap;

use super::{Chance, Dataset, Row, folded};

/// The two sides, each in the order of the file.
#[derive(Clone, Debug, Default)]
pub struct Split {
    /// To train on.
    pub train: Vec<Row>,
    /// Held out.
    pub held_out: Vec<Row>,
}

/// Rows that ask the same, which stay together.
struct Group {
    rows: Vec<usize>,
    stratum: String,
    /// Where it stands among its stratum's rows, from 0 to 1.
    place: f64,
}

impl Dataset {
    /// Holds out a share of the rows, the same ones for a seed.
    ///
    /// Rows with the same query (but for capitals, spaces and a mark at the end) stay on one side, whatever their tools and
    /// answers. Every stratum (category, or the tools called) gives its share, as far as it is large enough; one that is
    /// too small for a whole row stays in training. `fraction` is taken between 0 and 1: above 0, at least one row is held out
    /// where there are two different ones, and at least one row is left to train on.
    pub fn split(&self, fraction: f64, seed: u64) -> Split {
        let mut groups = groups(&self.rows);
        Chance::new(seed).shuffle(&mut groups);
        spread(&mut groups);
        groups.sort_by(|a, b| a.place.total_cmp(&b.place));
        let total = self.rows.len();
        let wanted = match fraction > 0.0 && groups.len() > 1 {
            true => ((total as f64 * fraction.min(1.0)).round() as usize).clamp(1, total - 1),
            false => 0,
        };
        let mut held = vec![false; total];
        let mut count = 0;
        let mut take = |group: &Group| {
            group.rows.iter().for_each(|&row| held[row] = true);
            group.rows.len()
        };
        for group in groups.iter().filter(|_| wanted > 0) {
            if count + group.rows.len() <= wanted {
                count += take(group);
            }
        }
        // Where every group is larger than what is wanted, the smallest is nearest to it.
        if wanted > 0
            && count == 0
            && let Some(smallest) = groups.iter().min_by_key(|group| group.rows.len())
        {
            take(smallest);
        }
        let mut split = Split::default();
        for (row, held) in self.rows.iter().zip(held) {
            match held {
                true => split.held_out.push(row.clone()),
                false => split.train.push(row.clone()),
            }
        }
        split
    }
}

fn groups(rows: &[Row]) -> Vec<Group> {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut groups: Vec<Group> = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let place = *places.entry(folded(&row.example.query)).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.rows.push(at),
            None => groups.push(Group {
                rows: vec![at],
                stratum: stratum(row),
                place: 0.0,
            }),
        }
    }
    groups
}

/// What a row is an example of: its category, and the tools that it calls.
fn stratum(row: &Row) -> String {
    let mut names: Vec<&str> = row.calls.iter().map(|call| call.name.as_str()).collect();
    names.sort_unstable();
    names.insert(0, row.category.as_deref().unwrap_or_default());
    names.join("\n")
}

/// Spreads the groups of each stratum evenly over 0 to 1, so that the first part of all of them together is the first part of
/// each.
fn spread(groups: &mut [Group]) {
    let mut sizes: HashMap<String, (usize, usize)> = HashMap::new();
    for group in groups.iter() {
        sizes.entry(group.stratum.clone()).or_default().1 += group.rows.len();
    }
    for group in groups {
        if let Some((before, all)) = sizes.get_mut(&group.stratum) {
            group.place = (*before as f64 + group.rows.len() as f64 / 2.0) / *all as f64;
            *before += group.rows.len();
        }
    }
}
