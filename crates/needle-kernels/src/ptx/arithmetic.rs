//! Instructions that no operator of Rust does.

/// `x·y + z` rounded downwards; the product is exact in float64, and the sum nearly.
pub(super) fn fma_down(x: f32, y: f32, z: f32) -> f32 {
    let exact = f64::from(x) * f64::from(y) + f64::from(z);
    let nearest = exact as f32;
    if f64::from(nearest) > exact {
        nearest.next_down()
    } else {
        nearest
    }
}

/// `length` bits of `x` from `at` on.
pub(super) fn bit_field(x: u64, at: u64, length: u64) -> u64 {
    if at > 31 || length == 0 {
        return 0;
    }
    x >> at & (u64::MAX >> (64 - length.min(64)))
}

/// Four bytes picked out of eight.
pub(super) fn permute(low: u64, high: u64, selector: u64) -> u64 {
    let bytes = (low & 0xffff_ffff | high << 32).to_le_bytes();
    (0..4).fold(0, |result, k| {
        let pick = selector >> (4 * k);
        let byte = bytes[(pick & 7) as usize];
        let byte = match pick & 8 {
            0 => byte,
            _ => ((byte as i8) >> 7) as u8,
        };
        result | u64::from(byte) << (8 * k)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_picked_in_the_order_of_the_selector() {
        assert_eq!(permute(0x4433_2211, 0x8877_6655, 0x3210), 0x4433_2211);
        assert_eq!(permute(0x4433_2211, 0x8877_6655, 0x7604), 0x8877_1155);
        assert_eq!(permute(0x0000_0080, 0, 0x8888), 0xffff_ffff);
    }

    #[test]
    fn sums_are_rounded_down() {
        assert_eq!(fma_down(1.0, 1.0, 1.0), 2.0);
        assert!(fma_down(1.0, 1e-9, 1.0) <= 1.0);
        assert!(fma_down(1.0, -1e-9, 1.0) < 1.0);
    }
}
