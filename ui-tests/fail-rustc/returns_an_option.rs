use leader::Tenure;

#[leader::work("job")]
async fn job(_tenure: Tenure) -> Option<()> {
    None
}

fn main() {}
