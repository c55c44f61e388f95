//! Random numbers with the same bits as `firstdiff.rng` in Python: Philox 4x32-10.

// fdlibm's constants, digit by digit
#![allow(clippy::excessive_precision)]

use std::f64::consts::{SQRT_2, TAU};

use crate::error::{Error, Result};

const LN2_HIGH: f64 = 6.93147180369123816490e-01;
const LN2_LOW: f64 = 1.90821492927058770002e-10;
const L1: f64 = 6.666666666666735130e-01;
const L2: f64 = 3.999999999940941908e-01;
const L3: f64 = 2.857142874366239149e-01;
const L4: f64 = 2.222219843214978396e-01;
const L5: f64 = 1.818357216161805012e-01;
const L6: f64 = 1.531383769920937332e-01;
const L7: f64 = 1.479819860511658591e-01;
const C: [f64; 6] = [
    4.16666666666666019037e-02,
    -1.38888888888741095749e-03,
    2.48015872894767294178e-05,
    -2.75573143513906633035e-07,
    2.08757232129817482790e-09,
    -1.13596475577881948265e-11,
];
const S: [f64; 6] = [
    -1.66666666666666324348e-01,
    8.33333333332248946124e-03,
    -1.98412698298579493134e-04,
    2.75573137070700676789e-06,
    -2.50507602534068634195e-08,
    1.58969099521155010221e-10,
];

/// A counter-based generator: the same seed, stream and position give the same draw in every language.
///
/// ```
/// use firstdiff::Rng;
///
/// let mut rng = Rng::new(42, 0);
/// let drawn: Vec<i64> = (0..5).map(|_| rng.integers(0, 10).unwrap()).collect();
/// assert_eq!(drawn, [6, 4, 0, 3, 9]); // as in Python
/// assert_eq!(rng.position(), 5);
/// rng.set_position(0);
/// let noise: Vec<f32> = (0..16).map(|_| rng.normal() as f32).collect();
/// # assert_eq!(noise.len(), 16);
/// ```
#[derive(Clone, Debug)]
pub struct Rng {
    seed: u64,
    stream: u64,
    position: u64,
    block: [u32; 4],
    block_number: Option<u64>,
}

impl Rng {
    /// A generator at its start; the streams of one seed are independent.
    pub fn new(seed: u64, stream: u64) -> Rng {
        Rng { seed, stream, position: 0, block: [0; 4], block_number: None }
    }

    /// The 32-bit words taken so far.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Go anywhere at once.
    pub fn set_position(&mut self, position: u64) {
        self.position = position;
    }

    /// Take the next word.
    pub fn next_u32(&mut self) -> u32 {
        let number = self.position / 4;
        if self.block_number != Some(number) {
            let counter = [number as u32, (number >> 32) as u32, self.stream as u32, (self.stream >> 32) as u32];
            self.block = philox4x32(counter, [self.seed as u32, (self.seed >> 32) as u32]);
            self.block_number = Some(number);
        }
        let word = self.block[(self.position % 4) as usize];
        self.position = self.position.wrapping_add(1);
        word
    }

    /// Draw from [0, 1) with 53 bits; takes two words.
    pub fn uniform(&mut self) -> f64 {
        let high = u64::from(self.next_u32() >> 5);
        let low = u64::from(self.next_u32() >> 6);
        ((high << 26) + low) as f64 / 9007199254740992.0
    }

    /// Draw from [0, 1) with 24 bits; takes one word.
    pub fn uniform_f32(&mut self) -> f32 {
        (self.next_u32() >> 8) as f32 / 16777216.0
    }

    /// Draw from the standard normal distribution; takes four words.
    pub fn normal(&mut self) -> f64 {
        let first = 1.0 - self.uniform();
        (-2.0 * log(first)).sqrt() * cos_turns(self.uniform())
    }

    /// Draw from the standard Gumbel distribution; takes two words.
    pub fn gumbel(&mut self) -> f64 {
        let half_step = 1.0 / 18014398509481984.0;
        let inside = (self.uniform() + half_step).min(1.0 - f64::EPSILON / 2.0);
        -log(-log(inside))
    }

    /// Draw a whole number, `low <= x < high`, without bias; an error for an empty range or one beyond 2^32 numbers.
    pub fn integers(&mut self, low: i64, high: i64) -> Result<i64> {
        let span = i128::from(high) - i128::from(low);
        if !(1..=1 << 32).contains(&span) {
            return Err(Error::usage(format!(
                "integers({low}, {high}) has {span} numbers to choose from; it takes 1 to 2^32"
            )));
        }
        Ok(low + self.below(span as u64) as i64)
    }

    /// Draw an order of `0..size`, by Fisher and Yates from the end; an error beyond 2^32.
    pub fn permutation(&mut self, size: usize) -> Result<Vec<usize>> {
        if size as u64 > 1 << 32 {
            return Err(Error::usage(format!("permutation({size}) is not possible; it takes 0 to 2^32")));
        }
        let mut order: Vec<usize> = (0..size).collect();
        for last in (1..size).rev() {
            let other = self.below(last as u64 + 1) as usize;
            order.swap(last, other);
        }
        Ok(order)
    }

