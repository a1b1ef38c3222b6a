/* Text to pieces and ids, and back, by nmt/text/word_tokenizer.py or SentencePiece's two algorithms.

An encoded text is {pieces, ids, words, ends}. Word w ends before piece ends[w]. */
"use strict";
(() => {
  const { Typography, wordsOf, markCase, restoreCase, MARKS, PAD, UNK, BOS, EOS } = nmtExplainer;
  const RESERVED = [PAD, BOS, EOS];
  const SPACE = "▁";

  class WordTokenizer {
    constructor(data) {
      Object.assign(this, data);
      this.typography = new Typography(data.typography);
      this.ids = new Map(data.pieces.slice(4).map((piece, i) => [piece, i + 4]));
    }

    encode(text) {
      const words = this.split(this.typography.normalise(text));
      const pieces = this.lower ? words.map((word) => word.toLowerCase()) : words;
      return { pieces, ids: pieces.map((piece) => this.ids.get(piece) ?? UNK), words, ends: words.map((_, i) => i + 1) };
    }

    fromIds(ids) {
      const pieces = ids.filter((id) => !RESERVED.includes(id)).map((id) => this.pieces[id]);
      return { pieces, words: pieces, ends: pieces.map((_, i) => i + 1) };
    }

    decode(ids) {
      return this.typography.restore(this.join(this.fromIds(ids).words.filter(Boolean)));
    }

    split(text) {
      const { opening, closing } = this.marks;
      return wordsOf(text).flatMap((chunk) => {
        const chars = Array.from(chunk);
        let [start, end] = [0, chars.length];
        while (start < end && opening.includes(chars[start])) start++;
        while (end > start && closing.includes(chars[end - 1])) end--;
        const core = chars.slice(start, end).join("");
        const marks = chars.slice(end).join("").match(/\.\.+|[^]/gu) ?? [];
        return [...chars.slice(0, start), ...(core ? [core] : []), ...marks];
      });
    }

    join(words) {
      const { spaced, no_space_after: after, no_space_before: before } = this.marks;
      const isOf = (marks, word) => Array.from(word).length === 1 && marks.includes(word);
      let [text, isGlued, inQuotes, previous] = ["", true, false, ""];
      words.forEach((word, i) => {
        const closes = word === '"' && (inQuotes || i === words.length - 1);
        const isTight = isOf(spaced, word)
          ? isOf(spaced, previous) && !";:".includes(previous)
          : closes || isOf(before, word) || word.startsWith("..");
        text += isGlued || isTight ? word : ` ${word}`;
        isGlued = isOf(after, word) || (word === '"' && !closes);
        inQuotes = inQuotes !== (word === '"');
        previous = word;
      });
      return text;
    }
  }

  const [NORMAL, USER_DEFINED] = ["1", "4"];

  class SentencePiece {
    constructor(data) {
      Object.assign(this, data);
      this.typography = new Typography(data.typography);
      const known = data.pieces.map((piece, id) => [piece, id]).filter(([, id]) => [NORMAL, USER_DEFINED].includes(this.types[id]));
      this.ids = new Map(known);
      this.longest = Math.max(...known.map(([piece]) => Array.from(piece).length));
      this.symbols = known.filter(([, id]) => this.types[id] === USER_DEFINED).map(([piece]) => piece);
      this.scores = Float32Array.from(data.scores);
      const normal = known.map(([, id]) => id).filter((id) => this.types[id] === NORMAL).map((id) => this.scores[id]);
      [this.least, this.most] = [Math.min(...normal), Math.max(...normal)].map(Math.fround);
    }

    encode(text) {
      const normalised = this.typography.normalise(text);
      const marked = this.case === "markup" ? markCase(normalised) : normalised;
      const read = this.removes_extra_spaces ? wordsOf(marked).join(" ") : marked;
      if (!read) return this.encoded([], []);
      const chars = Array.from(`${this.adds_dummy_prefix ? " " : ""}${read}`.replaceAll(" ", SPACE));
      const pieces = this.algorithm === "bpe" ? this.merged(chars) : this.mostProbable(chars);
      return this.encoded(...this.withUnknown(pieces));
    }

    /* The most probable segmentation (arXiv 1804.10959), in SentencePiece's precision. */
    mostProbable(chars) {
      const ends = Array.from({ length: chars.length + 1 }, () => ({ score: 0, start: -1 }));
      const reach = (end, start, score) => {
        const total = Math.fround(Math.fround(score) + ends[start].score);
        if (ends[end].start < 0 || total > ends[end].score) ends[end] = { score: total, start };
      };
      for (let start = 0; start < chars.length; start++) {
        let piece = "";
        for (let end = start + 1; end <= Math.min(chars.length, start + this.longest); end++) {
          piece += chars[end - 1];
          const id = this.ids.get(piece);
          if (id === undefined) continue;
          // A user-defined symbol always wins: it scores like its bytes at the best score of a piece.
          const bytes = () => new TextEncoder().encode(piece).length;
          reach(end, start, this.types[id] === NORMAL ? this.scores[id] : Math.fround(bytes() * this.most) - 0.1);
        }
        if (!this.ids.has(chars[start])) reach(start + 1, start, Math.fround(this.least - 10));
      }
      const pieces = [];
      for (let end = chars.length; end > 0; end = ends[end].start)
        pieces.unshift(chars.slice(ends[end].start, end).join(""));
      return pieces;
    }

    /* Merge the best pair of neighbours until no pair is a piece (arXiv 1508.07909). */
    merged(chars) {
      const parts = [];
      for (let at = 0; at < chars.length; ) {
        const ahead = chars.slice(at, at + this.longest).join("");
        const matches = this.symbols.filter((symbol) => ahead.startsWith(symbol));
        const symbol = matches.sort((a, b) => b.length - a.length)[0];
        parts.push({ piece: symbol ?? chars[at], isFrozen: symbol !== undefined });
        at += symbol ? Array.from(symbol).length : 1;
      }
      const score = (i) => {
        const [left, right] = [parts[i], parts[i + 1]];
        const id = !left || !right || left.isFrozen || right.isFrozen ? undefined : this.ids.get(left.piece + right.piece);
        return id === undefined ? -Infinity : this.scores[id];
      };
      const scores = parts.map((_, i) => score(i));
      for (;;) {
        let best = 0;
        for (let i = 1; i < parts.length; i++) if (scores[i] > scores[best]) best = i;
        if (!(scores[best] > -Infinity)) return parts.map(({ piece }) => piece);
        parts.splice(best, 2, { piece: parts[best].piece + parts[best + 1].piece, isFrozen: false });
        scores.splice(best + 1, 1);
        for (const i of [best - 1, best]) if (i >= 0) scores[i] = score(i);
      }
    }

    /* Join consecutive unknown characters into one piece, or replace them by their bytes. */
    withUnknown(segments) {
      const [pieces, ids] = [[], []];
      for (const segment of segments) {
        const id = this.ids.get(segment);
        if (id === undefined && this.byte_fallback)
          for (const byte of new TextEncoder().encode(segment)) {
            pieces.push(`<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`);
            ids.push(this.pieces.indexOf(pieces.at(-1)));
          }
        else if (id === undefined && ids.at(-1) === UNK) pieces[pieces.length - 1] += segment;
        else {
          pieces.push(segment);
          ids.push(id ?? UNK);
        }
      }
      return [pieces, ids];
    }

    encoded(pieces, ids) {
      const ends = wordEnds(pieces);
      const words = ends.map((end, w) => this.surface(pieces.slice(w ? ends[w - 1] : 0, end)).replaceAll(SPACE, ""));
      return { pieces, ids, ends, words: this.case === "markup" ? restoreCase(words) : words };
    }

    /* The text of pieces, with byte pieces decoded. */
    surface(pieces) {
      if (!this.byte_fallback) return pieces.join("");
      const escaped = pieces.map((piece) => (/^<0x[0-9A-F]{2}>$/.test(piece) ? `%${piece.slice(3, 5)}` : encodeURIComponent(piece)));
      const bytes = escaped.join("").match(/%[0-9A-F]{2}|[^]/g) ?? [];
      const codes = bytes.map((part) => (part.length === 3 ? parseInt(part.slice(1), 16) : part.charCodeAt(0)));
      return new TextDecoder().decode(Uint8Array.from(codes));
    }

    fromIds(ids) {
      const real = ids.filter((id) => !RESERVED.includes(id));
      return this.encoded(real.map((id) => this.pieces[id]), real);
    }

    decode(ids) {
      const real = ids.filter((id) => !RESERVED.includes(id));
      const pieces = real.map((id) => (id === UNK ? this.unknown_surface : this.pieces[id]));
      const words = wordsOf(this.surface(pieces).replaceAll(SPACE, " "));
      const cased = this.case === "markup" ? restoreCase(words).filter(Boolean) : words;
      return this.typography.restore(cased.join(" "));
    }
  }

  /* The exclusive ends of words; see word_spans in nmt/text/sentencepiece_tokenizer.py. */
  function wordEnds(pieces) {
    const isLetters = (piece) => piece !== SPACE && !MARKS.includes(piece);
    const last = pieces.findLastIndex(isLetters);
    const starts = pieces.length ? [0] : [];
    let hasLetters = false;
    pieces.forEach((piece, i) => {
      if (hasLetters && i <= last && [SPACE, "⇧", "⇪"].some((mark) => piece.startsWith(mark))) {
        starts.push(i);
        hasLetters = false;
      }
      hasLetters ||= isLetters(piece);
    });
    return starts.map((_, i) => starts[i + 1] ?? pieces.length);
  }

  const tokenizerOf = (data) => new (data.kind === "word" ? WordTokenizer : SentencePiece)(data);

  Object.assign(nmtExplainer, { tokenizerOf });
})();
