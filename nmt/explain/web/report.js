/* The slider of the page of `nmt report` displays one validation at a time. */
"use strict";
(() => {
  const slider = document.getElementById("validation");
  if (!slider) return;
  const parts = [...document.querySelectorAll("[data-position]")];
  const show = () => parts.forEach((part) => { part.hidden = part.dataset.position !== slider.value; });
  slider.addEventListener("input", show);
  slider.parentElement.hidden = false;
  show();
})();
