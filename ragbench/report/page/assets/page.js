// The queries of a run: searched, filtered and compared. No library, no request, no markup from
// text: every foreign text is set by textContent, and the security policy forbids anything else.
// The fragment of the address is the only state: every click changes it, and `show` draws it.
"use strict";
(() => {
  const ROWS_AT_ONCE = 200;
  const SHOWN_HITS = 10; // of each ranking; those below them are shown to the systems that read them
  const MOST_WORDS = 1500; // of an answer; the comparison of words takes quadratic time
  const NO_SYSTEM = "none";
  const MANY_ROWS = 6; // from these on, a table or list has filters, a choice of columns, and copy buttons

  const $ = (id) => document.getElementById(id);

  // ---- elements -------------------------------------------------------------------------------

  /** Create an element: h("p", {class: "soft"}, "text", child, ...); null children are left out. */
  function h(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === true) element.setAttribute(name, "");
      else if (value !== null && value !== undefined && value !== false) {
        element.setAttribute(name, value);
      }
    }
    element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
    return element;
  }

  // Characters that move the cursor, turn the direction of a line or have no width are shown as
  // escapes. Joiners stay: Persian, Hindi and families of emoji need them.
  const HIDDEN =
    /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
  const visible = (text) =>
    String(text).replace(HIDDEN, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));

  /** The name of a query: the number of its row in a table without ids, which its owner can look up. */
  const nameOf = ({ row, id }) => (row ? `row ${row}` : id);

  /** A text with its own direction, not that of the text around it; a line may break after each `/`. */
  const bdi = (text) => h("bdi", null, visible(text).split("/").flatMap((part, i) => (i ? ["/", h("wbr"), part] : [part])));

  /** A cause in words: not_retrieved is "not retrieved". */
  const spaced = (cause) => visible(cause).replaceAll("_", " ");

  function number(value, signed) {
    if (value === null || value === undefined) return "-";
    const size = Math.abs(value);
    const text =
      size !== 0 && (size < 1e-3 || size >= 1e6)
        ? value.toExponential(2)
        : size >= 100
          ? value.toFixed(0)
          : value.toPrecision(3);
    return (signed && value > 0 ? "+" : "") + text;
  }

  // ---- tables: sort, filter, choose columns, copy ------------------------------------------------

  const rowsOfTable = (table) => [...table.tBodies[0].rows];
  const headOf = (table) => [...table.tHead.rows[0].cells];
  const valueOf = (cell) => ("v" in cell.dataset ? Number(cell.dataset.v) : null);

  /** The value and mark of a cell, without bars, intervals and remarks. */
  const cellText = (cell) => [...cell.childNodes].filter((n) => n.nodeType === 3 || n.tagName === "BUTTON")
    .map((n) => n.textContent.trim()).filter(Boolean).join(" ");

  function sortable(table) {
    table.originalRows = rowsOfTable(table);
    headOf(table).forEach((th, column) => {
      const button = h("button", { type: "button" }, ...th.childNodes);
      th.replaceChildren(button);
      button.addEventListener("click", () => sortBy(table, th, column));
    });
  }

  /** Sort descending first, then ascending, then in the original order; missing values are last. */
  function sortBy(table, th, column) {
    const isUnsorted = th.getAttribute("aria-sort") === null;
    const isDescending = th.getAttribute("aria-sort") === "descending";
    for (const head of headOf(table)) head.removeAttribute("aria-sort");
    let rows = [...table.originalRows];
    if (isUnsorted || isDescending) {
      th.setAttribute("aria-sort", isDescending ? "ascending" : "descending");
      const key = (row) => valueOf(row.cells[column]) ?? (column ? null : cellText(row.cells[0]));
      rows.sort((a, b) => {
        const [x, y] = [key(a), key(b)];
        if (x === null || y === null) return (x === null) - (y === null);
        const order = typeof x === "string" ? y.localeCompare(x) : y - x;
        return isDescending ? -order : order;
      });
    }
    table.tBodies[0].append(...rows);
  }

  /** The visible cells of a table as CSV, Markdown or LaTeX. */
  function tableText(table, form) {
    const visibleCells = (row) => [...row.cells].filter((cell) => !cell.hidden).map(cellText);
    const lines = [table.tHead.rows[0], ...rowsOfTable(table).filter((row) => !row.hidden)].map(visibleCells);
    if (form === "CSV") {
      // a spreadsheet would read a leading sign as a formula
      const quoted = (text) => `"${(/^[=+@-](?!\d|$)/.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`;
      return lines.map((line) => line.map(quoted).join(",")).join("\r\n");
    }
    if (form === "Markdown") {
      const cells = (line) => `| ${line.map((text) => text.replace(/([\\|`*_<>[\]])/g, "\\$1")).join(" | ")} |`;
      return [cells(lines[0]), `|${lines[0].map((_, i) => (i ? "--:" : ":--")).join("|")}|`, ...lines.slice(1).map(cells)].join("\n");
    }
    const TEX = { "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}" };
    const tex = (text) => text.replace(/[\\&%$#_{}~^]/g, (c) => TEX[c] || `\\${c}`);
    const body = lines.map((line) => `${line.map(tex).join(" & ")} \\\\`);
    return [`\\begin{tabular}{l${"r".repeat(lines[0].length - 1)}}`, "\\hline", body[0], "\\hline", ...body.slice(1), "\\hline", "\\end{tabular}"].join("\n");
  }

  /** The controls above a table: a filter of systems, a choice of columns, and copy buttons. */
  function toolbar(table) {
    const filter = h("input", { type: "search" });
    filter.addEventListener("input", () => {
      const words = filter.value.toLowerCase().trim();
      for (const row of rowsOfTable(table)) row.hidden = !row.cells[0].textContent.toLowerCase().includes(words);
    });
    const boxes = headOf(table).slice(1).map((th, i) => {
      const box = h("input", { type: "checkbox", checked: true });
      box.addEventListener("change", () => {
        for (const row of table.rows) row.cells[i + 1].hidden = !box.checked;
      });
      return h("label", null, box, ` ${cellText(th)}`);
    });
    const status = h("span", { role: "status" });
    const buttons = ["CSV", "Markdown", "LaTeX"].map((form) => {
      const button = h("button", { type: "button" }, form);
      button.addEventListener("click", async () => {
        const text = tableText(table, form);
        try {
          await navigator.clipboard.writeText(text);
          status.textContent = `copied as ${form}`;
        } catch {
          // the browser refuses the clipboard: the reader can copy from a field
          const field = h("textarea", { readonly: true, "aria-label": `the table as ${form}` });
          field.value = text;
          status.replaceChildren(field);
          field.select();
        }
      });
      return button;
    });
    return h("div", { class: "tools" },
      h("label", null, "systems ", filter),
      h("details", null, h("summary", null, "columns"), h("fieldset", null, h("legend", null, "shown"), boxes)),
      h("span", null, "copy as ", buttons.flatMap((button) => [button, " "])), status);
  }

  for (const sheet of document.querySelectorAll(".sheet")) {
    const table = sheet.querySelector("table");
    if (!table.querySelector("[data-v]")) continue;
    sortable(table);
    if (rowsOfTable(table).length >= MANY_ROWS) sheet.before(toolbar(table));
  }

  // ---- data -----------------------------------------------------------------------------------

  let index = null;

  /** Read the data of the queries, which follow this script: the page is usable while they load. */
  async function unpack() {
    if (document.readyState === "loading") {
      await new Promise((resolve) => addEventListener("DOMContentLoaded", resolve));
    }
    const text = atob($("data").textContent);
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    index = await new Response(stream).json();
    index.rowOf = new Map(index.queries.map(({ id }, row) => [id, row]));
    index.system = new Map(index.systems.map((system) => [system.name, system]));
    index.stop = new Set(index.stopwords);
    index.haystack = index.queries.map((query) => `${nameOf(query)}\n${query.id}\n${query.text}`.toLowerCase());
  }

  const shortText = (text) => (text.length > 300 ? `${text.slice(0, 300)}…` : text);

  /** [id, title, text] of a passage, by its number, or by its id if the run has no text of it. */
  const passageAt = (k) => (typeof k === "string" ? [k, "", null] : index.passages[k]);

  /** The hits of a query in a ranking, with names of passages and documents in place of numbers. */
  function hitsIn(query, ranking) {
    const rows = ranking === undefined ? [] : query.hits[ranking];
    return rows.map(([rank, k, score, grade, { document = null, place = null, mark = "", beside = false, forbidden = false } = {}]) => {
      const id = passageAt(k)[0];
      return { rank, k, id, score, grade, document, place, mark, beside, forbidden, name: document === null ? id : passageAt(document)[0] };
    });
  }

  /** The values of a system by a score; a pair also has the values of its retriever. */
  function column(system, score) {
    const values = (index.values[system] || {})[score];
    if (values) return values;
    const pair = index.system.get(system);
    return (pair && pair.retriever && (index.values[pair.retriever] || {})[score]) || null;
  }

  const valueAt = (system, score, row) => (column(system, score) || [])[row] ?? null;

  function meanOf(system, score) {
    const values = (column(system, score) || []).filter((value) => value !== null);
    return values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null;
  }

  const scoreOf = (name) => index.scores.find((score) => score.name === name);

  const entryAt = (system, row) => index.queries[row].systems[system] || {};

  /** The failure of a query for a system, by any score; null without one. */
  const failureAt = (system, row) => entryAt(system, row).failed ?? null;

  /** The cause of the repetition that is shown: the first lost one. */
  const causeAt = (system, row) => entryAt(system, row).cause ?? null;

  /** The cause of each repetition of a query; of a query that was asked once, its cause. */
  const causesAt = (system, row) => entryAt(system, row).causes || [causeAt(system, row)];

  /** The causes of a query in words: "right 1 of 3, not used 2 of 3". */
  function causeWords(system, row) {
    const causes = causesAt(system, row);
    const present = Object.keys(index.causeWords).filter((cause) => causes.includes(cause));
    if (present.length < 2) return spaced(causeAt(system, row));
    return present.map((cause) => `${spaced(cause)} ${causes.filter((other) => other === cause).length} of ${causes.length}`).join(", ");
  }

  // ---- the view -------------------------------------------------------------------------------

  const SORTS = {
    differ: "how far A and B differ",
    better: "A above B",
    worse: "A below B",
    low: "A lowest first",
    high: "A highest first",
    given: "order of the data",
  };

  const FILTERS = ["find", "cause", "slice", "min", "max", "failed"];

  /** The fragment as an object; keys that it lacks get their defaults. */
  function viewOf(fragment) {
    const parameters = Object.fromEntries(new URLSearchParams(fragment.replace(/^#/, "")));
    const view = { ...parameters };
    if (!scoreOf(view.score)) view.score = (scoreOf("right") || index.scores[0] || { name: "" }).name;
    const answering = index.systems.filter((system) => system.answers);
    const candidates = (answering.length ? answering : index.systems).filter(
      (system) => system.role !== "control",
    );
    const baselines = candidates.filter((system) => !system.baseline);
    if (!index.system.has(view.b) && view.b !== NO_SYSTEM) {
      view.b = (baselines[0] || candidates[0] || { name: NO_SYSTEM }).name;
    }
    if (!index.system.has(view.a)) view.a = best(candidates, view.score, view.b);
    if (view.a === view.b) view.b = NO_SYSTEM;
    if (!(view.sort in SORTS)) view.sort = view.b === NO_SYSTEM ? "low" : "differ";
    return view;
  }

  function best(systems, score, excluded) {
    const lower = (scoreOf(score) || {}).lower;
    let bestSystem = null;
    for (const { name } of systems) {
      const mean = meanOf(name, score);
      if (name === excluded || mean === null) continue;
      if (bestSystem === null || (lower ? mean < bestSystem[1] : mean > bestSystem[1])) bestSystem = [name, mean];
    }
    return bestSystem ? bestSystem[0] : (systems.find(({ name }) => name !== excluded) || systems[0]).name;
  }

  /** The fragment of the current view with changes; null or "" removes a key. */
  function link(changes) {
    const parameters = new URLSearchParams(location.hash.slice(1));
    parameters.delete("queries");
    for (const [key, value] of Object.entries(changes)) {
      if (value === null || value === "") parameters.delete(key);
      else parameters.set(key, value);
    }
    const query = parameters.toString();
    return `#queries${query ? `&${query}` : ""}`;
  }

  /** False for scores that are made in different ways, such as by two models of a judge. */
  function mayCompare(view) {
    const groups = index.unlike[view.score];
    return !groups || groups[view.a] === groups[view.b];
  }

  function difference(view, row) {
    if (!mayCompare(view)) return null;
    const a = valueAt(view.a, view.score, row);
    const b = view.b === NO_SYSTEM ? null : valueAt(view.b, view.score, row);
    return a === null || b === null ? null : a - b;
  }

  function rowsOf(view) {
    const words = (view.find || "").toLowerCase().trim();
    const passages = words && view.deep !== "0" ? passagesWith(words) : null;
    const lowest = view.min ? Number(view.min) : -Infinity;
    const highest = view.max ? Number(view.max) : Infinity;
    const slice = view.slice ? JSON.parse(view.slice) : null;
    const rows = [];
    for (let row = 0; row < index.queries.length; row += 1) {
      if (words && !index.haystack[row].includes(words) && !(passages && mentions(index.queries[row], words, passages))) continue;
      if (view.cause && !causesAt(view.a, row).includes(view.cause)) continue;
      if (view.failed && failureAt(view.a, row) === null &&
          (view.b === NO_SYSTEM || failureAt(view.b, row) === null)) continue;
      if (slice) {
        const values = index.facts[slice[0]];
        if (!values || !values[row].includes(slice[1])) continue;
      }
      if (view.min || view.max) {
        const value = valueAt(view.a, view.score, row);
        if (value === null || value < lowest || value > highest) continue;
      }
      rows.push(row);
    }
    return sorted(rows, view);
  }

  function sorted(rows, view) {
    const value = (row) => valueAt(view.a, view.score, row);
    const keys = {
      differ: (row) => negated(Math.abs, difference(view, row)),
      better: (row) => negated(Number, difference(view, row)),
      worse: (row) => difference(view, row),
      low: value,
      high: (row) => negated(Number, value(row)),
    };
    const key = keys[view.sort];
    if (!key) return rows;
    const keyOf = new Map(rows.map((row) => [row, key(row)]));
    // rows without a value come last, in the order of the data set
    return rows.sort((a, b) => {
      const [x, y] = [keyOf.get(a), keyOf.get(b)];
      if (x === null || y === null) return (x === null) - (y === null) || a - b;
      return x - y || a - b;
    });
  }

  const negated = (f, value) => (value === null ? null : -f(value));

  // ---- search in answers and passages ---------------------------------------------------------

  /** The numbers of the passages that contain a text. */
  const passagesWith = (words) => new Set(
    index.passages.flatMap((passage, k) => (passage.join("\n").toLowerCase().includes(words) ? [k] : [])));

  function mentions(query, words, passages) {
    const has = (text) => Boolean(text) && text.toLowerCase().includes(words);
    if (has(query.text) || query.gold.some(has)) return true;
    const isMentioned = (k) => (typeof k === "string" ? has(k) : passages.has(k));
    const verdictMentions = ({ reasoning, claims }) => has(reasoning) || (claims || []).some((claim) => has(claim.text));
    if ([...(query.pairs || []), ...(query.graded || []).map(([, verdict]) => verdict)].some(verdictMentions)) return true;
    if (query.hits.some((hits) => hits.some((hit) => isMentioned(hit[1])))) return true;
    for (const { answers, verdicts } of Object.values(query.systems)) {
      for (const answer of answers || []) {
        if (has(answer.text) || has(answer.detail)) return true;
        if ((answer.read || []).some(isMentioned)) return true;
      }
      if ((verdicts || []).some(verdictMentions)) return true;
    }
    return false;
  }

  // ---- words ----------------------------------------------------------------------------------

  const WORD = /[\p{L}\p{N}]+/gu;

  /** A word without its most frequent English endings: enough to mark matches. */
  function stem(word) {
    const low = word.toLowerCase();
    if (low.length < 4 || /\d/.test(low)) return low;
    for (const [ending, replacement] of [["ies", "y"], ["sses", "ss"], ["ing", ""], ["ed", ""], ["es", ""], ["s", ""]]) {
      if (low.endsWith(ending) && low.length - ending.length >= 3 && !low.endsWith("ss")) {
        return low.slice(0, -ending.length) + replacement;
      }
    }
    return low;
  }

  const stems = (text) =>
    new Set([...text.matchAll(WORD)].map((m) => m[0]).filter((w) => !index.stop.has(w.toLowerCase())).map(stem));

  /** A text with some words marked; `classOf` returns the class of a word, or null. */
  function marked(text, classOf) {
    const fragment = document.createDocumentFragment();
    const visibleText = visible(text);
    let end = 0;
    let place = 0;
    for (const match of visibleText.matchAll(WORD)) {
      const name = classOf(match[0], place);
      place += 1;
      if (name === null) continue;
      fragment.append(visibleText.slice(end, match.index), h("mark", { class: name }, match[0]));
      end = match.index + match[0].length;
    }
    fragment.append(visibleText.slice(end));
    return fragment;
  }

  /** The positions of the words that another text lacks, by the longest common subsequence; null if
   *  a text is too long. */
  function onlyIn(text, other) {
    const words = (t) => [...visible(t).matchAll(WORD)].map((m) => m[0].toLowerCase());
    const [a, b] = [words(text), words(other)];
    if (a.length > MOST_WORDS || b.length > MOST_WORDS) return null;
    const width = b.length + 1;
    const length = new Uint16Array((a.length + 1) * width);
    for (let i = a.length - 1; i >= 0; i -= 1) {
      for (let j = b.length - 1; j >= 0; j -= 1) {
        length[i * width + j] =
          a[i] === b[j]
            ? length[(i + 1) * width + j + 1] + 1
            : Math.max(length[(i + 1) * width + j], length[i * width + j + 1]);
      }
    }
    const positions = new Set();
    let [i, j] = [0, 0];
    while (i < a.length) {
      if (j < b.length && a[i] === b[j]) [i, j] = [i + 1, j + 1];
      else if (j < b.length && length[i * width + j + 1] >= length[(i + 1) * width + j]) j += 1;
      else positions.add(i++);
    }
    return positions;
  }

  // ---- claims ---------------------------------------------------------------------------------

  /** The claims of an answer and of its gold answer, each claim once for all rubrics. */
  function claimsOf(verdicts) {
    const claims = new Map();
    for (const verdict of verdicts) {
      if (verdict.sample) continue;
      const counts = { true: 0, false: 0 };
      for (const { text, whose, ruling = null, passages: supports = [], against = [], other = null, probability = null } of verdict.claims || []) {
        const gold = whose === "reference";
        counts[gold] += 1;
        const key = JSON.stringify([gold, text]);
        const claim = claims.get(key);
        if (!claim) claims.set(key, { number: counts[gold], text, gold, ruling, supports, against, other, probability });
        else {
          if (claim.ruling === null) Object.assign(claim, { ruling, supports, against });
          claim.other ??= other;
        }
      }
    }
    return [...claims.values()];
  }

  /** The sentence of a passage that shares most words with a claim; "" if none shares any. */
  function closest(text, claim) {
    const claimWords = stems(claim);
    let bestSentence = ["", 0];
    for (const sentence of text.split(/(?<=[.!?]\s+|[。！？])/u)) {
      const shared = [...stems(sentence)].filter((word) => claimWords.has(word)).length;
      if (shared > bestSentence[1]) bestSentence = [sentence, shared];
    }
    return bestSentence[0];
  }

  // ---- the list -------------------------------------------------------------------------------

  let list = { key: "", rows: [], drawn: 0 };

  function drawList(view) {
    const { q, ...filters } = view;
    const key = JSON.stringify(filters);
    if (key !== list.key) {
      list = { key, rows: rowsOf(view), drawn: 0 };
      $("list").querySelector("ol").replaceChildren();
      drawMore(view);
      const count = list.rows.length;
      const filtered = FILTERS.some((name) => view[name]);
      const reset = h("a", { href: link(Object.fromEntries(["q", ...FILTERS].map((name) => [name, null]))) }, "show all");
      $("status").replaceChildren(`${count} of ${index.queries.length} queries`, ...(filtered ? [" · ", reset] : []));
    }
    for (const other of $("list").querySelectorAll("[aria-current]")) other.removeAttribute("aria-current");
    const current = [...$("list").querySelectorAll("a")].find((a) => a.dataset.row === String(index.rowOf.get(q)));
    if (current) {
      current.setAttribute("aria-current", "true");
      // scrolls the list only: scrollIntoView would scroll the page, too
      const [box, entry] = [$("list").getBoundingClientRect(), current.getBoundingClientRect()];
      if (entry.top < box.top || entry.bottom > box.bottom) $("list").scrollTop += entry.top - box.top - box.height / 3;
    }
  }

  function drawMore(view) {
    const next = list.rows.slice(list.drawn, list.drawn + ROWS_AT_ONCE);
    list.drawn += next.length;
    $("list").querySelector("ol").append(...next.map((row) => listRow(view, row)));
    $("more").hidden = list.drawn >= list.rows.length;
  }

  function listRow(view, row) {
    const values = [valueAt(view.a, view.score, row)];
    if (view.b !== NO_SYSTEM) values.push(valueAt(view.b, view.score, row));
    const change = difference(view, row);
    const lower = (scoreOf(view.score) || {}).lower;
    const sign = change === null || change === 0 ? "" : (change > 0) !== Boolean(lower) ? "up" : "down";
    const a = h("a", { href: link({ q: index.queries[row].id }), "data-row": row },
      h("b", null, bdi(nameOf(index.queries[row]))), " ", h("span", { class: "text", dir: "auto" }, visible(shortText(index.queries[row].text))),
      h("span", { class: "values" }, values.map((value) => number(value)).join(" · "),
        change === null ? null : h("span", { class: `change ${sign}` }, ` ${number(change, true)}`)));
    return h("li", null, a);
  }

  // ---- one query ------------------------------------------------------------------------------

  function drawQuery(view) {
    const row = index.rowOf.get(view.q);
    if (row === undefined) {
      const message = view.q === undefined ? "No query matches the filters above."
        : `This page has no query ${visible(view.q)}.`;
      $("detail").replaceChildren(h("p", { class: "soft" }, message));
      return;
    }
    const query = index.queries[row];
    const systems = [view.a, view.b].filter((name) => name !== NO_SYSTEM);
    const grades = new Map((query.graded || []).map(([k, verdict]) => [passageAt(k)[0], { ...verdict, k }]));
    const sections = [
      heading(row, query),
      goldOf(query, grades),
      pairsOf(view, query),
      h("div", { class: "sides" }, systems.map((name, i) => sideOf(view, row, query, grades, name, systems[1 - i], "AB"[i]))),
      gradedElsewhere(query, grades, systems),
      ...scoreTables(view, row),
    ];
    $("detail").replaceChildren(...sections.filter(Boolean));
  }

  function heading(row, query) {
    const facts = Object.entries(index.facts).flatMap(([field, values]) => values[row].map((value) =>
      h("a", { class: "chip", href: link({ slice: JSON.stringify([field, value]) }) }, bdi(`${field}: ${value}`))));
    return h("header", null, h("p", { class: "soft" }, bdi(nameOf(query)), " ", facts), h("h2", { id: "question", dir: "auto" }, visible(query.text)));
  }

  function goldOf(query, grades) {
    const gold = query.gold.map((text) => h("p", { class: "gold", dir: "auto" }, visible(text)));
    const spans = (query.spans || []).map(([place, text]) =>
      h("p", { dir: "auto" }, h("small", { class: "soft" }, bdi(place)), " ", visible(text)));
    const rows = query.relevant.map(([k, grade, ranks]) => {
      const [id, title] = passageAt(k);
      const by = grades.get(id);
      return h("tr", null, h("th", { scope: "row" }, bdi(title || id)),
        h("td", null, String(grade), by ? h("small", null, visible(`by ${by.judge}`)) : null),
        ranks.map((rank) => h("td", { class: rank ? null : "missing" }, rank ? `#${rank}` : "not retrieved")));
    });
    const heads = ["gold", "grade", ...index.rankings];
    return h("section", { class: "sides" },
      h("div", null, h("h3", null, gold.length > 1 ? "Gold answers" : "Gold answer"),
        gold.length ? gold : h("p", { class: "soft" }, "none"),
        spans.length ? [h("h3", null, "Gold spans"), spans] : null),
      rows.length
        ? table("rank of the gold in each ranking", heads, rows)
        : h("p", { class: "soft" }, "No document is judged relevant."));
  }

  function table(caption, heads, rows) {
    return h("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": caption },
      h("table", null, h("caption", null, caption),
        h("thead", null, h("tr", null, heads.map((text) => h("th", { scope: "col" }, bdi(text))))),
        h("tbody", null, rows)));
  }

  /** Tables of the scores of this query, of rankings first; a click on a system makes it B. */
  function scoreTables(view, row) {
    const valueOfQuery = ({ name }, score) => (index.values[name] || {})[score.name]?.[row] ?? null;
    const hasRanking = (system) => index.scores.some((score) => score.kind === "retrieval" && score.name in (index.values[system.name] || {}));
    return ["rankings", "answers"].map((kind) => {
      const systems = index.systems.filter((system) => hasRanking(system) === (kind === "rankings"));
      const scores = index.scores.filter((score) => systems.some((system) => valueOfQuery(system, score) !== null));
      return systems.length ? scoreTable(view, row, kind, systems, scores) : null;
    }).filter(Boolean);
  }

  function scoreTable(view, row, kind, systems, scores) {
    const rows = systems.map(({ name }) => {
      const letter = name === view.a ? "A" : name === view.b ? "B" : "";
      const choose = letter ? bdi(name) : h("a", { href: link({ b: name }) }, bdi(name));
      const failed = failureAt(name, row);
      return h("tr", null,
        h("th", { scope: "row" }, letter ? [h("b", { class: `letter ${letter}` }, letter), " "] : null, choose,
          failed === null ? null : h("small", { class: "fail" }, `failed: ${visible(failed)}`),
          causeAt(name, row) === null ? null : h("small", null, causeWords(name, row))),
        scores.map((score) => h("td", null, number((index.values[name] || {})[score.name]?.[row]))));
    });
    return table(`${kind}: scores on this query; click a system to make it B`, ["system", ...scores.map((s) => s.name)], rows);
  }

  function sideOf(view, row, query, grades, name, otherSystem, letter) {
    const { answers = [], verdicts = [], why = "", ms = null } = query.systems[name] || {};
    const otherAnswers = (query.systems[otherSystem] || {}).answers || [];
    const failed = failureAt(name, row);
    const cause = causeAt(name, row);
    const [outsidePool, changeOfPool] = index.outsidePool;
    const change = cause === "not_in_corpus" && why.endsWith(outsidePool) ? changeOfPool : index.causeChanges[cause];
    const value = number(valueAt(name, view.score, row));
    const claims = claimsOf(verdicts);
    return h("section", { class: "side", "aria-label": `${letter}: ${visible(name)}` },
      h("h3", null, h("b", { class: "letter" }, letter), " ", bdi(name), " ", h("span", { class: "soft" }, `${view.score} ${value}`)),
      cause === null ? null : h("p", { class: ["right", "found"].includes(cause) ? "cause well" : "cause" }, h("b", null, causeWords(name, row)), visible(`: ${query.systems[name].shown === undefined ? "" : `answer ${query.systems[name].shown + 1}: `}${index.causeWords[cause]}`),
        change ? h("span", { class: "change" }, h("b", null, "What to change:"), ` ${change}`) : null, why ? h("small", null, visible(why)) : null),
      failed === null ? null : h("p", { class: "fail" }, `failed: ${visible(failed)}`),
      answers.map((answer, i) => answerOf(answer, otherAnswers[i], query, otherSystem, answers.length > 1 ? i + 1 : null)),
      claimList("Claims", claims.filter((claim) => !claim.gold), "gold answer"),
      claimsLeftOut(verdicts),
      claimList("Claims of the gold answer", claims.filter((claim) => claim.gold), "answer"),
      verdictList(verdicts, query, answers),
      ms === null ? null : costLine({ latency_ms: ms }, "to retrieve"),
      hitsOf(query, grades, name, otherSystem, claims, answers, letter === "A" ? "B" : "A"),
      promptOf(answers[0]),
    );
  }

  function costLine({ latency_ms: ms, usage = {} }, suffix = "") {
    const parts = [];
    if (ms !== null && ms !== undefined) parts.push(`${number(ms)} ms ${suffix}`.trim());
    const { input_tokens: sent, output_tokens: received, usd } = usage;
    if (sent || received) parts.push(`${sent ?? "?"} tokens in, ${received ?? "?"} out`);
    if (usd) parts.push(`${number(usd)} USD`);
    return parts.length ? h("p", { class: "soft cost" }, parts.join(" · ")) : null;
  }

  function answerOf(answer, otherAnswer, query, other, sample) {
    const head = h("h4", null, sample ? `Answer ${sample}` : "Answer");
    if (answer.cause) {
      return h("div", { class: "answer" }, head, h("p", { class: "fail" }, `no answer: ${visible(answer.cause)}`),
        h("pre", null, visible(answer.detail || "")));
    }
    if (answer.text === null || answer.text === undefined) return h("div", null, head, h("p", { class: "soft" }, "none"));
    const gold = stems(query.gold.join(" "));
    const uniquePositions = otherAnswer && otherAnswer.text ? onlyIn(answer.text, otherAnswer.text) : null;
    const classOf = (word, place) => {
      const names = [];
      if (uniquePositions && uniquePositions.has(place)) names.push("unique");
      if (!index.stop.has(word.toLowerCase()) && gold.has(stem(word))) names.push("gold-word");
      return names.length ? names.join(" ") : null;
    };
    const legend = [uniquePositions && uniquePositions.size ? `dotted: not in the answer of ${other}` : "", query.gold.length ? "bold: in a gold answer" : ""];
    return h("div", { class: "answer" }, head,
      h("p", { class: "answer-text", dir: "auto" }, answer.text ? marked(answer.text, classOf) : h("i", null, "empty")),
      h("p", { class: "soft key" }, visible(legend.filter(Boolean).join("; "))),
      answer.queries ? h("p", { class: "soft" }, `searched for: ${visible(answer.queries.join(" | "))}`) : null,
      costLine(answer));
  }

  /** The claims, each with the rulings by passages and by the other answer. */
  function claimList(title, claims, other) {
    if (!claims.length) return null;
    const rulingLabel = (ruling, who) => h("span", { class: `verdict ${ruling === "supported" ? "pass" : "fail"}` },
      `${ruling === "not_mentioned" ? "not supported" : ruling} by ${who}`);
    const passages = ({ ruling, supports, against }) => {
      const numbers = ruling === "contradicted" ? against : supports;
      return numbers.length ? `passage ${numbers.join(", ")}` : ruling === "supported" ? "passages" : "any passage";
    };
    return h("div", null, h("h4", null, title), h("ol", { class: "claims" }, claims.map((claim) =>
      h("li", { dir: "auto", value: claim.number }, visible(claim.text), " ",
        claim.ruling === null ? null : rulingLabel(claim.ruling, passages(claim)),
        claim.probability === null ? null : h("span", { class: "soft" }, ` probability of support ${number(claim.probability)}`),
        claim.other === null ? null : [" ", rulingLabel(claim.other, `the ${other}`)]))));
  }

  /** A remark on claims that the page leaves out, and where they are; null if it has all. */
  function claimsLeftOut(verdicts) {
    const cut = verdicts.filter(({ more, sample }) => more && !sample);
    return cut.length ? h("p", { class: "soft" }, visible(cut.map(({ more, claims, rubric }) =>
      `${rubric}: the first ${claims.length} of ${claims.length + more} claims; all are in judgements/ of the run folder`).join("; "))) : null;
  }

  function verdictList(verdicts, query, answers) {
    if (!verdicts.length) return null;
    return h("div", null, h("h4", null, "Judge"), verdicts.map((verdict) => {
      const sample = verdict.sample === undefined ? "" : `, answer ${verdict.sample + 1}`;
      const level = verdict.level === undefined ? "" : `, level ${verdict.level}`;
      const value = verdict.cause ? missingScore(verdict) : h("b", null, number(verdict.score));
      const answer = answers[verdict.sample || 0] || {};
      return verdictDetails(verdict, [`${visible(verdict.rubric)} `, value, h("span", { class: "soft" }, visible(`${level}${sample} · ${verdict.judge}`))],
        textsOf(query, [answer.text], (answer.read || []).map(passageAt)));
    }));
  }

  const missingScore = ({ status, cause }) => [status === "failed" ? null : "does not apply: ", h("b", { class: status === "failed" ? "fail" : null }, spaced(cause))];

  /** A verdict: its result, and behind a click the reasons, the prompts and the raw reply. */
  function verdictDetails(verdict, result, texts) {
    const spread = (verdict.samples || []).length > 1 ? `, asked ${verdict.samples.length} times: ${verdict.samples.map((v) => number(v)).join(", ")}` : "";
    const { usd } = verdict.usage || {};
    const paid = usd ? `, ${number(usd)} USD` : "";
    return h("details", { class: "judged" }, h("summary", null, result),
      h("p", { class: "why", dir: "auto" }, visible(verdict.reasoning || "no reason given")),
      h("p", { class: "soft" }, visible(`judged by ${verdict.model}${spread}${paid}`)),
      judgePrompts(verdict, texts),
      verdict.raw ? h("div", null, h("h5", null, "raw reply"), h("pre", { tabindex: "0", role: "region", "aria-label": "raw reply" }, visible(verdict.raw))) : null);
  }

  /** Pairwise verdicts: those on A and B first, those on other systems behind a click. */
  function pairsOf(view, query) {
    if (!query.pairs) return null;
    const letters = new Map([[view.a, "A"], [view.b, "B"]]);
    const system = (name, strong) => [letters.has(name) ? [h("b", { class: `letter ${letters.get(name)}` }, letters.get(name)), " "] : null, h(strong ? "b" : "span", null, bdi(name))];
    const details = query.pairs.map((verdict) => {
      const { system: one, other } = verdict;
      const worse = verdict.winner === one ? other : one;
      const result = verdict.cause ? [system(one), " and ", system(other), ": ", missingScore(verdict)]
        : verdict.winner === undefined ? ["neither of ", system(one), " and ", system(other), " is better"]
          : [system(verdict.winner, true), " is better than ", system(worse)];
      const sample = verdict.sample === undefined ? "" : `, answer ${verdict.sample + 1}`;
      const answers = [one, other].map((name) => (query.systems[name] || {}).answers || [])
        .map((samples) => samples[(verdict.sample || 0) % samples.length] || {});
      const read = answers.flatMap((answer) => answer.read || []).map(passageAt);
      return verdictDetails(verdict, [result, h("span", { class: "soft" }, visible(` · ${verdict.rubric}${sample} · ${verdict.judge}`))],
        textsOf(query, answers.map((answer) => answer.text), read, true));
    });
    const pairsOfBoth = (isBoth) => details.filter((_, i) => [query.pairs[i].system, query.pairs[i].other].every((name) => letters.has(name)) === isBoth);
    const [selected, further] = [pairsOfBoth(true), pairsOfBoth(false)];
    return h("section", { class: "pairs", "aria-label": "which answer is better" }, h("h3", null, "Which answer is better"), selected,
      further.length ? h("details", null, h("summary", null, `${selected.length ? "other pairs" : "not of A and B; other pairs"}: ${further.length}`), further) : null);
  }

  /** The grade of a passage by a judge, with the reasons. */
  function gradeBy(verdict, query) {
    const result = verdict.cause ? missingScore(verdict) : h("b", null, `grade ${verdict.grade}`);
    return verdictDetails(verdict, [result, h("span", { class: "soft" }, visible(` by ${verdict.judge} · ${verdict.rubric}`))],
      textsOf(query, [], [passageAt(verdict.k)]));
  }

  /** The passages that a judge graded and that are in neither ranking. */
  function gradedElsewhere(query, grades, systems) {
    const rankedIds = new Set(systems.flatMap((name) => hitsIn(query, index.rankingOf[name])).flatMap(({ id, name }) => [id, name]));
    const unranked = [...grades].filter(([id]) => !rankedIds.has(id));
    return unranked.length ? h("details", null, h("summary", null, `Graded by a judge, but not in the rankings above: ${unranked.length}`),
      h("ul", { class: "hits" }, unranked.map(([id, verdict]) => h("li", null, h("p", { class: "hit" }, bdi(passageAt(verdict.k)[1] || id), " ", h("span", { class: "soft" }, bdi(id))), gradeBy(verdict, query))))) : null;
  }

  /** One list: the ranking of a system, and what it read, with relevance and matching words. */
  function hitsOf(query, grades, name, otherSystem, claims, answers, letter) {
    const ranking = index.rankingOf[name];
    const { read = [], ranks = [] } = answers[0] || {};
    const placesAt = new Map(); // rank -> numbers of the passages that were read from there
    ranks.forEach((rank, i) => rank && placesAt.set(rank, [...(placesAt.get(rank) || []), i + 1]));
    const rows = hitsIn(query, ranking).filter(({ rank }) => rank <= SHOWN_HITS || placesAt.has(rank))
      .map((hit) => ({ ...hit, places: placesAt.get(hit.rank) || [] }))
      // the text in a prompt is whole; stored texts may be cut
      .map((hit) => (hit.places.length ? { ...hit, k: read[hit.places[0] - 1] } : hit));
    read.forEach((k, i) => {
      if (!ranks[i]) rows.push({ rank: null, k, id: passageAt(k)[0], name: passageAt(k)[0], document: null, place: null, score: null, grade: null, mark: "", beside: false, forbidden: false, places: [i + 1] });
    });
    if (!rows.length) return h("p", { class: "soft" }, "The run stores no passages.");
    const otherRanking = otherSystem === undefined ? undefined : index.rankingOf[otherSystem];
    const otherHits = otherRanking === undefined ? null : hitsIn(query, otherRanking).filter(({ rank }) => rank <= SHOWN_HITS);
    const questionWords = stems(query.text);
    const title = ranking === undefined ? "Passages that it read" : "Ranking";
    return h("div", null, h("h4", null, title), h("ol", { class: "hits" }, rows.map((hit) => {
      const verdict = grades.get(hit.name) || grades.get(hit.id);
      return hitRow(hit, questionWords, claims, otherHits, letter, answers.length > 0, verdict ? gradeBy(verdict, query) : null);
    })));
  }

  /** Where another ranking has a hit: the passage itself, or else its document. */
  function comparisonOf(hit, otherHits, letter) {
    if (otherHits === null || hit.rank === null) return "";
    const isSame = (other) => other.id === hit.id || (hit.place !== null && other.name === hit.name && String(other.place) === String(hit.place));
    const same = otherHits.find(isSame);
    if (same) return `#${same.rank} in ${letter}`;
    const beside = otherHits.find(({ name }) => name === hit.name);
    return beside ? `its document is #${beside.rank} in ${letter}` : `not in the first ${otherHits.length} of ${letter}`;
  }

  /** Badges with the numbers of the claims that a passage supports or contradicts. */
  function claimBadges(verb, claims, name) {
    return [["claim", false], ["gold claim", true]].flatMap(([noun, gold]) => {
      const numbers = claims.filter((claim) => claim.gold === gold).map((claim) => claim.number);
      return numbers.length ? [h("span", { class: `badge ${name}` }, `${verb} ${noun} ${numbers.join(", ")}`)] : [];
    });
  }

  function hitRow(hit, words, claims, otherHits, letter, reads, graded) {
    const [, title, text] = passageAt(hit.k);
    const supported = claims.filter((claim) => claim.supports.some((n) => hit.places.includes(n)));
    const against = claims.filter((claim) => claim.against.some((n) => hit.places.includes(n)));
    const isGold = !hit.beside && !hit.forbidden && (hit.grade > 0 || hit.mark !== "");
    const badges = [
      hit.mark ? h("span", { class: hit.forbidden ? "badge fail" : isGold ? "badge pass" : "badge beside" }, visible(hit.mark)) : null,
      hit.grade > 0 && !hit.beside ? h("span", { class: "badge pass" }, `relevant, grade ${hit.grade}`) : null,
      hit.grade === 0 ? h("span", { class: "badge" }, "judged not relevant") : null,
      hit.places.length ? h("span", { class: "badge read" }, `read as passage ${hit.places.join(" and ")}`) : null,
      !hit.places.length && reads ? h("span", { class: "badge" }, "not read") : null,
      ...claimBadges("supports", supported, "pass"),
      ...claimBadges("contradicts", against, "fail"),
    ];
    const place = hit.place === null ? null : `characters ${hit.place[0]} to ${hit.place[1]}`;
    const score = hit.score === null ? null : `${number(hit.score)}`;
    const meta = h("span", { class: "soft" }, visible([place, score, comparisonOf(hit, otherHits, letter)].filter(Boolean).join(" · ")));
    const name = hit.document === null ? title || hit.id : hit.name;
    const names = h("bdi", null, marked(name, (word) => (words.has(stem(word)) ? "match" : null)));
    const body = text === null
      ? h("p", { class: "soft" }, "its text is not stored")
      : h("p", { class: "passage", dir: "auto" }, passageText(text, words, [...supported, ...against]));
    const expand = h("button", { type: "button", class: "whole", "aria-expanded": "false" }, "whole");
    return h("li", { class: isGold ? "relevant" : hit.beside ? "beside" : null },
      h("p", { class: "hit" }, h("b", null, hit.rank ? `#${hit.rank}` : "-"), " ", names,
        name !== hit.id && hit.document === null ? h("span", { class: "soft" }, " ", bdi(hit.id)) : null, " ", meta,
        name !== hit.id && hit.document !== null ? h("span", { class: "soft" }, " · ", bdi(hit.id)) : null),
      h("p", { class: "badges" }, badges), body, text !== null && text.length > 160 ? expand : null, documentOf(hit), graded);
  }

  /** The document of a passage behind a click, with the passage marked; null for a whole document. */
  function documentOf(hit) {
    if (hit.document === null) return null;
    const [id, , text] = passageAt(hit.document);
    if (text === null) return h("p", { class: "soft" }, "the text of its document is not on this page");
    const body = h("pre", { tabindex: "0", role: "region", dir: "auto", "aria-label": visible(`document ${id}`) });
    const details = h("details", { class: "document" }, h("summary", null, "document ", bdi(id)), body);
    details.addEventListener("toggle", () => {
      if (!details.open || body.firstChild) return;
      // places count characters, and a string of JavaScript has two units for some of them
      const characters = [...text];
      const [start, end] = hit.place || [0, 0];
      const part = (from, to) => visible(characters.slice(from, to).join(""));
      const passage = h("mark", { class: "match" }, part(start, end));
      body.append(part(0, start), passage, part(end));
      body.scrollTop = passage.offsetTop - body.offsetTop - body.clientHeight / 3;
    });
    return details;
  }

  /** A passage with the words of the question marked, and the sentences that match claims. */
  function passageText(text, words, claims) {
    const match = (word) => (words.has(stem(word)) ? "match" : null);
    const sentences = [...new Set(claims.map((claim) => closest(text, claim.text)).filter(Boolean))];
    const fragment = document.createDocumentFragment();
    let remainder = text;
    for (const sentence of sentences.sort((a, b) => text.indexOf(a) - text.indexOf(b))) {
      const start = remainder.indexOf(sentence);
      if (start < 0) continue;
      fragment.append(marked(remainder.slice(0, start), match), h("span", { class: "evidence" }, marked(sentence, match)));
      remainder = remainder.slice(start + sentence.length);
    }
    fragment.append(marked(remainder, match));
    return fragment;
  }

  /** The texts of a query by their names in prompts; `once` lists passages of both answers once. */
  function textsOf(query, [answer, other], read, once = false) {
    let texts = read.map(([, title, text]) => (text === null ? null : title ? `${title} ${text}` : text));
    if (once) texts = [...new Set(texts)];
    const textOf = { question: query.text, answer, other };
    if (!texts.includes(null)) textOf.passages = texts.join("\n");
    texts.forEach((text, i) => (textOf[`passage ${i + 1}`] = text));
    query.gold.forEach((text, i) => (textOf[`reference ${i + 1}`] = text));
    return textOf;
  }

  /** The prompts of a verdict, with the texts of the query filled in. */
  function judgePrompts(verdict, textOf) {
    const fullText = (text) => text.startsWith("[[text]]") ? text.slice(8) : text.startsWith("[[") ? textOf[text.slice(2, -2)] ?? text : text;
    const prompts = (verdict.prompts || []).filter(({ form }) => form in index.prompts).map(({ form, fence, texts = [], to }) => {
      const [system, user] = index.prompts[form];
      const filled = user.replace(/\[\[(fence|\d+)\]\]/g, (_, placeholder) => (placeholder === "fence" ? fence : fullText(texts[placeholder - 1])));
      return h("div", null, to ? h("p", { class: "soft" }, visible(`sent to ${to}`)) : null,
        [["system", system], ["user", filled]].flatMap(([role, text]) => [h("h5", null, role), h("pre", { dir: "auto", tabindex: "0", role: "region", "aria-label": `${role} prompt` }, visible(text))]));
    });
    if (prompts.length) return h("details", null, h("summary", null, `Sent to the judge: ${prompts.length} prompt${prompts.length > 1 ? "s" : ""}`), prompts);
    return h("p", { class: "soft" }, "No prompt was sent: the judge computes its score, or there was nothing to judge.");
  }

  /** The prompt of an answer, with the passages filled in. */
  function promptOf(answer) {
    if (!answer || !answer.prompt) return null;
    const text = answer.prompt.replace(/\[\[passage (\d+)\]\]/g, (placeholder, n) => {
      const k = (answer.read || [])[Number(n) - 1];
      return k === undefined ? placeholder : (passageAt(k)[2] ?? placeholder);
    });
    return h("details", null, h("summary", null, "Prompt"), h("pre", { tabindex: "0", role: "region", "aria-label": "prompt" }, visible(text)));
  }

  // ---- controls -------------------------------------------------------------------------------

  const form = $("filters");

  function options(select, pairs) {
    select.replaceChildren(...pairs.map(([value, text]) => h("option", { value }, visible(text))));
  }

  function fillForm() {
    const systems = index.systems.map(({ name }) => [name, name]);
    options(form.elements.a, systems);
    options(form.elements.b, [[NO_SYSTEM, "none"], ...systems]);
    options(form.elements.score, index.scores.map(({ name }) => [name, name]));
    options(form.elements.sort, Object.entries(SORTS));
    const slices = Object.entries(index.facts).flatMap(([field, values]) =>
      [...new Set(values.flat())].sort().map((value) => [JSON.stringify([field, value]), `${field}: ${value}`]));
    options(form.elements.slice, [["", "all"], ...slices]);
    const presentCauses = new Set(index.queries.flatMap(({ systems }) => Object.values(systems).flatMap(({ cause, causes }) => causes || [cause])));
    const causes = Object.keys(index.causeWords).filter((cause) => presentCauses.has(cause));
    options(form.elements.cause, [["", "all"], ...causes.map((cause) => [cause, spaced(cause)])]);
    for (const control of form.querySelectorAll("[data-many]")) control.hidden = index.queries.length < MANY_ROWS;
    // a telephone shows the list first
    $("further").open = matchMedia("(min-width: 60rem)").matches;
    const empty = { facts: !slices.length, causes: !causes.length };
    for (const [name, isEmpty] of Object.entries(empty)) form.querySelector(`[data-if=${name}]`).hidden = isEmpty;
  }

  /** Copy the view into the form, except into a field that the reader is typing in. */
  function setForm(view) {
    for (const field of form.elements) {
      if (!field.name || field === document.activeElement && field.type !== "checkbox" && field.tagName === "INPUT") continue;
      if (field.type === "checkbox") field.checked = field.name === "deep" ? view.deep !== "0" : Boolean(view[field.name]);
      else field.value = view[field.name] ?? "";
    }
  }

  function changed(event) {
    const { name, type, checked, value } = event.target;
    if (!name || !(name in form.elements)) return;
    const changes = {};
    if (name === "deep") changes.deep = checked ? null : "0";
    else changes[name] = type === "checkbox" ? (checked ? "1" : null) : value;
    // replace: typing must not fill the history of the browser
    location.replace(link(changes));
  }

  function show() {
    const parameters = new URLSearchParams(location.hash.slice(1));
    const isQueries = $("queries") && (parameters.has("queries") || parameters.has("q"));
    const name = isQueries ? "queries" : location.hash === "#pictures" ? "pictures" : "results";
    for (const viewName of ["results", "pictures", "queries"]) {
      if (!$(viewName)) continue;
      $(viewName).hidden = viewName !== name;
      if (viewName === name) $(`to-${viewName}`).setAttribute("aria-current", "page");
      else $(`to-${viewName}`).removeAttribute("aria-current");
    }
    if (!isQueries) return;
    if (!index) {
      $("status").textContent = "Unpacking…";
      started ??= unpack().then(start);
      return;
    }
    const view = viewOf(location.hash);
    setForm(view);
    drawList(view);
    if (view.q === undefined && list.rows.length) view.q = index.queries[list.rows[0]].id;
    drawSteps(view);
    drawQuery(view);
    if ($("chart").open) drawChart(view);
  }

  // ---- the picture of the differences ---------------------------------------------------------

  function svg(tag, attributes, ...children) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  /** A mark that opens its query; the list is the way for a keyboard. */
  function markLink(row, label, shape) {
    shape.append(svg("title", {}, label));
    return svg("a", { href: link({ q: index.queries[row].id }), tabindex: "-1" }, shape);
  }

  const scaleOf = (low, high, start, end) => (value) =>
    start + ((high > low ? (value - low) / (high - low) : 0.5) * (end - start));

  function drawChart(view) {
    const lower = (scoreOf(view.score) || {}).lower;
    const pairs = list.rows
      .map((row) => [row, valueAt(view.a, view.score, row), view.b === NO_SYSTEM ? null : valueAt(view.b, view.score, row)])
      .filter(([, a, b]) => a !== null && b !== null);
    const container = $("chart").querySelector("div");
    if (!mayCompare(view) && view.b !== NO_SYSTEM) {
      container.replaceChildren(h("p", { class: "soft" }, "These scores of A and B are made in different ways and are not compared: see the warnings."));
      return;
    }
    if (!pairs.length) {
      container.replaceChildren(h("p", { class: "soft" }, view.b === NO_SYSTEM ? "Choose a system B to see the differences from it." : "No query in the list has this score of both A and B."));
      return;
    }
    container.replaceChildren(sortedBars(pairs, view, lower));
  }

  const shadeOf = (change, lower) => (change === 0 ? "#888" : (change > 0) !== Boolean(lower) ? "#009e73" : "#d55e00");
  const labelOf = (row, a, b) => `${visible(nameOf(index.queries[row]))} ${visible(shortText(index.queries[row].text))}: ${number(a)} and ${number(b)}, ${number(a - b, true)}`;

  function sortedBars(pairs, view, lower) {
    const [width, height] = [640, 260];
    const changes = pairs.map(([row, a, b]) => [row, a, b, a - b]).sort((x, y) => x[3] - y[3]);
    const ends = [Math.min(0, changes[0][3]), Math.max(0, changes[changes.length - 1][3])];
    const up = scaleOf(ends[0], ends[1], height - 10, 26);
    const step = (width - 60) / changes.length;
    const marks = changes.map(([row, a, b, change], i) => markLink(row, labelOf(row, a, b), svg("rect", {
      x: 50 + i * step, y: Math.min(up(change), up(0)) - (change ? 0 : 1), fill: shadeOf(change, lower),
      width: Math.max(step - (step > 3 ? 1 : 0), 0.5), height: Math.max(Math.abs(up(change) - up(0)), 2),
    })));
    const count = (test) => changes.filter(([, , , change]) => test(change)).length;
    const summary = `A above B on ${count((x) => x > 0)}, below on ${count((x) => x < 0)}, the same on ${count((x) => x === 0)} queries`;
    return svg("svg", { class: "picture", role: "img", "aria-label": summary, viewBox: `0 0 ${width} ${height}`, width, height },
      svg("text", { x: 50, y: 14 }, `${view.score}, A minus B by query: ${summary}`),
      ...[...new Set([ends[0], 0, ends[1]])].flatMap((value) => [
        svg("path", { class: value ? "grid" : "axis", d: `M50 ${up(value)}H${width - 10}` }),
        svg("text", { class: "soft", x: 44, y: up(value) + 4, "text-anchor": "end" }, number(value, true))]),
      ...marks);
  }

  function drawSteps(view) {
    const position = list.rows.indexOf(index.rowOf.get(view.q));
    $("position").textContent = position < 0 ? "" : `${position + 1} of ${list.rows.length}`;
    for (const [id, row] of [["previous", list.rows[position - 1]], ["next", position < 0 ? list.rows[0] : list.rows[position + 1]]]) {
      if (row === undefined) $(id).removeAttribute("href");
      else $(id).setAttribute("href", link({ q: index.queries[row].id }));
    }
  }

  /** Arrow keys open the previous or next query, unless a field or table uses them. */
  function arrows(event) {
    if ($("queries").hidden || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (event.target.closest("input, select, textarea, .scroll")) return;
    const id = { ArrowLeft: "previous", ArrowRight: "next" }[event.key];
    if (id && $(id).hasAttribute("href")) $(id).click();
  }

  function start() {
    fillForm();
    form.addEventListener("input", changed);
    form.addEventListener("submit", (event) => event.preventDefault());
    $("more").addEventListener("click", () => drawMore(viewOf(location.hash)));
    $("detail").addEventListener("click", (event) => {
      if (!event.target.classList.contains("whole")) return;
      const isOpen = event.target.closest("li").classList.toggle("open");
      event.target.setAttribute("aria-expanded", String(isOpen));
      event.target.textContent = isOpen ? "less" : "whole";
    });
    $("chart").addEventListener("toggle", () => $("chart").open && drawChart(viewOf(location.hash)));
    addEventListener("keydown", arrows);
    show();
  }

  let started = null; // promise of the data, which are unpacked when the queries are first opened

  // a part of a bar of causes opens its queries; for a keyboard there is the filter by cause
  for (const bar of $("queries") ? document.querySelectorAll("#results [data-cause]") : []) {
    bar.addEventListener("click", () => {
      location.hash = `queries&${new URLSearchParams({ a: bar.dataset.system, b: NO_SYSTEM, cause: bar.dataset.cause })}`;
    });
  }

  // folded parts of the results are opened for printing
  let unfolded = [];
  addEventListener("beforeprint", () => {
    unfolded = [...document.querySelectorAll("#results details:not([open])")];
    for (const details of unfolded) details.open = true;
  });
  addEventListener("afterprint", () => unfolded.forEach((details) => (details.open = false)));

  // The first screen needs no script: the tables are in the HTML. The script comes before the data,
  // so that it runs while they load.
  addEventListener("hashchange", show);
  $("views").hidden = false;
  show();
})();
