# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh disable=SC2034
#
# lib.sh - shared by ssdsim's tests; sourced, in a guest, as root
#
# A test is a script that says what it checks, loads ssdsim as it needs it, and exits with 0
# (passed), 1 (failed) or 77 (cannot run here). Nothing of it stays behind.

name=ssdsim0
disk=/dev/$name
attr=/sys/block/$name/ssdsim
param=/sys/module/ssdsim/parameters
here=$(cd "$(dirname "$0")" && pwd)
failed=0
work=$(mktemp -d)

say() { echo "$*"; }
skip() { say "skipped: $*"; exit 77; }
fail() { say "FAILED: $*"; failed=1; }
die() { fail "$*"; exit 1; }

need() {
	for tool in "$@"; do
		command -v "$tool" > /dev/null || skip "there is no $tool here"
	done
}

# load PARAMETER=VALUE...: a fresh ssdsim0
load() {
	rmmod ssdsim 2> /dev/null
	modprobe ssdsim "$@" || die "modprobe ssdsim $*"
	[ -b $disk ] || die "modprobe ssdsim made no $disk"
	[ -z "$scheduler" ] || echo "$scheduler" > /sys/block/$name/queue/scheduler ||
		skip "no scheduler $scheduler"
}

finish() {
	status=$?
	trap - EXIT
	# Jobs that we started and that still run would keep the device open.
	# shellcheck disable=SC2046
	kill $(jobs -p) 2> /dev/null
	wait
	rmmod ssdsim 2> /dev/null || [ ! -d /sys/module/ssdsim ] || fail "ssdsim cannot be unloaded"
	[ -z "$work" ] || rm -rf "$work"
	[ $failed -eq 0 ] || status=1
	exit $status
}
trap finish EXIT

stat_of() { cat "$attr/$1"; }

# balanced: everything that was submitted has ended
balanced() {
	sync "$disk" 2> /dev/null
	[ "$(stat_of inflight)" -eq 0 ] ||
		fail "$1: $(stat_of inflight) commands are under way on an idle device"
	[ "$(stat_of commands)" -eq $(($(stat_of completed) + $(stat_of aborted))) ] ||
		fail "$1: commands do not balance"
}

# near WHAT VALUE WANTED PERCENT
near() {
	if awk -v v="$2" -v w="$3" -v p="$4" \
			'BEGIN { d = v - w; if (d < 0) d = -d; exit !(d * 100 <= w * p) }'; then
		say "ok: $1: $2, should be $3 within $4%"
	else
		fail "$1: $2, should be $3 within $4%"
	fi
}

# fio_value FIELD...: prints fields of fio's JSON; a field is a path such as read.iops, the job's
# number is 0 unless job=N
fio_value() {
	python3 - "$work/fio.json" "${job:-0}" "$@" << 'END'
import json
import sys
with open(sys.argv[1], encoding="utf-8") as f:
    text = f.read()
job = json.loads(text[text.index("{"):])["jobs"][int(sys.argv[2])]
for path in sys.argv[3:]:
    value = job
    for key in path.split("/"):
        value = value[key]
    print(value)
END
}

# run_fio ARGUMENTS: quiet, JSON in $work/fio.json
run_fio() {
	fio --output="$work/fio.json" --output-format=json --filename=$disk --direct=1 \
			--ioengine=libaio --allow_file_create=0 --randrepeat=1 --group_reporting=0 \
			--verify_state_save=0 "$@" 2> "$work/fio.err" || {
		fail "fio $*: $(head -n 3 "$work/fio.err")"
		return 1
	}
}
