#!/usr/bin/env bash
# The one test command. Installs what is missing on a Debian-like system, then runs everything.
#
#   ./test.sh                  everything
#   ./test.sh STEP [STEP …]    only these: install fmt clippy features docs test
#   ./test.sh chaos [SECONDS]  random faults against three replicas on each database, 60 s by default; not part of everything
#   ./test.sh soak [SECONDS]   the same for 600 s, and other tests for longer
#   ./test.sh mutants [WORD …] guards taken out one at a time: each must turn its test red (those whose name has a WORD, or all)
#
# LEADER_TEST_POSTGRES_URL and LEADER_TEST_MYSQL_URL name servers to use instead of throw-away ones. LEADER_TEST_SEED repeats
# the faults of `chaos`.
set -euo pipefail
cd "$(dirname "$0")"
# For what is built once it only costs disk.
export CARGO_INCREMENTAL=${CARGO_INCREMENTAL:-0}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

step_install() {
    # A full disk shows as a linker that dies.
    local free_gb
    free_gb=$(($(df --output=avail -k . | tail -n 1) / 1048576))
    if [ ! -d target ] && [ "$free_gb" -lt 6 ]; then
        echo "test.sh: $free_gb GB are free here, everything takes up to 6" >&2
    fi
    local missing=()
    # C++ and make are for librdkafka, which one test has its Kafka from.
    { command -v cc && command -v c++ && command -v make; } >/dev/null || missing+=(build-essential)
    command -v setpriv >/dev/null || missing+=(util-linux)
    # One more linker to try; its tests do without where it cannot be had.
    if command -v apt-get >/dev/null && ! command -v mold >/dev/null; then missing+=(mold); fi
    if [ -z "${LEADER_TEST_POSTGRES_URL:-}" ]; then
        compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || missing+=(postgresql)
    fi
    if [ -z "${LEADER_TEST_MYSQL_URL:-}" ]; then
        PATH="$PATH:/usr/sbin" command -v mariadbd >/dev/null || missing+=(mariadb-server)
    fi
    PATH="$PATH:/usr/sbin" command -v pgbouncer >/dev/null || missing+=(pgbouncer)
    compgen -G '/usr/lib/*/faketime/libfaketime.so.1' >/dev/null || missing+=(libfaketime)
    if [ "${#missing[@]}" -gt 0 ]; then
        if ! command -v apt-get >/dev/null; then
            echo "test.sh: install these first, there is no apt-get here: ${missing[*]}" >&2
            exit 1
        fi
        echo "installing ${missing[*]}"
        as_root apt-get update -qq
        # The servers are started by the tests, in folders of their own; the system's stay off.
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
    fi
    for component in rustfmt clippy; do
        if ! cargo "${component/rustfmt/fmt}" --version >/dev/null 2>&1; then
            rustup component add "$component"
        fi
    done
}

step_fmt() {
    cargo fmt --all --check
    # Not of this workspace.
    rustfmt --check --edition 2024 ui-tests/linking/*/src/*.rs ui-tests/linking/*/src/bin/*.rs
}

step_clippy() {
    cargo clippy --workspace --all-targets --all-features --quiet -- -D warnings
}

# Each feature alone, none, and what the quickstart builds.
step_features() {
    for features in "" postgres mysql sqlite metrics otel test-util; do
        cargo check --quiet -p leader --features "$features"
    done
    cargo build --quiet
    # The mock of a Kafka cluster is for one test.
    local tree
    tree=$(cargo tree --features programs --edges normal,build --prefix none)
    if grep '^rdkafka' <<<"$tree"; then
        echo "test.sh: the programs would build librdkafka" >&2
        return 1
    fi
    # What only takes long to compile, for everybody who depends on `leader` ("Build" in docs/performance.md).
    tree=$(cargo tree -p leader --features postgres,mysql,sqlite --edges normal,build --prefix none)
    if grep -E '^(rustix|futures-macro|tokio-macros) ' <<<"$tree"; then
        echo "test.sh: \`leader\` would build these again" >&2
        return 1
    fi
}

step_docs() {
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --all-features --no-deps --quiet
}

# More threads than cores: tests of databases take a share of the machine before they begin, and many of them only wait.
step_test() {
    RUST_TEST_THREADS=${RUST_TEST_THREADS:-8} cargo test --workspace --all-features --no-fail-fast
}

# Its own flags, one database among them: `cargo run -p leader-tests --bin chaos -- --help`
step_chaos() {
    cargo build --quiet -p leader-tests --bins
    cargo run --quiet -p leader-tests --bin chaos -- --seconds "$chaos_seconds"
}

# What takes longer than a change should wait.
step_soak() {
    LEADER_TEST_SOAK=60 cargo test -p leader-tests --test processes one_file
    LEADER_TEST_SOAK=60 cargo test -p leader-tests --test faults a_leader_soon_after_a_long_stop
    step_chaos
}

# Each guard taken out of a copy of the workspace; the test that the table names must notice.
step_mutants() {
    cargo run --quiet -p leader-tests --bin mutants -- ${words[@]+"${words[@]}"}
}

chaos_seconds=60
words=()
case "${1:-}" in
    mutants)
        words=("${@:2}")
        set -- mutants
        ;;
    chaos | soak)
        [ "$1" = chaos ] || chaos_seconds=600
        if [[ "${2:-}" =~ ^[0-9]+$ ]]; then
            chaos_seconds=$2
            set -- "$1" "${@:3}"
        fi
        ;;
esac
steps=("$@")
[ "${#steps[@]}" -gt 0 ] || steps=(install fmt clippy features docs test)
for step in "${steps[@]}"; do
    case "$step" in
        install | fmt | clippy | features | docs | test | chaos | soak | mutants) ;;
        *)
            sed -n '2,11p' "$0" >&2
            exit 2
            ;;
    esac
    begun=$SECONDS
    echo "== $step"
    "step_$step"
    echo "== $step took $((SECONDS - begun)) s"
done
