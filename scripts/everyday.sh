#!/bin/sh
# Train the built-in models, pack them in int8, and describe them in nmt/builtin.
#
#   make everyday                          # in the repository, after `nmt corpus fetch tatoeba-en-fr`
#   NMT=nmt sh scripts/everyday.sh --set train.device=cuda     # options of `nmt train`
#
# A large model of each direction translates the training sentences. The small models learn from the
# pairs and from these translations (sequence-level distillation; Kim and Rush 2016, 1606.07947).
# A stopped training continues, and a finished one is not repeated. An archive has the run.json of
# its run, and thus the commands, times and paths of the training.
set -eu
NMT=${NMT:-nmt}
folder=nmt/builtin
mkdir -p "$folder"
text=$(mktemp)
trap 'rm -f "$text"' EXIT

train() { # PAIR NAME OPTIONS...
  pair=$1 name=$2
  shift 2
  "$NMT" train --config configs/everyday.yaml --run "runs/$name" --set "name=$name" \
    --set "data.src_lang=${pair%-*}" --set "data.tgt_lang=${pair#*-}" "$@"
}

for pair in en-fr fr-en; do
  train $pair large-$pair --set train.steps=9000 --set train.batch_size=256 --set train.lr=0.002 \
    --set train.schedule.warmup=800 --set model.embedding=320 --set model.hidden=512 \
    --set model.dropout=0.3 --set model.decoder.readout.size=320 --set tokenizer.vocab_size=8000 \
    --set 'data.noise={lower: 0.03, upper: 0.02, title: 0.01, punctuation: 0.05, quotes: 0.02, slip: 0.05, merge: 0.03}' "$@"
  "$NMT" augment --run runs/large-$pair --out runs/translated-$pair --beam 4 --batch-size 512
  cut -f 1,2 runs/translated-$pair/part-*.tsv > runs/$pair.tsv
  awk -F '\t' '{ print $2 "\t" $1 }' runs/$pair.tsv > "runs/${pair#*-}-${pair%-*}.back.tsv"
done

cat > "$text" <<'END'
# Built-in models

`make everyday` writes this folder: [docs/runs.md](../../docs/runs.md#built-in-models). Licences and
attribution of the training data are in the cards and in NOTICE.

END
for pair in en-fr fr-en; do
  name=everyday-$pair
  run=runs/$name
  archive=$folder/$name.zip
  mix="{mix: [{corpus: tatoeba-en-fr}, {corpus: starter}, {file: runs/$pair.tsv}, {file: runs/$pair.back.tsv}]}"
  train $pair $name --set "data.train=$mix" "$@"
  "$NMT" runs pack --int8 --force --run "$run" --out "$archive"
  {
    printf '## %s\n\n' "$name"
    printf '%s.zip: %d bytes, sha256 %s. [Card](%s.md).\n\n' "$name" "$(wc -c < "$archive")" \
      "$(sha256sum < "$archive" | cut -c 1-64)" "$name"
    printf 'Held-out sentences of Tatoeba, weights as trained, then as packed:\n\n```\n'
    "$NMT" eval --bleu --chrf --run "$run"
    "$NMT" eval --bleu --chrf --run "$archive"
    printf '```\n\n'
  } >> "$text"
  "$NMT" card "$run" --license mit --force --out "$folder/$name.md"
done
cat "$text" > "$folder/README.md"
