/* Attention weights: unpacking, merging into words, and CSV. See heat_map.js. */
"use strict";
(() => {
  const LEVELS = 255;
  const bytesOf = (base64) => Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));

  /* Row t is bytes * scales[t] / 255. Each weight is within scales[t] / 510 of the model's. */
  function unpack({ scales, weights }, nColumns) {
    const view = new DataView(bytesOf(scales).buffer);
    const bytes = bytesOf(weights);
    return Array.from({ length: view.byteLength / 4 }, (_, row) => {
      const scale = view.getFloat32(4 * row, true);
      const of = bytes.subarray(row * nColumns, (row + 1) * nColumns);
      return Float32Array.from(of, (byte) => (byte * scale) / LEVELS);
    });
  }

  /* Sum over the columns of a word and average over the rows of a word. Ends are exclusive. */
  function mergeWords(weights, rowEnds, columnEnds) {
    return rowEnds.map((rowEnd, v) => {
      const first = v ? rowEnds[v - 1] : 0;
      return Float32Array.from(columnEnds, (end, w) => {
        let sum = 0;
        for (let t = first; t < rowEnd; t++)
          for (let s = w ? columnEnds[w - 1] : 0; s < end; s++) sum += weights[t][s];
        return sum / (rowEnd - first);
      });
    });
  }

  /* The fewest digits that represent the float32 exactly. */
  function digits(weight) {
    for (let n = 1; n < 9; n++)
      if (Math.fround(+weight.toPrecision(n)) === weight) return String(+weight.toPrecision(n));
    return String(+weight.toPrecision(9));
  }

  function csv({ rows, columns, weights }) {
    const field = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    const lines = rows.map((label, row) => [field(label), ...Array.from(weights[row], digits)]);
    return [["", ...columns.map(field)], ...lines].map((line) => `${line.join(",")}\r\n`).join("");
  }

  function scaleEnd(weights) {
    let greatest = 0;
    for (const row of weights) for (const weight of row) greatest = Math.max(greatest, weight);
    return Math.min(Math.max(Math.ceil(greatest * 10 - 1e-6) / 10, 0.1), 1);
  }

  globalThis.nmtAttention = { ...globalThis.nmtAttention, unpack, mergeWords, csv, scaleEnd };
})();
