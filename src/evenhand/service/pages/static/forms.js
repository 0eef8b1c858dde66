// A field that belongs to one of several choices chooses it when it is used.
"use strict";

for (const field of document.querySelectorAll("[data-chooses]")) {
  field.addEventListener("input", () => {
    document.getElementById(field.dataset.chooses).checked = true;
  });
}
