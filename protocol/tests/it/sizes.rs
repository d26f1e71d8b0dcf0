//! The size bars on real tracks at 1 Hz in batches of 10 fixes.

use crate::harvest::{self, Columns};
use furrow_protocol::batch::Batch;

struct Sizes {
    batch_mean: f64,
    frame_mean: f64,
    largest_frame: usize,
}

fn mean(sizes: &[usize]) -> f64 {
    let sum: usize = sizes.iter().sum();
    sum as f64 / sizes.len() as f64
}

fn sizes(columns: Columns) -> Option<Sizes> {
    let folder = harvest::folder()?;
    let (mut batch_sizes, mut frame_sizes) = (vec![], vec![]);
    for track in harvest::tracks(&folder, columns) {
        let batches = harvest::batches(&track);
        for batch in &batches {
            let bytes = batch.encode().unwrap();
            assert_eq!(Batch::decode(&bytes).as_ref(), Ok(batch));
            batch_sizes.push(bytes.len());
        }
        frame_sizes.extend(harvest::frames(&batches).iter().map(Vec::len));
    }
    assert!(frame_sizes.len() > 3000, "12 tracks of the harvester");
    Some(Sizes {
        batch_mean: mean(&batch_sizes),
        frame_mean: mean(&frame_sizes),
        largest_frame: frame_sizes.into_iter().max()?,
    })
}

#[test]
fn frames_of_a_real_harvest_keep_the_size_bars() {
    let (Some(replayed), Some(all)) = (sizes(Columns::AsReplayed), sizes(Columns::All)) else {
        eprintln!("shared/data/tracks/forage_harvester: not present, nothing measured");
        return;
    };
    for (name, sizes) in [("as replayed", &replayed), ("all columns", &all)] {
        eprintln!(
            "{name}: batch mean {:.1}, frame mean {:.1}, largest frame {} bytes",
            sizes.batch_mean, sizes.frame_mean, sizes.largest_frame
        );
    }
    assert!(replayed.batch_mean <= 90.0);
    assert!(replayed.frame_mean <= 190.0);
    assert!(all.frame_mean <= 205.0);
    assert!(replayed.largest_frame.max(all.largest_frame) <= 240);
}
