/* Tensors and operations of a recurrent translation model, with sums in fp64 and results in fp32.

A matrix is {data, columns}, in row-major order as in torch.nn.Linear. Vectors are
Float32Arrays. The equations follow nmt/ops/reference.py and nmt/models/recurrent/cells.py. */
"use strict";
(() => {
  const sigmoid = (a) => 1 / (1 + Math.exp(-a));

  function bytesOf(base64) {
    const text = atob(base64.trim());
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < bytes.length; i++) bytes[i] = text.charCodeAt(i);
    return bytes;
  }

  /* The number that 16 bits represent in IEEE 754's half precision. */
  function fromHalf(bits) {
    const [sign, exponent, fraction] = [bits & 0x8000 ? -1 : 1, (bits >> 10) & 31, bits & 1023];
    if (exponent === 31) return fraction ? NaN : sign * Infinity;
    return exponent ? sign * 2 ** (exponent - 25) * (1024 + fraction) : sign * 2 ** -24 * fraction;
  }

  function valuesOf(buffer, { shape, numbers, offset }) {
    const count = shape.reduce((product, size) => product * size, 1);
    if (numbers === "fp32") return new Float32Array(buffer, offset, count);
    if (numbers === "fp16") return Float32Array.from(new Uint16Array(buffer, offset, count), fromHalf);
    const [rows, values] = [shape[0], new Float32Array(count)];
    const scales = new Float32Array(buffer, offset, rows);
    const integers = new Int8Array(buffer, offset + 4 * rows, count);
    for (let i = 0; i < count; i++) values[i] = integers[i] * scales[Math.floor((i * rows) / count)];
    return values;
  }

  /* The tensors of a model by name, dequantised at their first use. Tied names share a tensor. */
  class Tensors {
    constructor(layout, base64) {
      this.layout = layout;
      this.buffer = bytesOf(base64).buffer;
      this.byOffset = new Map();
    }

    /* The tensor, or undefined if the model has none of this name, such as a bias. */
    get(name) {
      const entry = this.layout[name];
      if (entry && !this.byOffset.has(entry.offset))
        this.byOffset.set(entry.offset, { data: valuesOf(this.buffer, entry), columns: entry.shape.at(-1) });
      return entry && this.byOffset.get(entry.offset);
    }

    /* x -> W x + b. */
    linear(name) {
      const [weight, bias] = [this.get(`${name}.weight`), this.get(`${name}.bias`)];
      return (x) => affine(weight, x, bias?.data);
    }
  }

  const rowOf = ({ data, columns }, i) => data.subarray(i * columns, (i + 1) * columns);

  /* The first `rows` rows of W x + b. */
  function affine({ data, columns }, x, bias = null, rows = data.length / columns) {
    const y = new Float32Array(rows);
    for (let i = 0, at = 0; i < rows; i++) {
      let a = bias ? bias[i] : 0; // four variables, because an array of sums makes the loop twice as slow
      let b = 0, c = 0, d = 0, j = 0;
      for (; j + 3 < columns; j += 4, at += 4) {
        a += data[at] * x[j];
        b += data[at + 1] * x[j + 1];
        c += data[at + 2] * x[j + 2];
        d += data[at + 3] * x[j + 3];
      }
      for (; j < columns; j++, at++) a += data[at] * x[j];
      y[i] = a + b + c + d;
    }
    return y;
  }

  function dot(x, y) {
    let sum = 0;
    for (let i = 0; i < x.length; i++) sum += x[i] * y[i];
    return sum;
  }

  const sum = (x, y) => x.map((value, i) => value + y[i]);

  const joined = (vectors) => Float32Array.from(vectors.flatMap((vector) => [...vector]));

  function weightedSum(weights, vectors) {
    const total = new Float64Array(vectors[0].length);
    vectors.forEach((vector, s) => {
      for (let i = 0; i < total.length; i++) total[i] += weights[s] * vector[i];
    });
    return Float32Array.from(total);
  }

  function softmax(scores, temperature = 1) {
    const greatest = Math.max(...scores);
    const parts = Array.from(scores, (score) => Math.exp((score - greatest) / temperature));
    const total = parts.reduce((a, b) => a + b, 0);
    return Float32Array.from(parts, (part) => part / total);
  }

  function logSoftmax(logits) {
    let [greatest, total] = [-Infinity, 0];
    for (const logit of logits) if (logit > greatest) greatest = logit;
    for (const logit of logits) total += Math.exp(logit - greatest);
    const shift = greatest + Math.log(total);
    return logits.map((logit) => logit - shift);
  }

  /* The k greatest values with their ids, except `banned`, in decreasing order, ties by id. */
  function largest(values, k, banned = []) {
    const best = [];
    for (let id = 0; id < values.length; id++) {
      const value = values[id];
      if ((best.length === k && !(value > best[k - 1].value)) || banned.includes(id)) continue;
      let at = best.length;
      while (at && best[at - 1].value < value) at--;
      best.splice(at, 0, { id, value });
      best.length = Math.min(best.length, k);
    }
    return best;
  }

  /* The next [hidden, cell], from the contributions of input and state to the gates. */
  const CELLS = {
    gru(x, h, [hidden]) {
      const size = hidden.length;
      const after = hidden.map((before, i) => {
        const r = sigmoid(x[i] + h[i]);
        const z = sigmoid(x[size + i] + h[size + i]);
        const n = Math.tanh(x[2 * size + i] + r * h[2 * size + i]);
        return (1 - z) * n + z * before;
      });
      return [after, null];
    },
    lstm(x, h, [hidden, cell]) {
      const size = hidden.length;
      const gate = (g, i) => x[g * size + i] + h[g * size + i];
      const next = cell.map((before, i) =>
        sigmoid(gate(1, i)) * before + sigmoid(gate(0, i)) * Math.tanh(gate(2, i)));
      return [next.map((value, i) => sigmoid(gate(3, i)) * Math.tanh(value)), next];
    },
  };

  globalThis.nmtExplainer = {
    Tensors, CELLS, rowOf, affine, dot, sum, joined, weightedSum, softmax, logSoftmax, largest,
  };
})();
