//! The ledger's core: nothing unbalanced exists, refunds never exceed payments, deposits are what their parts say.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "tests"
)]

use furrow_domain::{
    id::{AccountId, OrderId, OrganisationId, PaymentId},
    ledger::{
        account::{Account, Channel, Kind, OfOrder, OfOwner, OfPlatform, OfRenter},
        deposit::{Deposit, Movement, State},
        posting::{Parties, Standing, posted},
        refund::{Refundable, split},
        txn::{Line, Txn, TxnKind, Unposted},
    },
    money::Fen,
    order::entry::{Account as Role, Entry, EntryKind, Side},
};
use proptest::prelude::*;
use uuid::Uuid;

const ORDER: OrderId = OrderId(Uuid::from_u128(7));
const OWNER: OrganisationId = OrganisationId(Uuid::from_u128(9));
const RENTER: AccountId = AccountId(Uuid::from_u128(1));
const PAYMENT: PaymentId = PaymentId(Uuid::from_u128(5));

const fn parties(paid: bool) -> Parties {
    Parties {
        order: ORDER,
        organisation: OWNER,
        renter: RENTER,
        payment: if paid {
            Some((PAYMENT, Channel::Wechat))
        } else {
            None
        },
    }
}

fn entry(kind: EntryKind, debit: (Role, i64), credit: (Role, i64)) -> Entry {
    Entry::of(
        kind,
        &[(debit.0, Fen(debit.1))],
        &[(credit.0, Fen(credit.1))],
    )
    .unwrap()
}

#[test]
fn a_transaction_that_does_not_balance_does_not_exist() {
    let escrow = Account::Order(ORDER, OfOrder::RentEscrow);
    let unequal = [
        Line::debit(Account::Bank, Fen(2)),
        Line::credit(escrow, Fen(1)),
    ];
    assert_eq!(
        Txn::new(TxnKind::E16, &unequal),
        Err(Unposted::Unbalanced(1))
    );
    let negative = [
        Line::debit(Account::Bank, Fen(-2)),
        Line::credit(escrow, Fen(-2)),
    ];
    assert_eq!(
        Txn::new(TxnKind::E16, &negative),
        Err(Unposted::Amount(Fen(-2)))
    );
    let beyond = Fen(Fen::MAX.0 + 1);
    let huge = [
        Line::debit(Account::Bank, beyond),
        Line::credit(escrow, beyond),
    ];
    assert_eq!(Txn::new(TxnKind::E16, &huge), Err(Unposted::Amount(beyond)));
}

#[test]
fn lines_of_nothing_are_left_out_and_a_transaction_of_nothing_is_none() {
    let lines = [
        Line::debit(Account::Bank, Fen(5)),
        Line::debit(Account::Platform(OfPlatform::Commission), Fen::ZERO),
        Line::credit(Account::Suspense(PAYMENT), Fen(5)),
    ];
    assert_eq!(
        Txn::new(TxnKind::E16, &lines)
            .unwrap()
            .unwrap()
            .lines()
            .len(),
        2
    );
    let nothing = Txn::between(
        TxnKind::E8,
        Account::Bank,
        Account::Suspense(PAYMENT),
        Fen::ZERO,
    );
    assert_eq!(nothing, Ok(None));
}

#[test]
fn a_reversal_is_the_exact_opposite() {
    let paid = entry(EntryKind::E1, (Role::Psp, 500), (Role::RentEscrow, 500));
    let txn = posted(&paid, &parties(true), Standing::default())
        .unwrap()
        .unwrap();
    let back = txn.reversed();
    assert_eq!(back.kind(), TxnKind::E16);
    assert_eq!(back.lines()[0].side, Side::Credit);
    assert_eq!(back.reversed().lines(), txn.lines());
}

#[test]
fn money_of_a_provider_names_its_payment() {
    let paid = entry(EntryKind::E1, (Role::Psp, 500), (Role::RentEscrow, 500));
    let without = posted(&paid, &parties(false), Standing::default());
    assert_eq!(without, Err(Unposted::NoPayment));
    let txn = posted(&paid, &parties(true), Standing::default())
        .unwrap()
        .unwrap();
    assert_eq!(txn.lines()[0].account, Account::Psp(Channel::Wechat));
}

