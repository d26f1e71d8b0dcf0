//! Random lives: whatever is asked in whatever order, no fen is made or lost and nothing is left behind.

use std::collections::BTreeMap;

use chrono::TimeDelta;
use furrow_domain::{
    money::{Bps, Fen},
    order::{
        actor::Role,
        command::{Command, RulingAmounts},
        effect::Effect,
        entry::{Account, Side},
        facts::Presence,
        status::Status,
        table::{Kind, Row, TABLE},
    },
};
use proptest::{prelude::*, strategy::ValueTree as _, test_runner::TestRunner};

use crate::{
    books,
    stage::{OTHER_ADMIN, Stage, actor, booking, every_command, propose},
};

/// What the entries of a life moved in and out of one account.
fn moved(stage: &Stage, account: Account) -> i64 {
    stage
        .done
        .iter()
        .flat_map(|step| &step.effects)
        .filter_map(|effect| match effect {
            Effect::Money(entry) => Some(entry),
            Effect::Slot(_)
            | Effect::Plan(..)
            | Effect::Clear(_)
            | Effect::Notice(..)
            | Effect::CloseAtProvider
            | Effect::IssueStartCode
            | Effect::Strike => None,
        })
        .flat_map(|entry| &entry.legs)
        .filter(|leg| leg.account == account)
        .map(|leg| match leg.side {
            Side::Credit => leg.amount_fen.0,
            Side::Debit => -leg.amount_fen.0,
        })
        .sum()
}

fn check(stage: &Stage) {
    let funds = stage.order.funds;
    let paid_in = -moved(stage, Account::Psp);
    // I5: paid in = owner + platform + refunds + still held.
    let owner = moved(stage, Account::OwnerPending) + moved(stage, Account::OwnerAvailable);
    let held = funds.held().unwrap().0;
    assert_eq!(paid_in, owner + funds.commission.0 + funds.refunds.0 + held);
    if stage.order.status.is_over() {
        assert_eq!(held, 0, "I4: {:?}", stage.order.status);
        let credit = moved(stage, Account::RenterCredit);
        assert_eq!(credit, -moved(stage, Account::OwnerDues));
        assert!(
            credit * 5 <= stage.order.terms.prepaid_fen.0 + 4,
            "at most 20 %"
        );
        assert!(funds.fee <= stage.order.terms.prepaid_fen);
    }
}

/// The ruling that shares what is held by halves.
fn ruling(stage: &Stage) -> Command {
    let held = stage.order.funds.held().unwrap();
    let rent = Fen(held.0 / 2).min(stage.order.terms.prepaid_fen);
    Command::Rule {
        amounts: RulingAmounts {
            rent_fen: rent,
            commission_fen: Bps(700).of_rounded_down(rent).unwrap(),
            damage_fen: Fen::ZERO,
            refund_fen: held.minus(rent).unwrap(),
        },
        reason: "by halves".into(),
        approver: Some(OTHER_ADMIN),
    }
}

/// A command that the table knows here and by whom, or, now and then, any by anybody.
fn choose(stage: &Stage, which: usize, wild: bool) -> (Command, Role) {
    let commands = every_command();
    if wild {
        return (
            commands[which % commands.len()].clone(),
            Role::ALL[which % 6],
        );
    }
    // Most ends are left for later, or no life would be long.
    let ends = [
        Kind::Cancel,
        Kind::ForceCancel,
        Kind::Reject,
        Kind::OwnerCancel,
        Kind::ExpireHold,
    ];
    let here = |row: &&Row| row.from.contains(&stage.order.status);
    let rows: Vec<_> = TABLE
        .iter()
        .filter(here)
        .filter(|row| which.is_multiple_of(11) || !ends.contains(&row.kind))
        .collect();
    let row = rows[which % rows.len()];
    let of_kind: Vec<_> = commands
        .into_iter()
        .filter(|c| c.kind() == row.kind)
        .collect();
    let command = of_kind[which / 7 % of_kind.len()].clone();
    (command, row.who[which / 3 % row.who.len()])
}

/// The command with the amounts that fit this order.
fn fitting(stage: &Stage, command: Command) -> Command {
    match command {
        Command::Pay { .. } => Command::Pay {
            amount_fen: stage.order.terms.payable_fen(),
        },
        Command::BalancePaid { .. } => Command::BalancePaid {
            amount_fen: stage.order.balance_fen,
        },
        Command::Cancel { .. } => {
            let fee = furrow_domain::order::renter_fee(&stage.order, false, stage.now);
            Command::Cancel {
                shown_fee_fen: Some(fee.unwrap()),
            }
        }
        Command::OwnerCancel { reason, .. } => {
            let due = furrow_domain::order::owner_penalty(&stage.order, stage.now);
            Command::OwnerCancel {
                reason,
                shown_penalty_fen: due.unwrap(),
            }
        }
        Command::ConfirmBill { .. } => Command::ConfirmBill {
            version: stage.order.bill_versions,
        },
        Command::ProposeBill { .. } => {
            let some = i64::from(stage.now.timestamp_subsec_millis()) * 700;
            let damage = stage.order.funds.deposit_frozen.0 / 3 * (some % 2);
            propose(some, damage)
        }
        Command::Rule { .. } => ruling(stage),
        other => other,
    }
}

