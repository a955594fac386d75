use leader::Tenure;

#[leader::work("job")]
async fn job(_tenure: Tenure) -> Result<(), impl std::error::Error> {
    Err(std::fmt::Error)
}

fn main() {}
