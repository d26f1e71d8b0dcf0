-- Orders, the machines' slots, what happened, what is due, and who is told.

create table orders (
    id uuid primary key,
    order_no text not null,
    renter_id uuid not null references accounts,
    organisation_id uuid not null references organisations,
    machine_id uuid not null references machines,
    group_id uuid,
    -- Who acted for the renter, with the consent that was recorded.
    on_behalf_of jsonb,
    status text not null,
    version integer not null,
    epoch integer not null,
    starts_at timestamptz not null,
    ends_at timestamptz not null,
    -- The order as the core knows it. The columns beside it are written from it, by one function.
    doc jsonb not null,
    -- What it was quoted by, and the quote's lines. Never changes.
    snapshot jsonb not null,
    estimate jsonb not null,
    plots jsonb not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    constraint orders_no_once unique (order_no),
    constraint orders_status_known check (status in ('pending_payment', 'pending_acceptance', 'accepted', 'in_work',
        'pending_settlement', 'completed', 'cancelled', 'timed_out', 'disputed')),
    constraint orders_range check (starts_at < ends_at)
);
create index orders_by_renter on orders (renter_id, id desc);
create index orders_by_organisation on orders (organisation_id, id desc);
create index orders_by_machine on orders (machine_id, starts_at);

-- Exclusive time of a machine. The machine's row is locked first; the constraint is the last guard.
create table machine_slots (
    id uuid primary key,
    machine_id uuid not null references machines,
    kind text not null,
    order_id uuid references orders,
    during tstzrange not null,
    hold_expires_at timestamptz,
    note text not null default '',
    released_at timestamptz,
    release_reason text,
    constraint machine_slots_kind_known check (kind in ('hold', 'booking', 'block')),
    constraint machine_slots_range check (not isempty(during) and lower_inc(during) and not upper_inc(during)
        and not lower_inf(during) and not upper_inf(during) and isfinite(lower(during)) and isfinite(upper(during))),
    constraint machine_slots_length check (upper(during) - lower(during) between interval '30 minutes' and interval '202 days'),
    constraint machine_slots_hold_whole check ((kind = 'hold') = (hold_expires_at is not null)),
    constraint machine_slots_block_whole check ((kind = 'block') = (order_id is null)),
    constraint machine_slots_exclusive exclude using gist (machine_id with =, during with &&) where (released_at is null)
);
create unique index machine_slots_one_live_per_order on machine_slots (order_id) where released_at is null and order_id is not null;

create table order_events (
    order_id uuid not null references orders,
    seq integer not null,
    at timestamptz not null,
    transition text not null,
    from_status text not null,
    to_status text not null,
    actor_role text not null,
    actor_id uuid,
    reason text,
    trace_id text not null,
    -- What it moved and planned, as the core said it.
    effects jsonb not null,
    primary key (order_id, seq)
);

-- What is due. A row is leased by its worker; whoever completes it must hold the lease.
create table order_timers (
    id uuid primary key,
    order_id uuid not null references orders,
    kind text not null,
    epoch integer not null,
    due_at timestamptz not null,
    trace_id text not null,
    lease_until timestamptz,
    lease_token uuid,
    tries integer not null default 0,
    done_at timestamptz,
    outcome text,
    constraint order_timers_once unique (order_id, kind, epoch)
);
create index order_timers_due on order_timers (due_at) where done_at is null;

-- Typed in the field by the renter's start code: tries are counted.
create table start_codes (
    order_id uuid primary key references orders,
    code_hash bytea not null,
    tries integer not null default 0
);

-- Written with what caused them; a relay tells them to whoever listens.
create table outbox (
    id uuid primary key,
    notice_id uuid not null,
    created_at timestamptz not null,
    lease_until timestamptz,
    tries integer not null default 0,
    delivered_at timestamptz
);
create index outbox_waiting on outbox (created_at) where delivered_at is null;
create table notice_heads (
    account_id uuid primary key references accounts,
    last_seq bigint not null
);
create table notices (
    id uuid primary key,
    account_id uuid not null references accounts,
    seq bigint not null,
    kind text not null,
    order_id uuid references orders,
    data jsonb not null,
    created_at timestamptz not null,
    trace_id text not null,
    read_at timestamptz,
    -- One notice for one cause and person, however often it is caused.
    cause text not null,
    constraint notices_seq_once unique (account_id, seq),
    constraint notices_cause_once unique (account_id, cause)
);
create table webhooks (
    id uuid primary key,
    organisation_id uuid not null references organisations,
    url text not null,
    secret bytea not null,
    created_at timestamptz not null
);
create table live_tickets (
    ticket_hash bytea primary key,
    account_id uuid not null references accounts,
    expires_at timestamptz not null,
    used_at timestamptz
);

-- Kept as evidence: what the parties wrote to each other.
create table order_messages (
    id uuid primary key,
    order_id uuid not null references orders,
    account_id uuid not null references accounts,
    text text not null,
    created_at timestamptz not null
);
create index order_messages_by_order on order_messages (order_id, id);

-- Strikes of owners, by the order that caused them.
create table strikes (
    organisation_id uuid not null references organisations,
    order_id uuid not null references orders,
    at timestamptz not null,
    primary key (organisation_id, order_id)
);
