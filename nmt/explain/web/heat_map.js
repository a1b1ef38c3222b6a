/* Attention maps in a browser. They need attention.css, but neither a network nor a library.

A map is {rows, columns, weights}: the labels of the rows (queries: pieces or words of the
translation) and of the columns (keys: of the source), and weights[row][column] from 0 to 1, in
arrays or Float32Arrays. Labels may be any strings, because they are inserted as text only.

  nmtAttention.heatMap(map, options)    an element with coloured cells, labels and a scale
  nmtAttention.wordLines(map, options)  an element with columns left, rows right, and lines between
  nmtAttention.thumbnail(map, end)      a small <svg> of the cells alone
  nmtAttention.mergeWords(weights, rowEnds, columnEnds)   the weights of words, from those of pieces
  nmtAttention.unpack({scales, weights}, nColumns)        the weights of nmt's packed maps
  nmtAttention.csv(map)                 the weights and their labels as text
  nmtAttention.png(element)             a promise of the drawing as a Blob

Options and their defaults: rowsName ("translation") and columnsName ("source"), the names of the
axes; weightName ("weight"), the title of the scale; label, the element's name for screen readers;
end, the weight of full ink (the greatest weight, rounded up to a tenth); width, the width to fit, in
pixels (cells shrink to 13 pixels, then the map scrolls); widest, the maximum width of a cell in
pixels, if cells may be wider than high; shares, a number from 0 to 1 for each row, drawn as a bar
beside it; sharesName ("source"), the title of these bars.

Both elements send events that bubble: `attention-cell` when the pointer or an arrow key reaches a
cell or a word, and `attention-pick` at a click, a tap or Enter. Their detail is {row, column, weight}.
For a word of one side, the index of the other side is null. All three are null when the pointer has
left. The label of a heat map's row stands for the cell with the row's greatest weight. */
"use strict";
(() => {
  const { make, write, shown, widest, short, frame, sheet, drawCells, scaleEnd } = nmtAttention;
  const SHARE = 44; // width of a full bar, in pixels

  function thumbnail({ weights }, end = scaleEnd(weights), side = 72) {
    const longest = Math.max(weights.length, weights[0]?.length ?? 0, 1);
    const cell = Math.max(side / longest, 1);
    const [width, height] = [cell * (weights[0]?.length ?? 0), cell * weights.length];
    const svg = make("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": true });
    drawCells(svg, weights, end, cell);
    return svg;
  }

  function heatMap(map, options = {}) {
    const { weights } = map;
    const { rowsName = "translation", columnsName = "source", weightName = "weight" } = options;
    const { width = 720, shares, sharesName = "source" } = options;
    const end = options.end ?? scaleEnd(weights);
    const [rows, columns] = [map.rows.map(shown), map.columns.map(shown)];
    const guess = Math.floor((width - widest(rows, 13) - (shares ? 120 : 70)) / Math.max(columns.length, 1));
    const highest = rows.length > 25 ? 20 : 36;
    const cell = Math.min(Math.max(guess, 13), options.widest ?? highest);
    const high = Math.min(cell, highest);
    const font = high >= 18 ? 13 : 11;
    const left = Math.ceil(widest(rows, font)) + 10;
    const long = widest(columns, font) + 4;
    const level = long <= cell;
    const slanted = cell >= 20 && !level;
    const top = Math.ceil(level ? font + 8 : slanted ? long * 0.71 + 1.4 * font : long + 6);
    const right = Math.max(Math.ceil(slanted ? long * 0.71 + 4 : 8), shares ? SHARE + 20 : 0);
    const [inner, tall] = [columns.length * cell, rows.length * high];
    const svg = sheet(Math.max(left + inner + right, left + 190), top + tall + 44, font);

    const lines = svg.appendChild(make("path", {}, { stroke: "var(--attention-line)", fill: "none" }));
    lines.setAttribute("shape-rendering", "crispEdges");
    drawCells(svg, weights, end, cell, left, top, high);
    const across = rows.map((_, i) => `M${left} ${top + i * high}h${inner}`);
    const down = columns.map((_, i) => `M${left + i * cell} ${top}v${tall}`);
    lines.setAttribute("d", `${across.join("")}${down.join("")}M${left} ${top}h${inner}v${tall}h${-inner}z`);

    const text = svg.appendChild(make("g", {}, { fill: "var(--attention-text)" }));
    const rowLabels = rows.map((label, i) =>
      write(text, label, { x: left - 6, y: top + (i + 0.5) * high, "text-anchor": "end", dy: ".35em" }));
    const columnLabels = columns.map((label, i) => {
      const [x, y] = [left + (i + 0.5) * cell + (slanted ? 2 : 0), top - 5];
      if (level) return write(text, label, { x, y, "text-anchor": "middle" });
      const turn = `rotate(${slanted ? -45 : -90} ${x} ${y})`;
      return write(text, label, { x, y, transform: turn, dy: slanted ? "0" : ".35em" });
    });
    if (high >= 28) drawNumbers(svg, weights, end, cell, left, top, high);
    drawScale(svg, end, weightName, left, top + tall + 12);
    if (shares) drawShares(svg, shares, sharesName, high, left + inner + 10, top);

    const { element, scroll, send, showTip } = frame(
      options.label ?? `attention of ${rows.length} rows (${rowsName}) over ${columns.length} columns ` +
        `(${columnsName}); the arrow keys read the cells`, svg);
    const edge = { width: cell, height: high, fill: "none", "stroke-width": 2, visibility: "hidden" };
    const mark = svg.appendChild(make("rect", edge, { stroke: "var(--attention-mark)" }));
    let at = null;
    function show(row, column) {
      const place = row === null ? null : { row, column, weight: weights[row][column] };
      if (at) for (const each of [rowLabels[at.row], columnLabels[at.column]]) each.style.fontWeight = "";
      at = place;
      mark.setAttribute("visibility", place ? "visible" : "hidden");
      if (place) {
        mark.setAttribute("x", left + column * cell);
        mark.setAttribute("y", top + row * high);
        for (const each of [rowLabels[row], columnLabels[column]]) each.style.fontWeight = "bold";
        const words = `${shown(map.rows[row])} ← ${shown(map.columns[column])}`;
        const share = shares ? `, ${sharesName} ${Math.round(100 * shares[row])} %` : "";
        showTip(`${words}  ${weights[row][column].toFixed(3)}${share}`, left + (column + 1.3) * cell, top + (row + 1.3) * high);
      } else showTip("");
      send("attention-cell", place ?? { row: null, column: null, weight: null });
    }
    function follow(event) {
      const box = svg.getBoundingClientRect();
      let column = Math.floor((event.clientX - box.left - left) / cell);
      const row = Math.floor((event.clientY - box.top - top) / high);
      if (column < 0 && weights[row]) column = weights[row].indexOf(Math.max(...weights[row]));
      const inside = row >= 0 && row < rows.length && column >= 0 && column < columns.length;
      if (!inside) at && show(null);
      else if (at?.row !== row || at?.column !== column) show(row, column);
    }
    svg.addEventListener("pointermove", follow);
    svg.addEventListener("pointerleave", () => at && show(null));
    svg.addEventListener("blur", () => at && show(null));
    svg.addEventListener("click", (event) => {
      follow(event); // a tap sends no pointermove
      if (at) send("attention-pick", at);
    });
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (event.key === "Enter" && at) {
        event.preventDefault(); // otherwise the key also acts on the next focused element
        send("attention-pick", at);
      }
      if (event.key === "Escape" && at) show(null);
      if (!step || !rows.length || !columns.length) return;
      event.preventDefault();
      event.stopPropagation();
      const { row, column } = at ?? { row: -step[0], column: -step[1] };
      const clamp = (value, count) => Math.min(Math.max(value, 0), count - 1);
      show(clamp(row + step[0], rows.length), clamp(column + step[1], columns.length));
      const x = left + at.column * cell;
      if (x < scroll.scrollLeft) scroll.scrollLeft = x - cell;
      if (x + cell > scroll.scrollLeft + scroll.clientWidth) scroll.scrollLeft = x + 2 * cell - scroll.clientWidth;
    });
    return element;
  }

  function drawNumbers(svg, weights, end, cell, left, top, high) {
    const [dark, pale] = ["paper", "text"].map((name) =>
      svg.appendChild(make("g", { "font-size": 11, "text-anchor": "middle" }, { fill: `var(--attention-${name})` })));
    weights.forEach((of, row) => of.forEach((weight, column) => {
      const [x, y] = [left + (column + 0.5) * cell, top + (row + 0.5) * high];
      if (weight >= 0.005) write(weight / end > 0.55 ? dark : pale, short(weight), { x, y, dy: ".35em" });
    }));
  }

  function drawShares(svg, shares, name, cell, left, top) {
    const across = { x: left, height: cell - 4 };
    const frames = svg.appendChild(make("g", {}, { fill: "none", stroke: "var(--attention-line)" }));
    const bars = svg.appendChild(make("g", { class: "nmt-shares" }, { fill: "var(--attention-mark)" }));
    shares.forEach((share, row) => {
      const y = top + row * cell + 2;
      frames.append(make("rect", { ...across, y, width: SHARE }));
      bars.append(make("rect", { ...across, y, width: (SHARE * share).toFixed(2) }));
    });
    const text = svg.appendChild(make("g", { "font-size": 11 }, { fill: "var(--attention-text)" }));
    write(text, name, { x: left + SHARE / 2, y: top + shares.length * cell + 10, "text-anchor": "middle" });
  }

  function drawScale(svg, end, name, left, top) {
    const steps = 20;
    drawCells(svg, [Array.from({ length: steps }, (_, i) => (i + 0.5) / steps)], 1, 6, left, top);
    const text = svg.appendChild(make("g", { "font-size": 11 }, { fill: "var(--attention-text)" }));
    write(text, "0", { x: left, y: top + 20 });
    write(text, end.toFixed(1), { x: left + 6 * steps, y: top + 20, "text-anchor": "end" });
    write(text, name, { x: left + 6 * steps + 6, y: top + 7 });
  }

  globalThis.nmtAttention = { ...globalThis.nmtAttention, heatMap, thumbnail };
})();
