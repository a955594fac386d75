#[leader::work("job")]
trait Job {}

fn main() {
    fn _with(_: &dyn Job) {}
}