#[test]
fn dues_come_from_what_is_free_and_the_rest_is_a_claim() {
    let dues = entry(
        EntryKind::E6,
        (Role::OwnerDues, 500),
        (Role::RenterCredit, 500),
    );
    for (available, expected) in [
        (0, vec![(OfOwner::Receivable, 500)]),
        (500, vec![(OfOwner::Available, 500)]),
        (
            200,
            vec![(OfOwner::Available, 200), (OfOwner::Receivable, 300)],
        ),
    ] {
        let standing = Standing {
            available: Fen(available),
            receivable: Fen(40),
        };
        let txn = posted(&dues, &parties(false), standing).unwrap().unwrap();
        let debits: Vec<_> = txn
            .lines()
            .iter()
            .filter(|l| l.side == Side::Debit)
            .map(|l| (l.account, l.amount_fen.0))
            .collect();
        let expected: Vec<_> = expected
            .into_iter()
            .map(|(of, fen)| (Account::Owner(OWNER, of), fen))
            .collect();
        assert_eq!(debits, expected);
    }
}

#[test]
fn what_matures_repays_the_claim_first() {
    let mature = entry(
        EntryKind::E12,
        (Role::OwnerPending, 500),
        (Role::OwnerAvailable, 500),
    );
    let standing = Standing {
        available: Fen(10),
        receivable: Fen(120),
    };
    let txn = posted(&mature, &parties(false), standing).unwrap().unwrap();
    let credits: Vec<_> = txn
        .lines()
        .iter()
        .filter(|l| l.side == Side::Credit)
        .map(|l| (l.account, l.amount_fen.0))
        .collect();
    assert_eq!(
        credits,
        [
            (Account::Owner(OWNER, OfOwner::Receivable), 120),
            (Account::Owner(OWNER, OfOwner::Available), 380)
        ]
    );
}

#[test]
fn accounts_have_names_sides_and_bounds() {
    let all = [
        Account::Psp(Channel::Alipay),
        Account::Bank,
        Account::Order(ORDER, OfOrder::DepositFrozen),
        Account::Owner(OWNER, OfOwner::Receivable),
        Account::Renter(RENTER, OfRenter::Credit),
        Account::Suspense(PAYMENT),
        Account::Platform(OfPlatform::Commission),
        Account::Platform(OfPlatform::PspFeeExpense),
    ];
    let shown: Vec<String> = all
        .iter()
        .map(|a| format!("{a} {} {}", a.kind().name(), a.never_negative()))
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @r"
    psp:alipay:clearing asset false
    bank asset false
    order:00000000-0000-0000-0000-000000000007:deposit_frozen liability true
    owner:00000000-0000-0000-0000-000000000009:receivable asset true
    renter:00000000-0000-0000-0000-000000000001:credit liability true
    suspense:00000000-0000-0000-0000-000000000005 liability true
    platform:commission income true
    platform:psp_fee_expense expense true
    ");
    assert_eq!(Kind::Asset.change(Side::Credit, Fen(3)), Fen(-3));
    assert_eq!(Kind::Income.change(Side::Credit, Fen(3)), Fen(3));
}

