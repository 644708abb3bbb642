// Brings what is shown up to date. Without it the page is the same, and is loaded anew by whoever looks at it.
"use strict";
(() => {
  const live = document.getElementById("live");
  const box = document.getElementById("follow");
  const told = document.getElementById("told");
  if (!live || !box) return;
  const every = Number(live.dataset.every);
  let timer = 0;

  // All that can be chosen is chosen at once by a box at the head, and a line beside the buttons says how many are.
  const chosen = () => {
    const boxes = [...live.querySelectorAll("input[name=item]")];
    const count = boxes.filter((one) => one.checked).length;
    const all = live.querySelector("#all");
    if (!all) return;
    all.closest("label").hidden = false;
    all.checked = count > 0 && count === boxes.length;
    all.indeterminate = count > 0 && count < boxes.length;
    live.querySelector("#count").textContent = count ? `${count} selected` : "";
  };
  live.addEventListener("change", (event) => {
    if (event.target.id === "all") {
      live.querySelectorAll("input[name=item]").forEach((one) => { one.checked = event.target.checked; });
    }
    chosen();
  });

  // Nothing is taken away from under a hand: not while something is chosen, or marked with the mouse.
  const busy = () =>
    live.querySelector("input[name=item]:checked") !== null ||
    (String(document.getSelection()) !== "" && live.contains(document.getSelection().anchorNode));

  const show = (text) => {
    const focused = document.activeElement && live.contains(document.activeElement) ? document.activeElement.id : "";
    const places = [...live.querySelectorAll(".scroll")].map((one) => one.scrollLeft);
    live.innerHTML = text; // the server has escaped it, and the policy of the page runs no script in it
    live.querySelectorAll(".scroll").forEach((one, at) => { one.scrollLeft = places[at] || 0; });
    chosen();
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  };

  // What takes the service long to answer is asked for less often.
  let pause = every;
  const look = async () => {
    if (document.hidden || busy()) return wait();
    const begun = performance.now();
    try {
      const answer = await fetch(location.href, { headers: { "X-Pubqueue-Part": "1" }, credentials: "same-origin" });
      if (answer.status === 401) { told.textContent = "You are logged out. Load the page again to log in and come back here."; return; }
      const text = await answer.text();
      pause = Math.max(every, 10 * (performance.now() - begun));
      if (!box.checked) return; // it was stopped meanwhile
      if (answer.ok && !busy()) show(text);
      told.textContent = answer.ok ? "" : "The service returned an error; trying again.";
    } catch {
      told.textContent = "The service cannot be reached; trying again.";
    }
    wait();
  };

  const wait = () => {
    clearTimeout(timer);
    if (box.checked) timer = setTimeout(look, pause);
  };

  box.closest("label").hidden = false;
  chosen();
  box.addEventListener("change", wait);
  document.addEventListener("visibilitychange", () => { if (!document.hidden && box.checked) look(); });
  wait();
})();
