import { expect, test } from "bun:test";
import { withFigures } from "./readme.ts";

const begin = "<!-- figures: npm run bench -- --readme -->";
const end = "<!-- end of figures -->";

test("the figures replace what stands between the marks, and nothing else", () => {
  const readme = `# Berth\n\n${begin}\nold\n${end}\n\nMore.\n`;
  const renewed = `# Berth\n\n${begin}\n\n| new |\n\n${end}\n\nMore.\n`;
  expect(withFigures(readme, "| new |")).toBe(renewed);
  expect(withFigures(renewed, "| new |")).toBe(renewed);
});

test.each(["no marks", begin, end, `${end} ${begin}`, `${begin} ${end} ${begin} ${end}`])(
  "a text without exactly one place for them is refused: %s",
  (readme) => {
    expect(() => withFigures(readme, "")).toThrow("README.md needs one place");
  },
);
