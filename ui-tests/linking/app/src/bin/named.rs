//! Names the library of its works.

use jobs as _;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    app::run!(leader, leader::Elector::builder().expect(["mail", "sweep"])).await;
}
