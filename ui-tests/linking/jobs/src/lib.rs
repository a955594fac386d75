//! A library of works.

use leader::Tenure;

#[leader::work("mail")]
async fn mail(_: Tenure) {
    println!("mail of jobs");
}

mod night {
    use leader::Tenure;

    #[leader::work("sweep")]
    async fn sweep(_: Tenure) {
        println!("sweep of jobs");
    }
}
