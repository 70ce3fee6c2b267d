"use strict";
// The files are in the page already: a button copies one, or hands it over as a download, without any request.
(function () {
  const said = document.getElementById("export-said");
  const say = (text) => { said.textContent = text; setTimeout(() => { said.textContent = ""; }, 4000); };

  async function copy(text) {
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
  }

  function download(text, name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  for (const button of document.querySelectorAll("[data-export]")) {
    button.addEventListener("click", async () => {
      const text = document.getElementById(`export-${button.dataset.export}`).textContent;
      if (button.dataset.file) {
        download(text, button.dataset.file);
        say(`saved as ${button.dataset.file}`);
      } else {
        await copy(text);
        say("copied");
      }
      button.focus();
    });
  }
})();
