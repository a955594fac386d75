use std::sync::{Arc, Mutex};

use leader::{State, Tenure};

#[leader::work("job")]
async fn job(tenure: Tenure, State(count): State<Arc<Mutex<u64>>>) {
    let mut count = count.lock().unwrap();
    tenure.ended().await;
    *count += 1;
}

fn main() {}
