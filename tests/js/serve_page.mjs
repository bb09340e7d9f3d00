// A person at the page of the model server.
//   node serve_page.mjs NODE_MODULES BASE SCENARIO OPTIONS.json
// Prints lines of JSON: {"seen": …} when something is to be seen that the caller waits for, who then answers with a line,
// and {"result": …} at the end.
// Options: text, image, numbers (names of models), screenshots (a folder for pictures of what is seen).
import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { openPage, overhang, seriousFindings, settled, withBrowser } from "./browser.mjs";

const [modules, base, scenario, options_file] = process.argv.slice(2);
const options = JSON.parse(readFileSync(options_file, "utf8"));
const tell = (what) => console.log(JSON.stringify(what));
const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const tellSeen = async (what) => {
  tell({ seen: what });
  await answers.next();
};
if (options.screenshots) mkdirSync(options.screenshots, { recursive: true });
const shoot = (page, name) =>
  options.screenshots && page.screenshot({ path: `${options.screenshots}/${name}.png`, fullPage: true });

const result = (page) => page.locator(".result");
const headline = (page) => result(page).locator(".headline");
const percents = async (page) =>
  (await result(page).locator(".bar-value").allTextContents()).map((text) => Number(text.replace(/[^0-9.]/g, "")));
const command = (page, index = 0) => page.locator(".curl pre").nth(index).textContent();

// What the page has sent to the model since `from`, parsed.
const bodies = (page, ending, from = 0) =>
  page.sent.slice(from).filter((each) => each.path.endsWith(ending)).map((each) => JSON.parse(each.body));

async function stroke(page, points) {
  const box = await page.locator(".canvas").boundingBox();
  const at = ([x, y]) => [box.x + x * box.width, box.y + y * box.height];
  await page.mouse.move(...at(points[0]));
  await page.mouse.down();
  for (const point of points.slice(1)) await page.mouse.move(...at(point), { steps: 8 });
  await page.mouse.up();
}
const kSeven = [[0.3, 0.25], [0.7, 0.25], [0.45, 0.8]];

async function end(page) {
  assert.deepEqual(page.complaints, []);
  await page.context().close();
}

