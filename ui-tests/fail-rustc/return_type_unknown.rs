use leader::Tenure;

#[leader::work("job")]
async fn job(_tenure: Tenure) -> Result<(), Missing> {
    Ok(())
}

fn main() {}
