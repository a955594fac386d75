use leader::__private::OnEnd;
use leader::State as Shared;
use leader_ui_tests::registered;

type Reign = leader::Tenure;
type App = Shared<u8>;
type Done<T = ()> = Result<T, std::io::Error>;

#[leader::work("aliases")]
async fn aliases(_reign: Reign, _app: App, Shared(_text): Shared<&'static str>) -> Done {
    Ok(())
}

fn main() {
    assert_eq!(registered(), [("aliases", OnEnd::Return, 2)]);
}
