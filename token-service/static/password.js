// Shows passwords while a button is pressed in. Without this file the button stays hidden.
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
