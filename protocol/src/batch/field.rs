//! The columns of a batch: how each reaches into a fix. Their order is the order on the wire and never changes within a version.

use crate::fix::{Fix, Quality, Work, WorkSource};

/// One column.
pub(super) struct Field {
    /// As errors call it.
    pub name: &'static str,
    /// The value as a number; none where the fix does not know it.
    pub get: fn(&Fix) -> Option<i64>,
    /// Sets the value; none if its type does not hold the number.
    pub set: fn(&mut Fix, i64) -> Option<()>,
}

/// Columns of every batch with a fix.
pub(super) const REQUIRED: [Field; 3] = [
    Field {
        name: "time of fixes",
        get: |f| Some(f.at_ms),
        set: |f, v| {
            f.at_ms = v;
            Some(())
        },
    },
    Field {
        name: "latitude",
        get: |f| Some(f.lat_e7.into()),
        set: |f, v| put(&mut f.lat_e7, v),
    },
    Field {
        name: "longitude",
        get: |f| Some(f.lon_e7.into()),
        set: |f, v| put(&mut f.lon_e7, v),
    },
];

/// Columns that may be missing.
pub(super) const OPTIONAL: [Field; 9] = [
    Field {
        name: "speed",
        get: |f| f.speed_cm_s.map(i64::from),
        set: |f, v| put_some(&mut f.speed_cm_s, v),
    },
    Field {
        name: "work",
        get: |f| known(f.work as u8),
        set: |f, v| put_code(&mut f.work, v, Work::from_number),
    },
    Field {
        name: "width",
        get: |f| f.width_cm.map(i64::from),
        set: |f, v| put_some(&mut f.width_cm, v),
    },
    Field {
        name: "course",
        get: |f| f.course_ddeg.map(i64::from),
        set: |f, v| put_some(&mut f.course_ddeg, v),
    },
    Field {
        name: "quality",
        get: |f| known(f.quality.gga()),
        set: |f, v| put_code(&mut f.quality, v, Quality::from_gga),
    },
    Field {
        name: "satellites",
        get: |f| f.satellites.map(i64::from),
        set: |f, v| put_some(&mut f.satellites, v),
    },
    Field {
        name: "hdop",
        get: |f| f.hdop_x10.map(i64::from),
        set: |f, v| put_some(&mut f.hdop_x10, v),
    },
    Field {
        name: "work source",
        get: |f| known(f.work_source as u8),
        set: |f, v| put_code(&mut f.work_source, v, WorkSource::from_number),
    },
    Field {
        name: "sections",
        get: |f| f.sections.map(i64::from),
        set: |f, v| put_some(&mut f.sections, v),
    },
];

/// Codes whose 0 means "not known" are absent then.
fn known(code: u8) -> Option<i64> {
    (code != 0).then(|| code.into())
}

fn put<T: TryFrom<i64>>(to: &mut T, value: i64) -> Option<()> {
    *to = value.try_into().ok()?;
    Some(())
}

fn put_some<T: TryFrom<i64>>(to: &mut Option<T>, value: i64) -> Option<()> {
    *to = Some(value.try_into().ok()?);
    Some(())
}

fn put_code<T>(to: &mut T, value: i64, from: fn(u8) -> Option<T>) -> Option<()> {
    *to = from(value.try_into().ok()?)?;
    Some(())
}
