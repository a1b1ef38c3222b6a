"use strict"; // the textbook: cards in English and French, each with the id of the element it explains
nmtExplainer.CARDS = [
  { at: "query-part", title: ["What is a query?", "Qu’est-ce qu’une requête ?"], text: [
    "A vector that asks. Before it writes a piece, the decoder has a state s that sums up what it has written. This state is the query: it is compared with every position of the source (arXiv 1409.0473, equation 6).",
    "Un vecteur qui interroge. Avant d’écrire un morceau, le décodeur a un état s, résumé de ce qu’il a écrit. Cet état est la requête : on le compare à chaque position de la source (arXiv 1409.0473, équation 6)." ] },
  { at: "scores-part", title: ["What is a key?", "Qu’est-ce qu’une clé ?"], text: [
    "The vector of a source position with which the query is compared: the annotation, or a linear map of it, computed once per sentence. Each row of the table belongs to one key, and e says how well the key matches.",
    "Le vecteur d’une position source auquel la requête est comparée : l’annotation ou son image linéaire, calculée une fois par phrase. Chaque ligne du tableau appartient à une clé ; e dit combien elle convient." ] },
  { at: "context-part", title: ["What is a value, what an annotation?", "Qu’est-ce qu’une valeur, une annotation ?"], text: [
    "The annotation h of a word is the encoder’s state at the word, of both directions if it reads both ways. It represents the word in its sentence. Values are the vectors that are summed with the weights: here the annotations, or with several heads, linear maps of them.",
    "L’annotation h d’un mot est l’état de l’encodeur à cet endroit, dans les deux sens s’il lit ainsi : le mot dans sa phrase. La valeur est ce que les poids additionnent : ici l’annotation ; avec plusieurs têtes, son image linéaire." ] },
  { at: "temperature", title: ["Why a softmax?", "Pourquoi un softmax ?"], text: [
    "Scores have any sign and size. α = exp(e/T) / Σ exp(e/T) turns them into shares, which are positive, sum to 1, and have a gradient everywhere. A low temperature T gives everything to the best score, a high one gives all the same. Move the slider.",
    "Les scores ont un signe et une taille quelconques. α = exp(e/T) / Σ exp(e/T) en fait des parts : positives, de somme 1, de gradient partout défini. Une température T basse donne tout au meilleur, une haute autant à tous. Bougez le curseur." ] },
  { at: "temperature", title: ["Why divide by √d?", "Pourquoi diviser par √d ?"], text: [
    "The dot product of two vectors of d independent components of variance 1 has variance d. Large scores make the softmax nearly hard, and its gradient vanishes. Division by √d keeps the variance at 1 (arXiv 1706.03762, section 3.2.1). It acts like a temperature of √d. The additive score needs no such division.",
    "Le produit scalaire de deux vecteurs de d composantes indépendantes de variance 1 a la variance d. De grands scores rendent le softmax presque dur et son gradient nul. Diviser par √d garde la variance 1 (arXiv 1706.03762, section 3.2.1), comme une température √d. Le score additif n’en a pas besoin." ] },
  { at: "head-part", title: ["What is a head?", "Qu’est-ce qu’une tête ?"], text: [
    "One attention among several, in a subspace of its own: its own maps of queries, keys and values. Heads look at several positions in one step; a linear map joins their sums (arXiv 1706.03762, section 3.2.2). With several heads, a list beside the sliders chooses one.",
    "Une attention parmi d’autres, dans son sous-espace : ses propres images des requêtes, clés et valeurs. Les têtes regardent plusieurs endroits à la fois ; une application linéaire joint leurs sommes (arXiv 1706.03762, section 3.2.2). S’il y en a plusieurs, une liste près des curseurs en choisit une." ] },
  { at: "scores-part", title: ["What changes with another score?", "Que change un autre score ?"], text: [
    "Additive: v·tanh(W q + U k), a small network. Dot: q·k, without weights, for equal sizes. General: q·W k, any sizes (arXiv 1508.04025, section 3.1). The softmax and the sum stay the same: only the column e is computed differently.",
    "Additif : v·tanh(W q + U k), un petit réseau. Produit : q·k, sans poids, à tailles égales. Général : q·W k, toutes tailles (arXiv 1508.04025, section 3.1). Le softmax et la somme restent : seule la colonne e se calcule autrement." ] },
  { at: "context-part", title: ["What is the context?", "Qu’est-ce que le contexte ?"], text: [
    "c = Σ α h, the weighted mean of the values, here the annotations h. It is what this step reads of the source, and it changes at every step. The first models had one vector for the whole sentence, too little for long ones (arXiv 1409.0473, section 1).",
    "c = Σ α h, moyenne des valeurs, ici les annotations h, par les poids : ce que l’étape lit de la source. Il change à chaque étape. Les premiers modèles n’avaient qu’un vecteur pour toute la phrase, trop peu pour les longues (arXiv 1409.0473, section 1)." ] },
  { at: "map-view", title: ["Why is padding masked?", "Pourquoi masquer le remplissage ?"], text: [
    "In a batch, short sentences are padded to the length of the longest. Padding is not text, so its weight must be exactly 0; otherwise a translation would depend on its neighbours in the batch. This page reads one sentence at a time, so the map has no column of padding: every column is text, </s> included.",
    "Dans un lot, on complète les phrases courtes jusqu’à la plus longue. Ce n’est pas du texte : le poids doit y être exactement 0, sinon une traduction dépendrait de ses voisines. Cette page lit une phrase à la fois : la carte n’a pas de colonne de remplissage, chacune est du texte, </s> compris." ] },
  { at: "tree-view", title: ["What is a beam?", "Qu’est-ce qu’un faisceau ?"], text: [
    "The best piece now may lead to a bad sentence. Beam search keeps the k most probable beginnings, extends all of them and prunes to k again. k = 1 is greedy. The score divides the sum of log-probabilities by a length penalty (arXiv 1609.08144, equation 14).",
    "Le meilleur morceau immédiat peut mener à une mauvaise phrase. La recherche en faisceau garde les k débuts les plus probables, les prolonge tous et élague à k. k = 1 est glouton. Le score divise la somme des log-probabilités par une pénalité de longueur (arXiv 1609.08144, équation 14)." ] },
  { at: "candidates-part", title: ["From readout to a piece", "De la lecture au morceau"], text: [
    "The last layer gives every piece of the vocabulary a number, and a softmax turns the numbers into probabilities. The readout is what this layer reads: the new state, or with a deep readout also the last piece and the context (arXiv 1409.0473, appendix A.2.2). Force another piece, and see what follows.",
    "Une dernière couche donne un nombre à chaque morceau du vocabulaire, un softmax une probabilité. La lecture est ce que lit cette couche : le nouvel état, ou, si elle est profonde, aussi le dernier morceau et le contexte (arXiv 1409.0473, annexe A.2.2). Imposez un autre morceau et voyez la suite." ] },
  { at: "score", title: ["What attention does not explain", "Ce que l’attention n’explique pas"], text: [
    "A weight says where the context came from, not why a piece was written. An annotation knows its neighbours, and the state knows what was written: other weights may give the same piece (arXiv 1902.10186; the debate: 1908.04626). Test it: move a score, and see whether the candidates change.",
    "Un poids dit d’où vient le contexte, pas pourquoi un morceau est écrit. L’annotation connaît ses voisins et l’état ce qui précède : d’autres poids peuvent donner le même morceau (arXiv 1902.10186 ; le débat : 1908.04626). Essayez : déplacez un score et regardez si les candidats changent." ] },
];
