"use strict";
// Tables: sorted by their heads, saved as CSV, and saying so where they go on outside their frame.
(() => {
  const FORMULA = /^[=+\-@\t\r]/, NUMBER = /^[-+]?[\d.,]+$/;

  const words = (cell) => {
    const copy = cell.cloneNode(true);
    for (const part of copy.querySelectorAll(".hidden-text, svg")) part.remove();
    return (cell.querySelector("bdi[title]")?.title ?? copy.textContent).replace(/\s+/g, " ").trim();
  };
  const value = (cell) => cell.dataset.value || words(cell);
  const field = (text) => {
    const inert = FORMULA.test(text) && !NUMBER.test(text) ? `'${text}` : text; // spreadsheets would compute it
    return /[",\n]/.test(inert) ? `"${inert.replaceAll('"', '""')}"` : inert;
  };
  const csv = (table) => [table.tHead.rows[table.tHead.rows.length - 1], ...table.tBodies[0].rows]
    .map((row) => `${[...row.cells].map((cell) => field(value(cell))).join(",")}\n`).join("");

  const sortable = (table) => {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = document.createElement("button"), number = head.dataset.sort === "number";
      button.type = "button";
      button.className = "sort";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const keyed = [...table.tBodies[0].rows].map((row) => [value(row.cells[column]), row]);
        const compare = (a, b) => (number ? Number(a) - Number(b) : a.localeCompare(b, undefined, { numeric: true }));
        const missing = (key) => key === "–" || key === "";
        keyed.sort(([a], [b]) => missing(a) - missing(b) || (missing(a) ? 0 : (up ? 1 : -1) * compare(a, b)));
        table.tBodies[0].append(...keyed.map(([, row]) => row));
      });
    });
  };

  const announced = (frame, table) => {
    const note = document.createElement("p"), heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
    note.className = "goes-on";
    frame.before(note);
    const counted = (count, noun) => `${count} more ${noun}${count === 1 ? "" : "s"}`;
    const look = () => {
      const { right, bottom } = frame.getBoundingClientRect();
      const wide = frame.scrollWidth - frame.clientWidth > 1, tall = frame.scrollHeight - frame.clientHeight > 1;
      const aside = heads.filter((head) => head.getBoundingClientRect().right > right + 2).length;
      const below = [...table.tBodies[0].rows].filter((row) => row.getBoundingClientRect().bottom > bottom + 2).length;
      const more = [aside && `${counted(aside, "column")} →`, below && `${counted(below, "row")} ↓`].filter(Boolean);
      note.hidden = !wide && !tall;
      note.textContent = more.length ? `The table goes on: ${more.join(", ")}` : "The end of the table: scroll back for the rest";
    };
    frame.addEventListener("scroll", look, { passive: true });
    new ResizeObserver(look).observe(frame);
  };

  for (const frame of document.querySelectorAll(".scroll")) {
    const table = frame.querySelector("table");
    if (table.classList.contains("sortable")) sortable(table);
    if (frame.dataset.file) {
      const file = frame.querySelector("script")?.textContent; // of figures with intervals, made with the page
      frame.after(saveButton("Download CSV", frame.dataset.file, "text/csv", () => (file ? JSON.parse(file) : csv(table))));
    }
    announced(frame, table);
  }
})();
