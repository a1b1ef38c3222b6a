/* The labels of the page in English and French; `say` gives one in the language of the document. */
"use strict";
(() => {
  const LABELS = {
    language: ["Language", "Langue"],
    sentence: ["A sentence", "Une phrase"],
    beam_size: ["Beam (1 is greedy)", "Faisceau (1 : glouton)"],
    level: ["Map of", "Carte des"],
    words: ["words", "mots"],
    pieces: ["pieces", "morceaux"],
    about: ["{} → {}. The model is in this page: it translates here, without a network.", "{} → {}. Le modèle est dans cette page : il traduit ici, sans réseau."],
    pieces_hint: ["Pieces of the translation; _ begins a word, the bar is the probability. A click opens the step.", "Les morceaux de la traduction ; _ commence un mot, la barre est la probabilité. Un clic ouvre l’étape."],
    piece: ["probability {}", "probabilité {}"],
    map_hint: ["Row by row, where each word looked. A click on a row opens its step.", "Ligne par ligne, où chaque mot a regardé. Un clic sur une ligne ouvre son étape."],
    free: ["search freely again", "chercher de nouveau librement"],
    forced: ["Forced to begin with: {}", "Début imposé : {}"],
    facts: ["score {}; {} pieces in {} ms; step {} of the training, {}", "score {} ; {} morceaux en {} ms ; étape {} de l’entraînement, {}"],
    map: ["Attention map", "Carte d’attention"],
    step: ["One step, opened", "Une étape, ouverte"],
    step_title: ["Step {} writes “{}” after “{}”.", "L’étape {} écrit « {} » après « {} »."],
    tree: ["The beam as a tree", "Le faisceau comme arbre"],
    beam: ["hypotheses of the beam", "hypothèses du faisceau"],
    pruned_too: ["show what was pruned", "montrer ce qui a été élagué"],
    tree_hint: ["● finished, with its score; × dropped. Other numbers are sums of log-probabilities; the bar is the piece’s probability. A click makes the translation begin with the branch; arrow keys move.", "● terminée, avec son score ; × abandonnée. Les autres nombres sont des sommes de log-probabilités ; la barre est la probabilité du morceau. Un clic impose la branche ; les flèches déplacent."],
    extended: ["extended", "prolongée"],
    hopeless: ["dropped: it can no longer win", "abandonnée : elle ne peut plus gagner"],
    pruned: ["pruned", "élaguée"],
    finished: ["finished", "terminée"],
    cut: ["cut at the length bound", "coupée à la longueur maximale"],
    log_prob: ["log p {}", "log p {}"],
    total: ["sum {}", "somme {}"],
    score_of: ["score {}", "score {}"],
    temperature: ["Temperature of the softmax", "Température du softmax"],
    head: ["head", "tête"],
    move: ["Move the score of", "Déplacer le score de"],
    to: ["to", "à"],
    reset: ["as the model has it", "comme dans le modèle"],
    query: ["Query", "Requête"],
    scores: ["Scores and weights", "Scores et poids"],
    source_piece: ["source piece", "morceau source"],
    score: ["score e", "score e"],
    weight: ["weight α", "poids α"],
    context: ["Context", "Contexte"],
    readout: ["Readout", "Lecture"],
    candidates: ["Best next pieces", "Meilleurs morceaux suivants"],
    candidates_hint: ["A click forces the piece; the rest is searched anew.", "Un clic impose le morceau ; la suite est cherchée de nouveau."],
    candidate: ["Force “{}”", "Imposer « {} »"],
    numbers: ["{} numbers, norm {}.", "{} nombres, norme {}."],
    cosine: ["Cosine with the model’s own: {}.", "Cosinus avec celui du modèle : {}."],
    textbook: ["Textbook", "Manuel"],
    show: ["Show me", "Montrer"],
  };
  const LANGUAGES = ["en", "fr"];

  function say(key, ...values) {
    const text = LABELS[key][LANGUAGES.indexOf(document.documentElement.lang)];
    return values.reduce((filled, value) => filled.replace("{}", () => value), text);
  }

  const EQUATIONS = {
    query: { bahdanau: "q = sₜ₋₁", conditional: "q = s′ₜ = transition(yₜ₋₁, sₜ₋₁)", luong: "q = sₜ" },
    score: { additive: "eᵢ = v · tanh(W q + U kᵢ)", dot: "eᵢ = q · kᵢ", scaled_dot: "eᵢ = q · kᵢ / √d", general: "eᵢ = q · W kᵢ" },
    read: { bahdanau: "sₜ = cell(yₜ₋₁, c, sₜ₋₁)", conditional: "sₜ = cell(c, s′ₜ)", luong: "s̃ₜ = tanh(W [c; sₜ])" },
  };

  /* The equations of a model's step by the part that they stand in. */
  function equationsOf({ attention, decoder: { kind, readout } }) {
    const score = EQUATIONS.score[attention.over?.kind ?? attention.kind];
    const state = kind === "luong" ? "s̃ₜ" : "sₜ";
    const read = readout.kind === "deep" ? `${readout.activation}(U ${state} + V yₜ₋₁ + C c)` : state;
    return {
      query: EQUATIONS.query[kind],
      scores: `${score},  αᵢ = exp(eᵢ / T) / Σⱼ exp(eⱼ / T)`,
      context: attention.over ? "c = W [Σᵢ αᵢ¹ vᵢ¹; Σᵢ αᵢ² vᵢ²; …]" : "c = Σᵢ αᵢ hᵢ",
      readout: `${EQUATIONS.read[kind]},  r = ${read}`,
      candidates: "p = softmax(W r + b)",
    };
  }

  Object.assign(nmtExplainer, { say, equationsOf, LANGUAGES });
})();
