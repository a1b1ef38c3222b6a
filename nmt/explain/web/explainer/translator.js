/* Translation of a sentence, with all data that the views display. */
"use strict";
(() => {
  const { Tensors, Model, tokenizerOf, search, pathOf, idsOf, EOS } = nmtExplainer;

  class Translator {
    /* `data` is as nmt/explain/explainer/page.py writes it, and `weights` is in base64. */
    constructor(data, weights) {
      this.settings = data.search;
      this.source = tokenizerOf(data.tokenizers.src);
      this.target = tokenizerOf(data.tokenizers.tgt);
      this.model = new Model(data.model, new Tensors(data.tensors, weights), this.target.pieces.length);
    }

    /* null for a text without pieces. `ends`: finished, then cut hypotheses, each best first. */
    translate(text, { beam = this.settings.beam, prefix = [] } = {}) {
      const source = this.source.encode(text);
      if (!source.ids.length) return null;
      const memory = this.model.encode([...source.ids, EOS]);
      const nBest = Math.min(this.settings.n_best, beam);
      const { root, ends } = search(this.model, memory, { ...this.settings, beam, n_best: nBest }, prefix);
      return { source: withEnd(source, true), memory, root, ends, prefix };
    }

    /* The nodes, the side of a map and the text of an ended hypothesis. */
    hypothesis(end) {
      const ids = idsOf(end);
      const side = withEnd(this.target.fromIds(ids), end.fate === "finished");
      const path = pathOf(end);
      const weights = path.map(({ parent }) => parent.weights);
      return { ids, path, side, weights, score: end.score, text: this.target.decode(ids) };
    }

    pieceOf = (id) => this.target.pieces[id];
  }

  /* A side of a map, with </s> as a piece and a word if the sentence has ended. */
  function withEnd({ pieces, words, ends }, isEnded) {
    if (!isEnded) return { pieces, words, ends };
    return { pieces: [...pieces, "</s>"], words: [...words, "</s>"], ends: [...ends, pieces.length + 1] };
  }

  Object.assign(nmtExplainer, { Translator });
})();
