//! Never names the library of its works, and does not say what it expects.

#[tokio::main(flavor = "current_thread")]
async fn main() {
    tracing_subscriber::fmt().without_time().with_ansi(false).init();
    app::run!(leader, leader::Elector::builder().instance("replica")).await;
}
