/* Normalisation and restoration of text, as in nmt/text/normalisation.py and case_markup.py.

The page's data contain the characters and patterns of the Python module. */
"use strict";
(() => {
  // The characters at which Python's str.split splits; JavaScript's \s differs.
  const SPACES = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/u;
  const wordsOf = (text) => text.split(SPACES).filter(Boolean);

  class Typography {
    constructor({ characters, patterns, printed }) {
      this.characters = characters;
      this.printed = printed;
      this.patterns = patterns && Object.fromEntries(
        Object.entries(patterns).map(([name, source]) => [name, new RegExp(source, "gu")]));
    }

    translate(text, isUnread = () => true) {
      const replaced = (char) => (isUnread(char) ? this.characters[char] ?? char : char);
      return Array.from(text.replace(/\p{Cs}/gu, "\ufffd"), replaced).join("").normalize("NFC");
    }

    normalise(text) {
      const plain = wordsOf(this.translate(text)).join(" ");
      return this.patterns ? this.space(plain) : plain;
    }

    restore(text) {
      if (!this.patterns) return text;
      const isUnread = (char) => this.characters[char] === "" || char === "▁";
      const read = this.translate(text, isUnread).replace(/ {2,}/g, " ").replace(/^ +| +$/g, "");
      return this.space(read).replace(this.patterns.code_or_printed, (match, ...rest) => {
        const groups = Object.entries(rest.at(-1)).filter(([, text]) => text !== undefined);
        return groups.length ? this.printed[groups[0][0]] : match;
      });
    }

    space(text) {
      const { opening, closing, attached, statements, colon, pausing, asking, code_or_tail } = this.patterns;
      const spaced = text.replace(opening, "« ").replace(closing, " »");
      if (spaced.search(attached) < 0) return spaced;
      const pause = spaced.search(statements) < 0 ? pausing : colon;
      return spaced.replace(code_or_tail, (match, ...rest) =>
        rest.at(-1).tail === undefined ? match : match.replace(asking, " $1").replace(pause, " $1"));
    }
  }

  const [CAPITAL, UPPER, LOWER] = ["⇧", "⇪", "⇩"];
  const MARKS = [CAPITAL, UPPER, LOWER];
  const UNKNOWN = "<unk>";
  const lower = (text) => text.toLowerCase();
  const upper = (text) => text.toUpperCase();

  /* The lower case of a word in capitals, or null if the word cannot be restored from it. */
  function loweredWord(word) {
    const low = lower(word);
    return low !== word && upper(low) === word && !low.includes(UNKNOWN) ? low : null;
  }

  /* The word with its first letter in lower case, or null unless this is its only capital. */
  function firstLowered(word) {
    const chars = Array.from(word);
    const first = chars.findIndex((char) => lower(char) !== upper(char));
    if (first < 0) return null;
    const low = lower(chars[first]);
    const lowered = [...chars.slice(0, first), low, ...chars.slice(first + 1)].join("");
    const isExact = low !== chars[first] && Array.from(low).length === 1 && upper(low) === chars[first] &&
      lowered === lower(lowered) && !lowered.includes(UNKNOWN);
    return isExact ? lowered : null;
  }

  function endOfCapitals(words, lowered, start) {
    let [end, letters] = [start, 0];
    for (let i = start; lowered[start] && i < words.length; i++) {
      if (lowered[i] !== null) {
        end = i + 1;
        const chars = Array.from(words[i]);
        const differing = Array.from(lowered[i]).slice(0, chars.length).filter((char, k) => char !== chars[k]);
        letters = Math.max(letters, differing.length);
      } else if (lower(words[i]) !== words[i] || upper(words[i]) !== words[i]) break;
    }
    return letters > 1 ? end : start;
  }

  function markCase(text) {
    const words = text ? text.split(" ") : [];
    const lowered = words.map(loweredWord);
    let marked = "";
    for (let start = 0; start < words.length; ) {
      const end = endOfCapitals(words, lowered, start);
      if (end > start) {
        for (marked += UPPER; start < end; start++) marked += ` ${lowered[start] || words[start]}`;
        if (end < words.length) marked += LOWER;
        continue;
      }
      const first = firstLowered(words[start]);
      marked += first ? `${CAPITAL} ${first}` : ` ${words[start]}`;
      start++;
    }
    return marked;
  }

  /* The words without case marks, in their original case. */
  function restoreCase(words) {
    let [isUpper, isCapital] = [false, false];
    return words.map((word) => {
      let [nextCapital, hasLetter, read] = [false, false, ""];
      for (const unit of word.match(/<unk>|[^]/gu) ?? []) {
        if (unit === CAPITAL) [isCapital, nextCapital] = [isCapital || !read, read !== ""];
        else if (MARKS.includes(unit)) isUpper = unit === UPPER;
        else {
          const isLower = unit !== UNKNOWN && upper(unit) !== unit;
          const isRaised = isLower && (isUpper || (isCapital && !hasLetter));
          hasLetter ||= isLower || lower(unit) !== unit;
          read += isRaised ? upper(unit) : unit;
        }
      }
      if (read) isCapital = nextCapital;
      return read;
    });
  }

  Object.assign(nmtExplainer, { Typography, wordsOf, markCase, restoreCase, MARKS });
})();
