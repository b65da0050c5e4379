# SPDX-License-Identifier: GPL-2.0
# Completion of mqfair's commands, options and disks for bash.

_mqfair() {
	local word=${COMP_WORDS[COMP_CWORD]} options
	if [ "$COMP_CWORD" -eq 1 ]; then
		mapfile -t COMPREPLY < <(compgen -W 'calibrate top tune trace report doctor --help' -- "$word")
		return
	fi
	case ${COMP_WORDS[1]} in
	calibrate) options='--seconds --write-cost --tabs --json' ;;
	top) options='--interval --count --json' ;;
	tune) options='k2 --max-latency-pct --min-bandwidth-pct --op --size-kb --ios --think-us --fill --exhaustive --json' ;;
	trace) options='latency inflight waits --seconds --json' ;;
	report)
		if [ "${COMP_WORDS[COMP_CWORD - 1]}" != --live ]; then
			mapfile -t COMPREPLY < <(compgen -W '--live --seconds --output --json --help' -- "$word"; compgen -f -- "$word")
			return
		fi
		;;
	doctor) options='--json' ;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$options --help $(cd /sys/block && echo *)" -- "$word")
}
complete -F _mqfair mqfair
