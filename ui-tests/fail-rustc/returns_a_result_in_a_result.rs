use leader::Tenure;

#[leader::work("job")]
async fn job(_tenure: Tenure) -> Result<Result<(), String>, String> {
    Ok(Ok(()))
}

fn main() {}
