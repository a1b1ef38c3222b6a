/* Translate as one types, look at the attention of a sentence, change it. All comes from /v1. */
"use strict";
(() => {
  const PAUSE = 150; // milliseconds after the last key
  const MOST = 5; // hypotheses shown
  const byId = (id) => document.getElementById(id);
  const make = (name, text, properties = {}) =>
    Object.assign(document.createElement(name), { textContent: text }, properties);
  const languages = new Intl.DisplayNames("en", { type: "language" });
  const percent = (share) => `${Math.round(100 * share)} %`;
  const shown = (piece) => globalThis.nmtAttention.shown(piece);

  function languageOf(code) {
    try {
      return languages.of(code);
    } catch {
      return code; // not the form of a code
    }
  }

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

  /* One model's side: the translation of the text, and a chosen sentence of it. */
  class Panel {
    constructor(model, name, place) {
      this.model = model;
      this.element = byId("panel").content.firstElementChild.cloneNode(true);
      [this.chosen, this.sentences] = [0, []];
      this.forget();
      this.find("h2").textContent = name;
      this.find(".detail").id = `detail-${place}`;
      this.find(".source").lang = model.source;
      for (const each of [".translation", ".hypotheses"]) this.find(each).lang = model.target;
      for (const each of this.element.querySelectorAll(".steering")) each.hidden = !model.steerable;
      this.find(".level").addEventListener("change", () => this.showMap());
      this.find(".prefix").addEventListener("input", () => {
        this.prefixIds = null;
        this.rows = {};
        this.later(() => this.look());
      });
      this.find(".changes button").addEventListener("click", () => {
        this.find(".prefix").focus(); // this button is about to be hidden
        this.choose(this.chosen);
      });
      this.find(".map").addEventListener("attention-pick", ({ detail }) => {
        if (!model.steerable || detail.row === null || detail.column === null) return;
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
      this.find(".prefix").value = "";
      this.find(".row").hidden = true;
    }

    later(act) {
      this.stop();
      this.timer = setTimeout(act, PAUSE);
    }

    /* The newest request wins: an older one is given up, which takes it from the server's queue. */
    stop() {
      clearTimeout(this.timer);
      this.running?.abort();
    }

    /* Return the answer; null after an error, and undefined if a newer request took its place. */
    async request(path, body) {
      this.stop();
      const { signal } = (this.running = new AbortController());
      this.say("Translating…", "busy");
      try {
        return await ask(path, { model: this.model.name, ...body }, signal);
      } catch (error) {
        if (signal.aborted) return undefined;
        this.say(error.message.replace(/^q:/, "the text:"), "wrong");
        return null;
      }
    }

    async translate() {
      this.stop();
      const q = byId("text").value;
      const texts = q.trim() ? await this.request("v1/document", { q }) : [[]];
      if (texts) this.say("");
      if (texts !== undefined) this.showText(texts?.[0] ?? []);
    }

    showText(parts) {
      this.sentences = parts.filter((part) => part.sentence !== undefined);
      const nodes = parts.map((part) => {
        const place = this.sentences.indexOf(part);
        if (place < 0) return part.translation;
        const link = make("a", part.translation, { href: `#${this.find(".detail").id}` });
        link.addEventListener("click", (event) => {
          event.preventDefault(); // no jump: the sentence may stand beside what it opens
          for (const panel of panels)
            if (panel.sentences[place]?.sentence === part.sentence) panel.choose(place);
        });
        return link;
      });
      this.find(".translation").replaceChildren(...nodes);
      this.find(".detail").hidden = !this.sentences.length;
      if (this.sentences.length) this.choose(Math.min(this.chosen, this.sentences.length - 1));
    }

    choose(place) {
      this.chosen = place;
      for (const [other, link] of [...this.find(".translation").querySelectorAll("a")].entries())
        link.ariaCurrent = other === place;
      const n = this.sentences.length;
      this.find("h3").textContent = n > 1 ? `Sentence ${place + 1} of ${n}` : "The sentence";
      this.find(".source").textContent = this.sentences[place].sentence;
      this.forget();
      this.look();
    }

    async look() {
      const q = this.sentences[this.chosen].sentence;
      const body = { q, attention: "piece", n_best: Math.min(MOST, this.model.beam) };
      const prefix = this.find(".prefix").value.trim();
      if (this.prefixIds) body.prefix_ids = this.prefixIds;
      else if (prefix) body.prefix = prefix;
      if (Object.keys(this.rows).length) body.attention_rows = this.rows;
      const answer = await this.request("v1/translate", body);
      if (answer === undefined) return;
      this.rank = 0;
      if (answer) this.say("Translated.");
      this.show(answer?.translations[0]);
    }

    say(text, state = "") {
      this.find(".message").textContent = text;
      this.find(".message").className = `message ${state}`;
      this.element.ariaBusy = state === "busy";
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
        const log = each.log_probs.reduce((sum, value) => sum + value, 0) / each.log_probs.length;
        button.append(" ", make("small", `each piece ${percent(Math.exp(log))} likely`));
        if (each.confidence !== undefined) // the run is calibrated, and nothing is given
          button.append(" ", make("small", `confidence ${percent(each.confidence)}`));
        button.addEventListener("click", () => {
          this.rank = rank;
          this.show(answer);
          this.find("[aria-pressed=true]").focus();
        });
        const item = make("li", "");
        item.append(button);
        return item;
      });
      this.find(".hypotheses").replaceChildren(...items);
      this.find(".calibrated").hidden = this.hypothesis?.confidence === undefined;
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
        button.classList.toggle("given", place < (this.prefixIds?.length ?? 0));
        button.addEventListener("click", () => this.keepBefore(place));
        return button;
      });
      this.find(".pieces").replaceChildren(...pieces);
    }

    async keepBefore(place) {
      this.prefixIds = this.hypothesis.ids.slice(0, place);
      this.rows = Object.fromEntries(Object.entries(this.rows).filter(([row]) => row <= place));
      await this.look();
      this.find(".changes button").focus();
    }

    /* The exclusive ends of words; the end of the sentence is a word. */
    ends(of, length) {
      return of.word_ends.at(-1) === length ? of.word_ends : [...of.word_ends, length];
    }

    showMap() {
      const place = this.find(".map");
      if (!this.hypothesis) return place.replaceChildren();
      let { rows, columns, weights } = this.hypothesis.attention;
      if (this.find(".level").value === "word") {
        const rowEnds = this.ends(this.hypothesis, rows.length);
        const columnEnds = this.ends(this.answer, columns.length);
        const words = (of, ends, labels) => [...of.words, labels.at(-1)].slice(0, ends.length);
        weights = globalThis.nmtAttention.mergeWords(weights, rowEnds, columnEnds);
        rows = words(this.hypothesis, rowEnds, rows);
        columns = words(this.answer, columnEnds, columns);
      }
      const width = Math.max(place.clientWidth, 240);
      place.replaceChildren(globalThis.nmtAttention.heatMap({ rows, columns, weights }, { width, widest: 120 }));
    }

    /* The first pieces of a cell's words. */
    pieceAt({ row, column }) {
      if (this.find(".level").value === "piece") return [row, column];
      const first = (of, place) => (place ? of.word_ends[place - 1] : 0);
      return [first(this.hypothesis, row), first(this.answer, column)];
    }

    editRow(row, column) {
      const { rows, columns, weights } = this.hypothesis.attention;
      this.row = row;
      const form = this.find(".row");
      form.hidden = false;
      form.querySelector("legend").textContent = `Where ${shown(rows[row])} looks`;
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
      only.textContent = `Only at ${shown(columns[column])}`;
      only.onclick = () => all((place) => (place === column ? 100 : 0));
      form.querySelector(".even").onclick = () => all(() => 50);
      form.querySelectorAll("input")[column].focus();
    }

    async decodeFromRow() {
      const weights = [...this.find(".row").querySelectorAll("input")].map((each) => +each.value);
      if (!weights.some(Boolean)) return this.say("a row of attention needs a weight above 0", "wrong");
      const { row } = this;
      const earlier = Object.entries(this.rows).filter(([other]) => other < row);
      this.prefixIds = this.hypothesis.ids.slice(0, row);
      this.rows = { ...Object.fromEntries(earlier), [row]: weights };
      await this.look();
      this.find(".changes button").focus();
    }
  }

  let models = [];
  let panels = [];

  const pair = ({ name, source, target }) => `${name}: ${languageOf(source)} to ${languageOf(target)}`;

  function open() {
    for (const panel of panels) panel.stop();
    const names = ["model-0", "model-1"].map((id) => byId(id).value).filter(Boolean);
    const opened = names.map((name) => models.find((each) => each.name === name));
    panels = opened.map((model, place) => {
      const language = languageOf(model.target);
      return new Panel(model, opened.length > 1 ? `${language}, ${model.name}` : language, place);
    });
    byId("text").lang = opened[0].source;
    byId("text").labels[0].textContent = languageOf(opened[0].source);
    byId("panels").replaceChildren(...panels.map((panel) => panel.element));
    translate();
  }

  const translate = () => panels.forEach((panel) => panel.translate());

  async function begin() {
    const found = await ask("v1/models");
    models = found.models;
    byId("key-label").hidden = !found.needs_key;
    byId("model-1").labels[0].hidden = models.length < 2;
    for (const id of ["model-0", "model-1"]) {
      byId(id).append(...models.map((model) => make("option", pair(model), { value: model.name })));
      byId(id).addEventListener("change", open);
    }
    byId("text").addEventListener("input", () => {
      for (const panel of panels) panel.later(() => panel.translate());
    });
    byId("text").addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) byId("translate").click();
    });
    byId("key").addEventListener("change", translate);
    byId("translate").form.addEventListener("submit", (event) => {
      event.preventDefault();
      translate();
    });
    addEventListener("resize", () => panels.forEach((panel) => panel.showMap()));
    open();
  }

  begin();
})();
