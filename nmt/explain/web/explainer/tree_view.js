/* The beam as a tree: columns are steps, with the best hypothesis in the first row.

Nodes are buttons of an ARIA tree with one tab stop. The arrow keys move along branches and within a column. */
"use strict";
(() => {
  const { say, element, decimal, pathOf } = nmtExplainer;
  const { make, shown } = nmtAttention;
  const [COLUMN, ROW, WIDTH, HEIGHT] = [122, 42, 88, 36];
  const SIGNS = { extended: "", pruned: "×", hopeless: "×", finished: "●", cut: "…" };

  /* Assign rows to the displayed nodes depth first, so that no lines cross and no row is empty. */
  function placeNodes(root, onBest, showsPruned) {
    const [nodes, filled] = [[], []];
    const visit = (node) => {
      filled[node.depth] = (filled[node.depth] ?? 0) + 1;
      const place = { node, row: filled[node.depth] - 1 };
      nodes.push(place);
      const children = node.children.filter(({ fate }) => showsPruned || fate !== "pruned");
      place.children = children.sort((a, b) => onBest.has(b) - onBest.has(a)).map(visit);
      return place;
    };
    visit(root);
    return { nodes, nRows: Math.max(...filled) };
  }

  function treeView({ root, best, translator, showsPruned, pick }) {
    const onBest = new Set(pathOf(best));
    const { nodes, nRows } = placeNodes(root, onBest, showsPruned);
    const depth = Math.max(...nodes.map(({ node }) => node.depth));
    const [width, height] = [(depth + 1) * COLUMN, nRows * ROW];
    const tree = element("div", "", { className: "tree" });
    tree.setAttribute("role", "tree");
    tree.setAttribute("aria-label", say("beam"));
    Object.assign(tree.style, { width: `${width}px`, height: `${height}px` });
    const lines = make("svg", { width, height, "aria-hidden": true }, { fill: "none" });
    tree.append(lines);
    const middle = ({ row }) => row * ROW + HEIGHT / 2;
    const buttons = nodes.map((place) => {
      const { node, children } = place;
      for (const child of children) {
        const [x, y] = [node.depth * COLUMN + WIDTH, middle(child)];
        const isBest = onBest.has(child.node);
        lines.append(make("path", { d: `M${x} ${middle(place)}C${x + 20} ${middle(place)} ${x + 14} ${y} ${x + 34} ${y}` },
          { stroke: `var(--attention-${isBest ? "ink" : "text"})`, "stroke-width": isBest ? 3 : 1.2, "stroke-opacity": isBest ? 1 : 0.45 }));
      }
      const piece = shown(translator.pieceOf(node.id));
      const button = element("button", "", { type: "button", tabIndex: -1 });
      button.className = `node gauge ${node.fate} ${onBest.has(node) ? "best" : ""}`;
      button.style.setProperty("--share", Math.exp(node.logProb));
      const value = decimal(node.score ?? node.total, 2);
      button.append(element("span", piece, { className: "piece" }), element("small", `${SIGNS[node.fate]} ${value}`));
      const facts = [piece, say("log_prob", decimal(node.logProb, 3)), say("total", decimal(node.total, 3))];
      if (node.score !== undefined) facts.push(say("score_of", decimal(node.score, 3)));
      button.title = [...facts, say(node.fate)].join(", ");
      button.setAttribute("role", "treeitem");
      button.setAttribute("aria-level", node.depth + 1);
      button.setAttribute("aria-selected", String(onBest.has(node)));
      Object.assign(button.style, { left: `${node.depth * COLUMN}px`, top: `${place.row * ROW}px` });
      button.addEventListener("click", () => pick(node));
      return tree.appendChild(button);
    });
    buttons[0].tabIndex = 0;
    tree.addEventListener("keydown", (event) => {
      const at = buttons.indexOf(event.target);
      const { node, children } = nodes[at] ?? {};
      const sameColumn = (step) => {
        let to = at + step;
        while (nodes[to] && nodes[to].node.depth !== node.depth) to += step;
        return to;
      };
      const to = node && {
        ArrowRight: () => nodes.indexOf(children[0]),
        ArrowLeft: () => nodes.findIndex((place) => place.node === node.parent),
        ArrowDown: () => sameColumn(1), ArrowUp: () => sameColumn(-1), Home: () => 0,
      }[event.key]?.();
      if (to === undefined) return;
      event.preventDefault();
      if (!buttons[to]) return;
      event.target.tabIndex = -1;
      buttons[to].tabIndex = 0;
      buttons[to].focus();
    });
    return tree;
  }

  Object.assign(nmtExplainer, { treeView });
})();
