//! What stands before the body of a function, read as far as a work needs it.
//!
//! Types and patterns are left as they are. `syn` would take them apart with the feature that reads function bodies too, which
//! takes longer to compile than everything else here.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream, Result};
use syn::{Attribute, Generics, LitStr, Token, parenthesized};

/// A function up to its body, attributes and visibility apart.
pub(crate) struct Head {
    pub(crate) constness: Option<Token![const]>,
    pub(crate) asyncness: Option<Token![async]>,
    pub(crate) unsafety: Option<Token![unsafe]>,
    /// `extern`, and the name of the ABI if there is one.
    pub(crate) abi: Option<TokenStream>,
    pub(crate) fn_token: Token![fn],
    pub(crate) ident: Ident,
    pub(crate) generics: Generics,
    pub(crate) parentheses: Span,
    pub(crate) inputs: Vec<Input>,
    /// The type that is returned, if one is written.
    pub(crate) output: Option<TokenStream>,
}

/// What stands between two commas of the parentheses.
pub(crate) enum Input {
    /// `self` in one of its forms.
    Receiver(TokenStream),
    /// `...`
    Variadic(TokenStream),
    Typed {
        attributes: Vec<Attribute>,
        ty: TokenStream,
    },
}

impl Parse for Head {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let constness = input.parse()?;
        let asyncness = input.parse()?;
        let unsafety = input.parse()?;
        let abi = abi(input)?;
        let fn_token = input.parse()?;
        let ident = input.parse()?;
        let mut generics: Generics = input.parse()?;
        let between;
        let parentheses = parenthesized!(between in input).span.join();
        let mut inputs = Vec::new();
        while !between.is_empty() {
            inputs.push(between.parse()?);
            if !between.is_empty() {
                between.parse::<Token![,]>()?;
            }
        }
        let arrow = input.parse::<Option<Token![->]>>()?;
        let output = arrow.map(|_| ty(input));
        generics.where_clause = input.parse()?;
        Ok(Self {
            constness,
            asyncness,
            unsafety,
            abi,
            fn_token,
            ident,
            generics,
            parentheses,
            inputs,
            output: output.transpose()?,
        })
    }
}

