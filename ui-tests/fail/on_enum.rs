#[leader::work("job")]
enum Job {}

fn main() {
    let _: Option<Job> = None;
}
