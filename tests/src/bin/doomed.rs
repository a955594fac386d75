//! Starts what a test process starts, tells where, and waits to be killed: nothing of it must survive.

use leader_tests::harness::{Kind, Launch, Server};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut directories = Vec::new();
    for kind in [Kind::Postgres, Kind::MySql] {
        let server = Server::shared(kind).await;
        let directory = server.directory().expect("a server of its own");
        directories.push(directory.display().to_string());
    }
    let child = Launch::bare("sleep").flag("3600", "3600").start();
    // Frozen, it would not notice anything by itself.
    child.freeze();
    println!("{} {}", child.pid(), directories.join(" "));
    std::future::pending::<()>().await;
}
