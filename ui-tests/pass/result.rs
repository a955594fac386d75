use std::convert::Infallible;
use std::error::Error;

use leader::__private::OnEnd;
use leader::Tenure;
use leader_ui_tests::registered;

#[leader::work("concrete")]
async fn concrete(_tenure: Tenure) -> Result<(), std::io::Error> {
    Ok(())
}

#[leader::work("boxed")]
async fn boxed(_tenure: Tenure) -> Result<(), Box<dyn Error + Send + Sync>> {
    Ok(())
}

#[leader::work("text")]
async fn text(_tenure: Tenure) -> Result<(), &'static str> {
    Err("text")
}

#[leader::work("anyhow")]
async fn any(_tenure: Tenure) -> anyhow::Result<()> {
    Ok(())
}

#[leader::work("endless")]
async fn endless(_tenure: Tenure) -> Result<Infallible, std::io::Error> {
    loop {
        std::future::pending::<()>().await;
    }
}

#[leader::work("endless_anyhow")]
async fn endless_any(_tenure: Tenure) -> anyhow::Result<Infallible> {
    anyhow::bail!("an error")
}

type Unit = ();

#[leader::work("unit")]
async fn unit(_tenure: Tenure) -> Unit {}

fn main() {
    let names = [
        "anyhow",
        "boxed",
        "concrete",
        "endless",
        "endless_anyhow",
        "text",
        "unit",
    ];
    assert_eq!(registered(), names.map(|name| (name, OnEnd::Return, 0)));
}
