//! The attribute macro of `leader`. Use it through that crate, which documents everything else.

mod arguments;
mod conditions;
mod errors;
mod expansion;
mod head;
mod name;
mod signature;

use proc_macro2::TokenStream;

use crate::arguments::Arguments;
use crate::errors::Errors;
use crate::signature::Function;

#[doc = include_str!("work.md")]
#[proc_macro_attribute]
pub fn work(arguments: proc_macro::TokenStream, item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    expand(arguments.into(), item.into()).into()
}

/// The item exactly as it was written, and with it either its registration or what is wrong.
fn expand(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let errors = Errors::new();
    let arguments = Arguments::parse(arguments, &errors);
    if signature::is_closure(&item) {
        errors
            .at(&item, "a closure cannot be a work: write a free `async fn`, or give it to `Builder::work`");
        return errors.check().expect_err("there is one");
    }
    let leader = arguments.as_ref().map(|arguments| &arguments.leader);
    let function = Function::parse(item.clone(), leader, &errors);
    // The item stands last: an error behind a function that ends a block would become the value of the block.
    let mut expanded = match (errors.check(), arguments, function) {
        (Ok(()), Some(arguments), Some(function)) => expansion::registration(&arguments, &function),
        (Err(wrong), ..) => wrong,
        (Ok(()), ..) => unreachable!("whatever could not be read was reported"),
    };
    expanded.extend(item);
    expanded
}

#[cfg(test)]
mod tests {
    use super::*;
    use quote::quote;

    #[test]
    fn the_item_is_kept_as_written() {
        let function = quote! {
            /// Documented.
            #[inline]
            pub(in super::super) async fn work(mut tenure: Tenure, State(App { a, .. }): State<App>) -> Result<()> {
                yield not even valid { code }
            }
        };
        let structure = quote!(
            #[derive(Clone)]
            struct App;
        );
        for item in [function, structure] {
            for arguments in [quote!("name"), quote!("name ", nonsense), quote!()] {
                let expanded = expand(arguments, item.clone()).to_string();
                assert!(expanded.ends_with(&item.to_string()), "{expanded}");
            }
        }
    }

    #[test]
    fn what_is_wrong_is_not_registered() {
        let wrong = expand(
            quote!("name "),
            quote!(
                async fn work(_: Tenure) {}
            ),
        )
        .to_string();
        assert_eq!(wrong.matches("compile_error").count(), 1, "{wrong}");
        assert!(!wrong.contains("registration"), "{wrong}");
    }

    #[test]
    fn nothing_but_the_given_path_leads_to_the_crate() {
        let item = quote!(
            async fn work(_: Tenure, _: State<u8>) {}
        );
        let default = expand(quote!("name"), item.clone()).to_string();
        assert_eq!(default.matches(":: leader ::").count(), 1, "{default}");
        let renamed = expand(quote!("name", crate = crate::boss), item).to_string();
        assert_eq!(renamed.matches("crate :: boss ::").count(), 1, "{renamed}");
        assert!(!renamed.contains(":: leader ::"), "{renamed}");
    }
}