#[test]
fn a_deposit_is_what_its_parts_say() {
    let step = |deposit: Deposit, entry: &Entry| deposit.moved(entry).unwrap().unwrap();
    let paid = entry(EntryKind::E1, (Role::Psp, 100), (Role::DepositHeld, 100));
    let (movement, amount, deposit) = step(Deposit::default(), &paid);
    assert_eq!(
        (movement, amount, deposit.state()),
        (Movement::Paid, Fen(100), State::Held)
    );
    let frozen = entry(
        EntryKind::E3,
        (Role::DepositHeld, 100),
        (Role::DepositFrozen, 100),
    );
    let (movement, _, deposit) = step(deposit, &frozen);
    assert_eq!(
        (movement, deposit.state()),
        (Movement::Frozen, State::Frozen)
    );
    let arrears = entry(
        EntryKind::E7,
        (Role::DepositFrozen, 40),
        (Role::RentEscrow, 40),
    );
    let (movement, amount, deposit) = step(deposit, &arrears);
    assert_eq!(
        (movement, amount, deposit.state()),
        (Movement::DeductArrears, Fen(40), State::PartlyDeducted)
    );
    let rest = entry(
        EntryKind::E11,
        (Role::DepositFrozen, 60),
        (Role::RefundPayable, 60),
    );
    let (movement, _, deposit) = step(deposit, &rest);
    assert_eq!(
        (movement, deposit.state()),
        (Movement::ReleaseRequested, State::Releasing)
    );
    assert!(deposit.released(Fen(61)).is_err());
    let deposit = deposit.released(Fen(60)).unwrap();
    assert_eq!(deposit.state(), State::Released);
    assert!(deposit.moved(&arrears).is_err(), "nothing is left to take");
    let rent = entry(
        EntryKind::E9,
        (Role::RentEscrow, 40),
        (Role::OwnerPending, 40),
    );
    assert_eq!(deposit.moved(&rent), Ok(None));
}

/// What happens to a payment's refunds.
#[derive(Debug, Clone, Copy)]
enum Happens {
    Asked { rent: i64, deposit: i64 },
    Succeeds(usize),
    Closes(usize),
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        3 => (0..4000_i64, 0..2000_i64).prop_map(|(rent, deposit)| Happens::Asked { rent, deposit }),
        2 => any::<usize>().prop_map(Happens::Succeeds),
        1 => any::<usize>().prop_map(Happens::Closes),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100_000))]

    /// Reserved and refunded never exceed what came, a closed refund gives its reservation back once, and
    /// when all has gone back nothing is left anywhere.
    #[test]
    fn refunds_in_any_order_leave_no_fen_anywhere(
        came in prop::collection::vec(1..6000_i64, 1..3),
        acts in prop::collection::vec(happens(), 0..12),
    ) {
        let mut left: Vec<i64> = came.clone();
        let mut open: Vec<(usize, i64)> = vec![];
        let mut back = vec![0_i64; came.len()];
        let total: i64 = came.iter().sum();
        let ask = |left: &mut Vec<i64>, open: &mut Vec<(usize, i64)>, rent: i64, deposit: i64| {
            let from: Vec<_> = left.iter().enumerate()
                .map(|(at, fen)| Refundable { payment: PaymentId(Uuid::from_u128(at as u128)), left_fen: Fen(*fen) })
                .collect();
            let (parts, missing) = split(Fen(rent), Fen(deposit), &from);
            let given: i64 = parts.iter().map(|p| p.amount_fen.0).sum();
            assert_eq!(given + missing.0, rent + deposit);
            assert_eq!(missing.0, (rent + deposit - left.iter().sum::<i64>()).max(0));
            for part in parts {
                assert!(part.deposit_fen <= part.amount_fen);
                let at = usize::try_from(part.payment.0.as_u128()).unwrap();
                left[at] -= part.amount_fen.0;
                assert!(left[at] >= 0);
                open.push((at, part.amount_fen.0));
            }
        };
        for act in acts {
            match act {
                Happens::Asked { rent, deposit } => ask(&mut left, &mut open, rent, deposit),
                Happens::Succeeds(which) if !open.is_empty() => {
                    let (at, fen) = open.swap_remove(which % open.len());
                    back[at] += fen;
                }
                Happens::Closes(which) if !open.is_empty() => {
                    let (at, fen) = open.swap_remove(which % open.len());
                    left[at] += fen;
                }
                Happens::Succeeds(_) | Happens::Closes(_) => {}
            }
            let on_the_way: i64 = open.iter().map(|(_, fen)| fen).sum();
            prop_assert_eq!(left.iter().sum::<i64>() + on_the_way + back.iter().sum::<i64>(), total);
        }
        let rest = left.iter().sum::<i64>();
        ask(&mut left, &mut open, rest, 0);
        for (at, fen) in open {
            back[at] += fen;
        }
        prop_assert_eq!(back, came);
    }
}