const scenarios = {
  // An example by mouse, a text by keyboard: prediction, words, and the commands for both.
  async text(browser) {
    const page = await openPage(browser, base, { path: `/#${encodeURIComponent(options.text)}` });
    await page.getByRole("button", { name: "delighted" }).click();
    await headline(page).waitFor();
    const delighted = await headline(page).textContent();
    const bars = await percents(page);
    assert.equal(bars.length, 2);
    assert.ok(Math.abs(bars[0] + bars[1] - 100) < 0.3, `the bars add up to 100%: ${bars}`);
    await page.locator(".marked mark").first().waitFor();
    assert.ok((await page.locator(".words table tbody tr").count()) > 0, "the strongest words are listed");
    await shoot(page, "text");
    const shared = { delighted };

    // Quotes for the shell, letters of several bytes and of two code units before a word.
    const typed = options.typed ?? "It's 좋다 🎬 \"terrible\" and terrible $HOME `x`\nboring";
    const field = page.getByRole("textbox");
    await page.getByRole("button", { name: "Clear" }).click();
    await page.getByText("Write something, or take an example.").waitFor();
    assert.ok(await field.evaluate((element) => element === document.activeElement), "the field has the focus again");
    const from = page.sent.length;
    await page.keyboard.insertText(typed);
    await page.keyboard.press("Control+Enter");
    await page.locator(".marked").waitFor();
    assert.equal(await page.locator(".marked").evaluate((element) => {
      const copy = element.cloneNode(true);
      for (const unseen of copy.querySelectorAll(".unseen")) unseen.remove();
      return copy.textContent;
    }), typed, "the marked text is the text");
    shared.marked = await page.locator(".marked mark").evaluateAll((marks) => marks.map((mark) => mark.firstChild.textContent));
    assert.deepEqual(bodies(page, ":predict", from).at(-1), { instances: [typed] });
    assert.deepEqual(bodies(page, "/explain", from).at(-1), { text: typed });
    shared.shown = await percents(page);
    shared.predict = await command(page, 0);
    shared.explain = await command(page, 1);
    await page.getByRole("button", { name: "Copy the command for the prediction" }).click();
    await page.getByText("Copied").waitFor();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), shared.predict);

    // Typing alone is enough.
    const live = page.sent.length;
    await field.fill("wonderful");
    await page.locator(".marked", { hasText: "wonderful" }).waitFor();
    assert.equal(bodies(page, ":predict", live).at(-1).instances[0], "wonderful");
    await end(page);
    return shared;
  },

  // By mouse, keys and file: the prediction follows while one draws, and the picture is of the model's size.
  async image(browser) {
    const page = await openPage(browser, base, { path: `/#${encodeURIComponent(options.image)}` });
    await page.getByText("Draw something, or choose a picture.").waitFor();
    const box = await page.locator(".canvas").boundingBox();
    await page.mouse.move(box.x + 60, box.y + 60);
    await page.mouse.down();
    await page.mouse.move(box.x + 200, box.y + 70, { steps: 10 });
    await headline(page).waitFor();
    const while_drawing = page.sent.length;
    assert.ok(while_drawing > 0, "asked before the mouse was released");
    await page.mouse.move(box.x + 120, box.y + 230, { steps: 10 });
    await page.mouse.up();
    await page.waitForFunction((count) => document.querySelectorAll(".bars li").length === count, 10);
    const sum = (await percents(page)).reduce((total, each) => total + each, 0);
    assert.ok(Math.abs(sum - 100) < 1.5, `the bars add up to 100%: ${sum}`);
    await settled(page);
    await shoot(page, "drawing");
    const shared = { drawn: bodies(page, ":predict").at(-1).instances[0].b64, command: await command(page) };
    shared.shown = await percents(page);

    await page.getByRole("button", { name: "Undo" }).click();
    await page.getByText("Draw something, or choose a picture.").waitFor();
    assert.equal(await page.locator(".curl pre").count(), 0, "nothing was asked for an empty drawing");

    await page.locator(".canvas").focus();
    for (const key of ["Space", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight", "Space"]) await page.keyboard.press(key);
    await headline(page).waitFor();
    await page.getByRole("button", { name: "Clear", exact: true }).click();
    await page.getByText("Draw something, or choose a picture.").waitFor();

    // A picture of the model's size arrives as it is.
    const before = page.sent.length;
    await page.locator("input[type=file]").setInputFiles(options.picture);
    await headline(page).waitFor();
    shared.chosen = bodies(page, ":predict", before).at(-1).instances[0].b64;
    await page.getByRole("button", { name: "Clear", exact: true }).click();
    await page.getByText("Draw something, or choose a picture.").waitFor();

    const dropped = await page.evaluateHandle((bytes) => {
      const transfer = new DataTransfer();
      transfer.items.add(new File([Uint8Array.from(atob(bytes), (c) => c.charCodeAt(0))], "photo.png", { type: "image/png" }));
      return transfer;
    }, readFileSync(options.photo).toString("base64"));
    const from = page.sent.length;
    await page.locator(".input").dispatchEvent("drop", { dataTransfer: dropped });
    await headline(page).waitFor();
    shared.dropped = bodies(page, ":predict", from).at(-1).instances[0].b64;

    await page.locator("input[type=file]").setInputFiles({ name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("no") });
    await page.getByText("notes.txt is no picture that this browser can open.").waitFor();
    await end(page);
    return shared;
  },

  async numbers(browser) {
    const page = await openPage(browser, base, { path: `/#${encodeURIComponent(options.numbers)}` });
    await page.getByLabel("Input 1").fill("2.5");
    await page.keyboard.press("Enter");
    await headline(page).waitFor();
    await shoot(page, "numbers");
    const shared = { sent: bodies(page, ":predict").at(-1), shown: await headline(page).textContent() };
    await end(page);
    return shared;
  },

  // The model comes while the page is open; the caller puts it there when it reads what is seen.
  async waiting(browser) {
    const page = await openPage(browser, base, { path: `/#${encodeURIComponent(options.text)}` });
    await page.getByText("is not there yet").waitFor();
    await shoot(page, "waiting");
    await tellSeen("waiting");
    await page.getByRole("button", { name: "delighted" }).click();
    await headline(page).waitFor();
    await page.getByText(`${options.text} is ready.`).waitFor({ state: "attached" });
    await end(page);
  },

  // A newer version: what stands there is predicted again.
  async replaced(browser) {
    const page = await openPage(browser, base, { path: `/#${encodeURIComponent(options.text)}` });
    await page.getByRole("button", { name: "delighted" }).click();
    await page.locator(".marked mark").first().waitFor();
    const from = page.sent.length;
    const before = (await headline(page).textContent()).trim();
    await tellSeen("predicted");
    await page.waitForFunction((old) => !document.querySelector(".headline")?.textContent.includes(old),
      before);
    assert.ok(bodies(page, ":predict", from).length > 0);
    await end(page);
  },

  // Errors are one sentence, and go away with their cause.
  async errors(browser) {
    const page = await openPage(browser, base, { path: `/#${encodeURIComponent(options.text)}`, expected: [0, 503] });
    await page.getByRole("button", { name: "annoyed" }).waitFor();
    await tellSeen("page");
    await page.getByRole("button", { name: "annoyed" }).click();
    await result(page).getByRole("alert").getByText(options.sentence).waitFor();
    await shoot(page, "error");
    await tellSeen("error");
    await page.getByRole("button", { name: "Predict", exact: true }).click();
    await headline(page).waitFor();
    assert.equal(await result(page).getByRole("alert").count(), 0);
    await end(page);
  },

  async token(browser) {
    const page = await openPage(browser, base, { path: `/#${encodeURIComponent(options.text)}`, expected: [401] });
    await page.getByRole("dialog").waitFor();
    assert.deepEqual(await seriousFindings(modules, page), []);
    await page.keyboard.insertText("not it");
    await page.keyboard.press("Enter");
    await page.getByText("The server does not accept this token.").waitFor();
    await shoot(page, "token");
    await page.getByLabel("Token", { exact: true }).fill(options.token);
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "delighted" }).click();
    await headline(page).waitFor();
    const shown = await command(page);
    assert.ok(shown.includes("Bearer $TOKEN") && !shown.includes(options.token), "the command does not show the token");
    await page.reload();
    await page.getByRole("button", { name: "delighted" }).waitFor();
    assert.equal(await page.getByRole("dialog").count(), 0, "asked once for this tab");
    await end(page);
    return { command: shown };
  },

  async chooser(browser) {
    const page = await openPage(browser, base);
    const chooser = page.getByLabel("Model", { exact: true });
    await chooser.selectOption(options.image);
    await page.locator(".canvas").waitFor();
    assert.equal(await page.evaluate(() => location.hash), `#${options.image}`);
    await chooser.selectOption(options.text);
    await page.getByRole("textbox").waitFor();
    const shared = { about: await page.locator(".about").innerText() };
    await end(page);
    return shared;
  },

  // Light and dark, wide and narrow, English and Korean, text and image: nothing serious for axe, nothing to scroll sideways.
  async looks(browser) {
    const looks = [
      ["light", {}],
      ["dark", { colorScheme: "dark" }],
      ["phone", { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true }],
      ["phone-dark-korean", { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true, colorScheme: "dark", locale: "ko-KR" }],
      ["korean", { locale: "ko-KR" }],
    ];
    for (const [name, look] of looks) {
      for (const kind of ["text", "image"]) {
        const page = await openPage(browser, base, { path: `/#${encodeURIComponent(options[kind])}`, ...look });
        if (kind === "text") {
          await page.locator(".examples button").nth(2).click();
          await page.locator(".marked mark").first().waitFor();
        } else if (look.hasTouch) {
          const box = await page.locator(".canvas").boundingBox();
          await page.touchscreen.tap(box.x + box.width / 2, box.y + box.height / 2);
        } else {
          await page.locator(".canvas").waitFor();
          await stroke(page, kSeven);
        }
        await headline(page).waitFor();
        await settled(page);
        assert.equal(await page.evaluate(() => document.documentElement.lang), look.locale === "ko-KR" ? "ko" : "en");
        assert.equal(await overhang(page), 0, `${name}, ${kind}: nothing is wider than the window`);
        assert.deepEqual(await seriousFindings(modules, page), [], `${name}, ${kind}`);
        await shoot(page, `${kind}-${name}`);
        await end(page);
      }
    }
    const page = await openPage(browser, base, { locale: "de-DE" });
    assert.equal(await page.evaluate(() => document.documentElement.lang), "en");
    await page.getByRole("button", { name: "한국어" }).click();
    await page.getByRole("heading", { name: "모델 체험하기" }).waitFor();
    await page.reload();
    await page.getByRole("heading", { name: "모델 체험하기" }).waitFor();
    // The check itself can fail.
    await page.locator("#model").waitFor();
    await page.evaluate(() => document.querySelector("label")?.remove());
    assert.notDeepEqual(await seriousFindings(modules, page), []);
    await end(page);
  },

  // Everything by Tab alone, in the order in which it is read.
  async keyboard(browser) {
    const page = await openPage(browser, base, { path: `/#${encodeURIComponent(options.text)}` });
    await page.getByRole("textbox").waitFor();
    const names = [];
    for (let press = 0; press < 12; ++press) {
      await page.keyboard.press("Tab");
      names.push(await page.evaluate(() => {
        const focused = document.activeElement;
        if (!focused || focused === document.body) return "";
        const outline = getComputedStyle(focused).outlineStyle;
        return `${focused.id || focused.textContent}${outline === "none" ? " (focus is not seen)" : ""}`;
      }));
    }
    assert.ok(!names.some((name) => name.includes("not seen")), names.join(", "));
    for (const name of ["text", "delighted"]) assert.ok(names.includes(name), `${name} can be reached: ${names.join(", ")}`);
    await end(page);
  },
};

if (!(scenario in scenarios)) throw new Error(`no scenario ${scenario}`);
tell({ result: (await withBrowser(modules, scenarios[scenario])) ?? null });
process.stdin.destroy();
