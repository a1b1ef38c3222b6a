/* The explainer page: it translates the typed text and displays each step of the translation. */
"use strict";
(() => {
  const { Translator, StepView, treeView, element, probability, decimal, idsOf, say, CARDS, LANGUAGES } = nmtExplainer;
  const { heatMap, wordLines, mergeWords, scaleEnd, shown } = nmtAttention;
  const $ = (id) => document.getElementById(id);
  const PAUSE = 150; // milliseconds after the last key
  const MARK_TIME = 3000; // milliseconds for which a part is marked
  const BEAMS = [1, 2, 3, 4, 5, 6, 8, 10];

  class Page {
    constructor(data, weights) {
      this.data = data;
      this.translator = new Translator(data, weights);
      this.translation = this.best = null;
      this.place = 0;
      this.stepView = new StepView(this, (ids) => this.force(ids));
      const beams = [...new Set([...BEAMS, data.search.beam])].sort((a, b) => a - b);
      $("beam").append(...beams.map((size) => element("option", size, { value: size })));
      $("beam").value = data.search.beam;
      $("text").value = data.example;
      $("text").lang = data.tokenizers.src.lang;
      $("output").lang = data.tokenizers.tgt.lang;
      document.querySelector("h1").textContent = `nmt: ${data.name}`;
      if (navigator.language.startsWith("fr")) $("language").value = "fr";
      this.listen();
      this.speak();
      this.translate();
    }

    listen() {
      let timer = null;
      $("text").addEventListener("input", () => {
        clearTimeout(timer);
        timer = setTimeout(() => this.translate(), PAUSE);
      });
      $("beam").addEventListener("change", () => this.translate(this.translation?.prefix));
      $("free").addEventListener("click", () => (this.translate(), $("text").focus()));
      $("level").addEventListener("change", () => this.showMap());
      $("map-view").addEventListener("toggle", () => this.showMap());
      $("tree-view").addEventListener("toggle", () => this.showTree());
      $("pruned").addEventListener("change", () => this.showTree());
      $("maps").addEventListener("attention-cell", ({ target, detail: { row } }) => {
        target.style.cursor = row === null ? "" : "pointer";
      });
      $("maps").addEventListener("attention-pick", ({ detail: { row } }) => {
        if (row === null) return; // a source word
        const { ends } = this.best.side;
        const isWords = $("level").value === "words";
        this.openStep(isWords ? (row ? ends[row - 1] : 0) : row);
        this.point("step-view");
      });
      $("language").addEventListener("change", () => this.speak());
      let room = innerWidth;
      addEventListener("resize", () => {
        if (innerWidth !== room) this.showMap();
        room = innerWidth;
      });
    }

    /* Set all labels in the selected language. */
    speak() {
      document.documentElement.lang = $("language").value;
      for (const labelled of document.querySelectorAll("[data-say]"))
        labelled.textContent = say(labelled.dataset.say);
      const { src, tgt } = this.data.tokenizers;
      $("about").textContent = say("about", src.lang, tgt.lang);
      $("text").placeholder = say("placeholder");
      this.showCards();
      if (this.translation) this.show();
    }

    /* `prefix` lists the ids with which the translation must begin. */
    translate(prefix = []) {
      const start = performance.now();
      const text = $("text").value;
      this.translation = this.translator.translate(text, { beam: +$("beam").value, prefix });
      $("result").hidden = $("map-view").hidden = $("step-view").hidden = $("tree-view").hidden = !this.translation;
      if (!this.translation) return;
      this.best = this.translator.hypothesis(this.translation.ends[0]);
      this.milliseconds = performance.now() - start;
      this.place = Math.min(prefix.length ? prefix.length - 1 : 0, this.best.path.length - 1);
      this.show();
    }

    /* Translate with these ids at the beginning, and go to the result. */
    force(ids) {
      this.translate(ids);
      $(ids.length ? "free" : "text").focus();
    }

    show() {
      const { prefix } = this.translation;
      $("output").textContent = this.best.text;
      const [score, n, time] = [decimal(this.best.score, 3), this.best.ids.length, this.milliseconds.toFixed(0)];
      $("facts").textContent = say("facts", score, n, time, this.data.step, this.data.numbers);
      $("forced").hidden = !prefix.length;
      $("forced").firstElementChild.textContent = say("forced", this.translator.target.decode(prefix));
      const buttons = this.best.side.pieces.map((piece, t) => {
        const p = Math.exp(this.best.path[t].logProb);
        const button = element("button", shown(piece), { type: "button", title: say("piece", probability(p)) });
        button.className = `gauge ${t < prefix.length ? "forced" : ""}`;
        button.style.setProperty("--share", p);
        button.addEventListener("click", () => {
          this.openStep(t);
          this.point("step-view", false); // the keyboard focus stays on the pieces
        });
        return button;
      });
      $("pieces").replaceChildren(...buttons);
      this.showMap();
      this.openStep(this.place);
      this.showTree();
    }

    showMap() {
      if (!this.translation || !$("map-view").open) return;
      const [{ side, weights }, { source }] = [this.best, this.translation];
      const isWords = $("level").value === "words";
      const map = isWords
        ? { rows: side.words, columns: source.words, weights: mergeWords(weights, side.ends, source.ends) }
        : { rows: side.pieces, columns: source.pieces, weights };
      const room = $("maps").clientWidth;
      const names = { rowsName: say("translation"), columnsName: say("source"), weightName: say("weight_name") };
      const options = { ...names, end: scaleEnd(map.weights), width: room > 800 ? room - 360 : room };
      const label = (key) => say(key, map.rows.length, map.columns.length);
      $("heat").replaceChildren(heatMap(map, { ...options, label: label("heat_label") }));
      const beside = room - $("heat").offsetWidth - 40;
      $("lines").replaceChildren(wordLines(map, { ...options, label: label("lines_label"), width: beside > 300 ? beside : room }));
    }

    openStep(place) {
      this.place = place;
      this.stepView.open(this.best.path[place]);
      [...$("pieces").children].forEach((button, t) => button.setAttribute("aria-pressed", String(t === place)));
    }

    showTree() {
      if (!this.translation || !$("tree-view").open) return;
      const { root, ends } = this.translation;
      const pick = (node) => this.force(idsOf(node));
      const { translator } = this;
      $("tree").replaceChildren(treeView({ root, best: ends[0], translator, showsPruned: $("pruned").checked, pick }));
    }

    showCards() {
      const n = LANGUAGES.indexOf(document.documentElement.lang);
      const opened = [...$("cards").children].map(({ open }) => open);
      const cards = CARDS.map(({ at, title, text }, i) => {
        const card = element("details", "", { className: "card", open: opened[i] ?? i === 0 });
        const summary = card.appendChild(element("summary"));
        summary.append(element("h3", title[n]));
        const button = element("button", say("show"), { type: "button" });
        button.setAttribute("aria-label", `${say("show")}: ${title[n]}`);
        button.addEventListener("click", () => this.point(at));
        card.append(element("p", text[n]));
        if (!$(at).matches("label[hidden]")) card.append(button); // the list is hidden if there is one head
        return card;
      });
      $("cards").replaceChildren(...cards);
    }

    /* Open, scroll to and mark a part of the page. Without a translation, focus the text. */
    point(id, movesFocus = true) {
      if (!this.translation) return $("text").focus();
      const part = $(id);
      part.closest("main > details").open = true;
      for (const pointed of document.querySelectorAll(".pointed")) pointed.classList.remove("pointed");
      part.classList.add("pointed");
      clearTimeout(this.pointing);
      this.pointing = setTimeout(() => part.classList.remove("pointed"), MARK_TIME);
      part.scrollIntoView({ block: part.offsetHeight > innerHeight ? "start" : "center" });
      if (!movesFocus) return;
      const focusable = part.matches("input, button") ? part : part.querySelector("summary, select, button, [tabindex]");
      focusable?.focus({ preventScroll: true });
    }
  }

  const read = (id) => document.getElementById(id).textContent;
  nmtExplainer.page = new Page(JSON.parse(read("data")), read("weights"));
})();
