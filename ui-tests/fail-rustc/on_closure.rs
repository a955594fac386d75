// errors: 3
fn main() {
    let _job = #[leader::work("job")]
    async |_tenure: leader::Tenure| {};
}
