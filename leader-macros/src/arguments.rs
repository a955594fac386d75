//! What stands in the parentheses of `#[leader::work(…)]`.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::quote;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser, Result};
use syn::{Error, Lit, LitStr, Path, Token};

use crate::errors::Errors;
use crate::name::Name;

const OPTIONS: &str = "the options are `on_end = \"drop\"` and `crate = path`";

/// The arguments of one attribute, all of them good.
pub(crate) struct Arguments {
    pub(crate) name: Name,
    pub(crate) on_end: OnEnd,
    /// Where the crate `leader` is found.
    pub(crate) leader: Path,
}

/// What becomes of the work's future when the tenure ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnEnd {
    Return,
    Drop,
}

impl Arguments {
    pub(crate) fn parse(tokens: TokenStream, errors: &Errors) -> Option<Self> {
        let arguments = split(tokens, errors);
        let (name, options) = match arguments.split_first() {
            Some((first, options)) if !is_option(first) => (Some(first), options),
            _ => (None, arguments.as_slice()),
        };
        let name = name.map(|name| read_name(name, errors));
        let mut read = Options::default();
        for option in options {
            if let Err(error) = read.set(option, name.is_some()) {
                errors.add(error);
            }
        }
        if name.is_none() && !read.misplaced_name {
            let message =
                "a work needs a name, before any option: write `#[leader::work(\"name\")]`";
            errors.add(Error::new(Span::call_site(), message));
        }
        Some(Self {
            name: name??,
            on_end: read.on_end.unwrap_or(OnEnd::Return),
            leader: read.leader.unwrap_or_else(|| syn::parse_quote!(::leader)),
        })
    }
}

fn read_name(tokens: &TokenStream, errors: &Errors) -> Option<Name> {
    if let Ok(Lit::Str(literal)) = syn::parse2(tokens.clone()) {
        return Name::new(literal, errors);
    }
    errors.at(
        tokens,
        "the name of a work is a string literal: write `#[leader::work(\"name\")]`",
    );
    None
}

/// The options read so far; each is set once.
#[derive(Default)]
struct Options {
    seen: Vec<Ident>,
    /// There is a name, and it stands where none is looked for.
    misplaced_name: bool,
    on_end: Option<OnEnd>,
    leader: Option<Path>,
}

impl Options {
    fn set(&mut self, tokens: &TokenStream, named: bool) -> Result<()> {
        if syn::parse2::<LitStr>(tokens.clone()).is_ok() {
            self.misplaced_name = true;
            let message = if named {
                "a work has one name: leave this one out"
            } else {
                "the name comes first: write `#[leader::work(\"name\", …)]`"
            };
            return Err(Error::new_spanned(tokens, message));
        }
        let given: Given = syn::parse2(tokens.clone())
            .map_err(|_| Error::new_spanned(tokens, format!("not an option: {OPTIONS}")))?;
        let option = &given.option;
        if self.seen.contains(option) {
            let message = format!("the option `{option}` is given twice: leave one out");
            return Err(Error::new_spanned(option, message));
        }
        self.seen.push(option.clone());
        match option.to_string().as_str() {
            "on_end" => self.on_end = Some(given.on_end()?),
            "crate" => self.leader = Some(given.leader()?),
            "name" => {
                self.misplaced_name = true;
                let message = "the name is not an option: write `#[leader::work(\"name\")]`";
                return Err(Error::new_spanned(option, message));
            }
            other => {
                return Err(Error::new_spanned(
                    option,
                    format!("unknown option `{other}`: {OPTIONS}"),
                ));
            }
        }
        Ok(())
    }
}

/// One option as it was written: a word, `=` and whatever follows.
struct Given {
    option: Ident,
    equals: Option<Token![=]>,
    value: TokenStream,
}

impl Given {
    fn on_end(&self) -> Result<OnEnd> {
        const WRITE: &str = "write `on_end = \"drop\"` or `on_end = \"return\"`";
        let value = self.value(WRITE)?;
        let Ok(text) = syn::parse2::<LitStr>(value.clone()) else {
            return Err(Error::new_spanned(
                value,
                format!("`on_end` takes a string: {WRITE}"),
            ));
        };
        match text.value().as_str() {
            "return" => Ok(OnEnd::Return),
            "drop" => Ok(OnEnd::Drop),
            other => Err(Error::new_spanned(
                value,
                format!("`on_end` cannot be `{other}`: {WRITE}"),
            )),
        }
    }

    fn leader(&self) -> Result<Path> {
        let value = self.value("write `crate = path`")?;
        if let Ok(path) = Path::parse_mod_style.parse2(value.clone()) {
            return Ok(path);
        }
        let message = match syn::parse2::<LitStr>(value.clone()) {
            Ok(text) => format!(
                "`crate` takes a path and not a string: write `crate = {}`",
                text.value()
            ),
            Err(_) => "`crate` takes the path of the crate `leader`: write `crate = path`".into(),
        };
        Err(Error::new_spanned(value, message))
    }

    fn value(&self, write: &str) -> Result<&TokenStream> {
        let Self {
            option,
            equals,
            value,
        } = self;
        if equals.is_some() && !value.is_empty() {
            return Ok(value);
        }
        let message = format!("the option `{option}` needs a value: {write}");
        Err(Error::new_spanned(quote!(#option #equals #value), message))
    }
}

impl Parse for Given {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let option = input.call(Ident::parse_any)?;
        if !input.is_empty()
            && !input.peek(syn::token::Paren)
            && (!input.peek(Token![=]) || input.peek(Token![==]))
        {
            return Err(input.error("not an option"));
        }
        Ok(Self {
            option,
            equals: input.parse()?,
            value: input.parse()?,
        })
    }
}

/// Whether the first argument is an option, and the name therefore missing. A word alone is rather a constant.
fn is_option(tokens: &TokenStream) -> bool {
    syn::parse2::<Given>(tokens.clone()).is_ok_and(|given| {
        given.equals.is_some() || given.option == "on_end" || given.option == "crate"
    })
}

/// The arguments between the commas, so that a bad one does not hide the next. A comma may end the list.
fn split(tokens: TokenStream, errors: &Errors) -> Vec<TokenStream> {
    let mut arguments = Vec::new();
    let mut argument = TokenStream::new();
    for token in tokens {
        match &token {
            TokenTree::Punct(comma) if comma.as_char() == ',' => {
                if argument.is_empty() {
                    errors.at(&token, "nothing stands before this comma: leave it out");
                } else {
                    arguments.push(std::mem::take(&mut argument));
                }
            }
            _ => argument.extend([token]),
        }
    }
    if !argument.is_empty() {
        arguments.push(argument);
    }
    arguments
}
