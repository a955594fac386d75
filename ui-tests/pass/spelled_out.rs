use leader::__private::OnEnd;
use leader_ui_tests::registered;

#[leader::work("spelled_out")]
async fn spelled_out(
    _tenure: leader::Tenure,
    ::leader::State(_app): ::leader::State<u8>,
) -> ::std::io::Result<()> {
    Ok(())
}

fn main() {
    assert_eq!(registered(), [("spelled_out", OnEnd::Return, 1)]);
}
