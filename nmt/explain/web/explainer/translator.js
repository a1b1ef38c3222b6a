/* A sentence to its translations, with all that the views show. */
"use strict";
(() => {
  const { Tensors, Model, tokenizerOf, search, pathOf, idsOf, EOS } = nmtExplainer;

  class Translator {
    /* `data` as nmt/explain/explainer/page.py writes it, and the weights in base64. */
    constructor(data, weights) {
      this.settings = data.search;
      this.source = tokenizerOf(data.tokenizers.src);
      this.target = tokenizerOf(data.tokenizers.tgt);
      this.model = new Model(data.model, new Tensors(data.tensors, weights), this.target.pieces.length);
    }

    /* null for a text without pieces. `ends` are finished before cut hypotheses, then by score. */
    translate(text, { beam = this.settings.beam, prefix = [] } = {}) {
      const source = this.source.encode(text);
      if (!source.ids.length) return null;
      const memory = this.model.encode([...source.ids, EOS]);
      const nBest = Math.min(this.settings.n_best, beam);
      const { root, ends } = search(this.model, memory, { ...this.settings, beam, n_best: nBest }, prefix);
      return { source: withEnd(source, true), memory, root, ends, prefix };
    }

    /* One of the ended hypotheses: its nodes, their side of a map, its text. */
    hypothesis(end) {
      const ids = idsOf(end);
      const side = withEnd(this.target.fromIds(ids), end.fate === "finished");
      const path = pathOf(end);
      const weights = path.map(({ parent }) => parent.weights);
      return { ids, path, side, weights, score: end.score, text: this.target.decode(ids) };
    }

    pieceOf = (id) => this.target.pieces[id];
  }

  /* A side of a map, with the end of the sentence as a piece and a word. */
  function withEnd({ pieces, words, ends }, isEnded) {
    if (!isEnded) return { pieces, words, ends };
    return { pieces: [...pieces, "</s>"], words: [...words, "</s>"], ends: [...ends, pieces.length + 1] };
  }

  Object.assign(nmtExplainer, { Translator });
})();
