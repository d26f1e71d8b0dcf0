//! Orders in every state, and whoever acts on them.

use chrono::{DateTime, TimeDelta, Utc};
use chrono_tz::Asia::Shanghai;
use furrow_domain::{
    id::{AccountId, MachineId, OrderId, OrganisationId, ProposalId},
    money::{Bps, Fen},
    order::{
        Order,
        actor::{Actor, Role},
        command::{BillSum, Command, DisputeCategory, Proposed, RulingAmounts, Shares},
        create::{Booking, create},
        decide,
        decision::{Decision, Outcome},
        effect::{Effect, TimerKind},
        facts::Facts,
        refusal::Refusal,
        status::Status,
        terms::{Policy, Terms},
    },
    period::Period,
    rent::ServiceMode,
};
use uuid::Uuid;

pub const RENTER: AccountId = AccountId(Uuid::from_u128(1));
pub const OWNER: AccountId = AccountId(Uuid::from_u128(2));
pub const ADMIN: AccountId = AccountId(Uuid::from_u128(3));
pub const OTHER_ADMIN: AccountId = AccountId(Uuid::from_u128(4));
pub const ORGANISATION: OrganisationId = OrganisationId(Uuid::from_u128(9));

/// Of the 600,000 that stages hold.
pub const HALVES: Shares = Shares {
    rent_fen: Fen(300_000),
    damage_fen: Fen::ZERO,
    refund_fen: Fen(300_000),
};

pub fn at(text: &str) -> DateTime<Utc> {
    format!("2026-05-{text}Z").parse().unwrap()
}

/// When bookings of tests are made; work is four days later from 08:00 to 12:00.
pub fn created() -> DateTime<Utc> {
    at("01T00:00:00")
}

pub fn terms() -> Terms {
    Terms {
        policy: Policy::default(),
        auto_accept: false,
        service_mode: ServiceMode::Operated,
        zone: Shanghai,
        estimate_fen: Fen(500_000),
        prepaid_fen: Fen(500_000),
        deposit_fen: Fen(100_000),
        first_day_fen: Fen(400_000),
        commission_bps: Bps(700),
        grace_min: 15,
        has_device: true,
    }
}

pub fn booking() -> Booking {
    let (start, end) = (at("05T08:00:00"), at("05T12:00:00"));
    Booking {
        id: OrderId(Uuid::from_u128(7)),
        renter: RENTER,
        renter_organisations: vec![],
        organisation: ORGANISATION,
        machine: MachineId(Uuid::from_u128(8)),
        period: Period::new(start, end).unwrap(),
        start,
        end,
        plots: 1,
        on_behalf: false,
        terms: terms(),
        unpaid_holds: 0,
        renter_may_order: true,
        machine_usable: true,
    }
}

pub fn actor(role: Role) -> Actor {
    let (account, organisations) = match role {
        Role::Renter => (Some(RENTER), vec![]),
        Role::Owner | Role::Operator => (Some(OWNER), vec![ORGANISATION]),
        Role::Admin => (Some(ADMIN), vec![]),
        Role::System | Role::Provider => (None, vec![]),
    };
    Actor {
        role,
        account,
        organisations,
        permissions: if role == Role::Admin {
            vec!["*".into()]
        } else {
            vec![]
        },
    }
}

/// An order that is acted on, with its timers and all that it ever did.
#[derive(Clone)]
pub struct Stage {
    pub order: Order,
    pub now: DateTime<Utc>,
    pub facts: Facts,
    pub timers: Vec<(TimerKind, DateTime<Utc>)>,
    pub done: Vec<Decision>,
}

impl Stage {
    pub fn new() -> Self {
        Self::of(booking())
    }

    pub fn of(booking: Booking) -> Self {
        let made = create(booking, created()).unwrap();
        let mut stage = Self {
            order: made.order.clone(),
            now: created(),
            facts: Facts {
                new_estimate_fen: Some(Fen(500_000)),
                ..Facts::default()
            },
            timers: vec![],
            done: vec![],
        };
        stage.take(vec![made]);
        stage
    }

