"use strict";
// Draws the figures of a report with Plotly, in the colours of the page; without it the tables stay.

const COLOURS = ["#3a7bd5", "#d9822b", "#2f9e6e", "#a661c4", "#c2434b", "#7d8a99", "#b59b00", "#1f9bb0",
  "#e07aa8", "#5a6acf", "#84a640", "#8a5a44"];

function pageStyle() {
  const style = getComputedStyle(document.documentElement);
  return { ink: style.getPropertyValue("--ink").trim(), line: style.getPropertyValue("--line").trim() };
}

function layoutOf(figure) {
  const { ink, line } = pageStyle();
  const axis = { gridcolor: line, zerolinecolor: line, automargin: true };
  const own = figure.layout;
  return {
    ...own,
    xaxis: { ...axis, ...own.xaxis },
    yaxis: { ...axis, ...own.yaxis },
    colorway: COLOURS,
    font: { color: ink, family: "system-ui, sans-serif" },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    margin: { l: 60, r: 20, t: 10, b: 50 },
    legend: { orientation: "h", y: -0.25 },
    height: own.height || 420,
  };
}

function drawAll() {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const options = { responsive: true, displaylogo: false, displayModeBar: false };
  const drawn = [...document.querySelectorAll("[data-chart]")];
  for (const place of drawn) {
    const figure = figures[place.dataset.chart];
    place.hidden = false;
    Plotly.newPlot(place, figure.data, layoutOf(figure), options);
  }
  const again = () => {
    for (const place of drawn) Plotly.relayout(place, layoutOf(figures[place.dataset.chart]));
  };
  document.addEventListener("themechange", again);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
}

// The tables are readable at once; charts come when the page has been painted.
if (window.Plotly) requestAnimationFrame(() => setTimeout(drawAll));
