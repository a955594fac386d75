//! The attribute macro of `leader`. Use it through that crate, which documents everything else.

mod arguments;
mod conditions;
mod errors;
mod expansion;
mod name;
mod signature;

use proc_macro2::TokenStream;

use crate::arguments::Arguments;
use crate::errors::Errors;
use crate::signature::Function;

/// Registers an async function as a work: of all replicas, exactly one runs it at a time.
///
/// ```
/// use leader::{State, Tenure};
///
/// #[derive(Clone)]
/// struct App {
///     queue: Vec<u64>,
/// }
///
/// #[leader::work("outbox_relay")]
/// async fn outbox_relay(tenure: Tenure, State(app): State<App>) -> Result<(), std::io::Error> {
///     for record in app.queue {
///         relay(&tenure, record).await?;
///     }
///     Ok(())
/// }
/// # async fn relay(_: &Tenure, _: u64) -> Result<(), std::io::Error> { Ok(()) }
/// ```
///
/// The function stays exactly as written: an ordinary function, which tests and other functions may call. Beside it
/// one hidden element is added to the list that the elector reads at start.
///
/// # The name
///
/// The name is the identity of the work in the database, in logs and in metrics. It is a string literal of 1 to 191
/// bytes, without control characters and without blanks at either end. Two works of one name fail the start.
///
/// # The signature
///
/// `async fn(Tenure)` or `async fn(Tenure, State<A>, State<B>, …)`, returning nothing, `Result<(), E>`, or
/// `Result<Infallible, E>` for a work that only ever ends with an error. `E` is whatever converts into
/// `Box<dyn Error + Send + Sync>`. The future is `Send`. Patterns, aliases and any visibility are fine; `self`,
/// references, generics and `impl Trait` are not, since the elector calls the function with values of its own.
///
/// # Options
///
/// They follow the name, in any order.
///
/// - `on_end = "return"`, the default: when the tenure ends, the work is told, and returns by itself.
/// - `on_end = "drop"`: its future is dropped the moment the tenure ends. For work that may be cut off at any `.await`.
/// - `crate = path`: where the crate `leader` is found, if not at `::leader`.
///
/// ```
/// mod facade {
///     pub use leader as boss;
/// }
/// use facade::boss::{self, Tenure};
///
/// #[boss::work("cache_warmer", on_end = "drop", crate = crate::facade::boss)]
/// async fn cache_warmer(_tenure: Tenure) {
///     std::future::pending::<()>().await;
/// }
/// # fn main() {}
/// ```
///
/// # Where it works
///
/// On free functions anywhere: in modules, in function bodies, in libraries, written by `macro_rules!`. What `#[cfg]`
/// leaves out is not registered. The linker leaves out a library that no source names: write `use that_library as _;`
/// in the program.
///
/// A wrong attribute is a compile error at the token that is wrong. The function is there all the same, so that
/// nothing else fails for the lack of it.
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
