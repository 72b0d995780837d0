//! Numbers drawn from a seed, the same on every machine: first values, the order of an epoch.

/// SplitMix64: a counter and a mixing function. Good enough to shuffle rows and to start weights.
pub(crate) struct Random {
    state: u64,
}

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

impl Random {
    /// The numbers of stream `stream` of a seed.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut random = Self { state: seed };
        random.state = random.next() ^ stream.wrapping_mul(GOLDEN);
        random
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform in (0, 1].
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// A whole number below `bound`, which is not 0.
    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// `count` numbers of a normal distribution around 0.
    pub(crate) fn normal(&mut self, deviation: f64, count: usize) -> Vec<f32> {
        let draw = |_| {
            let (radius, angle) = ((-2.0 * self.unit().ln()).sqrt(), std::f64::consts::TAU * self.unit());
            (deviation * radius * angle.cos()) as f32
        };
        (0..count).map(draw).collect()
    }
}

/// `count` numbers of a normal distribution around 0, the same for a seed.
pub(crate) fn normal_values(seed: u64, deviation: f64, count: usize) -> Vec<f32> {
    Random::new(seed, 0).normal(deviation, count)
}

/// The order in which epoch `epoch` (from 0) takes `count` rows. It depends on nothing else, so a resumed run needs no state
/// of it.
pub fn epoch_order(seed: u64, epoch: u64, count: usize) -> Vec<usize> {
    let mut random = Random::new(seed, epoch.wrapping_add(1));
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        order.swap(last, random.below(last + 1));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_holds_every_row_once_and_changes_with_seed_and_epoch() {
        for count in [0, 1, 2, 100] {
            let mut order = epoch_order(7, 0, count);
            order.sort_unstable();
            assert_eq!(order, (0..count).collect::<Vec<_>>());
        }
        let orders = [epoch_order(7, 0, 40), epoch_order(7, 1, 40), epoch_order(8, 0, 40)];
        assert_eq!(orders[0], epoch_order(7, 0, 40));
        assert_ne!(orders[0], orders[1]);
        assert_ne!(orders[0], orders[2]);
        assert_ne!(orders[1], orders[2]);
    }

    #[test]
    fn normal_numbers_have_their_moments() {
        let values = Random::new(3, 0).normal(0.25, 100_000);
        let mean = values.iter().map(|&x| f64::from(x)).sum::<f64>() / 1e5;
        let square = values.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / 1e5;
        assert!(mean.abs() < 0.003, "{mean}");
        assert!((square.sqrt() - 0.25).abs() < 0.003, "{square}");
    }
}
