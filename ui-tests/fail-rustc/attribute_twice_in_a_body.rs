use leader::Tenure;
use leader::work as replicated;

fn main() {
    #[replicated("job")]
    #[replicated("other")]
    async fn job(_tenure: Tenure) {}
}
