use leader as boss;

#[boss::work("job", crate = boss)]
#[boss::work("other", crate = boss)]
async fn job(_tenure: boss::Tenure) {}

fn main() {}
