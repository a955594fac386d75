//! Works in a library of the edition before, which knows the crate `leader` by another name only.

#![forbid(unsafe_code)]
#![deny(warnings, missing_docs, rust_2018_idioms, unreachable_pub, unused_qualifications, unused_results)]
#![deny(let_underscore_drop, single_use_lifetimes, unused_lifetimes)]
#![deny(
    clippy::all,
    clippy::pedantic,
    clippy::nursery,
    clippy::absolute_paths,
    clippy::default_numeric_fallback
)]
#![deny(clippy::let_underscore_must_use, clippy::let_underscore_untyped, clippy::panic, clippy::unreachable)]
#![deny(
    clippy::pattern_type_mismatch,
    clippy::ref_patterns,
    clippy::shadow_unrelated,
    clippy::single_call_fn
)]
#![deny(clippy::std_instead_of_core, clippy::missing_docs_in_private_items, clippy::allow_attributes)]

use core::future::ready;
use std::io;

use boss::{State, Tenure};

/// For those who know `leader` through this crate only.
pub use boss as facade;

/// A state.
#[derive(Clone, Copy, Debug)]
pub struct App {
    /// How often.
    pub limit: usize,
}

/// Takes all there is.
///
/// # Errors
///
/// With too long a text.
#[boss::work("library_public", on_end = "drop", crate = boss)]
pub async fn public(
    tenure: Tenure,
    State(app): State<App>,
    text: State<&'static str>,
) -> Result<(), io::Error> {
    ready(()).await;
    if text.0.len() > app.limit {
        return Err(io::Error::other(text.0));
    }
    let _tenure = ready(tenure).await;
    Ok(())
}

/// A module.
mod inner {
    use core::future::ready;

    use boss::Tenure;

    /// Nobody calls it by its name.
    #[boss::work("library_private", crate = boss)]
    async fn private(tenure: Tenure) {
        let _tenure = ready(tenure).await;
    }
}

/// Writes a work.
macro_rules! written {
    ($name:literal, $function:ident, $tenure:ty, $app:ty) => {
        /// Written by a macro.
        #[boss::work($name , crate = boss)]
        pub async fn $function(tenure: $tenure, #[cfg(all())] State(app): $app) {
            let _tenure = ready((tenure, app)).await;
        }
    };
}

written!("library_written", written, Tenure, State<App>);
