#!/bin/sh
# Train the built-in models, pack them in int8, and describe them in nmt/builtin.
#
#   make everyday                          # in the repository, after `nmt corpus fetch tatoeba-en-fr`
#   NMT=nmt sh scripts/everyday.sh --set train.epochs=12     # options of `nmt train`
#
# A stopped training continues, and a finished one is not repeated. An archive has the run.json of
# its run, and thus the commands, times and paths of the training.
set -eu
NMT=${NMT:-nmt}
folder=nmt/builtin
mkdir -p "$folder"
text=$(mktemp)
trap 'rm -f "$text"' EXIT

cat > "$text" <<'END'
# Built-in models

`make everyday` writes this folder: [docs/runs.md](../../docs/runs.md#built-in-models). Licences and
attribution of the training data are in the cards and in NOTICE.

END
for pair in en-fr fr-en; do
  name=everyday-$pair
  run=runs/$name
  archive=$folder/$name.zip
  "$NMT" train --config configs/everyday.yaml --run "$run" --set "name=$name" \
    --set "data.src_lang=${pair%-*}" --set "data.tgt_lang=${pair#*-}" "$@"
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
