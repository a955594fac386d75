use leader::Tenure;

#[leader::work("job")]
async fn job(_tenure: Tenure)
where
    Tenure: Clone,
{
}

fn main() {}
