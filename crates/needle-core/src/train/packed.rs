//! Rows of a batch behind each other, without padding: a position knows its place in its own row and sees no other row.

use std::ops::Range;

use super::Row;

/// Positions that pass through the network together.
#[derive(Debug)]
pub(super) struct Packed {
    /// The id at each position. A row's last id is only predicted, so it has no position.
    pub(super) ids: Vec<u32>,
    /// Each position's place in its row, which is also how many positions before it it sees.
    pub(super) places: Vec<u32>,
    /// Positions whose next id is scored, ascending.
    pub(super) scored: Vec<u32>,
    /// The ids that follow them.
    pub(super) targets: Vec<u32>,
}

impl Packed {
    pub(super) fn new(rows: &[&Row]) -> Self {
        let mut packed = Self {
            ids: vec![],
            places: vec![],
            scored: vec![],
            targets: vec![],
        };
        for row in rows {
            let (start, length) = (packed.ids.len() as u32, row.ids.len() - 1);
            packed.ids.extend(&row.ids[..length]);
            packed.places.extend(0..length as u32);
            packed
                .scored
                .extend((row.target_start - 1..length).map(|at| start + at as u32));
            packed.targets.extend(&row.ids[row.target_start..]);
        }
        packed
    }

    /// The rows in groups of at most `limit` positions, in their order; a longer row stands alone.
    pub(super) fn groups<'a>(rows: &[&'a Row], limit: usize) -> Vec<Vec<&'a Row>> {
        let mut groups: Vec<Vec<&Row>> = vec![];
        let mut filled = 0;
        for &row in rows {
            let length = row.ids.len() - 1;
            match groups.last_mut() {
                Some(group) if filled + length <= limit => {
                    group.push(row);
                    filled += length;
                }
                _ => {
                    groups.push(vec![row]);
                    filled = length;
                }
            }
        }
        groups
    }

    /// The rows, as ranges of positions.
    pub(super) fn texts(&self) -> Vec<Range<usize>> {
        let starts = (0..self.len()).filter(|&t| self.places[t] == 0);
        let ends = starts.clone().skip(1).chain([self.len()]);
        starts.zip(ends).map(|(start, end)| start..end).collect()
    }

    /// How many positions there are.
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_behind_each_other() {
        let rows = [
            Row {
                ids: vec![2, 10, 11, 12, 1],
                target_start: 3,
            },
            Row::text(vec![2, 20, 1]),
        ];
        let packed = Packed::new(&[&rows[0], &rows[1]]);
        assert_eq!(packed.ids, [2, 10, 11, 12, 2, 20]);
        assert_eq!(packed.places, [0, 1, 2, 3, 0, 1]);
        assert_eq!(packed.texts(), [0..4, 4..6]);
        assert_eq!(packed.scored, [2, 3, 4, 5]);
        assert_eq!(packed.targets, [12, 1, 20, 1]);
    }

    #[test]
    fn groups_keep_within_the_limit() {
        let rows: Vec<Row> = [5, 5, 30, 5, 5, 5].map(|length| Row::text(vec![2; length + 1])).into();
        let rows: Vec<&Row> = rows.iter().collect();
        let sizes: Vec<usize> = Packed::groups(&rows, 10).iter().map(Vec::len).collect();
        assert_eq!(sizes, [2, 1, 2, 1]);
    }
}
