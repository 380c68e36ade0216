import { expect, test } from "bun:test";
import { withFigures } from "./benchmarks-document.ts";

const floor = "<!-- figures beside the floor: npm run bench -- --readme -->";
const kubelet = "<!-- figures beside the kubelet: npm run bench -- --readme -->";
const end = "<!-- end of figures -->";

test("the figures replace what stands between their own marks, and nothing else", () => {
  const readme = `# Berth\n\n${floor}\nold\n${end}\n\nMore.\n\n${kubelet}\nolder\n${end}\nThe end.\n`;
  const renewed = `# Berth\n\n${floor}\n\n| new |\n\n${end}\n\nMore.\n\n${kubelet}\nolder\n${end}\nThe end.\n`;
  expect(withFigures(readme, "floor", "| new |")).toBe(renewed);
  expect(withFigures(renewed, "floor", "| new |")).toBe(renewed);
  expect(withFigures(readme, "kubelet", "| new |")).toBe(readme.replace("\nolder\n", "\n\n| new |\n\n"));
});

test.each(["no marks", floor, end, `${end} ${floor}`, `${floor} ${end} ${floor} ${end}`, `${kubelet} ${end}`])(
  "a text without exactly one place for them is refused: %s",
  (readme) => {
    expect(() => withFigures(readme, "floor", "")).toThrow("README.md needs one place");
  },
);
