"use strict";
// Hand text over as a file, without any request; buttons that do so are made here, as they are of no use without scripts.
function saveFile(name, text, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function saveButton(words, name, type, text) {
  const line = document.createElement("p"), button = document.createElement("button"), said = document.createElement("span");
  line.className = "save";
  button.type = "button";
  button.textContent = words;
  button.setAttribute("aria-label", `${words}: ${name}`);
  said.setAttribute("role", "status");
  button.addEventListener("click", () => {
    saveFile(name, text(), type);
    said.textContent = `saved as ${name}`;
    setTimeout(() => { said.textContent = ""; }, 4000);
  });
  line.append(button, said);
  return line;
}
