//! Everything that can be wrong with the registrations of several crates.

use jobs as _;
use reports as _;

use leader::{State, Tenure};

#[leader::work("sweep")]
async fn sweep(_: Tenure) {}

mod inner {
    use leader::{State, Tenure};

    #[leader::work("sweep")]
    async fn sweep(_: Tenure, _: State<u8>, _: State<&'static str>, _: State<u8>) {}
}

#[leader::work("solo")]
async fn solo(_: Tenure, State(_): State<u8>) {}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let builder = leader::Elector::builder()
        .work("report", |_| async {})
        .work("janitor", |_| async {})
        .work("janitor", |_| async {})
        .work("padded ", |_| async {})
        .expect(["mail", "sweep", "report", "janitor", "padded ", "gone", "gone"])
        .expect(["gone"])
        .only(["sweep", "swep"])
        .only(["swep", " "])
        .except(["", "gone", "n".repeat(192).as_str()]);
    app::run!(leader, builder).await;
}
