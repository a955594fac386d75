use leader_ui_library::facade;
use leader_ui_tests::registered;

#[facade::work("facade", crate = leader_ui_library::facade)]
async fn job(tenure: facade::Tenure, facade::State(_count): facade::State<u8>) {
    tenure.ended().await;
}

fn main() {
    let names = registered().into_iter().map(|work| work.0);
    let own: Vec<_> = names
        .filter(|name| !name.starts_with("library_"))
        .collect();
    assert_eq!(own, ["facade"]);
}