    fn take(&mut self, steps: Vec<Decision>) {
        for step in steps {
            for effect in &step.effects {
                match effect {
                    Effect::Plan(kind, due) => {
                        self.timers.retain(|(k, _)| k != kind);
                        self.timers.push((*kind, *due));
                    }
                    Effect::Clear(kinds) => self.timers.retain(|(k, _)| !kinds.contains(k)),
                    Effect::Money(entry) => {
                        assert_eq!(entry.imbalance(), 0, "{entry:?}");
                        assert!(entry.legs.iter().all(|l| l.amount_fen > Fen::ZERO));
                    }
                    Effect::Slot(_)
                    | Effect::Notice(..)
                    | Effect::CloseAtProvider
                    | Effect::IssueStartCode
                    | Effect::Strike => {}
                }
            }
            self.order = step.order.clone();
            self.done.push(step);
        }
    }

    pub fn try_as(&mut self, actor: &Actor, command: &Command) -> Result<Outcome, Refusal> {
        let outcome = decide(&self.order, command, actor, &self.facts, self.now)?;
        if let Outcome::Applied(steps) = &outcome {
            self.take(steps.clone());
        }
        Ok(outcome)
    }

    pub fn try_by(&mut self, role: Role, command: &Command) -> Result<Outcome, Refusal> {
        self.try_as(&actor(role), command)
    }

    pub fn by(mut self, role: Role, command: &Command) -> Self {
        let outcome = self.try_by(role, command);
        assert!(
            matches!(outcome, Ok(Outcome::Applied(_))),
            "{role:?} {command:?}: {outcome:?}"
        );
        self
    }

    pub fn at(mut self, now: DateTime<Utc>) -> Self {
        self.now = now;
        self
    }

    /// The next timer, at its time; false where none waits.
    pub fn tick(&mut self) -> bool {
        let Some((kind, due)) = self
            .timers
            .iter()
            .copied()
            .min_by_key(|(k, due)| (*due, *k))
        else {
            return false;
        };
        self.now = self.now.max(due);
        self.timers.retain(|(k, _)| *k != kind);
        let fired = furrow_domain::order::fire(&self.order, kind, &self.facts, self.now);
        match fired.unwrap_or_else(|e| panic!("{kind:?}: {e}")) {
            Outcome::Applied(steps) => self.take(steps),
            Outcome::Postponed(again) => {
                assert!(again > self.now, "{kind:?} would run for ever");
                self.timers.push((kind, again));
            }
            Outcome::Skipped | Outcome::AlreadyApplied => {}
        }
        // The shell drafts the bill when J10 is due.
        if kind == TimerKind::J10 && self.order.status == Status::PendingSettlement {
            self.try_by(Role::System, &propose(400_000, 0)).unwrap();
        }
        true
    }

    pub fn paid(self) -> Self {
        let pay = Command::Pay {
            amount_fen: self.order.terms.payable_fen(),
        };
        self.by(Role::Provider, &pay)
    }

    pub fn accepted(self) -> Self {
        self.paid()
            .by(Role::Owner, &Command::Accept { seen_version: None })
    }

    pub fn in_work(self) -> Self {
        let tap = Command::Start {
            photo: true,
            override_reason: None,
            acted_at: None,
        };
        self.accepted()
            .at(at("05T08:00:00"))
            .by(Role::Owner, &tap)
            .by(Role::Renter, &tap)
    }

    pub fn finished(self) -> Self {
        self.in_work()
            .at(at("05T11:30:00"))
            .by(Role::Owner, &finish())
    }

    pub fn billed(self, total: i64, damage: i64) -> Self {
        self.finished().by(Role::Owner, &propose(total, damage))
    }

    pub fn completed(self) -> Self {
        self.billed(432_100, 0)
            .by(Role::Renter, &Command::ConfirmBill { version: 1 })
    }

    pub fn disputed(self) -> Self {
        self.billed(432_100, 0).by(Role::Renter, &dispute())
    }

    /// In each state.
    pub fn in_state(status: Status) -> Self {
        match status {
            Status::PendingPayment => Self::new(),
            Status::PendingAcceptance => Self::new().paid(),
            Status::Accepted => Self::new().accepted(),
            Status::InWork => Self::new().in_work(),
            Status::PendingSettlement => Self::new().billed(432_100, 0),
            Status::Completed => Self::new().completed(),
            Status::Cancelled => Self::new().by(Role::Renter, &cancel(0)),
            Status::TimedOut => {
                let mut stage = Self::new();
                while stage.order.status == Status::PendingPayment {
                    assert!(stage.tick());
                }
                stage
            }
            Status::Disputed => Self::new().disputed(),
        }
    }
}

