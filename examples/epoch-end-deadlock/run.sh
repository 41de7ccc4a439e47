#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh - the deadlock at the end of an epoch, for real, and what each part of Lockstep does about it.
#
#   examples/epoch-end-deadlock/run.sh [STAGE...]     plain preflight even watch run; all if none is named
#
# PYTHON    a Python with torch (default: that of scripts/check-torch.sh, else python3)
# LOCKSTEP  the program (default build/lockstep)
# OUT       a folder for logs, checkpoints and evidence that is kept (default: a new one under /tmp)
# STEP_MS   what a step takes at least (default 50)
#
# Status 0: every stage showed what it is to show. Four ranks on this machine's CPUs (Gloo), FSDP FULL_SHARD, 8 blocks a
# step, blocks uneven by 2 %: rank 2 has 98 steps, rank 0 has 100.
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
LOCKSTEP=${LOCKSTEP:-$root/build/lockstep}
if [ -z "${PYTHON:-}" ]; then
	PYTHON=python3
	for p in "$root"/.venv-torch-*/bin/python; do [ ! -x "$p" ] || PYTHON=$p; done
fi
OUT=${OUT:-$(mktemp -d /tmp/epoch-end-deadlock.XXXXXX)}
STEP_MS=${STEP_MS:-50}
stages=(plain preflight even watch run)
ranks=4 short=2 least=98
pids=()
export OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=${GLOO_SOCKET_IFNAME:-lo}

say() { printf '  %s\n' "$*"; }
fail() { say "NOT SHOWN: $*"; return 1; }

# --- the job ---

launcher() { # FOLDER OPTION...: sets job
	local folder=$1
	shift
	job=("$PYTHON" -m torch.distributed.run --nproc-per-node $ranks --rdzv-backend c10d --rdzv-endpoint localhost:0
		"$here/train.py" --out "$folder" --counts "$OUT/counts.csv" --step-ms "$STEP_MS" --save-steps 30 "$@")
}

start() { # FOLDER OPTION...: in the background, its output in FOLDER/train.log
	local folder=$1
	mkdir -p "$folder/dumps"
	launcher "$@"
	TORCH_FR_BUFFER_SIZE=2000 TORCH_FR_DUMP_TEMP_FILE=$folder/dumps/nccl_trace_rank_ \
		TORCH_NCCL_DEBUG_INFO_PIPE_FILE=$folder/dumps/.pipe- "${job[@]}" >"$folder/train.log" 2>&1 &
	pid=$!
	pids+=($pid)
}

ranks_of() { sed -n 's/^\[rank[0-9]*\]: rank .* pid \([0-9]*\),.*/\1/p' "$1/train.log" 2>/dev/null; }

stop() { # FOLDER: the job that was started last, and its ranks
	kill -TERM "$pid" 2>/dev/null
	for _ in $(seq 50); do
		kill -0 "$pid" 2>/dev/null || break
		sleep .1
	done
	# shellcheck disable=SC2046
	kill -KILL "$pid" $(ranks_of "$1") 2>/dev/null
	wait "$pid" 2>/dev/null
}

cleanup() {
	for pid in "${pids[@]}"; do
		kill -TERM "$pid" 2>/dev/null
	done
}
trap cleanup EXIT

steps_of() { grep -c ' step [0-9]*/' "$1/train.log" 2>/dev/null; }

wait_quiet() { # FOLDER SECONDS: until the job has made no step for so long; 1 if it ended
	local before=-1 since=$SECONDS now
	while [ $((SECONDS - since)) -lt "$2" ]; do
		kill -0 "$pid" 2>/dev/null || return 1
		sleep .5
		now=$(steps_of "$1")
		# before its first step it is not quiet but about to begin
		[ "$now" != "$before" ] || [ "$now" = 0 ] || continue
		before=$now since=$SECONDS
		[ $((SECONDS - begin)) -lt 300 ] || return 1
	done
}

same_step() { # FOLDER: all ranks ended, at the same step, and the checkpoint loads
	"$PYTHON" - "$1" $ranks $least <<-'END'
		import glob, json, sys
		folder, ranks, least = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
		did = [json.load(open(p)) for p in sorted(glob.glob(folder + '/rank*.json'))]
		steps = sorted({d['steps'] for d in did})
		print(f'  ranks that ended: {len(did)}; steps: {steps}; batches dropped by rank: {[d["dropped"] for d in did]}')
		import torch
		state = torch.load(sorted(glob.glob(folder + '/checkpoints/step-*.pt'))[-1], weights_only=True)
		print(f'  the last checkpoint loads: step {state["step"]}, epoch {state["epoch"]}')
		sys.exit(not (len(did) == ranks and steps == [least] and state['step'] == least))
	END
}

# --- the stages ---

plain() { # it hangs
	start "$OUT/plain"
	wait_quiet "$OUT/plain" 6 || { tail -n 5 "$OUT/plain/train.log"; stop "$OUT/plain"; fail "the job ended"; return; }
	say "$(tail -n 1 "$OUT/plain/train.log")"
	say "no step for 6 s, no error; processes alive: $(ranks_of "$OUT/plain" | wc -l) of $ranks"
	stop "$OUT/plain"
	[ "$(steps_of "$OUT/plain")" = $least ] || fail "it stopped at step $(steps_of "$OUT/plain"), not $least"
}

preflight() { # refuses
	"$LOCKSTEP" preflight --only blocks --blocks "$OUT/counts.csv" --blocks-per-step 8 >"$OUT/preflight.txt"
	local status=$?
	sed 's/^/  /' "$OUT/preflight.txt"
	[ $status = 1 ] || { fail "exit $status, not 1"; return; }
	grep -q "rank $short" "$OUT/preflight.txt" || fail "rank $short is not named"
}