fn live(seed: &[Act], prepaid: i64, deposit: i64, auto: bool) -> Stage {
    let mut asked = booking();
    asked.terms.prepaid_fen = Fen(prepaid);
    asked.terms.deposit_fen = Fen(deposit);
    asked.terms.auto_accept = auto;
    let mut stage = Stage::of(asked);
    for act in seed {
        let pause = if act.long {
            i64::from(act.minutes)
        } else {
            i64::from(act.minutes % 5)
        };
        stage.now +=
            TimeDelta::minutes(pause) + TimeDelta::milliseconds(i64::from(act.which % 997));
        if stage.order.status == Status::Accepted && act.which.is_multiple_of(3) {
            // The day of work comes.
            stage.now = stage
                .now
                .max(stage.order.start + TimeDelta::minutes(pause % 60));
        }
        while stage.timers.iter().any(|(_, due)| *due <= stage.now) {
            stage.tick();
        }
        stage.facts.presence = match act.minutes % 4 {
            0 => Presence::AtPlot,
            1 => Presence::NoDevice,
            2 => Presence::Started { at: stage.now },
            _ => Presence::Silent,
        };
        let (command, role) = choose(&stage, usize::from(act.which), act.wild);
        let command = fitting(&stage, command);
        let before = stage.order.clone();
        if stage.try_as(&actor(role), &command).is_err() {
            assert_eq!(stage.order, before);
        }
        check(&stage);
    }
    end(&mut stage);
    stage
}

/// Lets the clocks run out; a person decides what is disputed.
fn end(stage: &mut Stage) {
    let mut ticks = 0;
    loop {
        if stage.order.status == Status::Disputed {
            let _ = stage.try_as(&actor(Role::Admin), &ruling(&stage.clone()));
            if stage.order.ruling.is_some_and(|r| r.appealed) {
                let mut other = actor(Role::Admin);
                other.account = Some(OTHER_ADMIN);
                let mut last = ruling(stage);
                if let Command::Rule { approver, .. } = &mut last {
                    *approver = actor(Role::Admin).account;
                }
                stage.try_as(&other, &last).unwrap();
            }
        }
        if !stage.tick() {
            break;
        }
        ticks += 1;
        check(stage);
        assert!(ticks < 2000, "it never ends: {:?}", stage.order.status);
    }
    assert!(
        stage.order.status.is_over(),
        "stuck in {:?}",
        stage.order.status
    );
    assert_eq!(stage.order.funds.owner_pending, Fen::ZERO, "all matured");
}

/// Something that somebody does.
#[derive(Debug, Clone, Copy)]
struct Act {
    which: u16,
    minutes: u16,
    long: bool,
    wild: bool,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act =
        (any::<u16>(), 0..2000_u16, 0..6_u8, 0..8_u8).prop_map(|(which, minutes, long, wild)| {
            Act {
                which,
                minutes,
                long: long == 0,
                wild: wild == 0,
            }
        });
    prop::collection::vec(act, 0..60)
}

#[test]
fn random_lives_end_in_every_way() {
    let mut runner = TestRunner::deterministic();
    let mut ends = BTreeMap::<String, u32>::new();
    for _ in 0..3000 {
        let seed = acts().new_tree(&mut runner).unwrap().current();
        let stage = live(&seed, 500_000, 100_000, false);
        let order = &stage.order;
        let disputed = if order.disputes.is_empty() {
            ""
        } else {
            " after a dispute"
        };
        let end = match (order.cancel_reason, order.timeout_kind) {
            (Some(reason), _) => format!("{reason:?}{disputed}"),
            (_, Some(kind)) => format!("{kind:?}{disputed}"),
            (None, None) => format!("{:?}{disputed}", order.status),
        };
        *ends.entry(end).or_default() += 1;
    }
    for end in [
        "Completed",
        "Completed after a dispute",
        "Pay",
        "Renter",
        "Owner",
        "OwnerRejected",
        "OwnerNoShow",
        "AdminRuling after a dispute",
        "Admin",
    ] {
        assert!(ends.get(end).is_some_and(|n| *n >= 3), "{end}: {ends:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn nothing_is_stuck_created_or_negative(
        seed in acts(),
        prepaid in 0..1_000_000_i64,
        deposit in 0..200_000_i64,
        auto in any::<bool>(),
    ) {
        books::closed(&live(&seed, prepaid, deposit, auto));
    }
}
