//! Names the library of its works, and looks at what the linker gathered. It gathers something of its own too, under the
//! name that `leader` would have chosen without thinking of others.

use jobs as _;

#[linkme::distributed_slice]
static WORKS: [&str];

#[linkme::distributed_slice(WORKS)]
static OURS: &str = "a work of another kind";

fn main() {
    for work in WORKS {
        println!("{work}");
    }
    for work in leader::__private::WORKS {
        println!("{}", work.name);
    }
}
