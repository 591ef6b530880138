//! Prints what the workloads do, beside what the SkyByte paper says of them.

use programs::{Workload, characterise, published};
use sim::Seed;

fn main() {
    for text in std::env::args().skip(1) {
        let workload = Workload::parse(&text).expect("a workload");
        let found = characterise(&mut *workload.program(Seed(1)).expect("a program"));
        println!("{text}: {found:?} writes {:.3}", found.write_share());
        println!("  pages with at most 40 % of their lines touched: {:.3}", found.share_up_to(4));
        println!("  published: {:?}", published(&workload.name()));
    }
}
