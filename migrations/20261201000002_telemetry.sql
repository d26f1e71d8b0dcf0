-- Frames as they came, and what could not be stored with them. No foreign key to or from
-- track_frames: partitions are dropped whole.

create table track_frames (
    day date not null,
    device integer not null,
    epoch bigint not null,
    seq bigint not null,
    first_at timestamptz not null,
    last_at timestamptz not null,
    fixes smallint not null,
    received_at timestamptz not null,
    frame bytea not null,
    primary key (day, device, epoch, seq)
) partition by range (day);
