#!/usr/bin/env bash
# Train RoBERTa medium and SimCSE initialised from it, and evaluate both, on a machine with a GPU and no network.
#
#   experiments/training/roberta_gpu.sh PREPARED LANGUAGE STEPS DATA OUT
#
# PREPARED  a folder with tokenizer.json and store/, made by experiments/training/prepared.py
# STEPS     training steps of RoBERTa; SimCSE trains for one epoch
# DATA      the data folder
# OUT       folder for the records of experiments/results/compared and the output of `banyan eval --suite dev`
#
# English models also get vectors of single words, from their occurrences in the corpus (OCCURRENCES: at most so many;
# 0: all). SETTINGS are further settings for `banyan baseline roberta --set`. Models are in build/roberta/LANGUAGE. Run
# the same command again to continue after an interruption.
set -euo pipefail
cd "$(dirname "$0")/../.."
prepared=$1 language=$2 steps=$3 data=$4 out=$5
work=build/roberta/$language
device=${DEVICE:-cuda}
export PYTHONPATH=src PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1
mkdir -p "$work" "$out/dev"

figures() { # evaluate one model
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
    [ "$language" = es ] ||  # Spanish has no development set
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
