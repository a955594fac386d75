// errors: 10
use leader::Tenure;

#[leader::work(" job", on_end = "abort", detached)]
unsafe extern "C" fn job<const N: usize>(_tenure: &Tenure, _state: &u8)
where
    Tenure: Clone,
{
}

fn main() {
    // The function is still there, so that nothing else is reported.
    let _ = job::<7>;
}
