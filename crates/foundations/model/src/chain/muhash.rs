//! MuHash3072: a fingerprint of a set that doesn't depend on order and can be added to and taken
//! from, as Bitcoin Core computes it (`gettxoutsetinfo muhash`).
//!
//! Each element becomes a number of 3072 bits: the key stream of ChaCha20 under the element's
//! SHA-256. The set is the product of its elements' numbers modulo the prime 2^3072 - 1103717, and
//! its fingerprint the SHA-256 of the product. Removing is dividing. Unlike for a sum of short
//! hashes, nobody is known to be able to find two sets of the same product ([inchash]); that is
//! what so many bits are for.
//!
//! SHA-256 is the caller's: [`MuHash::insert`] takes hashes and [`MuHash::product`] gives the bytes
//! to be hashed.
//!
//! [inchash]: https://cseweb.ucsd.edu/~mihir/papers/inchash.pdf

/// 64-bit digits of a number.
const DIGITS: usize = 48;
/// Bytes of a number.
const BYTES: usize = DIGITS * 8;
/// What the prime lacks to 2^3072.
const GAP: u64 = 1_103_717;

/// A number below 2^3072, least significant digit first. Only [`Number::canonical`] is below the
/// prime.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Number([u64; DIGITS]);

impl Number {
    fn one() -> Self {
        let mut digits = [0; DIGITS];
        if let Some(lowest) = digits.first_mut() {
            *lowest = 1;
        }
        Self(digits)
    }

    /// The number that stands for an element with this SHA-256.
    fn of_element(sha256: &[u8; 32]) -> Self {
        let mut digits = [0; DIGITS];
        let blocks = (0..).map(|counter| key_stream(sha256, counter));
        for (eight, block) in digits.chunks_exact_mut(8).zip(blocks) {
            for (digit, pair) in eight.iter_mut().zip(block.chunks_exact(2)) {
                let halves = pair.iter().rev().fold(0, |sum, word| sum << 32 | u64::from(*word));
                *digit = halves;
            }
        }
        Self(digits)
    }

    /// The product modulo the prime.
    fn times(&self, other: &Self) -> Self {
        let mut product = [0; 2 * DIGITS];
        for (shift, digit) in self.0.iter().enumerate() {
            let (_, places) = product.split_at_mut(shift);
            let mut places = places.iter_mut();
            let mut carry = 0;
            for (factor, place) in other.0.iter().zip(&mut places) {
                let sum = wide(*digit) * wide(*factor) + wide(*place) + wide(carry);
                (*place, carry) = halves(sum);
            }
            if let Some(place) = places.next() {
                *place = carry;
            }
        }
        Self::folded(&product)
    }

    /// 2^3072 is the gap modulo the prime, so the upper half counts that many times.
    fn folded(product: &[u64; 2 * DIGITS]) -> Self {
        let (low, high) = product.split_at(DIGITS);
        let mut digits = [0; DIGITS];
        let mut carry = 0;
        for ((digit, low), high) in digits.iter_mut().zip(low).zip(high) {
            (*digit, carry) = halves(wide(*high) * wide(GAP) + wide(*low) + wide(carry));
        }
        let mut number = Self(digits);
        while carry > 0 {
            carry = number.add(wide(carry) * wide(GAP));
        }
        number
    }

    /// Adds a small number; returns what doesn't fit.
    fn add(&mut self, small: u128) -> u64 {
        let (mut rest, mut above) = halves(small);
        for digit in &mut self.0 {
            let (sum, carry) = halves(wide(*digit) + wide(rest));
            *digit = sum;
            // A digit's carry is at most one, and what is above far from full.
            rest = above + carry;
            above = 0;
        }
        rest
    }

    /// The same number below the prime.
    fn canonical(mut self) -> Self {
        let mut over = self.clone();
        if over.add(wide(GAP)) > 0 {
            self = over;
        }
        self
    }

    /// The number whose product with this one is 1, by Fermat's little theorem: this to the power
    /// of the prime less 2.
    fn inverse(&self) -> Self {
        let mut exponent = [u64::MAX; DIGITS];
        if let Some(lowest) = exponent.first_mut() {
            *lowest = 0_u64.wrapping_sub(GAP + 2);
        }
        let mut power = Self::one();
        for digit in exponent.iter().rev() {
            for bit in (0..64).rev() {
                power = power.times(&power);
                if digit >> bit & 1 == 1 {
                    power = power.times(self);
                }
            }
        }
        power
    }
}

fn wide(digit: u64) -> u128 {
    u128::from(digit)
}

/// The lower and the upper digit.
fn halves(sum: u128) -> (u64, u64) {
    #[allow(clippy::cast_possible_truncation)] // That is the point.
    (sum as u64, (sum >> 64) as u64)
}

/// One block of ChaCha20's key stream (RFC 8439, section 2.3) with a nonce of zero.
fn key_stream(key: &[u8; 32], counter: u32) -> [u32; 16] {
    let word = |at: usize| {
        let bytes = key.get(4 * at..).and_then(|rest| rest.first_chunk());
        bytes.copied().map_or(0, u32::from_le_bytes)
    };
    let [k0, k1, k2, k3, k4, k5, k6, k7] = std::array::from_fn(word);
    let start = [
        0x6170_7865,
        0x3320_646e,
        0x7962_2d32,
        0x6b20_6574, // "expand 32-byte k"
        k0,
        k1,
        k2,
        k3,
        k4,
        k5,
        k6,
        k7,
        counter,
        0,
        0,
        0,
    ];
    let mut state = start;
    for _ in 0..10 {
        state = double_round(state);
    }
    std::array::from_fn(|at| {
        let of = |words: &[u32; 16]| words.get(at).copied().unwrap_or_default();
        of(&state).wrapping_add(of(&start))
    })
}

