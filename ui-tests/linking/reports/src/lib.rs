//! Another one, which calls a work as the first does.

use leader::Tenure;

#[leader::work("mail")]
async fn mail(_: Tenure) {}

#[leader::work("report")]
async fn report(_: Tenure) {}
