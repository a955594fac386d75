use leader::Tenure;

#[leader::work("job")]
async fn job(_tenure: Tenure) -> Result<(), Box<dyn std::error::Error>> {
    Ok(())
}

fn main() {}
