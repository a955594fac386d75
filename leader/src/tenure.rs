//! A tenure.

/// A placeholder until the runtime lands beside the macro.
#[derive(Clone, Debug)]
pub struct Tenure(());
