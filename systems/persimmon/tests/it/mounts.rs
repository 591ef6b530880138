//! File systems that are made and mounted with nothing in them.

use crate::bench::{attached, ready};
use host::ZonedPort;
use persimmon::{MkfsOptions, Options, format, mount};
use sim::Kernel;
use ssd::ZoneState;

#[test]
fn new_file_system_mounts_again_and_again_and_is_made_anew() {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    kernel.block_on(async move {
        let port = attached(&sim, &ready(&sim));
        let made = MkfsOptions::default();
        format(&sim, &port, &made).await.unwrap();
        let superblock = port.zone(0).map(|zone| zone.state);
        assert_eq!(superblock, Some(ZoneState::Full), "written once");
        for round in 0..3 {
            let (fs, _) = mount(&sim, &port, Options::default()).await.unwrap();
            vfs::Body::unmount(&fs).await.unwrap();
            assert_eq!(fs.persist().metrics().checkpoints, 1, "round {round}");
        }
        let again = MkfsOptions {
            uuid: [9; 16],
            ..made
        };
        format(&sim, &port, &again).await.unwrap();
        mount(&sim, &port, Options::default()).await.unwrap();
    });
}
