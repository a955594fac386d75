//! The registration that is emitted beside the function.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;

use crate::arguments::{Arguments, OnEnd};
use crate::conditions::conditions;
use crate::signature::Function;

/// One element of the slice that the elector reads at start.
///
/// Every path begins at a crate, and no name of the user's is repeated but that of the function: its types are
/// inferred from calling it, so that they resolve, warn and fail once, where they were written. The call in `states`
/// is never made; it tells the compiler that the slots have the types of the arguments, which `start` cannot do as a
/// closure that captures nothing.
pub(crate) fn registration(arguments: &Arguments, function: &Function) -> TokenStream {
    let Arguments { name, on_end, leader } = arguments;
    let name = name.literal();
    let on_end = match on_end {
        OnEnd::Return => quote!(Return),
        OnEnd::Drop => quote!(Drop),
    };

    let function_name = &function.ident;
    // Made from the name of the function and longer than it: they cannot hide the function.
    let beside = |prefix: &str, suffix: &str| {
        Ident::new(&format!("{prefix}{}{suffix}", function_name.unraw()), Span::call_site())
    };
    // A second registration of the function is an error of the compiler's that names this item.
    let item = beside("__", "_is_registered_twice_leave_one_out");
    let private = beside("__leader_private_", "");

    let on_item = conditions(&function.attributes);
    let deprecated = function.attributes.iter().any(|attribute| attribute.path().is_ident("deprecated"));
    let allow = deprecated.then(|| quote!(#[allow(deprecated)]));

    let [tenure, states] = ["__tenure", "__states"].map(local);
    let tenure_type = inferred(&private, &function.tenure.ty);
    let on: Vec<_> = function.states.iter().map(|state| conditions(&state.attributes)).collect();
    let state_types: Vec<_> = function.states.iter().map(|state| inferred(&private, &state.ty)).collect();
    let slots: Vec<_> = (0..function.states.len()).map(|index| local(&format!("__slot_{index}"))).collect();
    let output = match &function.output {
        None => quote_spanned!(function_name.span()=> _),
        Some(ty) => inferred(&private, ty),
    };

    // A future that is not `Send` is reported at this call: at the name of the function.
    let here = function_name.span();
    let work = at(here, quote!(#private::work));
    let call = quote_spanned! {here=>
        #work::<_, #output>(#function_name(
            #private::tenure::<#tenure_type>(#tenure),
            #(#on #private::state::<#state_types>(#states),)*
        ))
    };

    // An error about the end of the path stands where the path was given.
    let end = leader.segments.last().map_or_else(Span::call_site, |segment| segment.ident.span());
    let registration = at(end, quote!(::__private::registration));
    quote! {
        #on_item
        #leader #registration! {
            #allow
            #item #private {
                name: #name,
                module: ::core::module_path!(),
                file: ::core::file!(),
                line: ::core::line!(),
                states: {
                    #(#on let #slots = #private::slot::<#state_types>();)*
                    let _ = |#tenure| #function_name(#tenure, #(#on (#slots.never)(),)*);
                    &[#(#on #slots.need,)*]
                },
                on_end: #private::OnEnd::#on_end,
                start: |#tenure, #states| #call,
            }
        }
    }
}

/// A name that only this expansion sees.
fn local(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

/// `Inferred<_>`, from the first to the last token of `ty`, which is where the compiler points.
fn inferred(private: &Ident, ty: impl ToTokens) -> TokenStream {
    let mut tokens = ty.into_token_stream().into_iter();
    let first = tokens.next().map_or_else(Span::call_site, |token| token.span());
    let last = tokens.last().map_or(first, |token| token.span());
    let mut inferred = at(first, quote!(#private::Inferred));
    inferred.extend(quote_spanned!(last=> <_>));
    inferred
}

/// The same tokens at another place.
fn at(span: Span, tokens: TokenStream) -> TokenStream {
    let moved = tokens.into_iter().map(|mut token| {
        token.set_span(span);
        token
    });
    moved.collect()
}
