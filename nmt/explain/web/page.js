/* The page of `nmt attention --format html`: a list of sentences and the maps of the selected one.

The element `data` contains the data (docs/attention-dump.md). The weights of a sentence are unpacked
when it is shown, so opening the page only builds the list. */
"use strict";
(() => {
  const { heatMap, wordLines, thumbnail, mergeWords, unpack, csv, png, scaleEnd, clean } = nmtAttention;
  const $ = (id) => document.getElementById(id);
  const sentences = JSON.parse($("data").textContent);
  const options = [];
  let matching = sentences.map((_, i) => i);
  let [chosen, rank, head] = [-1, 0, 0];
  let searchTexts = null; // texts without case and accents, computed at the first search

  const fold = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();

  function element(name, text, attributes = {}) {
    const made = document.createElement(name);
    made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }

  /* ---- The list ---- */

  function fillList() {
    sentences.forEach((sentence, i) => {
      const item = element("li", "", { role: "option", id: `sentence-${i}`, dir: "auto" });
      item.append(element("small", sentence.number), element("bdi", clean(sentence.source.text)));
      options.push(item);
    });
    $("list").append(...options);
    $("list").addEventListener("click", (event) => {
      const item = event.target.closest("li");
      if (item) choose(options.indexOf(item));
    });
    $("list").addEventListener("keydown", (event) => {
      const place = matching.indexOf(chosen);
      const last = matching.length - 1;
      const to = { ArrowDown: place + 1, ArrowUp: place - 1, Home: 0, End: last,
        PageDown: place + 10, PageUp: place - 10 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      if (last >= 0) choose(matching[Math.min(Math.max(to, 0), last)]);
    });
  }

  function filter() {
    searchTexts ??= sentences.map(({ source, hypotheses }) =>
      fold([source.text, ...hypotheses.map((each) => each.text)].join("\n")));
    const wanted = fold($("search").value).split(/\s+/).filter(Boolean);
    const found = (i) => wanted.every((word) => searchTexts[i].includes(word));
    matching = sentences.map((_, i) => i).filter(found);
    const shown = new Set(matching);
    options.forEach((option, i) => { option.hidden = !shown.has(i); });
    tellCount();
    if (matching.length && !shown.has(chosen)) choose(matching[0]);
  }

  function tellCount() {
    const all = `${sentences.length} ${sentences.length === 1 ? "sentence" : "sentences"}`;
    const some = `${matching.length} of ${all}`;
    $("count").textContent = matching.length === sentences.length ? all : some;
  }

  function step(by) {
    const place = matching.indexOf(chosen) + by;
    if (matching.length) choose(matching[Math.min(Math.max(place, 0), matching.length - 1)]);
  }

  /* ---- The selected sentence ---- */

  function choose(index) {
    options[chosen]?.setAttribute("aria-selected", "false");
    chosen = index;
    rank = 0;
    options[index].setAttribute("aria-selected", "true");
    options[index].scrollIntoView({ block: "nearest" });
    $("list").setAttribute("aria-activedescendant", options[index].id);
    const { source, hypotheses, number } = sentences[index];
    history.replaceState(null, "", `#${number}`);
    $("source").textContent = clean(source.text);
    $("hypotheses").replaceChildren(...hypotheses.map(hypothesisLine));
    showHypothesis();
  }

  function hypothesisLine({ text, score, forced, finished }, i, all) {
    const line = element("label", "");
    const radio = element("input", "", { type: "radio", name: "hypothesis", value: i });
    radio.checked = i === rank;
    radio.addEventListener("change", () => { rank = i; showHypothesis(); });
    const notes = [`score ${score === null ? "−∞" : score.toFixed(3)}`];
    if (forced) notes.push("given");
    if (!finished) notes.push("cut at the length bound");
    if (all.length > 1) line.append(radio);
    line.append(element("bdi", clean(text), { dir: "auto" }), element("small", notes.join(", ")));
    return line;
  }

  const hypothesis = () => sentences[chosen].hypotheses[rank];

  /* The sides of a map, rows first, each as {pieces, words, ends}. */
  function sides({ attention }) {
    const { source } = sentences[chosen];
    const target = hypothesis();
    if (attention === "encoder") return [source, source];
    if (attention === "cross") return [target, source];
    const n = target.finished ? -1 : undefined; // the decoder reads <s> but not </s>
    const read = {
      pieces: ["<s>", ...target.pieces.slice(0, n)],
      words: ["<s>", ...target.words.slice(0, n)],
      ends: [1, ...target.ends.slice(0, n).map((end) => end + 1)],
    };
    return [attention === "decoder" ? read : target, read];
  }

  /* The source's share of each row's attribution, averaged over the pieces of a word. */
  function shares({ attention }) {
    const { source_share: pieces, ends } = hypothesis();
    if (!pieces || !["cross", "prefix"].includes(attention)) return undefined;
    if ($("level").value === "piece") return pieces;
    return mergeWords(pieces.map((share) => [share]), ends, [1]).map(([share]) => share);
  }

  function labelled(packed, level = $("level").value) {
    const [rows, columns] = sides(packed);
    const weights = unpack(packed, columns.pieces.length);
    if (level === "piece") return { rows: rows.pieces, columns: columns.pieces, weights };
    const merged = mergeWords(weights, rows.ends, columns.ends);
    return { rows: rows.words, columns: columns.words, weights: merged };
  }

  function showHypothesis() {
    const { maps } = hypothesis();
    head = Math.min(head, maps.length - 1);
    $("of-heads").hidden = maps.length === 1;
    $("head").replaceChildren(...maps.map(({ name }, i) => element("option", name, { value: i })));
    showThumbnails(maps);
    showMap();
  }

  function showThumbnails(maps) {
    const buttons = maps.length === 1 ? [] : maps.map((packed, i) => {
      const button = element("button", "", { type: "button" });
      button.append(thumbnail(labelled(packed)), element("span", packed.name));
      button.addEventListener("click", () => { head = i; showMap(); });
      return button;
    });
    $("thumbnails").replaceChildren(...buttons);
  }

  function showMap() {
    const packed = hypothesis().maps[head];
    const map = labelled(packed);
    const [rowsName, columnsName] = {
      encoder: ["source", "source"], decoder: ["translation read", "translation read"],
      prefix: ["translation", "translation read"],
    }[packed.attention] ?? ["translation", "source"];
    const room = $("maps").clientWidth;
    const common = { rowsName, columnsName, end: scaleEnd(map.weights) };
    $("heat").replaceChildren(heatMap(map, { ...common, shares: shares(packed), width: room }));
    const beside = room - $("heat").offsetWidth - 40; // beside the map if there is space, otherwise below
    $("lines").replaceChildren(wordLines(map, { ...common, width: beside > 330 ? beside : room }));
    $("head").value = head;
    [...$("thumbnails").children].forEach((button, i) =>
      button.setAttribute("aria-pressed", String(i === head)));
    $("done").textContent = "";
  }

  /* ---- Files ---- */

  function save(blob, suffix) {
    const place = `${String(sentences[chosen].number).padStart(6, "0")}_${hypothesis().rank}`;
    const name = head ? `_${hypothesis().maps[head].name.replace(/\W+/g, "-")}` : "";
    const link = element("a", "", { download: `attention_${place}${name}.${suffix}` });
    link.href = URL.createObjectURL(blob);
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  }

  const makers = {
    png: () => png($("heat").firstElementChild),
    csv: () => new Blob([csv(labelled(hypothesis().maps[head]))], { type: "text/csv" }),
  };

  async function hand(verb, kind) {
    try {
      const blob = await makers[kind]();
      if (verb === "save") save(blob, kind);
      else if (kind === "csv") await navigator.clipboard.writeText(await blob.text());
      else await navigator.clipboard.write([new ClipboardItem({ [blob.type]: blob })]);
      $("done").textContent = verb === "save" ? "saved" : "copied";
    } catch (error) {
      $("done").textContent = `the browser refused: ${error.message}`;
    }
  }

  /* ---- Start ---- */

  fillList();
  tellCount();
  $("level").value = document.body.dataset.level;
  $("theme").addEventListener("change", () => {
    document.documentElement.dataset.theme = $("theme").value;
  });
  $("search").addEventListener("input", filter);
  $("level").addEventListener("change", showHypothesis);
  $("head").addEventListener("change", () => { head = +$("head").value; showMap(); });
  for (const verb of ["copy", "save"])
    for (const kind of ["png", "csv"])
      $(`${verb}-${kind}`).addEventListener("click", () => hand(verb, kind));
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input[type=search], select");
    if (typing || event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === "j") step(1);
    else if (event.key === "k") step(-1);
    else if (event.key === "/") { event.preventDefault(); $("search").focus(); }
  });
  const asked = () => sentences.findIndex(({ number }) => `#${number}` === location.hash);
  if (sentences.length) choose(Math.max(asked(), 0));
  addEventListener("hashchange", () => asked() >= 0 && choose(asked()));
  let room = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== room && sentences.length) showMap();
    room = innerWidth;
  });
  document.querySelector("main").hidden = !sentences.length;
})();
