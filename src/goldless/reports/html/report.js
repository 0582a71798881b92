"use strict";
(() => {
  const root = document.documentElement;
  const make = (tag, text, action) => {
    const found = document.createElement(tag);
    found.textContent = text;
    if (action) {
      found.type = "button";
      found.addEventListener("click", action);
    }
    return found;
  };

  // --- theme: the system's until the reader chooses ---
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  const toggle = make("button", "", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try {
      localStorage.setItem("goldless-theme", root.dataset.theme);
    } catch {
      // without storage the choice lasts as long as the page
    }
    name();
  });
  const name = () => {
    toggle.textContent = isDark() ? "Light colours" : "Dark colours";
  };
  try {
    const kept = localStorage.getItem("goldless-theme");
    if (kept === "dark" || kept === "light") root.dataset.theme = kept;
  } catch {
    // as above
  }
  dark.addEventListener("change", name);
  name();
  document.querySelector(".theme").append(toggle);

  // --- tables: sorted by a click on a heading ---
  const value = (row, column) => {
    const cell = row.cells[column];
    if (cell.classList.contains("absent")) return null;
    return "v" in cell.dataset ? Number(cell.dataset.v) : cell.textContent;
  };
  const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));
  const sort = (table, column) => {
    const heads = [...table.tHead.rows[0].cells];
    const numeric = heads[column].classList.contains("n");
    const now = heads[column].getAttribute("aria-sort");
    const down = now ? now === "ascending" : numeric;
    heads.forEach((head) => head.removeAttribute("aria-sort"));
    heads[column].setAttribute("aria-sort", down ? "descending" : "ascending");
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => [value(row, column), row]);
    // what is missing comes last whichever way the rest is sorted
    rows.sort(([a], [b]) => (a === null) - (b === null) || (a === null ? 0 : compare(a, b) * (down ? -1 : 1)));
    body.append(...rows.map(([, row]) => row));
  };
  document.querySelectorAll("table:not(.matrix)").forEach((table) => {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      // a real button would keep the browser from repeating the headings on every printed page
      const control = document.createElement("span");
      control.textContent = head.textContent;
      control.tabIndex = 0;
      control.setAttribute("role", "button");
      control.addEventListener("click", () => sort(table, column));
      control.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        sort(table, column);
      });
      head.replaceChildren(control);
    });
  });

  // --- downloads ---
  const save = (blob, file) => {
    const link = make("a", "");
    link.href = URL.createObjectURL(blob);
    link.download = file;
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };
  const styles = () => {
    const colours = {};
    for (const [, key, colour] of document.getElementById("light").textContent.matchAll(/--([a-z]+):([^;]+);/g)) {
      colours[key] = colour;
    }
    // other programs know no variables
    return document.getElementById("chart").textContent.replace(/var\(--([a-z]+)\)/g, (_, key) => colours[key]);
  };
  const picture = (svg) => {
    const copy = svg.cloneNode(true);
    const [, , width, height] = copy.getAttribute("viewBox").split(" ");
    const style = document.createElementNS("http://www.w3.org/2000/svg", "style");
    style.textContent = styles();
    const ground = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    ground.setAttribute("width", width);
    ground.setAttribute("height", height);
    ground.setAttribute("fill", "#ffffff");
    copy.prepend(style, ground);
    return { text: new XMLSerializer().serializeToString(copy), width: Number(width), height: Number(height) };
  };
  const saveSvg = (svg, file) => save(new Blob([picture(svg).text], { type: "image/svg+xml" }), `${file}.svg`);
  const savePng = (svg, file) => {
    const { text, width, height } = picture(svg);
    const image = new Image();
    image.addEventListener("load", () => {
      const canvas = document.createElement("canvas");
      canvas.width = width * 2;
      canvas.height = height * 2;
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((blob) => save(blob, `${file}.png`), "image/png");
    });
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  };
  const quoted = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  // a spreadsheet takes a text that begins so for a formula
  const harmless = (text) => (/^[=+\-@\t\r]/.test(text) ? `'${text}` : text);
  const field = (cell) => {
    if ("v" in cell.dataset) return cell.dataset.v;
    return cell.classList.contains("absent") ? "" : quoted(harmless(cell.textContent));
  };
  const csv = (table) => {
    const head = [...table.tHead.rows[0].cells].map((cell) => quoted(harmless(cell.textContent)));
    const rows = [...table.tBodies[0].rows].map((row) => [...row.cells].map(field));
    return [head, ...rows].map((row) => row.join(",")).join("\n") + "\n";
  };
  // only what scrolls needs to be reached by keyboard
  const reach = () =>
    document.querySelectorAll(".scroll, pre, .text, .prompt").forEach((box) => {
      if (box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight + 1) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    });
  addEventListener("resize", reach);
  document.addEventListener("toggle", reach, true);
  document.querySelectorAll("figure").forEach((figure) => {
    const svg = figure.querySelector("svg.chart");
    const tools = make("div", "");
    tools.className = "tools";
    tools.append(
      make("button", "SVG", () => saveSvg(svg, figure.id)),
      make("button", "PNG", () => savePng(svg, figure.id)),
    );
    const tables = [...figure.querySelectorAll("table")];
    tables.forEach((table, place) => {
      const many = tables.length > 1 ? ` ${place + 1}` : "";
      const file = `${figure.id}${many && `-table${place + 1}`}.csv`;
      tools.append(make("button", `CSV${many}`, () => save(new Blob([csv(table)], { type: "text/csv" }), file)));
    });
    const title = figure.querySelector(".figure-title").textContent;
    tools.querySelectorAll("button").forEach((button) => {
      button.setAttribute("aria-label", `Download ${button.textContent}: ${title}`);
    });
    figure.querySelector("details.data").append(tools);
  });

  // --- the ranking: in the order of the metric that is switched on ---
  const radios = [...document.querySelectorAll(".switch input")];
  const chosen = () => Math.max(0, radios.findIndex((radio) => radio.checked));
  const order = () => {
    const body = document.querySelector(".matrix tbody");
    if (!body) return;
    const rank = (row) => {
      const cell = row.querySelector(`.m-${chosen()}`);
      return cell && "v" in cell.dataset ? -Number(cell.dataset.v) : Infinity;
    };
    const rows = [...body.rows].map((row) => [rank(row), row]);
    rows.sort(([a], [b]) => (a === b ? 0 : a - b));
    body.append(...rows.map(([, row]) => row));
  };
  radios.forEach((radio) => radio.addEventListener("change", order));

  // --- the texts: searched, filtered by agent, reached from a number ---
  const texts = document.getElementById("texts");
  if (texts) {
    const find = texts.querySelector(".find");
    const whose = [...texts.querySelectorAll(".who")];
    const all = texts.querySelector(".cards");
    const cards = [...texts.querySelectorAll(".card")];
    const count = texts.querySelector(".count");
    texts.querySelector(".filter").hidden = false;
    const show = () => {
      const words = find.value.trim().toLowerCase();
      const agents = whose.map((who) => who.value).filter(Boolean);
      all.classList.toggle("all", Boolean(words || agents.length));
      cards.forEach((card) => {
        const there = card.dataset.agents.split(" ");
        const mine = agents.every((agent) => there.includes(agent));
        card.hidden = !(mine && (!words || card.textContent.toLowerCase().includes(words)));
        // two chosen agents, or one beside those that lead
        card.querySelectorAll(".by").forEach((text) => {
          const leads = text.classList.contains(`by-${chosen()}`) && agents.length < 2;
          text.hidden = Boolean(agents.length) && !leads && !agents.includes(text.dataset.agent);
        });
      });
      const shown = cards.filter((card) => card.offsetParent !== null);
      shown.forEach((card, place) => (card.open = place === 0));
      count.textContent = `${shown.length} ${shown.length === 1 ? "task" : "tasks"}`;
      return shown;
    };
    find.addEventListener("input", show);
    whose.forEach((who) => who.addEventListener("change", show));
    radios.forEach((radio) => radio.addEventListener("change", show));
    // the numbers of tables become links here: in the file they would take a tenth of it
    document.querySelectorAll("td[data-of]").forEach((cell) => {
      const link = make("a", cell.textContent);
      link.className = "evidence";
      link.href = "#texts";
      cell.replaceChildren(link);
    });
    // from a number in a table, or a cell of a heat map, to the texts behind it
    document.addEventListener("click", (event) => {
      const number = event.target.closest("[data-of]");
      if (!number) return;
      const [metric, ...agents] = number.dataset.of.split(" ");
      const radio = radios[Number(metric)];
      if (radio && !radio.checked) radio.click();
      find.value = "";
      whose.forEach((who, place) => (who.value = agents[place] ?? ""));
      let found = show();
      if (!found.length) {
        whose.slice(1).forEach((who) => (who.value = "")); // no text of both: of the first
        found = show();
      }
      texts.scrollIntoView();
      found[0]?.querySelector("summary").focus({ preventScroll: true });
    });
    show();
    // the viewer serves a report as …/runs/NAME/report, beside the pages of its tasks
    if (/\/runs\/[^/]+\/report$/.test(location.pathname)) {
      const link = (address, text) => {
        const found = make("a", text);
        found.href = address;
        found.className = "viewer";
        return found;
      };
      cards.forEach((card) => {
        if ("number" in card.dataset) card.append(link(`tasks/${card.dataset.number}`, "All evidence on this task"));
      });
      texts.querySelector(".filter").append(link("tasks", "All tasks in the viewer"));
    }
  }

  // a link into a fold opens it
  const unfold = () => {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    target.querySelector(":scope > details.part")?.setAttribute("open", "");
    for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    target.scrollIntoView();
  };
  addEventListener("hashchange", unfold);
  unfold();
  reach();
})();
