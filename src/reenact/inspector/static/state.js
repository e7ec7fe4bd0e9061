// The slider of a session's states: what was true at an event is fetched while it moves.
const slider = document.getElementById("slider");
const count = Number(slider.max);
let left = new URLSearchParams(location.search).get("left");
let wanted = null;
let isBusy = false;

const told = () => document.getElementById("told").dataset;

function addressOf(query) {
  const address = new URL(location.pathname, location.href);
  address.searchParams.set("id", new URLSearchParams(location.search).get("id"));
  for (const [name, value] of Object.entries(query)) address.searchParams.set(name, value);
  if (left !== null) address.searchParams.set("left", left);
  return address;
}

async function show() {
  if (isBusy) return; // the one that is under way goes on with what is wanted then
  isBusy = true;
  try {
    while (wanted !== null) {
      const n = wanted;
      wanted = null;
      const response = await fetch(addressOf({ n, part: "moment" }));
      if (!response.ok) continue;
      const part = new DOMParser().parseFromString(await response.text(), "text/html");
      for (const id of ["told", "moment"]) document.getElementById(id).replaceWith(part.getElementById(id));
      mark();
    }
  } finally {
    isBusy = false;
  }
}

function mark() {
  const { n, at } = told();
  for (const tick of document.querySelectorAll("[data-n].m-quiet, .track [data-n]")) {
    tick.classList.toggle("later", Number(tick.dataset.n) > Number(n));
  }
  slider.setAttribute("aria-valuetext", `position ${at}`);
  const first = document.querySelector(".track .band");
  if (first && left === null) first.remove();
  history.replaceState(null, "", addressOf({ at }));
}

function go(number) {
  const n = Math.min(count, Math.max(1, number));
  slider.value = String(n);
  wanted = n;
  show();
}

slider.addEventListener("input", () => go(Number(slider.value)));
for (const [id, step] of [["back", -1], ["on", 1]]) {
  document.getElementById(id)?.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    go(Number(slider.value) + step);
  });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches("input:not([type=range]), textarea, select, pre")) return;
  const at = Number(slider.value);
  const steps = {
    ArrowLeft: () => go(event.shiftKey ? Number(told().before) : at - 1),
    ArrowRight: () => go(event.shiftKey ? Number(told().behind) : at + 1),
    Home: () => go(1),
    End: () => go(count),
    d: () => {
      left = told().at;
      go(at);
    },
    Enter: () => {
      if (!event.target.matches("a, button, summary")) location.assign(`${document.body.dataset.base}/event?at=${told().at}`);
    },
  };
  if (!Object.hasOwn(steps, event.key)) return;
  if (event.key !== "Enter") event.preventDefault();
  steps[event.key]();
});
