// Before the first paint: the theme that was chosen here, else the system's.
"use strict";
(() => {
  const chosen = localStorage.getItem("tilefarm-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
