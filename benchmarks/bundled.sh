#!/bin/bash
# Every number that README and benchmarks/README.md state of the bundled lane, measured anew (about 40 minutes on two
# quiet cores). Results: benchmarks/results/*-cpu-DATE.json; traces go to a scratch folder.
#   bash benchmarks/bundled.sh            # all stages
#   bash benchmarks/bundled.sh tau real   # some of them
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${BIN:-.venv/bin}
day=$(date +%F)
out=benchmarks/results
scratch=${SCRATCH:-/tmp/sparkit-bench}
folder=sparkit/assets/bundled/drafters/dspark-markov
sts=$folder/sts-recurrent.json
mkdir -p "$out" "$scratch"

tau() {  # accepted lengths: everything verified, 64 prompts a domain
    $bin/sparkit compose --drafter dspark --drafter dflash --drafter eagle3 --drafter mtp --scheduler fixed --capacity roofline \
        --num-prompts 64 --max-new-tokens 128 --batch 16 --json "$out/tau-cpu-$day.json"
    $bin/sparkit compose --drafter dspark --head gated --head rnn --scheduler fixed --capacity roofline \
        --num-prompts 64 --max-new-tokens 128 --batch 16 --json "$out/tau-heads-cpu-$day.json"
    $bin/sparkit compose --drafter dspark --head rnn --gamma 12 --scheduler fixed --capacity roofline \
        --num-prompts 64 --max-new-tokens 128 --batch 16 --json "$out/tau-rnn-12-cpu-$day.json"
}

speed() {  # batch 1, beside plain decoding: heads and schedulers of dspark; longer blocks, verified as blocks; the others
    $bin/sparkit compose --drafter dspark --head markov --head rnn --scheduler fixed --scheduler greedy --scheduler foresight \
        --num-prompts 12 --max-new-tokens 128 --json "$out/speed-batch1-cpu-$day.json"
    $bin/sparkit compose --drafter dspark --head rnn --verifier block --gamma 7 --gamma 9 --gamma 12 --scheduler fixed \
        --calibrator identity --num-prompts 32 --max-new-tokens 128 --json "$out/speed-blocks-cpu-$day.json"
    $bin/sparkit compose --drafter dflash --drafter eagle3 --drafter mtp --scheduler fixed --scheduler greedy \
        --num-prompts 12 --max-new-tokens 128 --json "$out/speed-drafters-cpu-$day.json"
}

cost() {  # what a round costs at other sizes, random weights
    $bin/python benchmarks/round_cost.py --out "$out/round-cost-cpu-$day.json"
}

batch() {  # what thirty-two at once give over one alone
    $bin/sparkit compose --drafter dspark --scheduler greedy --scheduler delayed --scheduler foresight \
        --batch 1 --batch 32 --num-prompts 32 --max-new-tokens 128 --json "$out/speed-batch32-cpu-$day.json"
    $bin/sparkit compose --drafter dspark --head rnn --scheduler greedy --scheduler delayed --scheduler foresight \
        --batch 1 --batch 32 --num-prompts 32 --max-new-tokens 128 --json "$out/speed-batch32-rnn-cpu-$day.json"
}

verifiers() {  # acceptance and cost of the three rules
    $bin/sparkit compose --drafter dspark --verifier rejection --verifier block --verifier coupled --scheduler fixed --capacity roofline \
        --calibrator identity --num-prompts 32 --batch 16 --json "$out/verifiers-cpu-$day.json"
}

traces() {  # full-verification rounds of held-out prompts, at least 30,000 a domain, with either trained confidence
    $bin/python benchmarks/heldout_prompts.py --num 1500 --domain math > "$scratch/prompts.jsonl"
    $bin/python benchmarks/heldout_prompts.py --num 800 --domain code >> "$scratch/prompts.jsonl"
    $bin/python benchmarks/heldout_prompts.py --num 900 --domain chat >> "$scratch/prompts.jsonl"
    $bin/sparkit compose --drafter dspark --confidence recurrent --scheduler fixed --capacity roofline --calibrator identity \
        --batch 32 --prompts "$scratch/prompts.jsonl" --trace "$scratch/full.jsonl" --top-tokens 0 --show 0
    $bin/sparkit compose --drafter dspark --confidence head --scheduler fixed --capacity roofline --calibrator identity \
        --batch 32 --prompts "$scratch/prompts.jsonl" --trace "$scratch/full-head.jsonl" --top-tokens 0 --show 0
    $bin/sparkit compose --drafter mtp --gamma 1 --scheduler fixed --capacity roofline --calibrator identity --batch 32 \
        --num-prompts 48 --trace "$scratch/mtp1.jsonl" --top-tokens 0 --show 0
}

calibration() {  # needs traces
    $bin/python benchmarks/calibration.py "$scratch/full.jsonl" --sts $sts \
        --out "$out/calibration-recurrent-$day.json" --plot "$out/reliability-recurrent-$day.png"
    $bin/python benchmarks/calibration.py "$scratch/full-head.jsonl" --sts $folder/sts.json \
        --out "$out/calibration-head-$day.json" --plot "$out/reliability-head-$day.png"
    $bin/sparkit simulate --drift --source "$scratch/full.jsonl" --users 64 --plot "$out/drift-$day.png" --json "$out/drift-$day.json"
}

serving() {  # needs traces: the frontier on recorded acceptance and a stated roofline; regret; a jagged curve
    $bin/sparkit simulate --source "$scratch/full.jsonl" --baseline "$scratch/mtp1.jsonl" --calibrator "sts:path=$sts" --steps 500 \
        --regret 1 --regret 4 --regret 16 --regret 64 --plot "$out/frontier-$day.png" --json "$out/frontier-$day.json"
    $bin/sparkit simulate --source "$scratch/full.jsonl" --baseline "$scratch/mtp1.jsonl" --calibrator "sts:path=$sts" \
        --capacity staircase:tile=32,per_tile=0.6 --scheduler greedy --scheduler delayed --scheduler foresight \
        --users 4 --users 16 --users 64 --steps 400 --regret 4 --regret 16 --regret 64 --json "$out/frontier-jagged-$day.json"
}

real() {  # the closed loop on the engine
    $bin/sparkit simulate --real --confidence recurrent --scheduler fixed --scheduler greedy --users 1 --users 4 --users 16 --users 32 --users 64 \
        --trace "$scratch/real.jsonl" --json "$out/real-cpu-$day.json"
    $bin/sparkit replay "$scratch/real.jsonl"
    $bin/sparkit simulate --real --head rnn --confidence recurrent --scheduler fixed --scheduler greedy --users 1 --users 4 \
        --users 16 --users 32 --users 64 --json "$out/real-rnn-cpu-$day.json"
    $bin/sparkit simulate --real --head rnn --gamma 12 --confidence recurrent --scheduler fixed --scheduler greedy --users 16 \
        --users 32 --turns 9 --json "$out/real-rnn-12-cpu-$day.json"
    for head in markov rnn; do
        $bin/sparkit simulate --real --head $head --confidence recurrent --scheduler fixed --users 32 --turns 3 \
            --trace "$scratch/real-$head.jsonl"
        $bin/sparkit replay "$scratch/real-$head.jsonl" --scheduler fixed --json "$out/replay-$head-32-users-$day.json"
    done
}

for stage in "${@:-tau speed cost batch verifiers traces calibration serving real}"; do
    for one in $stage; do echo "== $one"; $one; done
done
