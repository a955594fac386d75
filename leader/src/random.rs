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
    let [low, high] = [bits(), bits() >> 64].map(|bits| u64::try_from(bits & u128::from(u64::MAX)).unwrap_or_default());
    fastrand::Rng::with_seed(low ^ high)
}
