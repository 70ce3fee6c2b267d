"use strict";
// Charts as files: what is drawn, with the colours and words of the page, as one SVG.
(() => {
  const EDGE = 10, born = document.createElement("template");
  born.innerHTML = "<svg></svg>";
  const SPACE = born.content.firstChild.namespaceURI;
  const KEPT = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linecap",
    "stroke-linejoin", "opacity", "vector-effect"];
  const make = (name, attributes) => {
    const element = document.createElementNS(SPACE, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  const seen = (element) => element.checkVisibility?.() ?? element.getClientRects().length > 0;

  const shapes = (svg, place) => {
    const copy = svg.cloneNode(true), own = svg.querySelectorAll("*");
    copy.querySelectorAll("*").forEach((shape, n) => {
      const style = getComputedStyle(own[n]);
      shape.removeAttribute("class");
      shape.setAttribute("style", KEPT.map((key) => `${key}:${style.getPropertyValue(key)}`).join(";"));
    });
    copy.removeAttribute("class");
    copy.setAttribute("overflow", "visible");
    for (const [key, value] of Object.entries(place(svg.getBoundingClientRect()))) copy.setAttribute(key, value);
    return copy;
  };

  const texts = (node, place) => {
    const style = getComputedStyle(node.parentElement), size = parseFloat(style.fontSize), range = document.createRange();
    return [...node.data.matchAll(/\S+/g)].flatMap((word) => {
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      const { x, y, width, height } = place(range.getBoundingClientRect());
      if (!width) return [];
      const look = { "font-family": style.fontFamily, "font-size": size, "font-weight": style.fontWeight, fill: style.color };
      const text = make("text", { x, y: y + height / 2 + 0.35 * size, textLength: width, ...look });
      text.textContent = word[0];
      return [text];
    });
  };

  const drawn = (drawing) => {
    const frame = drawing.getBoundingClientRect(), width = frame.width + 2 * EDGE, height = frame.height + 2 * EDGE;
    const place = (box) => ({ x: box.x - frame.x + EDGE, y: box.y - frame.y + EDGE, width: box.width, height: box.height });
    const ground = getComputedStyle(drawing.closest(".card, .ground") ?? document.body).backgroundColor;
    const whole = make("svg", { xmlns: SPACE, width, height, viewBox: `0 0 ${width} ${height}` });
    whole.append(make("rect", { width, height, fill: ground }));
    for (const svg of drawing.querySelectorAll("svg")) if (seen(svg)) whole.append(shapes(svg, place));
    for (const image of drawing.querySelectorAll("img")) whole.append(make("image", { href: image.src, ...place(image.getBoundingClientRect()) }));
    const walker = document.createTreeWalker(drawing, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const inside = walker.currentNode.parentElement;
      if (!inside.closest("svg, script, .hidden-text, .thumb") && seen(inside)) whole.append(...texts(walker.currentNode, place));
    }
    return new XMLSerializer().serializeToString(whole);
  };

  const counts = {};
  for (const drawing of document.querySelectorAll(".drawing")) {
    const section = drawing.closest("section")?.id ?? "figure";
    counts[section] = (counts[section] ?? 0) + 1;
    const name = counts[section] === 1 ? section : `${section}-${counts[section]}`;
    drawing.after(saveButton("Download SVG", `${name}.svg`, "image/svg+xml", () => drawn(drawing)));
  }
})();
