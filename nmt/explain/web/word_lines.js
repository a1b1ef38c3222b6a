/* Words of both sides with lines between them. See heat_map.js for the interface. */
"use strict";
(() => {
  const { make, write, shown, widest, short, frame, sheet } = nmtAttention;

  function wordLines(map, options = {}) {
    const { weights } = map;
    const { rowsName = "translation", columnsName = "source", width = 560 } = options;
    const sides = { columns: map.columns.map(shown), rows: map.rows.map(shown) };
    const longest = Math.max(sides.rows.length, sides.columns.length, 1);
    const [step, font] = longest > 40 ? [18, 12] : [26, 14];
    const [margin, top] = [38, 26];
    const [wide, other] = [widest(sides.columns, font), widest(sides.rows, font)].map(Math.ceil);
    const gap = Math.min(Math.max(width - wide - other - 2 * margin - 16, 80), 260);
    const x = { columns: margin + wide, rows: margin + wide + 16 + gap };
    const svg = sheet(x.rows + other + margin, top + longest * step + 6, font);
    const y = (i) => top + (i + 0.5) * step;
    const text = svg.appendChild(make("g", {}, { fill: "var(--attention-text)" }));
    const names = { columns: columnsName, rows: rowsName };
    const labels = {};
    for (const side of ["columns", "rows"]) {
      const anchor = side === "columns" ? "end" : "start";
      write(text, names[side], { x: x[side], y: 14, "text-anchor": anchor, "font-size": 11, opacity: 0.75 });
      labels[side] = sides[side].map((label, i) =>
        write(text, label, { x: x[side], y: y(i), "text-anchor": anchor, dy: ".35em" }));
    }
    const drawn = { fill: "none", stroke: "var(--attention-ink)", "stroke-linecap": "round" };
    const lines = svg.appendChild(make("g", {}, drawn));
    const values = svg.appendChild(make("g", { "font-size": 11 }, { fill: "var(--attention-mark)" }));
    const { element, send } = frame(
      options.label ?? `lines of attention from ${sides.rows.length} words (${rowsName}) to ` +
        `${sides.columns.length} (${columnsName}); the arrow keys select a word`, svg);
    let at = null;
    function show(place) {
      const old = at && labels[at.side][at.i];
      if (old) old.style.fontWeight = "";
      at = place;
      lines.replaceChildren();
      values.replaceChildren();
      const [from, to, half] = [x.columns + 8, x.rows - 8, gap / 2];
      weights.forEach((of, row) => of.forEach((weight, column) => {
        const isSelected = !at || (at.side === "rows" ? at.i === row : at.i === column);
        if (!isSelected || weight < 0.02) return;
        const d = `M${from} ${y(column)}C${from + half} ${y(column)} ${to - half} ${y(row)} ${to} ${y(row)}`;
        const shade = Math.min(weight / (options.end ?? 1), 1).toFixed(3);
        lines.append(make("path", { d, "stroke-opacity": shade, "stroke-width": (0.5 + 3.5 * weight).toFixed(2) }));
        if (!at) return;
        const [side, i] = at.side === "rows" ? ["columns", column] : ["rows", row];
        const [edge, anchor] = side === "columns" ? [margin - 4 , "end"] : [x.rows + other + 4, "start"];
        write(values, short(weight), { x: edge, y: y(i), "text-anchor": anchor, dy: ".35em" });
      }));
      if (at) labels[at.side][at.i].style.fontWeight = "bold";
      send("attention-cell", detail());
    }
    const detail = () => ({
      row: at?.side === "rows" ? at.i : null,
      column: at?.side === "columns" ? at.i : null,
      weight: null,
    });
    function follow(event) {
      const box = svg.getBoundingClientRect();
      const [px, i] = [event.clientX - box.left, Math.floor((event.clientY - box.top - top) / step)];
      const side = px <= x.columns + 8 ? "columns" : px >= x.rows - 8 ? "rows" : null;
      const found = side && i >= 0 && i < sides[side].length ? { side, i } : null;
      if (found?.side !== at?.side || found?.i !== at?.i) show(found);
    }
    svg.addEventListener("pointermove", follow);
    svg.addEventListener("pointerleave", () => at && show(null));
    svg.addEventListener("blur", () => at && show(null));
    svg.addEventListener("click", (event) => {
      follow(event); // a tap sends no pointermove
      if (at) send("attention-pick", detail());
    });
    svg.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && at) {
        event.preventDefault(); // otherwise the key also acts on the next focused element
        send("attention-pick", detail());
      }
      if (event.key === "Escape" && at) show(null);
      const move = { ArrowUp: -1, ArrowDown: 1 }[event.key];
      const side = { ArrowLeft: "columns", ArrowRight: "rows" }[event.key] ?? at?.side ?? "rows";
      if ((move === undefined && !event.key.match(/^Arrow(Left|Right)$/)) || !sides[side].length) return;
      event.preventDefault();
      event.stopPropagation();
      const i = at ? at.i + (move ?? 0) : 0;
      show({ side, i: Math.min(Math.max(i, 0), sides[side].length - 1) });
    });
    show(null);
    return element;
  }

  globalThis.nmtAttention = { ...globalThis.nmtAttention, wordLines };
})();
