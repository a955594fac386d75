//! Two versions of `leader`, each with works in a library, in one program.

use jobs as _;
use later as _;

#[leader::work("here")]
async fn here(_: leader::Tenure) {
    println!("here");
}

#[leader_next::work("here", crate = leader_next)]
async fn here_too(_: leader_next::Tenure) {
    println!("here too");
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let this = leader::Elector::builder().expect(["here", "mail", "sweep"]);
    let next = leader_next::Elector::builder().expect(["archive", "here", "mail"]);
    tokio::join!(app::run!(leader, this), app::run!(leader_next, next));
}
