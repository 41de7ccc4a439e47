# SPDX-License-Identifier: Apache-2.0
# Completion of lockstep for bash. The options are those of `lockstep help --options`; lint checks it.

declare -gA _lockstep_options=(
	[agent]="--age --help --keep --listen --once --out --rings --size --while-traced"
	[collect]="--help --out --redact"
	[diagnose]="--all-ranks --events --help --json --layout --min-impact --ranks --step-range --steps"
	[even]="--blocks-per-step --deal --drop-last --help --how --json --keep-last --length-field --sequence-length --world-size"
	[explain]="--help"
	[export]="--help --ranks --step-range --steps"
	[run]="--checkpoints --collective-timeout --fresh --gpus --grace --hang-after --help --job --look-after --meet --meet-folder --no-preflight --no-trace --node --nodes --notify-command --on-hang --out --preflight-args --resume-args --retries --retry-delay --secret-file --start-after --storm --storm-minutes --unsaved-after --wait --weights-only --whole"
	[preflight]="--blocks --blocks-per-step --brief --checkpoint-size --checkpoints --checkpoints-kept --code --config --data --evened --first-rank --gpus --hash-data --help --job --json --keep-last --length-field --limit --meet --meet-folder --name --names --node --nodes --only --probe-seconds --python --ranks --rendezvous --report --save-minutes --save-seconds --save-steps --secret-file --sequence-length --skip --step-ms --strict --strided --wait --watchdog-seconds --watched --world-size"
	[sim]="--all-reduce --as --dialect --evaluate --fault --format --gpus-per-node --help --interleave --layers --layout --list-faults --micro-batches --out --ranks --restart --ring --seed --step-ms --steps --timeout --timing --trace-steps --without"
	[trace]="--help --out --quiet"
	[watch]="--alert-command --band --blind --ca-file --checkpoints --collect-command --config --deadline --dumps --endpoint --escalate --evidence --evidence-limit --floor --gpu-command --gpu-log --heartbeat --heartbeat-every --heartbeat-template --help --hung --interval --job --json --least --listen --log --log-command --metrics --once --replay --save-every --slow --start --state --state-command --suspect --suspect-steps --template --token-file --until-end --webhook"
)

_lockstep() {
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]}

	COMPREPLY=()
	if [ "$COMP_CWORD" = 1 ]; then
		mapfile -t COMPREPLY < <(compgen -W "${!_lockstep_options[*]} help --version --help" -- "$word")
		return
	fi
	case $before in
	--layout | -l | --min-impact | -m | --ranks | -r | --fault | -f) return ;;
	--size | --age | --keep | --listen) return ;;
	--seed | --micro-batches | --interleave | --layers | --step-ms | --gpus-per-node) return ;;
	--steps | -s) [ "$command" = export ] || return ;;
	esac
	if [[ $word == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "${_lockstep_options[$command]:-}" -- "$word")
	elif [ "$command" = explain ]; then
		mapfile -t COMPREPLY < <(compgen -W "$(lockstep explain 2>/dev/null | sed -n 's/^\([a-z-]\{1,\}\) .*/\1/p')" -- "$word")
	elif [ "$command" = help ]; then
		mapfile -t COMPREPLY < <(compgen -W "${!_lockstep_options[*]}" -- "$word")
	else
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -f -- "$word")
	fi
}
complete -F _lockstep lockstep