impl Parse for Input {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let attributes = input.call(Attribute::parse_outer)?;
        let pattern = pattern(input)?;
        let colon: Option<Token![:]> = input.parse()?;
        if input.peek(Token![...]) {
            let dots: Token![...] = input.parse()?;
            return Ok(Self::Variadic(quote!(#pattern #colon #dots)));
        }
        let ty = colon.map(|_| ty(input)).transpose()?;
        match ty {
            _ if is_receiver(&pattern) => Ok(Self::Receiver(quote!(#pattern #colon #ty))),
            Some(ty) => Ok(Self::Typed { attributes, ty }),
            None => Err(input.error("an argument has a type")),
        }
    }
}

/// Everything up to the colon before the type, if there is one.
fn pattern(input: ParseStream<'_>) -> Result<TokenStream> {
    until(input, |input| {
        input.peek(Token![,]) || input.peek(Token![...]) || (input.peek(Token![:]) && !input.peek(Token![::]))
    })
}

fn abi(input: ParseStream<'_>) -> Result<Option<TokenStream>> {
    let Some(token) = input.parse::<Option<Token![extern]>>()? else { return Ok(None) };
    let name: Option<LitStr> = input.parse()?;
    Ok(Some(quote!(#token #name)))
}

/// Whether a pattern is `self`, maybe mutable or by reference.
fn is_receiver(pattern: &TokenStream) -> bool {
    matches!(pattern.clone().into_iter().last(), Some(TokenTree::Ident(word)) if word == "self")
}

/// A type: everything up to whatever can follow one between parentheses or before the body.
pub(crate) fn ty(input: ParseStream<'_>) -> Result<TokenStream> {
    let ends = |input: ParseStream<'_>| {
        input.peek(Token![,])
            || input.peek(Token![;])
            || input.peek(Token![where])
            || input.peek(syn::token::Brace)
    };
    let ty = until(input, ends)?;
    if ty.is_empty() { Err(input.error("a type is missing")) } else { Ok(ty) }
}

/// Everything up to where this is said to end, angle brackets and the braces of macros left aside.
fn until(input: ParseStream<'_>, ends: impl Fn(ParseStream<'_>) -> bool) -> Result<TokenStream> {
    let mut tokens = TokenStream::new();
    let mut depth = 0_usize;
    let mut named = false;
    while !input.is_empty() && (depth > 0 || !ends(input)) {
        if input.peek(Token![->]) {
            input.parse::<Token![->]>()?.to_tokens(&mut tokens);
            continue;
        }
        if input.peek(Token![::]) {
            input.parse::<Token![::]>()?.to_tokens(&mut tokens);
            continue;
        }
        let token: TokenTree = input.parse()?;
        let sign = if let TokenTree::Punct(sign) = &token { Some(sign.as_char()) } else { None };
        match sign {
            Some('<') => depth += 1,
            Some('>') => depth = depth.saturating_sub(1),
            _ => {}
        }
        // The sign of a macro follows its name; alone it is the type `!`.
        let of_macro = named && sign == Some('!');
        named = matches!(token, TokenTree::Ident(_));
        tokens.extend([token]);
        if of_macro && input.peek(syn::token::Brace) {
            tokens.extend([input.parse::<TokenTree>()?]);
        }
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;
    use syn::parse::Parser;

    fn read(head: TokenStream) -> Head {
        syn::parse2(head).expect("it is a head")
    }

    fn spaceless(tokens: &impl ToTokens) -> String {
        tokens.to_token_stream().to_string().replace(' ', "")
    }

    #[test]
    fn types_end_where_they_end() {
        let Head { inputs, output, generics, .. } = read(quote! {
            fn work<'a, T: Iterator<Item = (u8, u16)>>(
                _: Map<u8, Vec<Option<(u8, u16)>>>,
                App { a: b, c, .. }: App<{ 1 < 2 }>,
                State::<u8>(d): fn(u8, u16) -> Map<u8, u16>,
                State::<Map<u8, fn(u8) -> u16>>(k): State<Map<u8, fn(u8) -> u16>>,
                _: state_of! { u8, u16 },
                #[cfg(a)] mut e: <T as Iterator>::Item,
                self::F | ::g::H { .. }: [Map<u8, u16>; 1 << 3],
                i: &'a (dyn Fn(u8) -> u16 + Send),
            ) -> Result<Map<u8, u16>, Box<dyn Fn() -> u8>> where T: Send
        });
        let expected = [
            "Map<u8,Vec<Option<(u8,u16)>>>",
            "App<{1<2}>",
            "fn(u8,u16)->Map<u8,u16>",
            "State<Map<u8,fn(u8)->u16>>",
            "state_of!{u8,u16}",
            "<TasIterator>::Item",
            "[Map<u8,u16>;1<<3]",
            "&'a(dynFn(u8)->u16+Send)",
        ];
        let types: Vec<_> = inputs
            .iter()
            .map(|input| match input {
                Input::Typed { ty, .. } => spaceless(ty),
                Input::Receiver(other) | Input::Variadic(other) => panic!("not an argument: {other}"),
            })
            .collect();
        assert_eq!(types, expected);
        assert_eq!(spaceless(&output.expect("it returns")), "Result<Map<u8,u16>,Box<dynFn()->u8>>");
        assert_eq!(generics.params.len(), 2);
        assert!(generics.where_clause.is_some());
    }

    #[test]
    fn receivers_are_told_from_patterns() {
        for receiver in
            [quote!(self), quote!(mut self), quote!(&self), quote!(&'a mut self), quote!(self: Box<Self>)]
        {
            let head = read(quote!(fn work(#receiver, _: Tenure)));
            assert!(
                matches!(head.inputs.as_slice(), [Input::Receiver(read), Input::Typed { .. }]
                    if read.to_string() == receiver.to_string()),
                "{receiver}"
            );
        }
    }

    #[test]
    fn what_is_returned_ends_before_the_bounds() {
        let Head { output, generics, .. } = read(quote!(fn work(_: Tenure) -> out! { u8 } where u8: Send));
        assert_eq!(spaceless(&output.expect("it returns")), "out!{u8}");
        assert!(generics.where_clause.is_some());
        // What follows is the body.
        let never = |input: ParseStream<'_>| {
            Ok((input.parse::<Head>()?.output, input.parse::<proc_macro2::Group>()?))
        };
        let (never, _body) = never
            .parse2(quote!(
                fn work(_: Tenure) -> ! {
                    loop {}
                }
            ))
            .expect("a head and a body");
        assert_eq!(spaceless(&never.expect("it returns")), "!");
    }

    #[test]
    fn modifiers_are_kept() {
        let head = read(quote!(const async unsafe extern "C" fn work(_: Tenure, _: ...)));
        assert!(head.constness.is_some() && head.asyncness.is_some() && head.unsafety.is_some());
        assert_eq!(spaceless(&head.abi.expect("there is one")), "extern\"C\"");
        assert!(
            matches!(head.inputs.as_slice(), [Input::Typed { .. }, Input::Variadic(dots)] if spaceless(dots) == "_:...")
        );
        assert!(head.output.is_none());
    }
}
