//! The `#[cfg]`s of an item or an argument, hidden in `#[cfg_attr]`s or not.

use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::{Attribute, Meta};

/// What has to be copied so that whatever is left out of the program is left out of the registration. The compiler has
/// resolved the `cfg_attr`s of the item before it calls the attribute, and not those of its arguments.
pub(crate) fn conditions(attributes: &[Attribute]) -> TokenStream {
    let conditions = attributes.iter().filter_map(|attribute| condition(&attribute.meta));
    conditions.map(|condition| quote!(#[#condition])).collect()
}

fn condition(meta: &Meta) -> Option<TokenStream> {
    match meta {
        Meta::List(list) if list.path.is_ident("cfg") => Some(list.to_token_stream()),
        Meta::List(list) if list.path.is_ident("cfg_attr") => {
            let tokens: Vec<_> = list.tokens.clone().into_iter().collect();
            let mut parts = tokens.split(is_comma).map(|part| part.iter().cloned().collect::<TokenStream>());
            let when = parts.next()?;
            let conditions: Vec<_> =
                parts.filter_map(|attribute| condition(&syn::parse2(attribute).ok()?)).collect();
            (!conditions.is_empty()).then(|| quote!(cfg_attr(#when, #(#conditions),*)))
        }
        _ => None,
    }
}

fn is_comma(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == ',')
}

#[cfg(test)]
mod tests {
    use super::*;
    use syn::parse_quote;

    #[test]
    fn conditions_are_copied_and_nothing_else() {
        let attributes: [Attribute; 5] = [
            parse_quote!(#[inline]),
            parse_quote!(#[cfg(unix)]),
            parse_quote!(#[cfg_attr(true, inline, unsafe(no_mangle), cfg(any(a, b)))]),
            parse_quote!(#[cfg_attr(windows, doc = "text", allow(unused))]),
            parse_quote!(#[cfg_attr(feature = "a", cfg_attr(not(b), cfg(c), inline), cfg(d),)]),
        ];
        let expected = quote! {
            #[cfg(unix)]
            #[cfg_attr(true, cfg(any(a, b)))]
            #[cfg_attr(feature = "a", cfg_attr(not(b), cfg(c)), cfg(d))]
        };
        assert_eq!(conditions(&attributes).to_string(), expected.to_string());
    }
}