/// Four columns, then four diagonals.
fn double_round(words: [u32; 16]) -> [u32; 16] {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = words;
    let ([a, e, i, m], [b, f, j, n]) = (quarter([a, e, i, m]), quarter([b, f, j, n]));
    let ([c, g, k, o], [d, h, l, p]) = (quarter([c, g, k, o]), quarter([d, h, l, p]));
    let ([a, f, k, p], [b, g, l, m]) = (quarter([a, f, k, p]), quarter([b, g, l, m]));
    let ([c, h, i, n], [d, e, j, o]) = (quarter([c, h, i, n]), quarter([d, e, j, o]));
    [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]
}

fn quarter([mut a, mut b, mut c, mut d]: [u32; 4]) -> [u32; 4] {
    a = a.wrapping_add(b);
    d = (d ^ a).rotate_left(16);
    c = c.wrapping_add(d);
    b = (b ^ c).rotate_left(12);
    a = a.wrapping_add(b);
    d = (d ^ a).rotate_left(8);
    c = c.wrapping_add(d);
    b = (b ^ c).rotate_left(7);
    [a, b, c, d]
}

/// A set of elements, known by their hashes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MuHash {
    /// Product of what is in the set.
    inserted: Number,
    /// Product of what was taken out; dividing is put off to the end.
    removed: Number,
}

impl Default for MuHash {
    fn default() -> Self {
        Self { inserted: Number::one(), removed: Number::one() }
    }
}

impl MuHash {
    /// Puts the element with this SHA-256 in.
    pub fn insert(&mut self, sha256: &[u8; 32]) {
        self.inserted = self.inserted.times(&Number::of_element(sha256));
    }

    /// Takes the element with this SHA-256 out.
    pub fn remove(&mut self, sha256: &[u8; 32]) {
        self.removed = self.removed.times(&Number::of_element(sha256));
    }

    /// Puts in what another set holds.
    pub fn combine(&mut self, other: &Self) {
        self.inserted = self.inserted.times(&other.inserted);
        self.removed = self.removed.times(&other.removed);
    }

    /// The product, least significant byte first. Its SHA-256 is the fingerprint; Core shows that
    /// reversed, like a block hash.
    pub fn product(&self) -> [u8; BYTES] {
        let quotient = if self.removed == Number::one() {
            self.inserted.clone()
        } else {
            self.inserted.times(&self.removed.inverse())
        };
        let mut bytes = [0; BYTES];
        for (eight, digit) in bytes.chunks_exact_mut(8).zip(quotient.canonical().0) {
            eight.copy_from_slice(&digit.to_le_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stream(key: [u8; 32]) -> String {
        let words = key_stream(&key, 0);
        let bytes = words.iter().flat_map(|word| word.to_le_bytes());
        bytes.map(|byte| format!("{byte:02x}")).collect()
    }

    /// From the draft that became RFC 8439, where the nonce is zero.
    #[test]
    fn the_key_stream_is_chacha20() {
        let zero = "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7\
                    da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586";
        assert_eq!(stream([0; 32]), zero);
        let one = "4540f05a9f1fb296d7736e7b208e3c96eb4fe1834688d2604f450952ed432d41\
                   bbe2a0b6ea7566d2a5d1e7e20d42af2c53d792b1c43fea817e9ad275ae546963";
        let mut key = [0; 32];
        key[31] = 1;
        assert_eq!(stream(key), one);
    }

    #[test]
    fn the_edges_of_the_field_are_right() {
        let largest = Number([u64::MAX; DIGITS]);
        // 2^3072 - 1 is the gap less one, modulo the prime.
        let mut small = [0; DIGITS];
        small[0] = GAP - 1;
        assert_eq!(largest.clone().canonical(), Number(small));
        let square = largest.times(&largest).canonical();
        assert_eq!(square, Number(small).times(&Number(small)).canonical());
        let mut prime = [u64::MAX; DIGITS];
        prime[0] = 0_u64.wrapping_sub(GAP);
        assert_eq!(Number(prime).canonical(), Number([0; DIGITS]));
        assert_eq!(largest.times(&largest.inverse()).canonical(), Number::one());
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

        #[test]
        fn order_does_not_matter_and_removing_undoes(
            mut elements in proptest::collection::vec(any::<[u8; 32]>(), 2..8),
            split in 0..8_usize,
        ) {
            let of = |elements: &[[u8; 32]]| {
                let mut set = MuHash::default();
                elements.iter().for_each(|element| set.insert(element));
                set
            };
            let whole = of(&elements).product();
            let (first, second) = elements.split_at(split.min(elements.len()));
            let mut halves = of(second);
            halves.combine(&of(first));
            prop_assert_eq!(halves.product(), whole);
            let last = elements.pop().unwrap_or_default();
            let mut without = of(&elements);
            prop_assert_ne!(without.product(), whole);
            let mut shrunk = halves;
            shrunk.remove(&last);
            prop_assert_eq!(shrunk.product(), without.product());
            without.insert(&last);
            prop_assert_eq!(without.product(), whole);
        }
    }
}
