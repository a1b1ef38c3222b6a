/* One decoder step: query, scores, weights, context, readout and candidates, with sliders. */
"use strict";
(() => {
  const { largest, say, dot, equationsOf, PAD, BOS } = nmtExplainer;
  const { make, shown } = nmtAttention;
  const $ = (id) => document.getElementById(id);
  const [N_CANDIDATES, NEVER] = [10, [PAD, BOS]];

  function element(name, text = "", properties = {}) {
    return Object.assign(document.createElement(name), { textContent: text, ...properties });
  }

  const probability = (p) => (p < 1e-3 ? p.toExponential(0) : p.toFixed(p < 0.1 ? 3 : 2));

  /* A number with `digits` decimals. A zero has no sign. */
  const decimal = (value, digits) => value.toFixed(digits).replace(/^-(?=[0.]+$)/, "");

  /* A bar that fills a share of the width, with a tick at the share before a change. */
  function bar(share, before = null, isNegative = false) {
    const track = element("span", "", { className: "track" });
    const place = (name, style, value) => {
      const part = track.appendChild(element("span", "", { className: name }));
      part.style[style] = `${Math.min(Math.max(value, 0), 1) * 100}%`;
    };
    place(isNegative ? "fill negative" : "fill", "width", share);
    if (before !== null) place("tick", "left", before);
    return track;
  }

  /* A vector as a row of bars, upward if positive and downward if negative. */
  function strip(values) {
    const half = 18;
    const end = values.reduce((most, value) => Math.max(most, Math.abs(value)), 1e-9);
    const svg = make("svg", {
      viewBox: `0 0 ${values.length} ${2 * half}`, preserveAspectRatio: "none", class: "strip", "aria-hidden": true,
    });
    for (const [sign, colour] of [[1, "ink"], [-1, "mark"]]) {
      const bars = Array.from(values, (value, i) =>
        value * sign > 0 ? `M${i + 0.1} ${half}h.8v${-(value / end) * half}h-.8z` : "");
      svg.append(make("path", { d: bars.join("") }, { fill: `var(--attention-${colour})` }));
    }
    return svg;
  }

  class StepView {
    /* `page` has the translator and the current translation. `force` is called with a prefix. */
    constructor(page, force) {
      Object.assign(this, { page, force, node: null });
      for (const [part, equation] of Object.entries(equationsOf(page.data.model)))
        $(`${part}-equation`).textContent = equation;
      $("temperature").addEventListener("input", () => this.draw());
      $("score").addEventListener("input", () => this.move());
      $("place").addEventListener("change", () => this.choose());
      $("head").addEventListener("change", () => this.choose());
      $("reset").addEventListener("click", () => (this.open(this.node), $("temperature").focus()));
      $("head-part").hidden = (page.data.model.attention.heads ?? 1) === 1;
    }

    /* Show the step that wrote the last piece of a node. */
    open(node) {
      this.node = node;
      this.changes = [];
      this.unchanged = this.step();
      const { pieces } = this.page.translation.source;
      const heads = this.unchanged.heads.map((_, n) => element("option", `${say("head")} ${n + 1}`, { value: n }));
      $("head").replaceChildren(...heads);
      $("place").replaceChildren(...pieces.map((piece, s) => element("option", shown(piece), { value: s })));
      $("place").value = largest(this.unchanged.weights, 1)[0].id;
      $("temperature").value = 0;
      this.choose();
    }

    step(change) {
      const { translator, translation } = this.page;
      const { id, state } = this.node.parent;
      return translator.model.step(id, state, translation.memory, change);
    }

    choose() {
      const [n, s] = [+$("head").value, +$("place").value];
      const score = this.changes[n]?.[s] ?? this.unchanged.scores[n][s];
      const middle = Math.round(this.unchanged.scores[n][s]);
      Object.assign($("score"), { min: middle - 10, max: middle + 10, step: 0.05 });
      $("score").value = score;
      this.draw();
    }

    move() {
      const [n, s] = [+$("head").value, +$("place").value];
      (this.changes[n] ??= [])[s] = +$("score").value;
      this.draw();
    }

    draw() {
      const temperature = 10 ** +$("temperature").value;
      const isChanged = temperature !== 1 || this.changes.length > 0;
      const now = isChanged ? this.step({ temperature, scores: this.changes }) : this.unchanged;
      const [n, s] = [+$("head").value, +$("place").value];
      $("temperature-value").textContent = temperature.toFixed(2);
      $("score-value").textContent = decimal(now.scores[n][s], 2);
      $("reset").disabled = !isChanged;
      const { translator } = this.page;
      const [written, before] = [this.node, this.node.parent].map(({ id }) => shown(translator.pieceOf(id)));
      $("step-title").textContent = say("step_title", this.node.depth, written, before);
      this.drawScores(now, n, s);
      for (const name of ["query", "context", "readout"]) this.drawVector(name, now[name]);
      this.drawCandidates(now, isChanged);
    }

    drawScores(now, n, selected) {
      const { pieces } = this.page.translation.source;
      const [scores, weights, before] = [now.scores[n], now.heads[n], this.unchanged.heads[n]];
      const end = scores.reduce((most, score) => Math.max(most, Math.abs(score)), 1e-9);
      const rows = pieces.map((piece, s) => {
        const row = element("tr", "", { className: s === selected ? "selected" : "" });
        const cell = (value, ...parts) => {
          const box = row.appendChild(element("td"));
          box.append(element("span", value, { className: "number" }), ...parts);
        };
        row.append(element("th", shown(piece), { scope: "row" }));
        cell(decimal(scores[s], 2), bar(Math.abs(scores[s]) / end, null, scores[s] < 0));
        cell(weights[s].toFixed(3), bar(weights[s], weights === before ? null : before[s]));
        row.addEventListener("click", () => {
          $("place").value = s;
          this.choose();
        });
        return row;
      });
      $("scores").replaceChildren(...rows);
    }

    drawVector(name, values) {
      const before = this.unchanged[name];
      const cosine = dot(before, values) / Math.sqrt(dot(before, before) * dot(values, values) || 1);
      const [least, most, norm] = [Math.min(...values), Math.max(...values), Math.sqrt(dot(values, values))];
      const facts = [say("numbers", values.length, ...[least, most, norm].map((value) => decimal(value, 2)))];
      if (before !== values && name !== "query") facts.push(say("cosine", decimal(cosine, 3)));
      $(name).replaceChildren(strip(values), element("p", facts.join(" "), { className: "note" }));
    }

    drawCandidates(now, isChanged) {
      const { translator } = this.page;
      const items = largest(now.logProbs, N_CANDIDATES, NEVER).map(({ id, value }) => {
        const [p, before] = [Math.exp(value), Math.exp(this.unchanged.logProbs[id])];
        const button = element("button", "", { type: "button" });
        const piece = shown(translator.pieceOf(id));
        button.append(element("span", piece, { className: "piece" }), bar(p, isChanged ? before : null),
          element("span", probability(p), { className: "number" }));
        button.title = say("candidate", piece);
        if (id === this.node.id) button.setAttribute("aria-current", "true");
        button.addEventListener("click", () => this.force([...nmtExplainer.idsOf(this.node.parent), id]));
        const item = element("li");
        item.append(button);
        return item;
      });
      $("candidates").replaceChildren(...items);
    }
  }

  Object.assign(nmtExplainer, { StepView, element, probability, decimal });
})();
