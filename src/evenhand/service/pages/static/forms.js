// A field that belongs to one of several choices chooses it when it is used, and what that one belongs to.
"use strict";

const choose = (field) => {
  const chosen = document.getElementById(field.dataset.chooses);
  if (!chosen) return;
  chosen.checked = true;
  choose(chosen);
};

for (const field of document.querySelectorAll("[data-chooses]")) {
  field.addEventListener("input", () => choose(field));
}
