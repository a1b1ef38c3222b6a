/* The recurrent encoder-decoder with attention, one sentence and one step at a time.

Tensors have the names of the checkpoint. The classes follow nmt/models: RecurrentLayers,
Attention with its scores and heads, and the decoders of Bahdanau (arXiv 1409.0473), of the
conditional GRU (arXiv 1703.04357) and of Luong (arXiv 1508.04025). */
"use strict";
(() => {
  const { CELLS, rowOf, affine, dot, sum, joined, weightedSum, softmax, logSoftmax } = nmtExplainer;
  const tanh = (x) => x.map(Math.tanh);
  const range = (n) => Array.from({ length: n }, (_, i) => i);

  class Encoder {
    constructor({ layers, encoder }, tensors) {
      this.embedding = tensors.get("encoder.embedding.weight");
      this.kind = encoder.cell;
      const suffixes = encoder.bidirectional ? ["", "_reverse"] : [""];
      const map = (part, end) => {
        const [weight, bias] = ["weight", "bias"].map((name) => tensors.get(`encoder.rnn.${name}_${part}_${end}`));
        return { apply: (x) => affine(weight, x, bias.data), size: weight.columns };
      };
      this.layers = range(layers).map((i) => suffixes.map((suffix) => {
        const hidden = map("hh", `l${i}${suffix}`);
        return { input: map("ih", `l${i}${suffix}`).apply, hidden: hidden.apply, size: hidden.size };
      }));
    }

    /* The annotations, and the last [hidden, cell] of every layer. */
    read(ids) {
      let values = ids.map((id) => rowOf(this.embedding, id));
      const finals = this.layers.map((directions) => {
        const passes = directions.map((gates, i) => this.pass(gates, values, i > 0));
        values = values.map((_, place) => joined(passes.map(({ hidden }) => hidden[place])));
        return [0, 1].map((part) =>
          passes[0].last[part] && joined(passes.map(({ last }) => last[part])));
      });
      return { values, finals };
    }

    pass(gates, inputs, isBackward) {
      const zeros = () => new Float32Array(gates.size);
      let last = [zeros(), this.kind === "lstm" ? zeros() : null];
      const hidden = [];
      for (const t of inputs.keys()) {
        const place = isBackward ? inputs.length - 1 - t : t;
        last = CELLS[this.kind](gates.input(inputs[place]), gates.hidden(last[0]), last);
        hidden[place] = last[0];
      }
      return { hidden, last };
    }
  }

  /* The score of a head: `key` is applied once to the annotations, `against` to the query at each step. */
  function scoreOf(kind, tensors, name, size) {
    if (kind === "additive") {
      const [query, key] = [tensors.linear(`${name}.W_q`), tensors.linear(`${name}.W_k`)];
      const { data: v } = tensors.get(`${name}.w_v.weight`);
      const against = (q) => {
        const projected = query(q);
        return (k) => {
          let score = 0;
          for (let i = 0; i < v.length; i++) score += v[i] * Math.tanh(projected[i] + k[i]);
          return score;
        };
      };
      return { key, against };
    }
    const scale = kind === "scaled_dot" ? Math.fround(size ** -0.5) : 1;
    const key = kind === "general" ? tensors.linear(`${name}.W_a`) : (x) => x.map((value) => value * scale);
    return { key, against: (q) => (k) => dot(q, k) };
  }

  class Attention {
    constructor({ attention }, memorySize, tensors) {
      const name = "decoder.attention";
      this.isMultiHead = attention.kind === "multi_head";
      const map = (part) => (this.isMultiHead ? tensors.linear(`${name}.${part}`) : (x) => x);
      [this.query, this.key, this.value, this.mix] = ["W_q", "W_k", "W_v", "W_o"].map(map);
      this.nHeads = this.isMultiHead ? attention.heads : 1;
      const size = this.isMultiHead
        ? tensors.get(`${name}.W_o.weight`).columns / this.nHeads : memorySize;
      const kind = this.isMultiHead ? attention.over.kind : attention.kind;
      this.heads = range(this.nHeads).map((n) =>
        scoreOf(kind, tensors, this.isMultiHead ? `${name}.scores.${n}` : name, size));
    }

    share(x, n) {
      const size = x.length / this.nHeads;
      return x.subarray(n * size, (n + 1) * size);
    }

    /* The keys and values of each head, computed once per sentence. */
    prepare(annotations) {
      const [keys, values] = [annotations.map(this.key), annotations.map(this.value)];
      return {
        keys: this.heads.map(({ key }, n) => keys.map((k) => key(this.share(k, n)))),
        values: this.heads.map((_, n) => values.map((v) => this.share(v, n))),
      };
    }

    /* weights = softmax(scores / temperature); context = the weighted sum of the values.
       A number in `change.scores[n][s]` replaces the score of head n at position s. */
    attend(query, { keys, values }, change) {
      const projected = this.query(query);
      const scores = this.heads.map(({ against }, n) => {
        const score = against(this.share(projected, n));
        return Float32Array.from(keys[n], (key, s) => change.scores?.[n]?.[s] ?? score(key));
      });
      const heads = scores.map((of) => softmax(of, change.temperature));
      const context = this.mix(joined(heads.map((weights, n) => weightedSum(weights, values[n]))));
      const weights = heads[0].map((_, s) => heads.reduce((total, of) => total + of[s], 0) / heads.length);
      return { query, scores, heads, weights, context };
    }
  }

  function cellOf(kind, tensors, name) {
    const [input, context, hidden] = ["input", "context", "hidden"].map((part) =>
      tensors.layout[`${name}.${part}_gates.weight`] && tensors.linear(`${name}.${part}_gates`));
    return { input, context, next: (gates, state) => CELLS[kind](gates, hidden(state[0]), state) };
  }

  /* One step of each kind of decoder: the input of the readout, attention, and the next state. */
  const ADVANCE = {
    bahdanau(decoder, embedded, state, attend) {
      const attended = attend(state.layers.at(-1)[0]);
      const gates = sum(decoder.cell.input(embedded), decoder.cell.context(attended.context));
      const layers = decoder.above(decoder.cell.next(gates, state.layers[0]), state);
      return { read: layers.at(-1)[0], attended, after: { layers } };
    },
    conditional(decoder, embedded, state, attend) {
      const { transition, cell } = decoder;
      const inner = transition.next(transition.input(embedded), state.layers[0]);
      const attended = attend(inner[0]);
      const layers = decoder.above(cell.next(cell.input(attended.context), inner), state);
      return { read: layers.at(-1)[0], attended, after: { layers } };
    },
    luong(decoder, embedded, state, attend) {
      const gates = sum(decoder.cell.input(embedded), decoder.cell.context(state.feed));
      const layers = decoder.above(decoder.cell.next(gates, state.layers[0]), state);
      const attended = attend(layers.at(-1)[0]);
      const feed = tanh(decoder.W_c(joined([attended.context, layers.at(-1)[0]])));
      return { read: feed, attended, after: { layers, feed } };
    },
  };

  class Decoder {
    constructor(config, memorySize, tensors) {
      const { kind, cell, readout } = config.decoder;
      this.kind = kind;
      this.config = config;
      this.tensors = tensors;
      this.embedding = tensors.get("decoder.embedding.weight");
      this.attention = new Attention(config, memorySize, tensors);
      this.cell = cellOf(cell, tensors, "decoder.cell");
      this.upper = range(config.layers - 1).map((i) => cellOf(cell, tensors, `decoder.upper.${i}`));
      if (kind === "conditional") this.transition = cellOf(cell, tensors, "decoder.transition");
      if (kind === "luong") this.W_c = tensors.linear("decoder.W_c");
      const map = (part) => tensors.linear(`decoder.readout.${part}`);
      const deep = readout.kind === "deep" && ["U_o", "V_o", "C_o"].map(map);
      this.readout = (hidden, embedded, context) => {
        if (!deep) return hidden;
        const [U, V, C] = deep;
        const total = sum(sum(U(hidden), V(embedded)), C(context));
        if (readout.activation === "tanh") return tanh(total);
        return Float32Array.from(range(total.length / 2), (i) => Math.max(total[2 * i], total[2 * i + 1]));
      };
    }

    above(bottom, state) {
      const layers = [bottom];
      this.upper.forEach((cell, i) =>
        layers.push(cell.next(cell.input(layers[i][0]), state.layers[i + 1])));
      return layers;
    }

    /* The state before the first piece; see nmt/models/recurrent/initial_state.py. */
    begin({ values, finals }) {
      const { initial_state: kind, cell } = this.config.decoder;
      const hasCell = cell === "lstm";
      const layers = finals.map(([hidden, cellState], i) => {
        if (kind === "copy") return [hidden, hasCell ? cellState : null];
        const equal = new Float32Array(values.length).fill(1 / values.length);
        const summary = {
          tanh: hidden, tanh_backward: hidden.subarray(hidden.length / 2), mean: weightedSum(equal, values),
        }[kind];
        const first = (part) => tanh(this.tensors.linear(`decoder.initial.${part}.${i}`)(summary));
        return [first("W_s"), hasCell ? first("W_c") : null];
      });
      return { layers, feed: new Float32Array(layers[0][0].length) };
    }
  }

  /* A model with `encode` and `step`, as in nmt/models/base.py. */
  class Model {
    constructor(config, tensors, nPieces) {
      this.nPieces = nPieces;
      this.encoder = new Encoder(config, tensors);
      const directions = config.encoder.bidirectional ? 2 : 1;
      const memorySize = (config.encoder.hidden ?? config.hidden) * directions;
      this.decoder = new Decoder(config, memorySize, tensors);
      this.output = tensors.get("decoder.output.weight");
      this.bias = tensors.get("decoder.output.bias").data;
    }

    /* The keys and values of a source, and the decoder's first state. */
    encode(ids) {
      const read = this.encoder.read(ids);
      return { ids, ...this.decoder.attention.prepare(read.values), first: this.decoder.begin(read) };
    }

    /* One step after the piece `lastId`. `change` is as in Attention.attend. */
    step(lastId, state, memory, change = {}) {
      const { decoder } = this;
      const embedded = rowOf(decoder.embedding, lastId);
      const attend = (query) => decoder.attention.attend(query, memory, change);
      const { read, attended, after } = ADVANCE[decoder.kind](decoder, embedded, state, attend);
      const readout = decoder.readout(read, embedded, attended.context);
      const logProbs = logSoftmax(affine(this.output, readout, this.bias, this.nPieces));
      return { ...attended, readout, logProbs, state: after };
    }
  }

  Object.assign(nmtExplainer, { Model });
})();
