#!/usr/bin/env bash
# repeat.sh RUNS BUSY COMMAND... -- runs COMMAND RUNS times, the last BUSY times beside a busy loop on each core. Goes
# on after a failure, keeps each output in target/repeat, and fails if a run failed.
set -uo pipefail
cd "$(dirname "$0")/../.."

runs=$1 busy=$2
shift 2
mkdir -p target/repeat
loops=()
stop() {
    if [ ${#loops[@]} != 0 ]; then
        kill "${loops[@]}" && wait "${loops[@]}"
    fi 2>/dev/null
}
trap stop EXIT
failed=0
for run in $(seq "$runs"); do
    beside=
    if [ "$run" -gt $((runs - busy)) ]; then
        beside=', beside busy loops'
        if [ ${#loops[@]} = 0 ]; then
            for _ in $(seq "$(nproc)"); do
                (while :; do :; done) &
                loops+=($!)
            done
        fi
    fi
    SECONDS=0
    if "$@" >"target/repeat/$run.log" 2>&1; then
        outcome=passed
    else
        outcome=FAILED
        failed=$((failed + 1))
    fi
    echo "run $run of $runs$beside: $outcome after $SECONDS s (target/repeat/$run.log)"
    [ "$outcome" = passed ] || grep -E '^test .* FAILED$' "target/repeat/$run.log"
done
echo "$((runs - failed)) of $runs runs passed"
[ "$failed" = 0 ]
