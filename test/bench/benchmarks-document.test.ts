import { expect, test } from "bun:test";
import { withFigures } from "./benchmarks-document.ts";

const floor = "<!-- figures beside the floor: npm run bench -- --write -->";
const kubelet = "<!-- figures beside the kubelet: npm run bench -- --write -->";
const end = "<!-- end of figures -->";

test("new figures replace only the text between their own marks", () => {
  const text = `# Berth\n\n${floor}\nold\n${end}\n\nMore.\n\n${kubelet}\nolder\n${end}\nThe end.\n`;
  const renewed = `# Berth\n\n${floor}\n\n| new |\n\n${end}\n\nMore.\n\n${kubelet}\nolder\n${end}\nThe end.\n`;
  expect(withFigures(text, "floor", "| new |")).toBe(renewed);
  expect(withFigures(renewed, "floor", "| new |")).toBe(renewed);
  expect(withFigures(text, "kubelet", "| new |")).toBe(text.replace("\nolder\n", "\n\n| new |\n\n"));
});

test.each(["no marks", floor, end, `${end} ${floor}`, `${floor} ${end} ${floor} ${end}`, `${kubelet} ${end}`])(
  "withFigures refuses a text without exactly one place for the figures: %s",
  (text) => {
    expect(() => withFigures(text, "floor", "")).toThrow("the document needs one place");
  },
);