    /// Lemire's method: the product's upper half is the draw, its lower half says whether it is fair.
    fn below(&mut self, span: u64) -> u64 {
        let threshold = ((1 << 32) - span) % span;
        loop {
            let product = u64::from(self.next_u32()) * span;
            if product & 0xFFFF_FFFF >= threshold {
                return product >> 32;
            }
        }
    }
}

/// Return the four words of one block.
pub fn philox4x32(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let [mut x0, mut x1, mut x2, mut x3] = counter;
    let [mut k0, mut k1] = key;
    for _ in 0..10 {
        let product0 = u64::from(x0) * 0xD251_1F53;
        let product2 = u64::from(x2) * 0xCD9E_8D57;
        x0 = (product2 >> 32) as u32 ^ x1 ^ k0;
        x1 = product2 as u32;
        x2 = (product0 >> 32) as u32 ^ x3 ^ k1;
        x3 = product0 as u32;
        k0 = k0.wrapping_add(0x9E37_79B9);
        k1 = k1.wrapping_add(0xBB67_AE85);
    }
    [x0, x1, x2, x3]
}

/// fdlibm's log in its general case, spelled out so that no mathematical library decides the last bit.
fn log(x: f64) -> f64 {
    let (scaled, shift) = if x < f64::MIN_POSITIVE { (x * 18014398509481984.0, -54) } else { (x, 0) };
    let bits = scaled.to_bits();
    let mut exponent = (bits >> 52) as i32 - 1023 + shift;
    let mut m = f64::from_bits(bits & 0x000F_FFFF_FFFF_FFFF | 0x3FF0_0000_0000_0000);
    if m > SQRT_2 {
        m *= 0.5;
        exponent += 1;
    }
    let k = f64::from(exponent);
    let f = m - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let w = z * z;
    let t1 = w * (L2 + w * (L4 + w * L6));
    let t2 = z * (L1 + w * (L3 + w * (L5 + w * L7)));
    let half_square = (0.5 * f) * f;
    k * LN2_HIGH - ((half_square - (s * (half_square + (t2 + t1)) + k * LN2_LOW)) - f)
}

/// The cosine of u turns, u in [0, 1).
fn cos_turns(u: f64) -> f64 {
    let quarter = (4.0 * u + 0.5).floor();
    let x = (u - quarter * 0.25) * TAU;
    let z = x * x;
    let cosine = 1.0 - (0.5 * z - z * z * (C[0] + z * (C[1] + z * (C[2] + z * (C[3] + z * (C[4] + z * C[5]))))));
    let sine = x + x * (z * (S[0] + z * (S[1] + z * (S[2] + z * (S[3] + z * (S[4] + z * S[5]))))));
    match quarter as u32 % 4 {
        0 => cosine,
        1 => -sine,
        2 => -cosine,
        _ => sine,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_the_known_answers_of_random123() {
        assert_eq!(philox4x32([0; 4], [0; 2]), [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
        assert_eq!(philox4x32([!0; 4], [!0; 2]), [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]);
        let counter = [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344];
        let words = [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1];
        assert_eq!(philox4x32(counter, [0xa4093822, 0x299f31d0]), words);
    }

    #[test]
    fn a_position_can_be_gone_back_to_and_wraps() {
        let mut rng = Rng::new(1, 2);
        let words: Vec<u32> = (0..9).map(|_| rng.next_u32()).collect();
        rng.set_position(3);
        assert_eq!((0..6).map(|_| rng.next_u32()).collect::<Vec<_>>(), words[3..]);
        rng.set_position(u64::MAX);
        rng.next_u32();
        assert_eq!(rng.position(), 0);
        assert_eq!(rng.next_u32(), words[0]);
    }

    #[test]
    fn ranges_that_cannot_be_drawn_from_take_no_word() {
        let mut rng = Rng::new(0, 0);
        for (low, high) in [(3, 3), (3, 2), (0, (1 << 32) + 1), (i64::MIN, i64::MAX)] {
            assert!(rng.integers(low, high).is_err());
        }
        assert_eq!(rng.position(), 0);
        assert_eq!(rng.integers(i64::MAX - 1, i64::MAX).unwrap(), i64::MAX - 1);
        assert!(rng.permutation(0).unwrap().is_empty());
    }

    #[test]
    fn log_and_cosine_are_those_of_mathematics() {
        for x in [1e-320, 1e-17, 0.3, 0.71, 1.0, SQRT_2, 2.0, 37.0, 1e300] {
            assert!((log(x) - x.ln()).abs() <= 4.0 * f64::EPSILON * x.ln().abs(), "log({x})");
        }
        for k in 0..1000 {
            let u = f64::from(k) / 1000.0;
            assert!((cos_turns(u) - (u * TAU).cos()).abs() < 1e-15, "cosine of {u} turns");
        }
    }
}
