/* The slider of the page of `nmt report`: one validation at a time. Without it all are shown. */
"use strict";
(() => {
  const slider = document.getElementById("validation");
  if (!slider) return;
  const parts = [...document.querySelectorAll("[data-place]")];
  const show = () => parts.forEach((part) => { part.hidden = part.dataset.place !== slider.value; });
  slider.addEventListener("input", show);
  slider.parentElement.hidden = false;
  show();
})();
