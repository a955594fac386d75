use leader::Tenure;

const JOB: &str = "job";

#[leader::work(JOB)]
async fn job(_tenure: Tenure) {
    let _ = JOB;
}

fn main() {}
