//! What `Builder::work` takes, for works that the attribute cannot register.

use std::sync::Arc;

use leader::{Ended, Tenure};

trait Sink: Clone + Send + Sync + 'static {
    fn put(&self, number: u64) -> impl Future<Output = ()> + Send;
}

#[derive(Clone)]
struct Log(Arc<str>);

impl Sink for Log {
    async fn put(&self, number: u64) {
        println!("{} {number}", self.0);
    }
}

async fn generic<S: Sink>(tenure: Tenure, sink: S) -> Result<(), Ended> {
    tenure.until_ended(sink.put(7)).await
}

fn main() {
    let (first, second) = (Log("first".into()), Log("second".into()));
    let builder = leader::Elector::builder()
        .work("generic", move |tenure| generic(tenure, first.clone()))
        .work("closure", async |tenure: Tenure| {
            tenure.ended().await;
        })
        .work("closure_with_a_value", move |tenure: Tenure| {
            let sink = second.clone();
            async move {
                sink.put(7).await;
                tenure.check()
            }
        });
    drop(builder);
}
