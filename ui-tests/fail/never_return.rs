use leader::Tenure;

#[leader::work("job")]
async fn job(_tenure: Tenure) -> ! {
    std::process::exit(0)
}

fn main() {}
