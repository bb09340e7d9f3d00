// Chromium, as the tests of pages use it: a fresh profile, nothing but the page's own server on the network, and every
// complaint of the browser kept.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const kArguments = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync"];

// For a machine that does twenty other things. What should be quick is not proved here.
const kPatience = 90000;

export async function withBrowser(modules, work) {
  const { chromium } = createRequire(`${modules}/`)("playwright-core");
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: kArguments, timeout: kPatience });
  try {
    return await work(browser);
  } finally {
    await browser.close();
  }
}

// A page in a context of its own. `page.complaints` is what the browser found wrong: errors of scripts, violations of the
// content security policy, requests to other hosts. Answers of 4xx and 5xx are there only if not `expected`.
export async function openPage(browser, base, { path = "/", expected = [], ...look } = {}) {
  const context = await browser.newContext({ locale: "en-US", viewport: { width: 1100, height: 900 }, ...look });
  await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: base });
  const page = await context.newPage();
  page.setDefaultTimeout(kPatience);
  page.complaints = [];
  page.sent = [];
  page.answered = 0;
  page.on("requestfinished", (request) => (page.answered += request.method() === "POST" ? 1 : 0));
  page.on("pageerror", (error) => page.complaints.push(`error: ${error.message}`));
  page.on("console", (message) => {
    const status = /status of (\d+)/.exec(message.text())?.[1];
    if (message.type() !== "error" || (status && expected.includes(Number(status)))) return;
    if (/net::ERR_/.test(message.text()) && expected.includes(0)) return;
    page.complaints.push(`console: ${message.text()} (${message.location().url})`);
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(base)) page.complaints.push(`foreign request: ${request.url()}`);
    if (request.method() === "POST") page.sent.push({ path: request.url().slice(base.length), body: request.postData() });
  });
  await page.goto(base + path);
  return page;
}

// When everything that the page has asked is answered, and it asks no more.
export async function settled(page) {
  for (let sent = -1; sent !== page.sent.length || page.answered < sent; ) {
    sent = page.sent.length;
    await page.waitForTimeout(600);
  }
}

// What axe-core finds that is serious: rule and place.
export async function seriousFindings(modules, page) {
  // Through the debugger, which the page's content security policy does not hold for.
  await page.evaluate(readFileSync(`${modules}/axe-core/axe.min.js`, "utf8"));
  const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  return found.violations
    .filter((each) => ["serious", "critical"].includes(each.impact))
    .map((each) => `${each.id}: ${each.nodes.map((node) => node.target.join(" ")).join(", ")}`);
}

// By how much the page is wider than the window: 0 if nothing has to be scrolled sideways.
export const overhang = (page) =>
  page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
