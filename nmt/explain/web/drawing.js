/* Shared functions of the heat map and the lines: labels, SVG, a frame with a tooltip, and PNG. */
"use strict";
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const WIDEST_LABEL = 24; // characters, as in nmt's pictures
  const FONT = 'system-ui, "DejaVu Sans", sans-serif';
  const RTL = /^[^\p{L}]*[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/u;
  const COLOURS = ["ink", "paper", "text", "line", "mark"].map((name) => `--attention-${name}`);

  /* A text without characters that cannot be drawn or that change the direction of writing. */
  const clean = (text) =>
    text.normalize("NFC").replace(/\s/g, " ")
      .replace(/[\p{Cc}\p{Cs}\u200e\u200f\u202a-\u202e\u2066-\u2069\ufffe\uffff]/gu, "");

  /* A label as in nmt's pictures, with `_` for the word mark. */
  function shown(text) {
    let label = clean(text).replaceAll("▁", "_");
    const chars = Array.from(label);
    if (chars.length > WIDEST_LABEL) label = `${chars.slice(0, WIDEST_LABEL - 1).join("")}…`;
    if (/^\p{M}/u.test(label)) label = `◌${label}`; // a combining mark alone needs a base
    return RTL.test(label) ? `\u2067${label}\u2069` : label;
  }

  const pen = document.createElement("canvas").getContext("2d");

  /* The largest width of the labels in bold, the style of a selected label. */
  function widest(labels, font) {
    pen.font = `bold ${font}px ${FONT}`;
    return Math.max(0, ...labels.map((label) => pen.measureText(label).width));
  }

  const short = (weight) => (weight >= 0.995 ? "1.0" : weight.toFixed(2).replace(/^0/, ""));

  function make(name, attributes = {}, style = {}) {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    // A policy against inline styles allows changes through the object model.
    for (const [key, value] of Object.entries(style)) element.style.setProperty(key, value);
    return element;
  }

  function write(parent, text, attributes) {
    const element = make("text", attributes);
    element.textContent = text;
    return parent.appendChild(element);
  }

  /* Draw one path for each of the 255 shades instead of one per cell. */
  function drawCells(parent, weights, end, cell, left = 0, top = 0, high = cell) {
    const shades = new Map();
    weights.forEach((of, row) => {
      of.forEach((weight, column) => {
        const shade = Math.min(Math.round((weight / end) * 255), 255);
        const square = `M${left + column * cell} ${top + row * high}h${cell}v${high}h${-cell}z`;
        if (shade > 0) shades.set(shade, (shades.get(shade) ?? "") + square);
      });
    });
    const crisp = { "shape-rendering": "crispEdges" };
    const group = parent.appendChild(make("g", crisp, { fill: "var(--attention-ink)" }));
    for (const [shade, d] of shades)
      group.append(make("path", { d, "fill-opacity": (shade / 255).toFixed(4) }));
  }

  function frame(name, svg) {
    const element = document.createElement("figure");
    element.className = "nmt-attention";
    const scroll = element.appendChild(document.createElement("div"));
    scroll.className = "nmt-scroll";
    scroll.append(svg);
    const tip = element.appendChild(document.createElement("div"));
    tip.className = "nmt-tip";
    tip.setAttribute("role", "status");
    svg.setAttribute("tabindex", "0");
    svg.setAttribute("role", "application");
    svg.setAttribute("aria-label", name);
    const send = (type, detail) =>
      element.dispatchEvent(new CustomEvent(type, { bubbles: true, detail }));
    const showTip = (text, x, y) => {
      tip.textContent = text;
      if (!text) return;
      const room = Math.max(element.clientWidth - tip.offsetWidth, 0);
      tip.style.left = `${Math.min(Math.max(x - scroll.scrollLeft, 0), room)}px`;
      tip.style.top = `${y}px`;
    };
    return { element, scroll, send, showTip };
  }

  function sheet(width, height, font) {
    const size = { width, height, viewBox: `0 0 ${width} ${height}`, class: "nmt-map" };
    return make("svg", size, { "font-family": FONT, "font-size": `${font}px` });
  }

  async function png(element, scale = 2) {
    const svg = element.querySelector("svg.nmt-map");
    const copy = svg.cloneNode(true);
    const style = getComputedStyle(svg);
    for (const name of COLOURS) copy.style.setProperty(name, style.getPropertyValue(name));
    copy.setAttribute("xmlns", SVG);
    const text = new XMLSerializer().serializeToString(copy);
    const url = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
    try {
      const image = new Image();
      image.src = url;
      await image.decode();
      const [width, height] = ["width", "height"].map((name) => +svg.getAttribute(name));
      const by = Math.min(scale, 16000 / Math.max(width, height)); // the largest canvas of browsers
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [Math.ceil(width * by), Math.ceil(height * by)];
      const context = canvas.getContext("2d");
      context.fillStyle = style.getPropertyValue("--attention-paper");
      context.fillRect(0, 0, canvas.width, canvas.height);
      context.drawImage(image, 0, 0, canvas.width, canvas.height);
      return await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
    } finally {
      URL.revokeObjectURL(url);
    }
  }

  globalThis.nmtAttention = { ...globalThis.nmtAttention, clean, shown, widest, short, make, write, frame, sheet, drawCells, png };
})();
