"use strict";
// The table as text is in the page already: a button copies one form of it.
(() => {
  const said = document.getElementById("export-said");
  for (const button of document.querySelectorAll("[data-export]")) {
    button.addEventListener("click", async () => {
      const text = document.getElementById(`export-${button.dataset.export}`).textContent;
      try {
        await navigator.clipboard.writeText(text);
      } catch {
        const area = document.createElement("textarea"); // pages opened from a file may not use the clipboard directly
        area.value = text;
        document.body.append(area);
        area.select();
        document.execCommand("copy");
        area.remove();
      }
      said.textContent = "copied";
      setTimeout(() => { said.textContent = ""; }, 4000);
      button.focus();
    });
  }
})();
