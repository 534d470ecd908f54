// Shows passwords while a button is pressed in; copies and prints recovery codes. Without this file the buttons stay hidden.
"use strict";

for (const button of document.querySelectorAll("button.show")) {
  const fields = [...button.form.querySelectorAll("input[type='password']")];
  const show = (shown) => {
    button.setAttribute("aria-pressed", shown);
    fields.forEach((field) => { field.type = shown ? "text" : "password"; });
  };
  button.hidden = false;
  button.addEventListener("click", () => show(button.getAttribute("aria-pressed") === "false"));
  // Browsers keep what was sent in a field for text, and offer it again.
  button.form.addEventListener("submit", () => show(false));
}

for (const button of document.querySelectorAll("button.print")) {
  button.hidden = false;
  button.addEventListener("click", () => print());
}

for (const button of document.querySelectorAll("button.copy")) {
  button.hidden = false;
  button.addEventListener("click", () => {
    // The present interface to the clipboard needs https. If nothing is copied, the codes are marked.
    getSelection().selectAllChildren(document.querySelector(".codes"));
    if (document.execCommand("copy")) {
      button.textContent = button.dataset.done;
    }
  });
}
