//! x
use proc_macro::TokenStream;
/// x
#[proc_macro_attribute]
pub fn work(_args: TokenStream, item: TokenStream) -> TokenStream { item }