pub fn finish() -> Command {
    Command::Finish {
        reason: Some("done".into()),
        acted_at: None,
    }
}

pub fn cancel(fee: i64) -> Command {
    Command::Cancel {
        shown_fee_fen: Some(Fen(fee)),
    }
}

pub fn propose(total: i64, damage: i64) -> Command {
    Command::ProposeBill {
        bill: BillSum {
            total_fen: Fen(total),
            commission_fen: Bps(700).of_rounded_down(Fen(total)).unwrap(),
            damage_fen: Fen(damage),
            needs_consent: false,
            silent: None,
        },
    }
}

pub fn dispute() -> Command {
    Command::Dispute {
        category: DisputeCategory::Area,
        text: "it is less".into(),
    }
}

/// One command of each kind, sensible in some state.
#[expect(clippy::too_many_lines, reason = "one of each kind")]
pub fn every_command() -> Vec<Command> {
    let period = Period::new(at("06T08:00:00"), at("06T12:00:00")).unwrap();
    let mut all = vec![
        Command::Pay {
            amount_fen: Fen(600_000),
        },
        Command::ExpireHold,
        cancel(0),
        Command::Accept { seen_version: None },
        Command::Reject {
            reason: "busy".into(),
        },
        Command::AcceptTimeout,
        Command::AskReconfirm,
        Command::Reconfirm,
        Command::Lapse,
        Command::OwnerCancel {
            reason: "broken".into(),
            shown_penalty_fen: Fen::ZERO,
        },
        Command::Propose {
            id: ProposalId(Uuid::from_u128(5)),
            proposed: Proposed::Reschedule {
                period,
                start: period.from(),
                end: period.to(),
                machine: None,
            },
        },
        Command::Answer {
            id: ProposalId(Uuid::from_u128(5)),
            agree: true,
        },
        Command::Depart,
        Command::DepartedDue,
        Command::Start {
            photo: true,
            override_reason: Some("seen".into()),
            acted_at: None,
        },
        Command::StartAskedDue,
        Command::StartProven,
        Command::ClaimNoShow,
        Command::ContestClaim,
        Command::ClaimDue,
        Command::NoStart,
        finish(),
        Command::FinishAskedDue,
        Command::AutoFinish,
        Command::UndoFinish,
        Command::Pause {
            reason: "rain".into(),
            acted_at: None,
        },
        Command::Resume { acted_at: None },
        Command::RequestReturn,
        propose(432_100, 0),
        Command::ReturnBill {
            reason: "too much".into(),
        },
        Command::ObjectBill { text: "no".into() },
        Command::ConfirmBill { version: 1 },
        Command::ConfirmBySilence,
        Command::Settle,
        Command::BalancePaid {
            amount_fen: Fen(40_000),
        },
        Command::BalanceFromDeposit,
        Command::TakeArrears,
        dispute(),
        Command::Withdraw,
        Command::Rule {
            amounts: RulingAmounts {
                rent_fen: Fen(400_000),
                commission_fen: Fen(28_000),
                damage_fen: Fen::ZERO,
                refund_fen: Fen(200_000),
            },
            reason: "the track".into(),
            approver: Some(OTHER_ADMIN),
        },
        Command::Offer { shares: HALVES },
        Command::AcceptOffer { shares: HALVES },
        Command::AcceptRuling,
        Command::Appeal,
        Command::RulingDue,
        Command::Void {
            fee_fen: Fen::ZERO,
            reason: "nothing was done".into(),
            approver: Some(OTHER_ADMIN),
        },
        Command::ForceCancel {
            fee_fen: Fen::ZERO,
            reason: "asked".into(),
        },
        Command::WaiveFee {
            amount_fen: Fen(1),
            reason: "kind".into(),
        },
        Command::LatePayment {
            amount_fen: Fen(600_000),
        },
        Command::Seal,
    ];
    all.extend(TimerKind::ALL.map(Command::Remind));
    all
}

pub fn hours(count: i64) -> TimeDelta {
    TimeDelta::hours(count)
}
