//! A library of works on the other version of `leader`.

use leader::Tenure;

#[leader::work("mail")]
async fn mail(_: Tenure) {
    println!("mail of later");
}

#[leader::work("archive")]
async fn archive(_: Tenure) {
    println!("archive of later");
}
