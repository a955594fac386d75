fn main() {
    #[leader::work("job")]
    fn job(_tenure: leader::Tenure) {}
}
