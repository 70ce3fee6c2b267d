"use strict";
// The contents mark the section that is being read.
(() => {
  const links = new Map([...document.querySelectorAll(".toc a")].map((a) => [a.hash.slice(1), a]));
  if (!links.size || !("IntersectionObserver" in window)) return;
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const link of links.values()) link.removeAttribute("aria-current");
      links.get(entry.target.id)?.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-20% 0px -70% 0px" });
  for (const id of links.keys()) watcher.observe(document.getElementById(id));
})();

// The map: a thumbnail for the dot under the pointer, and its class in front of the others.
(() => {
  const map = document.getElementById("embedding-map");
  if (!map) return;
  const { labels, names, sprite } = JSON.parse(map.querySelector("script").textContent);
  const ground = map.querySelector(".ground"), points = map.querySelector(".points"), thumb = map.querySelector(".thumb");
  const select = map.querySelector("select"), gallery = map.querySelector(".same-class"), words = map.querySelector("[aria-live]");
  const dots = [...points.querySelectorAll("circle")];
  const places = dots.map((dot) => [Number(dot.getAttribute("cx")), Number(dot.getAttribute("cy"))]);
  const hint = words.textContent;
  let here = -1, tiles = null;

  const tall = points.viewBox.baseVal.height;
  if (sprite) map.style.setProperty("--sprite", `url(${sprite.source})`);

  const paint = (element, n, size) => {
    const scale = size / sprite.tile, rows = Math.ceil(labels.length / sprite.columns);
    element.style.backgroundImage = "var(--sprite)";
    element.style.backgroundSize = `${sprite.columns * size}px ${rows * size}px`;
    element.style.backgroundPosition = `-${(n % sprite.columns) * size}px -${Math.floor(n / sprite.columns) * size}px`;
    element.style.imageRendering = scale > 1.5 ? "pixelated" : "auto";
  };

  const highlight = (label) => {
    points.classList.toggle("picked", label !== null);
    tiles?.classList.toggle("picked", label !== null);
    for (const marks of [dots, tiles ? [...tiles.children] : []]) marks.forEach((mark, n) => mark.classList.toggle("same", labels[n] === label));
    const members = labels.flatMap((other, n) => (other === label ? [n] : []));
    words.textContent = label === null ? hint : `${names[label]}: ${members.length} ${members.length === 1 ? "image" : "images"}`;
    gallery.replaceChildren(...(sprite ? members.slice(0, 12) : []).map((n) => {
      const tile = document.createElement("i");
      tile.style.width = "48px";
      paint(tile, n, 48);
      return tile;
    }));
  };

  const show = (n) => {
    if (n === here) return;
    dots[here]?.classList.remove("here");
    here = n;
    thumb.hidden = n < 0;
    if (n < 0) return highlight(select.value === "" ? null : Number(select.value));
    dots[n].classList.add("here");
    highlight(labels[n]);
    const image = thumb.querySelector("i");
    image.hidden = !sprite;
    if (sprite) paint(image, n, 96);
    thumb.querySelector("span").textContent = names[labels[n]];
    const x = places[n][0] / 1000, y = places[n][1] / tall;
    thumb.style.left = `clamp(4px, calc(${100 * x}% - 55px), calc(100% - 114px))`;
    thumb.style.top = y > 0.3 ? "auto" : `calc(${100 * y}% + 14px)`;
    thumb.style.bottom = y > 0.3 ? `calc(${100 * (1 - y)}% + 14px)` : "auto";
  };

  const nearest = (event) => {
    const box = points.getBoundingClientRect();
    const x = 1000 * (event.clientX - box.left) / box.width, y = tall * (event.clientY - box.top) / box.height;
    let best = -1, least = 45 * 45;
    places.forEach(([a, b], n) => {
      const away = (a - x) ** 2 + (b - y) ** 2;
      if (away < least) [best, least] = [n, away];
    });
    return best;
  };

  const onward = (key) => {
    if (here < 0) return 0;
    const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[key];
    let best = here, least = Infinity;
    places.forEach(([a, b], n) => {
      const along = (a - places[here][0]) * dx + (b - places[here][1]) * dy;
      const aside = Math.abs((a - places[here][0]) * dy) + Math.abs((b - places[here][1]) * dx);
      if (n !== here && along > 0.5 && along + 2 * aside < least) [best, least] = [n, along + 2 * aside];
    });
    return best;
  };

  const hang = () => {
    tiles = document.createElement("div");
    tiles.className = "tiles-on-map";
    tiles.append(...places.map(([x, y], n) => {
      const tile = document.createElement("i");
      tile.className = dots[n].getAttribute("class");
      tile.style.left = `${x / 10}%`;
      tile.style.top = `${100 * y / tall}%`;
      paint(tile, n, 26);
      return tile;
    }));
    ground.insertBefore(tiles, thumb);
  };

  map.querySelector("input")?.addEventListener("change", (event) => {
    if (!tiles) hang();
    tiles.hidden = !event.target.checked;
    points.classList.toggle("bare", event.target.checked);
  });
  ground.addEventListener("pointermove", (event) => show(nearest(event)));
  ground.addEventListener("pointerdown", (event) => show(nearest(event)));
  ground.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") show(-1); });
  ground.addEventListener("blur", () => show(-1));
  ground.addEventListener("keydown", (event) => {
    if (event.key === "Escape") return show(-1);
    if (!event.key.startsWith("Arrow")) return;
    event.preventDefault();
    show(onward(event.key));
  });
  select.addEventListener("change", () => { here = -2; show(-1); });
})();
