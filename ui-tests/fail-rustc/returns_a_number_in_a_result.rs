use leader::Tenure;

#[leader::work("job")]
async fn job(_tenure: Tenure) -> Result<u32, std::io::Error> {
    Ok(7)
}

fn main() {}
