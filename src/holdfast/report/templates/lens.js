"use strict";
// Images enlarge on a click, a tap, Enter or the space bar; arrow keys go on to the others of the same part of the page.
(() => {
  const PARTS = ".strip, .ask, .samples, .confusions li, .proof, .ruler, .card";
  const dialog = document.createElement("dialog");
  if (!dialog.showModal) return;
  const button = (words, sign, act) => {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = sign;
    made.setAttribute("aria-label", words);
    made.addEventListener("click", act);
    return made;
  };
  const image = document.createElement("img"), caption = document.createElement("p"), bar = document.createElement("div");
  const save = document.createElement("a");
  let group = [], here = 0;

  const show = (n) => {
    here = (n + group.length) % group.length;
    const shown = group[here], kind = shown.src.slice(11, 14) === "png" ? "png" : "jpg";
    image.src = shown.src;
    image.alt = shown.alt;
    image.className = shown.classList.contains("pixels") ? "pixels" : "";
    image.style.width = `${Math.max(384, 3 * shown.naturalWidth)}px`;
    caption.textContent = group.length > 1 ? `${shown.alt} (${here + 1} of ${group.length})` : shown.alt;
    save.href = shown.src;
    save.download = `${shown.alt.replace(/[^\p{L}\p{N}_-]+/gu, "-").slice(0, 80) || "image"}.${kind}`;
    back.hidden = next.hidden = group.length < 2;
  };
  const back = button("previous image", "←", () => show(here - 1)), next = button("next image", "→", () => show(here + 1));
  const close = button("close", "✕", () => dialog.close());
  dialog.className = "lens";
  dialog.setAttribute("aria-label", "Enlarged image");
  caption.setAttribute("aria-live", "polite");
  save.textContent = "Save image";
  bar.append(back, next, save, close);
  dialog.append(image, caption, bar);
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  dialog.addEventListener("keydown", (event) => {
    if (event.key === "ArrowLeft") show(here - 1);
    if (event.key === "ArrowRight") show(here + 1);
  });
  dialog.addEventListener("close", () => dialog.remove());

  const groups = new Map();
  for (const shown of document.querySelectorAll("img.pic")) {
    const part = shown.closest(PARTS) ?? shown, members = groups.get(part) ?? [];
    groups.set(part, [...members, shown]);
    shown.tabIndex = members.length ? -1 : 0; // one stop for each part: the arrow keys reach the rest
    shown.setAttribute("role", "button");
    shown.setAttribute("aria-haspopup", "dialog");
    const open = () => {
      group = groups.get(part);
      show(group.indexOf(shown));
      document.body.append(dialog);
      dialog.showModal();
    };
    shown.addEventListener("click", open);
    shown.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      open();
    });
  }
})();
