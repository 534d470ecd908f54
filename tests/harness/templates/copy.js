// Puts a button that copies below each code and command. Without scripts, the page has no such buttons.
for (const text of document.querySelectorAll("pre")) {
  const button = document.createElement("button");
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text.textContent);
    button.textContent = "Copied";
  });
  text.after(button);
}