even() { # ends
	for how in "" --stream; do
		rm -rf "$OUT/even"
		mkdir -p "$OUT/even"
		# shellcheck disable=SC2086
		launcher "$OUT/even" --evened $how
		timeout 300 "${job[@]}" >"$OUT/even/train.log" 2>&1
		local status=$?
		[ $status = 0 ] || { tail -n 5 "$OUT/even/train.log"; fail "exit $status"; return; }
		say "${how:-sized}: $(grep -a 'lockstep.even:' "$OUT/even/train.log")"
		same_step "$OUT/even" || { fail "not all ranks ended at step $least"; return; }
	done
}

watch() { # says hung, and who
	start "$OUT/watch"
	# of this job's ranks alone, whatever else runs here; in earnest: over ssh, on each node
	cat >"$OUT/watch/collect.sh" <<-END
		exec "$LOCKSTEP" collect --out "\$LOCKSTEP_EVIDENCE/node" \$(sed -n 's/^\[rank[0-9]*\]: rank .* pid \([0-9]*\),.*/\1/p' "$OUT/watch/train.log")
	END
	"$LOCKSTEP" watch --log "$OUT/watch/train.log" --checkpoints "$OUT/watch/checkpoints" --interval 1s --suspect 3s --hung 10s \
		--state "$OUT/watch/state" --evidence "$OUT/watch/evidence" --collect-command "sh '$OUT/watch/collect.sh'" \
		--alert-command "cat >>'$OUT/watch/alerts.json'; echo >>'$OUT/watch/alerts.json'" >"$OUT/watch/watch.log" 2>&1 &
	local watcher=$! said
	pids+=($watcher)
	wait_quiet "$OUT/watch" 3
	local stands=$SECONDS
	for _ in $(seq 600); do
		said=$(grep -a '"key":"hung"' "$OUT/watch/alerts.json" 2>/dev/null | grep -a '"diagnosis":{[^}]*"culprits"' | tail -n 1)
		[ -z "$said" ] || break
		[ $((SECONDS - stands)) -lt 90 ] || break
		sleep .2
	done
	kill "$watcher" 2>/dev/null
	wait "$watcher" 2>/dev/null
	stop "$OUT/watch"
	sed 's/^/  /' "$OUT/watch/watch.log"
	grep -qa '"key":"hung"' "$OUT/watch/alerts.json" || { fail "no alert of a hang"; return; }
	[ -n "$said" ] || { fail "the alert names nobody"; return; }
	say "alert: $(printf '%s' "$said" | "$PYTHON" -c 'import json, sys; a = json.load(sys.stdin); print(a["severity"], a["detail"]["diagnosis"]["culprits"])')"
	printf '%s' "$said" | grep -qa "rank $short\|\"ranks\":\[$short\]" || fail "rank $short is not named"
}

run() { # keeps the evidence, resumes from the newest good checkpoint, ends
	mkdir -p "$OUT/run/checkpoints"
	# A torn one, newer than any that the job writes before it hangs: it must not be taken.
	head -c 4096 "$here/train.py" >"$OUT/run/checkpoints/step-000097.pt"
	# Launched past the gate; a job that goes on evens its steps, or it would hang at the same step again.
	launcher "$OUT/run" --even-resumed
	"$LOCKSTEP" run --no-preflight --out "$OUT/run/lockstep" --checkpoints "$OUT/run/checkpoints" --on-hang=restart --hang-after 8 \
		--look-after 3 --grace 5 --retry-delay 1 -- "${job[@]}" >"$OUT/run/train.log" 2>"$OUT/run/run.log"
	local status=$?
	grep -a 'lockstep' "$OUT/run/run.log" | sed 's/^/  /'
	grep -a 'resumed from' "$OUT/run/train.log" | sed 's/^/  /'
	[ $status = 0 ] || { fail "exit $status"; return; }
	grep -qa 'resumed from .*step-000090.pt' "$OUT/run/train.log" || { fail "it did not go on from step 90"; return; }
	find "$OUT/run/lockstep" -name 'nccl_trace_rank_*' | grep -q . || { fail "no Flight Recorder dump was kept"; return; }
	say "evidence: $(find "$OUT/run/lockstep" -type f | wc -l) files in $OUT/run/lockstep"
	same_step "$OUT/run" || fail "not all ranks ended at step $least"
}

main() {
	local failed=0 begin lines=()
	[ -x "$LOCKSTEP" ] || { echo "run.sh: no $LOCKSTEP: build it (make), or say LOCKSTEP=PATH" >&2; exit 2; }
	"$PYTHON" -c 'import torch' 2>/dev/null || { echo "run.sh: $PYTHON has no torch: say PYTHON=PATH" >&2; exit 2; }
	mkdir -p "$OUT"
	printf 'rank,blocks\n0,800\n1,799\n2,784\n3,796\n' >"$OUT/counts.csv"
	for stage in "${@:-${stages[@]}}"; do
		case " ${stages[*]} " in *" $stage "*) ;; *) echo "run.sh: no stage $stage: ${stages[*]}" >&2; exit 64 ;; esac
		echo "== $stage"
		begin=$SECONDS
		if $stage; then lines+=("$(printf '%-10s shown      %4d s' "$stage" $((SECONDS - begin)))"); else
			failed=1
			lines+=("$(printf '%-10s NOT SHOWN  %4d s' "$stage" $((SECONDS - begin)))")
		fi
	done
	echo
	printf '%s\n' "${lines[@]}"
	echo "All of it is in $OUT"
	return $failed
}

main "$@"
