#!/usr/bin/env bash
# RoBERTa medium for some minutes, SimCSE on top of it, their word vectors and figures, on a machine with a GPU and no
# network.
#
#   experiments/roberta_gpu.sh PREPARED MINUTES DATA OUT
#
# PREPARED  a folder with tokenizer.json and store/, as experiments/prepared.py makes it
# MINUTES   for RoBERTa alone; SimCSE (one epoch), words and figures come after it
# DATA      the folder of evaluation sets
# OUT       what comes back: figures, what is to be said of each model, and weights in parts of 15 MB
#
# SUITES says what is measured, KEEP whose weights come back (`cat OUT/simcse.tar.* | tar x` puts them together again),
# OCCURRENCES of how many places a word's vector is made.
# Run once more after an interruption, it goes on, as long as build/roberta is there.
set -euo pipefail
cd "$(dirname "$0")/.."
prepared=$1 minutes=$2 data=$3 out=$4
work=build/roberta
export PYTHONPATH=src PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1
mkdir -p "$work" "$out"

[ -e $work/roberta/baseline.json ] ||
    python3 -m banyan baseline roberta "$prepared" --out $work/roberta --set "minutes=$minutes" half=yes
[ -e $work/simcse/baseline.json ] ||
    python3 -m banyan baseline simcse "$prepared" --out $work/simcse --set init=$work/roberta half=yes

for model in ${KEEP:-simcse}; do
    tar -C $work -c "$model" | split -b 15M - "$out/$model.tar."
done
for model in roberta simcse; do
    cp $work/$model/baseline.json "$out/$model.json"
    sets=()
    for list in simlex.tsv wordsim_similarity_goldstandard.txt wordsim_relatedness_goldstandard.txt words_dev/mturk-771.tsv; do
        sets+=(--words "$data/eval/$list")
    done
    python3 -m banyan.baselines.in_context $work/$model "$prepared" "${sets[@]}" --occurrences "${OCCURRENCES:-200}"
    for suite in ${SUITES:-dev sts words}; do
        python3 -m banyan eval $work/$model --suite "$suite" --data "$data" --device cuda --out "$work/$model-$suite.json"
    done
done
(cd $work && tar -cz ./*-*.json ./*/static-words.safetensors) > "$out/figures.tar.gz"
