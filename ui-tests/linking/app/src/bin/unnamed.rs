//! Depends on the library of its works, and never names it.

#[tokio::main(flavor = "current_thread")]
async fn main() {
    app::run!(leader, leader::Elector::builder().expect(["mail", "sweep"])).await;
}
