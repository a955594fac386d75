//! Which items can be a work, told by their syntax alone. What the types are is left to the compiler.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser, Result};
use syn::{Attribute, Error, GenericParam, LitStr, Path, Token, Visibility};

use crate::errors::Errors;
use crate::head::{self, Head, Input};

/// A function that can be a work as far as its syntax tells.
pub(crate) struct Function {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) ident: Ident,
    pub(crate) tenure: Argument,
    pub(crate) states: Vec<Argument>,
    /// The type that is returned, if one is written.
    pub(crate) output: Option<TokenStream>,
}

/// One argument, without the pattern: the caller does not care.
pub(crate) struct Argument {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) ty: TokenStream,
}

impl Function {
    /// Reads an item up to the body of the function, which is nobody's business here.
    ///
    /// `leader` is the path that the attribute may have been written with a second time.
    pub(crate) fn parse(item: TokenStream, leader: Option<&Path>, errors: &Errors) -> Option<Self> {
        let (attributes, head) = match function.parse2(item) {
            Ok(function) => function,
            Err(error) => {
                errors.add(error);
                return None;
            }
        };
        check_attributes(&attributes, leader, errors);
        check_modifiers(&head, errors);
        check_generics(&head, errors);
        if let Some(output) = &head.output {
            check_output(output, errors);
        }
        let mut arguments = check_arguments(&head, errors).into_iter();
        Some(Self {
            attributes,
            ident: head.ident,
            tenure: arguments.next()?,
            states: arguments.collect(),
            output: head.output,
        })
    }
}

fn function(input: ParseStream<'_>) -> Result<(Vec<Attribute>, Head)> {
    let attributes = input.call(Attribute::parse_outer)?;
    input.parse::<Visibility>()?;
    if !begins_function(&input.fork()) {
        let message = "only a free function can be a work: write `async fn`";
        return Err(Error::new_spanned(input.parse::<TokenTree>()?, message));
    }
    let head = input.parse()?;
    if let Some(end) = input.parse::<Option<Token![;]>>()? {
        let message = "a work has a body: write a free `async fn`";
        return Err(Error::new_spanned(end, message));
    }
    input.parse::<TokenStream>()?;
    Ok((attributes, head))
}

/// Whether the attribute stands on a closure, which an item beside it cannot be parsed with.
pub(crate) fn is_closure(item: &TokenStream) -> bool {
    let modifier =
        |token: &TokenTree| matches!(token, TokenTree::Ident(word) if word == "async" || word == "move");
    let first = item.clone().into_iter().find(|token| !modifier(token));
    matches!(first, Some(TokenTree::Punct(punct)) if punct.as_char() == '|')
}

fn begins_function(input: ParseStream<'_>) -> bool {
    while input.peek(Token![const])
        || input.peek(Token![async])
        || input.peek(Token![unsafe])
        || input.peek(Token![extern])
    {
        // `extern` may be followed by the name of an ABI.
        let modifier = input.call(Ident::parse_any).and_then(|_| input.parse::<Option<LitStr>>());
        if modifier.is_err() {
            return false;
        }
    }
    input.peek(Token![fn])
}

fn check_attributes(attributes: &[Attribute], leader: Option<&Path>, errors: &Errors) {
    let words = |path: &Path| -> Vec<_> {
        let segments = path.segments.iter();
        segments.map(|segment| segment.ident.to_string()).collect()
    };
    let mut renamed = leader.map(words).unwrap_or_default();
    renamed.push("work".into());
    for attribute in attributes {
        let path = words(attribute.path());
        if path == ["work"] || path == ["leader", "work"] || path == renamed {
            let message = "a function is one work: leave this second attribute out";
            errors.at(attribute, message);
        }
    }
}

fn check_modifiers(head: &Head, errors: &Errors) {
    match (&head.constness, &head.asyncness) {
        (Some(constness), None) => {
            errors.at(constness, "a work cannot be `const`: write `async fn`");
        }
        (None, None) => errors.at(head.fn_token, "a work is asynchronous: write `async fn`"),
        // The compiler itself refuses `const async`.
        (_, Some(_)) => {}
    }
    if let Some(token) = &head.unsafety {
        errors.at(token, "a work cannot be `unsafe`: leave it out");
    }
    if let Some(abi) = &head.abi {
        errors.at(abi, "a work cannot be `extern`: leave it out");
    }
}

fn check_generics(head: &Head, errors: &Errors) {
    for parameter in &head.generics.params {
        let message = match parameter {
            GenericParam::Type(of) => {
                format!("a work cannot be generic: write a type instead of `{}`", of.ident)
            }
            GenericParam::Const(of) => {
                format!("a work cannot be generic: write a value instead of `{}`", of.ident)
            }
            GenericParam::Lifetime(of) => {
                format!("a work cannot borrow: write `'static` instead of `{}`", of.lifetime)
            }
        };
        errors.at(parameter, message);
    }
    if let Some(clause) = &head.generics.where_clause {
        errors.at(clause, "a work cannot have a `where` clause: leave it out");
    }
}

fn check_output(output: &TokenStream, errors: &Errors) {
    if begins_with(output, '!') {
        errors
            .at(output, "a work cannot return `!`: write `Result<std::convert::Infallible, E>`, or nothing");
    }
    if let Some(span) = find_impl(output.clone()) {
        errors.add(Error::new(span, "a work cannot return an `impl Trait`: write the type"));
    }
}

fn check_arguments(head: &Head, errors: &Errors) -> Vec<Argument> {
    if head.inputs.is_empty() {
        let message = "a work takes its tenure: write `tenure: leader::Tenure`";
        errors.add(Error::new(head.parentheses, message));
    }
    let mut arguments = Vec::new();
    for input in &head.inputs {
        match input {
            Input::Receiver(receiver) => {
                errors.at(receiver, "a work is not a method: write a free `async fn`");
            }
            Input::Variadic(variadic) => {
                errors.at(variadic, "a work cannot be variadic: leave `...` out");
            }
            Input::Typed { attributes, ty } => {
                let write = if arguments.is_empty() {
                    "write `tenure: leader::Tenure`"
                } else {
                    "write `State(value): leader::State<YourType>`"
                };
                if begins_with(ty, '&') {
                    errors.at(ty, format_args!("a work cannot take a reference: {write}"));
                } else if let Some(span) = find_impl(ty.clone()) {
                    errors.add(Error::new(span, format_args!("a work cannot take an `impl Trait`: {write}")));
                }
                arguments.push(Argument { attributes: attributes.clone(), ty: ty.clone() });
            }
        }
    }
    arguments
}

/// Whether a type begins with this sign, the invisible groups of `macro_rules!` and parentheses left aside.
fn begins_with(ty: &TokenStream, sign: char) -> bool {
    match ty.clone().into_iter().next() {
        Some(TokenTree::Punct(first)) => first.as_char() == sign,
        Some(TokenTree::Group(group)) if is_one_type(&group) => begins_with(&group.stream(), sign),
        _ => false,
    }
}

/// A tuple is not.
fn is_one_type(group: &Group) -> bool {
    match group.delimiter() {
        Delimiter::None => true,
        Delimiter::Parenthesis => head::ty.parse2(group.stream()).is_ok(),
        Delimiter::Brace | Delimiter::Bracket => false,
    }
}

/// The first `impl` in a type, at whatever depth.
fn find_impl(tokens: TokenStream) -> Option<Span> {
    tokens.into_iter().find_map(|token| match token {
        TokenTree::Ident(ident) if ident == "impl" => Some(ident.span()),
        TokenTree::Group(group) => find_impl(group.stream()),
        _ => None,
    })
}
