// Order of search results. Pages with equally good matches would be ordered by title: pages that answer
// questions come first, pages for developers and the list of changes last.
var Scorer = {
  weights: {
    questions: 6, troubleshooting: 5, agents: 3, owners: 3, "back-office": 3, privacy: 3, install: 3,
    "getting-started": 2, requirements: 2, concepts: 2, reports: 2, exports: 2, access: 2, alerts: 2, upkeep: 2,
    facade: 1, sql: 1, settings: 1, "command-line": 0,
    architecture: -4, contributing: -4, promises: -4, platform: -4, changelog: -6,
  },
  score: ([name, , , , score]) => score + (Scorer.weights[name] ?? -1),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: {0: 15, 1: 5, 2: -5},
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
