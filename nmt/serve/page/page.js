/* Translate as one types, look at the attention, change it. Every translation comes from /v1. */
"use strict";
(() => {
  const PAUSE = 150; // milliseconds after the last key
  const MOST = 5; // hypotheses shown
  const byId = (id) => document.getElementById(id);
  const make = (name, text, properties = {}) =>
    Object.assign(document.createElement(name), { textContent: text }, properties);
  const shown = (piece) => globalThis.nmtAttention.shown(piece);

  async function ask(path, body, signal) {
    const headers = { "content-type": "application/json" };
    const key = byId("key").value;
    if (key) headers.authorization = `Bearer ${key}`;
    const sent = body && { method: "POST", headers, body: JSON.stringify(body), signal };
    const answer = await fetch(path, sent);
    const found = await answer.json();
    if (!answer.ok) throw new Error(found.error);
    return found;
  }

  /* One model's side: what was asked of it, and what it answered. */
  class Panel {
    constructor(model) {
      this.model = model;
      this.element = byId("panel").content.firstElementChild.cloneNode(true);
      this.forget();
      this.find("h2").textContent = `${model.name}: ${model.source} to ${model.target}`;
      this.find(".hypotheses").lang = model.target;
      this.find(".prefix").addEventListener("input", () => {
        this.prefixIds = null;
        this.rows = {};
        this.later();
      });
      this.find(".changes button").addEventListener("click", () => {
        this.forget();
        this.translate();
      });
      this.find(".map").addEventListener("attention-pick", ({ detail }) => {
        if (detail.row === null || detail.column === null) return;
        const [row, column] = this.pieceAt(detail);
        this.editRow(row, column);
      });
      this.find(".decode").addEventListener("click", () => this.decodeFromRow());
    }

    find(selector) {
      return this.element.querySelector(selector);
    }

    /* Nothing is given any more. */
    forget() {
      this.prefixIds = null;
      this.rows = {};
      this.rank = 0;
      this.find(".prefix").value = "";
      this.find(".row").hidden = true;
    }

    later() {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.translate(), PAUSE);
    }

    /* The newest request wins: an older one is given up, which takes it from the server's queue. */
    async translate() {
      clearTimeout(this.timer);
      this.running?.abort();
      const { signal } = (this.running = new AbortController());
      const q = byId("text").value.replace(/\s+/g, " ").trim();
      if (!q) return this.show(null);
      const body = { q, model: this.model.name, attention: "piece", n_best: Math.min(MOST, this.model.beam) };
      const prefix = this.find(".prefix").value.trim();
      if (this.prefixIds) body.prefix_ids = this.prefixIds;
      else if (prefix) body.prefix = prefix;
      if (Object.keys(this.rows).length) body.attention_rows = this.rows;
      this.say("…");
      try {
        const answer = await ask("v1/translate", body, signal);
        this.rank = 0;
        this.say("");
        this.show(answer.translations[0]);
      } catch (error) {
        if (error.name !== "AbortError") this.say(error.message, true);
      }
    }

    say(text, isWrong = false) {
      this.find(".message").textContent = text;
      this.find(".message").classList.toggle("wrong", isWrong);
      this.element.toggleAttribute("aria-busy", text === "…");
    }

    get hypothesis() {
      return this.answer?.hypotheses[this.rank];
    }

    show(answer) {
      this.answer = answer;
      this.find(".row").hidden = true;
      const items = (answer?.hypotheses ?? []).map((each, rank) => {
        const button = make("button", each.text || "(nothing)", { type: "button", dir: "auto" });
        button.setAttribute("aria-pressed", rank === this.rank);
        button.append(" ", make("small", each.score.toFixed(3)));
        const percent = Math.round(100 * each.confidence); // undefined if the run is not calibrated
        if (percent >= 0) button.append(" ", make("small", `confidence ${percent} %`));
        button.addEventListener("click", () => {
          this.rank = rank;
          this.show(answer);
        });
        const item = make("li", "");
        item.append(button);
        return item;
      });
      this.find(".hypotheses").replaceChildren(...items);
      this.showPieces();
      this.showMap();
      const changed = Object.keys(this.rows).map((row) => +row + 1);
      const n = this.prefixIds?.length ?? 0;
      const given = n ? [n === 1 ? "1 piece given" : `${n} pieces given`] : [];
      if (changed.length) given.push(`attention changed at piece ${changed.join(", ")}`);
      this.find(".changes").hidden = !given.length;
      this.find(".changes span").textContent = given.join("; ");
    }

    showPieces() {
      const pieces = (this.hypothesis?.pieces ?? []).map((piece, place) => {
        const button = make("button", shown(piece), { type: "button" });
        button.title = "keep what stands before it, and go on";
        button.classList.toggle("given", place < (this.prefixIds?.length ?? 0));
        button.addEventListener("click", () => this.keepBefore(place));
        return button;
      });
      this.find(".pieces").replaceChildren(...pieces);
    }

    keepBefore(place) {
      this.prefixIds = this.hypothesis.ids.slice(0, place);
      this.rows = Object.fromEntries(Object.entries(this.rows).filter(([row]) => row <= place));
      this.translate();
    }

    /* The exclusive ends of words; the end of the sentence is a word. */
    ends(of, length) {
      return of.word_ends.at(-1) === length ? of.word_ends : [...of.word_ends, length];
    }

    showMap() {
      const place = this.find(".map");
      if (!this.hypothesis) return place.replaceChildren();
      let { rows, columns, weights } = this.hypothesis.attention;
      if (byId("level").value === "word") {
        const rowEnds = this.ends(this.hypothesis, rows.length);
        const columnEnds = this.ends(this.answer, columns.length);
        const words = (of, ends, labels) => [...of.words, labels.at(-1)].slice(0, ends.length);
        weights = globalThis.nmtAttention.mergeWords(weights, rowEnds, columnEnds);
        rows = words(this.hypothesis, rowEnds, rows);
        columns = words(this.answer, columnEnds, columns);
      }
      const width = Math.max(place.clientWidth, 240);
      place.replaceChildren(globalThis.nmtAttention.heatMap({ rows, columns, weights }, { width }));
    }

    /* The first pieces of a cell's words. */
    pieceAt({ row, column }) {
      if (byId("level").value === "piece") return [row, column];
      const first = (of, place) => (place ? of.word_ends[place - 1] : 0);
      return [first(this.hypothesis, row), first(this.answer, column)];
    }

    editRow(row, column) {
      const { rows, columns, weights } = this.hypothesis.attention;
      this.row = row;
      const form = this.find(".row");
      form.hidden = false;
      form.querySelector("legend").textContent = `where ${shown(rows[row])} looks`;
      const sliders = columns.map((label, place) => {
        const input = make("input", "", { type: "range", min: 0, max: 100, step: 1 });
        input.value = Math.round(100 * weights[row][place]);
        const output = make("output", input.value);
        input.addEventListener("input", () => (output.value = input.value));
        const line = make("label", "");
        line.append(make("span", shown(label)), input, output);
        return line;
      });
      form.querySelector(".sliders").replaceChildren(...sliders);
      const all = (value) => {
        for (const [place, input] of [...form.querySelectorAll("input")].entries()) {
          input.value = value(place);
          input.dispatchEvent(new Event("input"));
        }
      };
      const only = form.querySelector(".only");
      only.textContent = `only at ${shown(columns[column])}`;
      only.onclick = () => all((place) => (place === column ? 100 : 0));
      form.querySelector(".even").onclick = () => all(() => 50);
      form.querySelectorAll("input")[column].focus();
    }

    async decodeFromRow() {
      const weights = [...this.find(".row").querySelectorAll("input")].map((each) => +each.value);
      if (!weights.some(Boolean)) return this.say("a row of attention needs a weight above 0", true);
      const { row } = this;
      const earlier = Object.entries(this.rows).filter(([other]) => other < row);
      this.prefixIds = this.hypothesis.ids.slice(0, row);
      this.rows = { ...Object.fromEntries(earlier), [row]: weights };
      await this.translate();
      this.find(".changes button").focus();
    }
  }

  let models = [];
  let panels = [];

  function choose() {
    const names = ["model-0", "model-1"].map((id) => byId(id).value).filter(Boolean);
    panels = names.map((name) => new Panel(models.find((each) => each.name === name)));
    byId("panels").replaceChildren(...panels.map((panel) => panel.element));
    for (const panel of panels) panel.translate();
  }

  async function begin() {
    const found = await ask("v1/models");
    models = found.models;
    byId("key-label").hidden = !found.needs_key;
    for (const id of ["model-0", "model-1"]) {
      byId(id).append(...models.map(({ name }) => make("option", name, { value: name })));
      byId(id).addEventListener("change", choose);
    }
    byId("text").lang = models[0].source;
    byId("text").addEventListener("input", () => {
      for (const panel of panels) {
        panel.forget();
        panel.later();
      }
    });
    byId("key").addEventListener("change", () => panels.forEach((panel) => panel.translate()));
    byId("level").addEventListener("change", () => panels.forEach((panel) => panel.showMap()));
    choose();
  }

  begin();
})();
