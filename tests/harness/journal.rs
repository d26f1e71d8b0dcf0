//! The agent's journal: what it has made durable, and the comparison of that set with the database. Never trusts counts.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::Context as _;

/// A frame's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Whose.
    pub device: u32,
    /// Its epoch.
    pub epoch: u64,
    /// Its sequence.
    pub seq: u64,
}

/// Frames by place, with their digests.
pub type Frames = BTreeMap<Place, [u8; 16]>;

/// Reads `epoch seq digest` a line (separated by blanks or commas). A last line without its end is
/// left out: the agent died while it wrote it.
///
/// Errors: the file, or a whole line that is none.
pub fn read(file: &Path, device: u32, into: &mut Frames) -> anyhow::Result<usize> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).context(file.display().to_string()),
    };
    let whole = text
        .rfind('\n')
        .map_or("", |end| text.get(..end).unwrap_or(""));
    let mut lines = 0;
    for line in whole.lines() {
        let (place, digest) = parse(line, device)
            .with_context(|| format!("{}: not a line of a journal: {line}", file.display()))?;
        if let Some(other) = into.insert(place, digest) {
            anyhow::ensure!(
                other == digest,
                "{}: {place:?} was used for two frames",
                file.display()
            );
        }
        lines += 1;
    }
    Ok(lines)
}

fn parse(line: &str, device: u32) -> Option<(Place, [u8; 16])> {
    let mut fields = line.split([' ', ',', '\t']).filter(|f| !f.is_empty());
    let epoch = fields.next()?.parse().ok()?;
    let seq = fields.next()?.parse().ok()?;
    let hex = fields.next()?;
    let mut digest = [0; 16];
    if hex.len() != 32 || fields.next().is_some() {
        return None;
    }
    for (to, at) in digest.iter_mut().zip((0..32).step_by(2)) {
        *to = u8::from_str_radix(hex.get(at..at + 2)?, 16).ok()?;
    }
    Some((Place { device, epoch, seq }, digest))
}

/// How two sets differ.
#[derive(Debug, Default)]
pub struct Difference {
    /// In the journals, not in the database.
    pub lost: Vec<Place>,
    /// More than one row.
    pub doubled: Vec<Place>,
    /// Other bytes than the journal's.
    pub altered: Vec<Place>,
    /// In the database, not in the journals: a frame is synced before its line is written, so the
    /// agent's death between the two leaves one, which is no fault but is counted.
    pub unlisted: Vec<Place>,
}

impl Difference {
    /// Compares.
    #[must_use]
    pub fn between(expected: &Frames, stored: &BTreeMap<Place, Vec<[u8; 16]>>) -> Self {
        let mut difference = Self::default();
        for (place, digest) in expected {
            match stored.get(place).map(Vec::as_slice) {
                None | Some([]) => difference.lost.push(*place),
                Some([one]) if one == digest => {}
                Some([_]) => difference.altered.push(*place),
                Some(_) => difference.doubled.push(*place),
            }
        }
        for (place, rows) in stored {
            if !expected.contains_key(place) {
                difference.unlisted.push(*place);
                if rows.len() > 1 {
                    difference.doubled.push(*place);
                }
            }
        }
        difference
    }

    /// Nothing lost, doubled or altered.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.lost.is_empty() && self.doubled.is_empty() && self.altered.is_empty()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn place(seq: u64) -> Place {
        Place {
            device: 7,
            epoch: 1,
            seq,
        }
    }

    #[test]
    fn a_torn_last_line_is_left_out_and_a_broken_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("journal");
        let line = format!("1 1 {}\n", "ab".repeat(16));
        fs::write(&file, format!("{line}1 2 abab")).unwrap();
        let mut frames = Frames::new();
        assert_eq!(read(&file, 7, &mut frames).unwrap(), 1);
        assert_eq!(frames, Frames::from([(place(1), [0xab; 16])]));
        fs::write(&file, "1 2 abab\n").unwrap();
        assert!(read(&file, 7, &mut frames).is_err());
    }

    #[test]
    fn every_kind_of_difference_is_told() {
        let expected = Frames::from([1, 2, 3, 4].map(|seq| (place(seq), [1; 16])));
        let stored = BTreeMap::from([
            (place(1), vec![[1; 16]]),
            (place(2), vec![[1; 16], [1; 16]]),
            (place(3), vec![[2; 16]]),
            (place(9), vec![[1; 16]]),
        ]);
        let found = Difference::between(&expected, &stored);
        assert_eq!(found.lost, [place(4)]);
        assert_eq!(found.doubled, [place(2)]);
        assert_eq!(found.altered, [place(3)]);
        assert_eq!(found.unlisted, [place(9)]);
        assert!(!found.is_none());
    }
}
