//! Randomness from the operating system.

/// 128 random bits.
///
/// # Panics
///
/// If the operating system has none to give, which no supported one does after boot; ids that could repeat would be
/// worse.
pub(crate) fn bits() -> u128 {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the operating system has no randomness to give");
    u128::from_ne_bytes(bytes)
}

/// A generator for jitter.
pub(crate) fn generator() -> fastrand::Rng {
    fastrand::Rng::with_seed(getrandom::u64().expect("the operating system has no randomness to give"))
}
