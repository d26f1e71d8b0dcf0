-- Frames as they came, and what could not be stored with them. No foreign key to or from
-- track_frames: its partitions are dropped whole.

-- Partitions are made ahead by a job, never by a frame's time. The day is the UTC day of the first
-- fix, from the frame's own bytes, so that the same bytes always meet the same primary key.
create table track_frames (
    day date not null,
    device integer not null,
    epoch bigint not null,
    seq bigint not null,
    first_at timestamptz not null,
    last_at timestamptz not null,
    received_at timestamptz not null,
    fixes smallint not null,
    frame bytea not null,
    primary key (device, epoch, seq, day)
) partition by range (day);

-- One row per epoch of a device. Its row lock makes groups of one epoch follow each other, in every
-- process; what is not above high_water is looked up before it is stored.
create table track_epochs (
    device integer not null,
    epoch bigint not null,
    high_water bigint not null,
    -- high_water before the last group: what an upsert tells of the row that it replaced.
    former_high_water bigint not null default 0,
    last_received_at timestamptz not null,
    primary key (device, epoch)
) with (fillfactor = 50);

-- Frames that deny another kept frame: other bytes for one place in the chain, or a link that does
-- not fit its neighbour. Found once, kept for good.
create table contradictions (
    id uuid primary key,
    device integer not null,
    epoch bigint not null,
    seq bigint not null,
    kind text not null check (kind in ('other_bytes', 'broken_link', 'broken_genesis')),
    digest bytea not null check (octet_length(digest) = 16),
    -- The whole frame where it is kept nowhere else.
    frame bytea,
    found_at timestamptz not null,
    constraint contradictions_once unique (device, epoch, seq, kind, digest)
);

-- Frames that are kept but are no track: whole, with the reason, for 90 days.
create table quarantine (
    id uuid primary key,
    device integer not null,
    reason text not null,
    payload bytea not null,
    payload_digest bytea not null check (octet_length(payload_digest) = 16),
    -- Where the frame stands in its chain and its digest, if its signature is good: a link for its neighbours.
    epoch bigint,
    seq bigint,
    digest bytea check (octet_length(digest) = 16),
    received_at timestamptz not null,
    constraint quarantine_once unique (device, payload_digest)
);
create index quarantine_by_age on quarantine (received_at);
create index quarantine_by_place on quarantine (device, epoch, seq) where digest is not null;

-- Frames and bytes of a device in quarantine; beyond its share nothing is kept or answered.
create table quarantine_shares (
    device integer primary key,
    frames bigint not null,
    bytes bigint not null
);
