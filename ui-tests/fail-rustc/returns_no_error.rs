use leader::Tenure;

pub struct Fault;

#[leader::work("job")]
async fn job(_tenure: Tenure) -> Result<(), Fault> {
    Ok(())
}

fn main() {}
