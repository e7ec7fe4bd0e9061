// The pages are complete without this: it adds keys, and keeps the seals as new as what is shown.

const LOOK = 2000;
const base = document.body.dataset.base;
const ITEMS = "#rail > li, main .rail > li, main tbody tr, main .tree li, main .asks > *";
const FIRST = "a.name, a.pos, a[href], summary, button";
const TYPING = "input:not([type=range]), textarea, select, [contenteditable]";
const PLACES = { s: "/", w: "/waiting", c: "/costs", b: "/branches", v: "/chain", k: "/keys" };
let awaited = 0; // `g` waits for the key that says where to, until then

const shown = (element) => element.getClientRects().length > 0;
const go = (path) => location.assign(base + path);

function step(by) {
  const links = [...document.querySelectorAll(ITEMS)].map((item) => item.querySelector(FIRST)).filter((link) => link && shown(link));
  if (!links.length) return;
  const here = links.findIndex((link) => link.parentElement.closest("li, tr, .asks > *")?.contains(document.activeElement));
  const next = here < 0 ? (by > 0 ? firstInView(links) : links.length - 1) : Math.min(links.length - 1, Math.max(0, here + by));
  links[next].focus({ preventScroll: true });
  links[next].scrollIntoView({ block: "nearest" });
}

function firstInView(links) {
  const found = links.findIndex((link) => link.getBoundingClientRect().top >= 0);
  return found < 0 ? 0 : found;
}

function otherColumn() {
  const columns = [...document.querySelectorAll(".cols > section")];
  const here = columns.findIndex((column) => column.contains(document.activeElement));
  const column = columns[(here + 1) % columns.length];
  if (!column) return;
  column.tabIndex = -1;
  column.focus();
  column.scrollIntoView({ block: "nearest" });
}

async function copy() {
  try {
    await navigator.clipboard.writeText(location.href);
    say("The address is copied");
  } catch {
    say("The address could not be copied");
  }
}

function say(words) {
  const told = document.getElementById("told-aside");
  told.textContent = words;
  setTimeout(() => { if (told.textContent === words) told.textContent = ""; }, 3000);
}

// What a page gives a key of its own: a link is followed, all else only gets the focus.
function own(key) {
  const found = [...document.querySelectorAll(`[data-key="${CSS.escape(key)}"]`)].filter(shown);
  const item = document.activeElement?.closest("li, tr, .asks > *");
  const one = found.find((each) => item?.contains(each)) ?? found[0];
  if (!one) return false;
  if (one.matches("a")) one.click();
  else one.focus();
  return true;
}

const follow = (relation) => document.querySelector(`main a[rel=${relation}]`)?.click();
const search = () => {
  const field = document.querySelector("main input[type=search]");
  if (!field) return go("/#q");
  field.focus();
  field.select();
};
const ACTIONS = {
  j: () => step(1),
  k: () => step(-1),
  "/": search,
  "?": () => go("/keys"),
  w: () => go("/waiting"),
  y: copy,
  c: otherColumn,
  "[": () => follow("prev"),
  "]": () => follow("next"),
};
const OF_EVENT = { ArrowLeft: () => follow("prev"), ArrowRight: () => follow("next") };

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (event.target.closest?.(TYPING)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const isPlace = performance.now() < awaited && Object.hasOwn(PLACES, event.key);
  awaited = 0;
  if (isPlace) go(PLACES[event.key]);
  else if (event.key === "g") awaited = performance.now() + 1500;
  else if (own(event.key)) event.preventDefault();
  else if (Object.hasOwn(ACTIONS, event.key)) {
    event.preventDefault();
    ACTIONS[event.key]();
  } else if (document.body.dataset.page === "event" && Object.hasOwn(OF_EVENT, event.key) && !event.target.closest("pre")) {
    OF_EVENT[event.key]();
  }
});
if (location.hash === "#q") document.getElementById("q")?.focus();

async function look() {
  const seals = document.querySelector(".seals");
  if (document.hidden || !seals) return;
  const query = new URLSearchParams({ path: location.pathname.slice(base.length) });
  const id = new URLSearchParams(location.search).get("id");
  if (id !== null) query.set("id", id);
  try {
    const answer = await fetch(`${base}/marks?${query}`);
    if (!answer.ok) return;
    const made = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector(".seals");
    if (!made || made.outerHTML === seals.outerHTML) return;
    seals.replaceWith(made);
    for (const item of document.querySelectorAll(".rail > li.unverified")) {
      const position = Number(item.querySelector(".pos")?.textContent);
      if (position <= Number(made.dataset.verified)) item.classList.remove("unverified");
    }
  } catch {
    // whoever follows says that there is no connection
  }
}
setInterval(look, LOOK);
