-- What each device last said of itself. Lies beside the tracks; nothing that must be true rests on it.

create table device_states (
    device integer primary key,
    said_at timestamptz not null,
    agent text not null,
    boot bigint not null,
    uptime_s bigint not null,
    epoch bigint not null,
    last_seq bigint not null,
    backlog_frames bigint not null,
    backlog_bytes bigint not null,
    lost_frames bigint not null,
    last_fix_at timestamptz,
    quality smallint not null,
    receiver text not null check (receiver in ('absent', 'no_fix', 'fix')),
    disk_free_bytes bigint not null,
    settings_version bigint not null
) with (fillfactor = 50);

-- Which devices have a session at a gate, by the process that has it. A process that is killed cannot
-- say that its sessions ended: who has been silent for 150 s counts as offline whatever stands here.
create table device_sessions (
    device integer primary key,
    process uuid not null,
    session bigint not null,
    online boolean not null,
    changed_at timestamptz not null,
    cloned_at timestamptz
) with (fillfactor = 50);
