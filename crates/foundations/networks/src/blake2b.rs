//! Cardano's hash function, of any length.

/// Blake2b of `N` bytes.
pub(crate) fn blake2b<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let hash = blake2b_simd::Params::new().hash_length(N).hash(bytes);
    let mut key = [0; N];
    key.iter_mut().zip(hash.as_bytes()).for_each(|(to, from)| *to = *from);
    key
}
