use leader::__private::WORKS;
use leader::Tenure;

#[leader::work("event consumer")]
async fn blank_inside(_tenure: Tenure) {}

#[leader::work(r#"größe/"ä""#)]
async fn raw(_tenure: Tenure) {}

#[leader::work(
    "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"
)]
async fn longest(_tenure: Tenure) {}

fn main() {
    assert_eq!(WORKS.len(), 3);
    for work in WORKS {
        assert_eq!(
            leader::WorkName::new(work.name).unwrap().as_str(),
            work.name
        );
    }
}
