/* The labels of the page in English and French. `say` returns one in the document's language. */
"use strict";
(() => {
  const LABELS = {
    language: ["Language", "Langue"],
    sentence: ["A sentence", "Une phrase"],
    beam_size: ["Beam (1 is greedy)", "Faisceau (1 : glouton)"],
    level: ["Map of", "Carte des"],
    words: ["words", "mots"],
    pieces: ["pieces", "morceaux"],
    about: ["{} → {}. The model is in this page: it translates here, without a network. It knows only sentences like those it was trained on; others come out as nonsense.", "{} → {}. Le modèle est dans cette page : il traduit ici, sans réseau. Il ne connaît que des phrases semblables à celles de son entraînement ; les autres donnent n’importe quoi."],
    placeholder: ["Type a sentence; its translation appears below.", "Écrivez une phrase ; sa traduction paraît dessous."],
    pieces_hint: ["Pieces of the translation, which are words or parts of words. _ begins a word, and the bar is the probability. Click a piece to open its step.", "Les morceaux de la traduction, des mots ou des parties de mots ; _ commence un mot, la barre est la probabilité. Un clic ouvre l’étape."],
    piece: ["probability {}", "probabilité {}"],
    map_hint: ["Each row shows where the model looked before it wrote the word. </s> is the end of the sentence. Click a row to open its step. The weight of a source word is the sum of its pieces’ weights; the row of a translated word is the mean of its pieces’ rows.", "Ligne par ligne, où le modèle a regardé avant d’écrire le mot. </s> est la fin de la phrase. Un clic sur une ligne ouvre son étape. Le poids d’un mot source est la somme des poids de ses morceaux ; la ligne d’un mot traduit est la moyenne des lignes de ses morceaux."],
    heat_label: ["attention of {} rows (translation) over {} columns (source); the arrow keys read the cells, Enter opens the step", "attention de {} lignes (traduction) sur {} colonnes (source) ; les flèches lisent les cellules, Entrée ouvre l’étape"],
    lines_label: ["lines of attention from {} words (translation) to {} (source); the arrow keys select a word, Enter opens the step", "lignes d’attention de {} mots (traduction) vers {} (source) ; les flèches choisissent un mot, Entrée ouvre l’étape"],
    translation: ["translation", "traduction"],
    source: ["source", "source"],
    weight_name: ["weight", "poids"],
    free: ["search freely again", "chercher de nouveau librement"],
    forced: ["Forced to begin with: {}", "Début imposé : {}"],
    facts: ["log-probability score {} (0 is best); {} pieces in {} ms; update {} of the training, weights in {}", "score de log-probabilité {} (0 est le meilleur) ; {} morceaux en {} ms ; mise à jour {} de l’entraînement, poids en {}"],
    map: ["Attention map", "Carte d’attention"],
    step: ["One step, opened", "Une étape, ouverte"],
    step_title: ["Step {} writes “{}” after “{}”.", "L’étape {} écrit « {} » après « {} »."],
    tree: ["The beam as a tree", "Le faisceau comme arbre"],
    beam: ["hypotheses of the beam", "hypothèses du faisceau"],
    pruned_too: ["show what was pruned", "montrer ce qui a été élagué"],
    tree_hint: ["● marks a finished hypothesis, with its score, the sum divided by a length penalty; × marks a dropped one. Other numbers are sums of log-probabilities. The bar is the piece’s probability. Scroll right to see the ends. Click a node to make the translation begin with its branch. The arrow keys move between nodes.", "● terminée, avec son score, la somme divisée par une pénalité de longueur ; × abandonnée. Les autres nombres sont des sommes de log-probabilités ; la barre est la probabilité du morceau. Les fins sont à droite : faites défiler. Un clic impose la branche ; les flèches déplacent."],
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
    reset: ["reset to the model’s values", "revenir au modèle"],
    sliders_hint: ["The sliders change only this step. After a change, an orange tick marks the model’s own value.", "Les curseurs ne changent que cette étape. Après un changement, un trait orange est la valeur du modèle."],
    query: ["Query", "Requête"],
    scores: ["Scores and weights", "Scores et poids"],
    source_piece: ["source piece", "morceau source"],
    score: ["score e", "score e"],
    weight: ["weight α", "poids α"],
    context: ["Context", "Contexte"],
    readout: ["Readout", "Lecture"],
    candidates: ["Best next pieces", "Meilleurs morceaux suivants"],
    candidates_hint: ["Click a piece to force it; the rest is searched again.", "Un clic impose le morceau ; la suite est cherchée de nouveau."],
    candidate: ["Force “{}”", "Imposer « {} »"],
    numbers: ["{} numbers from {} to {}; blue is positive, orange negative; norm {}.", "{} nombres de {} à {} ; bleu : positif, orange : négatif ; norme {}."],
    cosine: ["Cosine similarity to the model’s own: {}.", "Cosinus avec celui du modèle : {}."],
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
    read: { bahdanau: "sₜ = cell(yₜ₋₁, c, sₜ₋₁)", conditional: "sₜ = cell(c, s′ₜ)", luong: "s̃ₜ = tanh(Wᶜ [c; sₜ])" },
  };

  /* The equations of a model's step, by the part of the page that displays them. */
  function equationsOf({ attention, decoder: { kind, readout } }) {
    const score = EQUATIONS.score[attention.over?.kind ?? attention.kind];
    const state = kind === "luong" ? "s̃ₜ" : "sₜ";
    const read = readout.kind === "deep" ? `${readout.activation}(Uₒ ${state} + Vₒ yₜ₋₁ + Cₒ c)` : state;
    return {
      query: EQUATIONS.query[kind],
      scores: `${score},  αᵢ = exp(eᵢ / T) / Σⱼ exp(eⱼ / T)`,
      context: attention.over ? "c = Wᴼ [Σᵢ αᵢ¹ vᵢ¹; Σᵢ αᵢ² vᵢ²; …]" : "c = Σᵢ αᵢ hᵢ",
      readout: `${EQUATIONS.read[kind]},  r = ${read}`,
      candidates: "p = softmax(Wₒ r + b)",
    };
  }

  Object.assign(nmtExplainer, { say, equationsOf, LANGUAGES });
})();
