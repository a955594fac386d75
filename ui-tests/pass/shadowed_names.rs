#![allow(dead_code, unused_macros, non_camel_case_types, non_upper_case_globals)]

mod core {}
mod std {}
mod alloc {}
mod linkme {}
mod __private {}
struct Result;
struct Ok;
struct Err;
struct Option;
struct Some;
struct None;
struct Box;
struct String;
struct Vec;
struct Send;
struct Fn;
struct u8;
struct u32;
struct str;
struct Registration;
struct Work;
struct Tenure;
struct States;
struct OnEnd;
struct Inferred;
struct Shared;
trait Future {}
trait From {}
trait Into {}
const name: () = ();
const tenure: () = ();
const states: () = ();
const work: () = ();
static WORKS: () = ();
static start: () = ();
fn slot() {}
fn state() {}
fn need() {}
fn drop() {}

macro_rules! registration {
    () => {
        compile_error!()
    };
}
macro_rules! file {
    () => {
        compile_error!()
    };
}
macro_rules! line {
    () => {
        compile_error!()
    };
}
macro_rules! module_path {
    () => {
        compile_error!()
    };
}

mod leader {
    pub(super) struct State;
}

#[::leader::work("shadowed")]
async fn shadowed(
    _: ::leader::Tenure,
    _: ::leader::State<usize>,
) -> ::core::result::Result<(), ::std::io::Error> {
    ::core::result::Result::Ok(())
}

// The function may have a name of the list, too.
mod functions {
    #[::leader::work("private")]
    async fn __private(_: ::leader::Tenure) {}

    #[::leader::work("core")]
    async fn core(_: ::leader::Tenure) {}

    #[::leader::work("tenure")]
    async fn __tenure(_: ::leader::Tenure, _: ::leader::State<u8>) {}

    #[::leader::work("states")]
    async fn __states(_: ::leader::Tenure, _: ::leader::State<u8>) {}

    #[::leader::work("item")]
    async fn __registration(_: ::leader::Tenure, _: ::leader::State<u8>) {}

    #[::leader::work("slot")]
    async fn __slot_0(_: ::leader::Tenure, _: ::leader::State<u8>) {}
}

fn main() {
    let registered = ::leader_ui_tests::registered();
    assert_eq!(registered.len(), 7);
    assert_eq!(
        registered[3],
        ("shadowed", ::leader::__private::OnEnd::Return, 1)
    );
}
