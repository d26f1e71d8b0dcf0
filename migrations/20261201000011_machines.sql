-- What can be let: machines of organisations, what they cost, when they are free. Dictionaries and policies beside them.

alter table machines
    add column organisation_id uuid references organisations,
    add column status text not null default 'draft',
    add column audit text not null default 'none',
    add column audit_reason text,
    add column brand text not null default '',
    add column model text not null default '',
    add column region text not null default '',
    add column home_lat_e7 integer,
    add column home_lon_e7 integer,
    add column capacity_centi_mu_h integer not null default 0,
    add column crops text[] not null default '{}',
    add column zone text not null default 'Asia/Shanghai',
    add column auto_accept boolean not null default false,
    add column in_repair boolean not null default false,
    add column deleted_at timestamptz,
    add constraint machines_status_known check (status in ('draft', 'listed', 'unlisted')),
    add constraint machines_audit_known check (audit in ('none', 'pending', 'passed', 'refused')),
    add constraint machines_listed_whole check (status <> 'listed' or (organisation_id is not null and home_lat_e7 is not null and home_lon_e7 is not null)),
    add constraint machines_home_whole check ((home_lat_e7 is null) = (home_lon_e7 is null));
create index machines_by_organisation on machines (organisation_id);
create index machines_listed on machines (machine_type, region) where status = 'listed' and deleted_at is null;

-- Versions of a machine's rent rule; the newest is in force. Orders freeze what they were quoted.
create table rent_rules (
    id uuid primary key,
    machine_id uuid not null references machines,
    version integer not null,
    rule jsonb not null,
    created_at timestamptz not null,
    created_by uuid not null references accounts,
    constraint rent_rules_version_once unique (machine_id, version)
);

create table availability_weekly (
    machine_id uuid not null references machines,
    weekday smallint not null check (weekday between 0 and 6),
    start_min smallint not null,
    end_min smallint not null,
    primary key (machine_id, weekday, start_min),
    constraint availability_weekly_minutes check (0 <= start_min and start_min < end_min and end_min <= 1440)
);
create table availability_exceptions (
    machine_id uuid not null references machines,
    day date not null,
    start_min smallint not null,
    end_min smallint not null,
    open boolean not null,
    primary key (machine_id, day, start_min, open),
    constraint availability_exceptions_minutes check (0 <= start_min and start_min < end_min and end_min <= 1440)
);

create table plots (
    id uuid primary key,
    account_id uuid not null references accounts,
    name text not null,
    crop text not null default '',
    -- GeoJSON geometry, WGS-84.
    outline jsonb not null,
    area_e4_m2 bigint not null,
    lat_e7 integer not null,
    lon_e7 integer not null,
    created_at timestamptz not null,
    deleted_at timestamptz,
    constraint plots_area_sane check (area_e4_m2 > 0)
);
create index plots_by_account on plots (account_id) where deleted_at is null;

-- The operator's windows and share; the newest is in force.
create table policies (
    version integer primary key,
    policy jsonb not null,
    commission_bps integer not null check (commission_bps between 0 and 10000),
    created_at timestamptz not null,
    created_by uuid references accounts
);

create table dictionaries (
    kind text not null check (kind in ('machine_type', 'crop', 'region')),
    code text not null,
    name_zh text not null,
    name_en text not null,
    primary key (kind, code)
);
