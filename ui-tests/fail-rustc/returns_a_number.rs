use leader::Tenure;

#[leader::work("job")]
async fn job(_tenure: Tenure) -> u32 {
    7
}

fn main() {}
