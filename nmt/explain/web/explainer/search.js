/* Greedy and beam search with the rules of nmt/search. All candidates are kept as a tree.

A node is a hypothesis: {id, logProb, total, parent, depth, fate, children}. Its fate is "extended",
"pruned" (not among the `beam` best), "hopeless" (can no longer come before a finished one),
"finished" or "cut" (at the length bound). Each node has the decoder's `state`. Extended nodes also
have the `weights` of their step. */
"use strict";
(() => {
  const { largest } = nmtExplainer;
  const [PAD, UNK, BOS, EOS] = [0, 1, 2, 3];

  /* (5 + T)^alpha / 6^alpha (arXiv 1609.08144, equation 14). */
  const penalty = (n, alpha) => ((5 + Math.max(n, 1)) / 6) ** alpha;

  function lengthBound(settings, length) {
    const bound = Math.trunc(settings.max_length_factor * length + settings.max_length_extra);
    return Math.max(1, Math.min(Math.max(bound, settings.min_length + 1), settings.max_length));
  }

  /* How often in a row a source repeats the same pieces. An incomplete repetition counts. */
  function repetitions(ids) {
    let most = 1;
    for (let period = 1; period < ids.length; period++) {
      let run = 0;
      for (let i = period; i < ids.length; i++) {
        run = ids[i] === ids[i - period] && ids[i] !== UNK ? run + 1 : 0;
        if (run) most = Math.max(most, Math.floor((run + period - 1) / period) + 1);
      }
    }
    return most;
  }

  /* The pieces that would begin a repetition beyond `allowed`, or repeat an n-gram. */
  function blockedAfter(ids, allowed, n) {
    const blockedIds = [];
    for (let period = 1; allowed && period <= Math.floor(ids.length / allowed); period++) {
      const end = ids.slice(ids.length - allowed * period);
      if (end.slice(period).every((id, i) => id === end[i])) blockedIds.push(ids.at(-period));
    }
    for (let start = 0; n && start + n <= ids.length; start++) {
      const tail = ids.slice(ids.length - n + 1);
      if (tail.every((id, i) => id === ids[start + i])) blockedIds.push(ids[start + n - 1]);
    }
    return blockedIds;
  }

  /* The nodes from the first piece to `node`. */
  function pathOf(node) {
    const path = [];
    for (let at = node; at.parent; at = at.parent) path.unshift(at);
    return path;
  }

  const idsOf = (node) => pathOf(node).map(({ id }) => id);

  /* The root of the tree, and the ended hypotheses, best first. All begin with the ids `prefix`. */
  function search(model, memory, settings, prefix = []) {
    const { beam, length_penalty: alpha, n_best: nBest } = settings;
    const bound = Math.max(lengthBound(settings, memory.ids.length), prefix.length + 1);
    const allowed = settings.max_repeats && Math.max(settings.max_repeats, repetitions(memory.ids));
    const never = settings.allow_unk ? [PAD, BOS] : [PAD, BOS, UNK];
    const root = { id: BOS, logProb: 0, total: 0, parent: null, depth: 0, state: memory.first, children: [] };

    function extend(row) {
      const out = model.step(row.id, row.state, memory);
      Object.assign(row, { fate: "extended", weights: out.weights });
      const forced = prefix[row.depth];
      const banned = [
        ...never,
        ...(row.depth < settings.min_length ? [EOS] : []),
        ...blockedAfter(idsOf(row), allowed, settings.no_repeat_ngram),
      ];
      const best = forced === undefined
        ? largest(out.logProbs, beam, banned) : [{ id: forced, value: out.logProbs[forced] }];
      row.children = best.map(({ id, value }) => ({
        id, logProb: value, total: row.total + value, parent: row, depth: row.depth + 1,
        fate: "pruned", state: out.state, children: [],
      }));
      return row.children;
    }

    let [rows, best] = [[root], new Array(nBest).fill(-Infinity)]; // best scores of finished hypotheses
    const ends = [];
    for (let length = 1; length <= bound && rows.length; length++) {
      const candidates = rows.flatMap(extend).sort((a, b) => b.total - a.total).slice(0, beam);
      for (const node of candidates) {
        node.fate = node.id === EOS ? "finished" : length === bound ? "cut" : "extended";
        if (node.fate === "extended") continue;
        node.score = node.total / penalty(length, alpha);
        ends.push(node);
        if (node.fate === "finished") best.push(node.score);
      }
      best = best.sort((a, b) => b - a).slice(0, nBest);
      for (const node of candidates)
        if (node.fate === "extended" && node.total / penalty(bound, alpha) <= best.at(-1)) node.fate = "hopeless";
      rows = candidates.filter((node) => node.fate === "extended");
    }
    const isCut = (node) => Number(node.fate === "cut");
    ends.sort((a, b) => isCut(a) - isCut(b) || b.score - a.score);
    return { root, ends };
  }

  Object.assign(nmtExplainer, { search, pathOf, idsOf, PAD, UNK, BOS, EOS });
})();
