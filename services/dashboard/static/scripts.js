// Schedules as Python: a [data-scripts] card asks for its texts when it is opened, and colours them.
"use strict";
document.querySelectorAll("details[data-scripts]").forEach((card) => {
  card.addEventListener("toggle", async () => {
    if (!card.open || card.dataset.loaded) return;
    card.dataset.loaded = "1";
    const [said, shown] = [card.querySelector("[data-said]"), card.querySelector("[data-shown]")];
    const answer = await fetch(card.dataset.scripts).catch(() => null);
    const texts = answer ? await answer.json().catch(() => ({})) : { detail: "The service does not answer." };
    if (!answer?.ok) { said.textContent = texts.detail || "The service could not replay it."; delete card.dataset.loaded; return; }
    for (const pre of shown.querySelectorAll("pre[data-text]")) { pre.textContent = texts[pre.dataset.text]; highlight(pre); }
    said.hidden = true;
    shown.hidden = false;
  });
});
