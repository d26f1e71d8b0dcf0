-- Machines, the devices on them, and how a device comes in.

-- The least a machine needs for telemetry; leasing adds its columns in a later migration.
create table machines (
    id uuid primary key,
    name text not null,
    machine_type text not null,
    working_width_cm integer not null,
    created_at timestamptz not null,
    constraint machines_width_sane check (working_width_cm between 10 and 10000)
);

-- The register. A number is never used for a second key: moving a box to another machine is a
-- new binding, a new key is a new number.
create table devices (
    number integer primary key generated always as identity,
    public_key bytea not null,
    -- SHA-256 of the token for doors without client certificates.
    token_hash bytea not null,
    enrolled_at timestamptz not null,
    -- The signed enrolment request, kept as evidence of who brought the key.
    enrolment_request bytea not null,
    revoked_at timestamptz,
    revoke_reason text,
    -- When this row was last written: processes read what is new since they last looked.
    changed_at timestamptz not null,
    constraint devices_public_key_size check (octet_length(public_key) = 32),
    constraint devices_token_hash_size check (octet_length(token_hash) = 32),
    constraint devices_public_key_once unique (public_key),
    constraint devices_revocation_whole check ((revoked_at is null) = (revoke_reason is null))
);
create index devices_by_change on devices (changed_at);

-- Which machine a fix belongs to follows from here by the fix's time, so that a wrong binding is
-- corrected without touching a frame.
create extension if not exists btree_gist;
create table device_bindings (
    id uuid primary key,
    device integer not null references devices,
    machine_id uuid not null references machines,
    during tstzrange not null,
    constraint device_bindings_range check (not isempty(during) and lower_inc(during) and not upper_inc(during) and not lower_inf(during)),
    constraint device_bindings_one_machine exclude using gist (device with =, during with &&)
);
create index device_bindings_by_machine on device_bindings using gist (machine_id, during);

-- One-time codes. Only a hash is kept; wrong tries are counted by address.
create table enrolment_codes (
    id uuid primary key,
    code_hash bytea not null,
    machine_id uuid not null references machines,
    created_at timestamptz not null,
    expires_at timestamptz not null,
    used_at timestamptz,
    device integer references devices,
    constraint enrolment_codes_hash_once unique (code_hash),
    constraint enrolment_codes_use_whole check ((used_at is null) = (device is null))
);
create table enrolment_failures (
    address inet not null,
    failed_at timestamptz not null
);
create index enrolment_failures_by_address on enrolment_failures (address, failed_at);
