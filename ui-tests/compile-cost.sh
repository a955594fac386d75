#!/usr/bin/env bash
# What the attribute costs the compiler: `cargo check` of many annotated functions against the same without it.
#
#   ui-tests/compile-cost.sh [ROUNDS] [FUNCTIONS]      5 rounds of 500 functions unless given
#
# Three crates that differ in nothing else: `plain` functions, the same `spawned` by `tokio::spawn`, and `annotated`.
# They are checked in turn, from scratch, without incremental compilation; dependencies are built before. The figures
# are medians of CPU time, which other programs disturb less than the clock.
set -euo pipefail
cd "$(dirname "$0")/.."
workspace=$PWD
rounds=${1:-5}
functions=${2:-500}
crates=${CARGO_TARGET_DIR:-$workspace/target}/compile-cost
export CARGO_INCREMENTAL=0

bodies=(idle relay)
forms=(plain spawned annotated)
idle='    let _ = pool;
    tenure.ended().await;
    Ok(())'
relay='    loop {
        let mut tx = tenure.begin(&pool).await?;
        sqlx::query("INSERT INTO sent SELECT id FROM pending").execute(&mut *tx).await?;
        tx.commit().await?;
        tenure.sleep(std::time::Duration::from_secs(1)).await?;
    }'

write_crate() {
    local body=$1 form=$2 folder=$crates/$1-$2
    mkdir -p "$folder/src"
    cp Cargo.lock "$folder/"
    cat >"$folder/Cargo.toml" <<TOML
[package]
name = "compile-cost"
edition = "2024"
[dependencies]
anyhow = "1.0"
leader = { path = "$workspace/leader", features = ["postgres"] }
sqlx = { version = "0.9", default-features = false }
tokio = { version = "1", default-features = false, features = ["rt"] }
[workspace]
TOML
    {
        echo 'use leader::{State, Tenure};'
        for number in $(seq "$functions"); do
            [ "$form" != annotated ] || echo "#[leader::work(\"work-$number\")]"
            echo "pub async fn work_$number(tenure: Tenure, State(pool): State<sqlx::PgPool>) -> anyhow::Result<()> {"
            echo "${!body}"
            echo '}'
            [ "$form" != spawned ] ||
                echo "pub fn spawn_$number(tenure: Tenure, pool: sqlx::PgPool) { tokio::spawn(work_$number(tenure, State(pool))); }"
        done
    } >"$folder/src/lib.rs"
}

# The CPU time of one check, in milliseconds.
check() {
    touch "$crates/$1/src/lib.rs"
    local TIMEFORMAT='%U %S'
    { time CARGO_TARGET_DIR=$crates/target cargo check --quiet --manifest-path "$crates/$1/Cargo.toml"; } 2>&1 |
        awk '{ printf "%d\n", 1000 * ($1 + $2) }'
}

median() {
    sort -n "$crates/$1/times" | sed -n "$(((rounds + 1) / 2))p"
}

rustc --version
for body in "${bodies[@]}"; do
    for form in "${forms[@]}"; do
        write_crate "$body" "$form"
        check "$body-$form" >/dev/null
        : >"$crates/$body-$form/times"
    done
    for _ in $(seq "$rounds"); do
        for form in "${forms[@]}"; do
            check "$body-$form" >>"$crates/$body-$form/times"
        done
    done
    plain=$(median "$body-plain")
    for form in "${forms[@]}"; do
        median=$(median "$body-$form")
        echo "$functions functions, $body, $form: $median ms, $((100 * (median - plain) / plain)) % more than plain," \
            "$((1000 * (median - plain) / functions)) µs a function"
    done
done
