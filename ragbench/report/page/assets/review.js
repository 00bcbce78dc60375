// Review of questions, or labels of answers or passages, by keys, saved as CSV. No library, no request, no
// markup from text: every foreign text is set by textContent or as the value of a field.
"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("data").textContent);
  const originals = data.rows.map((cells) =>
    Object.fromEntries(data.columns.map((column, i) => [column, cells[i]])));
  const fields = [...document.querySelectorAll("textarea")].map((field) => field.id);
  const isLabels = fields.includes("label");
  const TEXTS = ["question", "reference", "quote"];
  const EDITED = "edited";

  // number of a row -> its changed cells; with the position, all that the browser stores
  let state = { at: 0, changes: {} };
  try {
    state = JSON.parse(localStorage.getItem(data.key)) || state;
  } catch {
    $("warning").hidden = false; // storage is switched off
  }
  const rowAt = (i) => ({ ...originals[i], ...state.changes[i] });

  function store() {
    try {
      localStorage.setItem(data.key, JSON.stringify(state));
    } catch {
      $("warning").hidden = false;
    }
  }

  /** Change cells of the row on the screen; a decided row is marked as edited if a text differs. */
  function change(cells) {
    const original = originals[state.at];
    // changed cells alone: the storage of a browser holds some 5 MB
    const changes = { ...state.changes[state.at], ...cells };
    const row = { ...original, ...changes };
    if (row.reviewed) {
      const isEdited = original.reviewed === EDITED || TEXTS.some((name) => row[name] !== original[name]);
      changes.reviewed = isEdited ? EDITED : "yes";
    }
    state.changes[state.at] = changes;
    store();
    drawState();
  }

  // ---- the question on the screen -----------------------------------------------------------------

  /** The place of a quote in a text, white space aside: [start, end], or null. */
  function placeOf(quote, text) {
    const pieces = quote.split(/\s+/).filter(Boolean).map((piece) => piece.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
    const match = pieces.length ? new RegExp(pieces.join("\\s+"), "u").exec(text) : null;
    return match && [match.index, match.index + match[0].length];
  }

  /** The state of a row in words; empty where nothing is decided. */
  function decisionOf(row) {
    if (isLabels) return row.label && `label ${row.label}`;
    return row.reviewed && (row.keep === "no" ? "dropped" : row.reviewed === EDITED ? "kept with edits" : "kept");
  }

  function drawState() {
    const row = rowAt(state.at);
    const n = originals.filter((_, i) => decisionOf(rowAt(i))).length;
    const word = isLabels ? "labelled" : "reviewed";
    $("status").textContent = `${$("status").dataset.noun} ${state.at + 1} of ${originals.length}: ${decisionOf(row) || `not ${word}`}; ${n} ${word}`;
    drawPassages(row.quote ?? "");
    if (isLabels) return;
    $("keep").setAttribute("aria-pressed", String(Boolean(row.reviewed) && row.keep !== "no"));
    $("drop").setAttribute("aria-pressed", String(Boolean(row.reviewed) && row.keep === "no"));
    const isLost = row.quote.trim() && !document.querySelector("mark");
    $("quote-note").textContent = isLost ? "The quote does not stand in the passage that is shown, word by word." : "";
  }

  /** Draw the titled texts of the row, with a quote marked. */
  function drawPassages(quote) {
    $("passages").replaceChildren(...data.passages[state.at].flatMap(([title, text]) => {
      const place = placeOf(quote, text);
      const [head, body] = [document.createElement("p"), document.createElement("p")];
      const [name, mark] = [document.createElement("bdi"), document.createElement("mark")];
      head.className = "soft";
      body.className = "text";
      body.dir = "auto";
      name.textContent = title;
      head.append(name);
      mark.textContent = place ? text.slice(...place) : "";
      body.append(...(place ? [text.slice(0, place[0]), mark, text.slice(place[1])] : [text]));
      return [head, body];
    }));
  }

  function draw() {
    const row = rowAt(state.at);
    const facts = isLabels ? [row.rubric, row.scale] : [row.id, row.kind, row.checks && `passed: ${row.checks}`, row.reason];
    $("facts").textContent = facts.filter(Boolean).join("; ");
    for (const name of fields) $(name).value = row[name];
    drawState();
  }

  function move(step) {
    state.at = Math.min(Math.max(state.at + step, 0), originals.length - 1);
    store();
    draw();
  }

  function decide(keep) {
    change({ keep, reviewed: "yes" });
    move(1);
  }

  // ---- the saved table ---------------------------------------------------------------------------

  // as `inert` in ragbench/data/files/formulas.py: a spreadsheet would run such a text as a formula
  const FORMULA = /(?:^|(?<=[;\t]))(?=[\s\x1c-\x1f\x85'"\ufeff]*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20])/g;

  function cellOf(text) {
    const inert = text.replace(FORMULA, "'");
    return /[,"\r\n]/.test(inert) ? `"${inert.replaceAll('"', '""')}"` : inert;
  }

  function save() {
    const rows = originals.map((_, i) => data.columns.map((column) => rowAt(i)[column]));
    const table = [data.columns, ...rows].map((cells) => `${cells.map(cellOf).join(",")}\n`).join("");
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([table], { type: "text/csv" }));
    link.download = data.name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    $("status").textContent = `saved ${data.name}`;
  }

  // ---- keys and buttons --------------------------------------------------------------------------

  const ACTIONS = {
    keep: () => decide("yes"),
    drop: () => decide("no"),
    edit: () => $(fields[0]).focus(),
    "comment-key": () => $("comment").focus(),
    previous: () => move(-1),
    next: () => move(1),
    save,
  };
  const KEYS = {
    k: "keep", d: "drop", e: "edit", c: "comment-key", j: "next", s: "save",
    ArrowRight: "next", ArrowDown: "next", ArrowLeft: "previous", ArrowUp: "previous",
  };
  for (const [id, action] of Object.entries(ACTIONS)) $(id)?.addEventListener("click", action);
  for (const name of fields) {
    // a person who edits a question keeps it, unless it was dropped
    $(name).addEventListener("input", () => {
      const isDecision = TEXTS.includes(name) && !rowAt(state.at).reviewed;
      change({ ...(isDecision ? { keep: "yes", reviewed: "yes" } : {}), [name]: $(name).value });
    });
  }
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.target.matches("textarea")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (!$("keys").checked) return;
    const id = KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (isLabels && data.levels[state.at].includes(event.key)) {
      change({ label: event.key });
      move(1);
    } else if (id && $(id)) {
      event.preventDefault(); // a letter would be typed into the field that gets the focus
      ACTIONS[id]();
    }
  });
  $("review").hidden = false;
  draw();
})();
