//! The levels that a code stands for.

/// Width of a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CodeWidth {
    /// One bit, two levels.
    Binary,
    /// Two bits, three levels.
    Ternary,
    /// Two bits, four levels.
    Two,
    /// Three bits, eight levels.
    Three,
    /// Four bits, sixteen levels.
    Four,
}

impl CodeWidth {
    /// Bits that a code takes.
    pub fn bits(self) -> usize {
        match self {
            Self::Binary => 1,
            Self::Ternary | Self::Two => 2,
            Self::Three => 3,
            Self::Four => 4,
        }
    }

    /// Different levels of a code.
    pub fn level_count(self) -> usize {
        match self {
            Self::Ternary => 3,
            other => 1 << other.bits(),
        }
    }

    /// The stored code of the level at this place of the ascending codebook.
    ///
    /// Ternary codes are signed two-bit numbers: 3 is −1, 0 is 0, 1 is +1. The others count upwards.
    pub(super) fn code(self, place: usize) -> u8 {
        match (self, place) {
            (Self::Ternary, 0) => 3,
            (Self::Ternary, place) => place as u8 - 1,
            (_, place) => place as u8,
        }
    }
}

// The published quantiser's levels for a unit Gaussian. Its Lloyd-Max iteration runs over 400,000 drawn samples, so they
// lie up to 0.03 from the exact optimum and are not symmetric; every published weight was rounded to these.
const TWO: [f64; 4] = [
    -1.5066708475715247,
    -0.45144060939344055,
    0.4529474939511613,
    1.5099326242547164,
];
const THREE: [f64; 8] = [
    -2.141247862845774,
    -1.3337164609389895,
    -0.7483982925010272,
    -0.23774016363616235,
    0.2500446195658646,
    0.7555868210708537,
    1.3379826350451236,
    2.1476362705161423,
];
const FOUR: [f64; 16] = [
    -2.709990028558534,
    -2.0444556051349227,
    -1.5947570221842273,
    -1.233336191082712,
    -0.9222139662739897,
    -0.6395373737252813,
    -0.37266394934485414,
    -0.11445072030649898,
    0.14380628677643073,
    0.4039889754802918,
    0.6726933686864701,
    0.9614053009735016,
    1.2755257831234952,
    1.6370587960592824,
    2.0844263722579237,
    2.7410141261982846,
];
const TERNARY: f64 = 1.2240064;

/// The standard codebook, ascending: the levels for a unit Gaussian divided by `sqrt(group)`, because a rotated group of
/// norm 1 has entries of that size.
pub fn levels(width: CodeWidth, group: usize) -> Vec<f32> {
    let binary = (2.0 / std::f64::consts::PI).sqrt();
    let unit: &[f64] = match width {
        CodeWidth::Binary => &[-binary, binary],
        CodeWidth::Ternary => &[-TERNARY, 0.0, TERNARY],
        CodeWidth::Two => &TWO,
        CodeWidth::Three => &THREE,
        CodeWidth::Four => &FOUR,
    };
    unit.iter()
        .map(|level| (level / (group as f64).sqrt()) as f32)
        .collect()
}
