use leader::__private::WORKS;

mod outer {
    pub(crate) mod inner {
        use leader::Tenure;

        #[leader::work("inner")]
        pub(super) async fn work(_tenure: Tenure) {}
    }
}

fn main() {
    let [work] = &WORKS[..] else {
        panic!("one work is registered");
    };
    assert_eq!(work.name, "inner");
    assert!(work.module.ends_with("::outer::inner"), "{}", work.module);
    assert!(work.file.ends_with("in_a_module.rs"), "{}", work.file);
    assert_eq!(work.line, 7);
}
