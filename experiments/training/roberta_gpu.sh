#!/usr/bin/env bash
# RoBERTa medium, SimCSE on top of it, and their figures, on a machine with a GPU and no network.
#
#   experiments/training/roberta_gpu.sh PREPARED LANGUAGE STEPS DATA OUT
#
# PREPARED  a folder with tokenizer.json and store/, as experiments/training/prepared.py makes it
# STEPS     for RoBERTa; SimCSE takes one epoch
# DATA      the folder of evaluation sets
# OUT       gets records for experiments/results/compared, and what `banyan eval --suite dev` says
#
# English models also get vectors of single words, from all that the corpus has of them (OCCURRENCES: of so many).
# SETTINGS are more for `banyan baseline roberta --set`. Models are in build/roberta/LANGUAGE; run once more after an
# interruption, it goes on from there.
set -euo pipefail
cd "$(dirname "$0")/../.."
prepared=$1 language=$2 steps=$3 data=$4 out=$5
work=build/roberta/$language
device=${DEVICE:-cuda}
export PYTHONPATH=src PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1
mkdir -p "$work" "$out/dev"

figures() { # of one model
    if [ "$language" = en ]; then
        local sets=() list
        for list in simlex.tsv wordsim_similarity_goldstandard.txt wordsim_relatedness_goldstandard.txt words_dev/mturk-771.tsv; do
            sets+=(--words "$data/eval/$list")
        done
        python3 -m banyan.baselines.in_context "$work/$1" "$prepared" "${sets[@]}" --device "$device" \
            --occurrences "${OCCURRENCES:-0}"
    fi
    python3 -m experiments.measuring.compared "$1" "$work/$1" --data "$data" --language "$language" --device "$device" \
        --only scores --out "$out"
    local of=()
    [ "$language" = en ] || of=(--languages "$language")
    [ "$language" = es ] ||  # which has no development set
        python3 -m banyan eval "$work/$1" --suite dev "${of[@]}" --data "$data" --device "$device" --out "$out/dev/$1-$language.json"
}

[ -e "$work/roberta/baseline.json" ] ||
    python3 -m banyan baseline roberta "$prepared" --out "$work/roberta" --device "$device" \
        --set "steps=$steps" half=yes compile=yes ${SETTINGS:-}
figures roberta &
[ -e "$work/simcse/baseline.json" ] ||
    python3 -m banyan baseline simcse "$prepared" --out "$work/simcse" --device "$device" --set "init=$work/roberta" half=yes
figures simcse
wait $!
